package cli

// Output rules. A command that prints otherwise has a mistake.
//
//  1. The result goes to standard output, or to the file of -o, and nothing
//     else goes there. Errors, notes, logs and progress go to standard error.
//  2. A result is written through Output, which buffers: a terminal or pipe
//     gets it when the buffer fills, at Flush, and when the command ends.
//  3. A file of -o appears whole and only with an answer (exit 0 or 1); until
//     then, and after any failure, an older file of that name stays as it was.
//  4. A result that cannot be written, as on a full disk, is no answer: exit 2
//     and a message. A reader that goes away, as head does, ends the command
//     quietly with exit 0.
//  5. Errors are one line: "tapyr: what is wrong; see the way out".
//  6. Colour is used on a terminal only, never with --no-color, NO_COLOR (any
//     value but the empty one), TERM=dumb or -o, and never alone: what a colour
//     says, a word says too.
//  7. Tables fit the terminal, or 80 columns where there is none.
//  8. Texts that come from elsewhere are made fit for where they go by package
//     plaintext: in Printf, paint, tables, reports, notes and errors, so that
//     no command needs to think of it.
//  9. Machine formats do not depend on terminal, locale, zone or colour: JSON
//     has sorted lists, camelCase names and seconds as numbers.

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fatih/color"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/plaintext"
)

// defaultColumns is the width to fit where no terminal tells another.
const defaultColumns = 80

// bufferBytes is large enough that a report is one write, and small enough
// that "replay | head" ends soon.
const bufferBytes = 64 << 10

// Output is where the result of one command goes. The first error stays: later
// writes return it too, so a command may check only the last.
type Output struct {
	buffer *bufio.Writer
	// name is what messages call the target.
	name string
	// file is set where the target is a file that appears at Close.
	file *atomicFile
	// closer is set where the target is a device or pipe named by -o.
	closer io.Closer
	// columns is the width for tables.
	columns int
	colored bool
}

// openOutput opens the target of -o, or standard output where path is empty or
// "-".
func (e *Env) openOutput(path string, colored bool) (*Output, error) {
	if path == "" || path == "-" {
		out := &Output{name: "standard output", columns: e.StdoutColumns, colored: colored}
		if out.columns == 0 {
			out.columns = defaultColumns
		}
		out.buffer = bufio.NewWriterSize(e.Stdout, bufferBytes)
		return out, nil
	}
	out := &Output{name: path, columns: defaultColumns}
	// A device or a named pipe cannot be replaced by a file, so it is written to.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		device, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		out.closer = device
		out.buffer = bufio.NewWriterSize(device, bufferBytes)
		return out, nil
	}
	file, err := createAtomic(path)
	if err != nil {
		return nil, err
	}
	out.file = file
	out.buffer = bufio.NewWriterSize(file, bufferBytes)
	return out, nil
}

// withStdout runs write with standard output and reports a failed write.
func (e *Env) withStdout(write func(*Output) error) error {
	out, err := e.openOutput("", false)
	if err != nil {
		return err
	}
	if err := write(out); err != nil {
		return err
	}
	return out.Close()
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.buffer.Write(p)
	return n, o.wrap(err)
}

// Printf writes formatted text. Its error stays with the Output, and Close
// reports it. Texts among the arguments may come from anybody, so they are made
// printable, on one line; only what paint has coloured passes as it is.
func (o *Output) Printf(format string, args ...any) {
	clean := make([]any, len(args))
	for i, arg := range args {
		switch a := arg.(type) {
		case string:
			clean[i] = plaintext.Printable(a)
		case error:
			clean[i] = plaintext.Printable(a.Error())
		default:
			clean[i] = arg
		}
	}
	fmt.Fprintf(o.buffer, format, clean...)
}

// painted is a text that is printable but for the colours that paint gave it.
type painted string

// JSON writes a value and a newline: two spaces of indentation, keys of maps in
// order, empty lists as [] rather than null.
func (o *Output) JSON(value any) error {
	if err := json.MarshalWrite(o, value, json.Deterministic(true), jsontext.WithIndent("  ")); err != nil {
		return err
	}
	_, err := o.Write([]byte("\n"))
	return err
}

// Flush sends what is buffered on its way, for results that grow while a person
// or a pipe watches. A file of -o still appears only at the end.
func (o *Output) Flush() error {
	return o.wrap(o.buffer.Flush())
}

// Close writes the rest and makes the file of -o appear.
func (o *Output) Close() error {
	err := o.buffer.Flush()
	switch {
	case o.file != nil && err != nil:
		o.file.discard()
	case o.file != nil:
		err = o.file.commit()
	case o.closer != nil:
		if closeErr := o.closer.Close(); err == nil {
			err = closeErr
		}
	}
	return o.wrap(err)
}

// Discard ends the output of a command that has no answer: a file of -o does
// not appear.
func (o *Output) Discard() error {
	if o.file != nil {
		o.file.discard()
		return nil
	}
	return o.Close()
}

// Columns is the width that text may fill.
func (o *Output) Columns() int { return o.columns }

// wrap says in an error where the result could not go.
func (o *Output) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot write the result to %s: %w", o.name, err)
}

// style is a meaning that a colour underlines.
type style int

const (
	stylePlain style = iota
	styleGood        // fits, passed
	styleWarn        // stretched, doubtful
	styleBad         // infeasible, failed
	styleFaint       // of less interest
	styleTitle       // headings
)

// styleColors maps each style to attributes that read on dark and on light.
var styleColors = map[style][]color.Attribute{
	styleGood:  {color.FgGreen},
	styleWarn:  {color.FgYellow},
	styleBad:   {color.FgRed, color.Bold},
	styleFaint: {color.Faint},
	styleTitle: {color.Bold},
}

// paint returns text in the colour of s where this output has colours.
func (o *Output) paint(s style, text string) painted {
	text = plaintext.Printable(text)
	attributes, ok := styleColors[s]
	if !o.colored || !ok || text == "" {
		return painted(text)
	}
	painter := color.New(attributes...)
	// The package looks at the process's own standard output; Env has decided.
	painter.EnableColor()
	return painted(painter.Sprint(text))
}

// colorWanted decides about colour on standard output. See https://no-color.org.
func colorWanted(env *Env, noColor bool) bool {
	return env.StdoutColumns > 0 && !noColor && env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
}

// printableLines makes what other packages write as text fit for a terminal. A write must hold whole characters.
type printableLines struct{ to io.Writer }

// Write implements io.Writer.
func (w printableLines) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i := range lines {
		lines[i] = plaintext.Printable(lines[i])
	}
	if err := writeString(w.to, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}
