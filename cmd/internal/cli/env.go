package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Env is all that a command sees of the world outside its arguments and the
// files that they name.
type Env struct {
	// Stdin is read where a PATH or FILE argument is "-".
	Stdin io.Reader
	// Stdout takes results and nothing else.
	Stdout io.Writer
	// Stderr takes errors, notes, logs and progress.
	Stderr io.Writer
	// Getenv returns an environment variable, or "" where it is not set.
	Getenv func(name string) string
	// Now is the clock. Commands read it through Call.Now, which obeys --at.
	Now func() time.Time
	// Local is the zone of tables where --tz does not name another.
	Local *time.Location
	// StdoutColumns is the width of the terminal that Stdout is, or 0 where it
	// is a file or a pipe. StderrColumns is the same for Stderr.
	StdoutColumns, StderrColumns int
}

// System returns the Env of this process.
func System() *Env {
	return &Env{
		Stdin:         os.Stdin,
		Stdout:        os.Stdout,
		Stderr:        os.Stderr,
		Getenv:        os.Getenv,
		Now:           time.Now,
		Local:         time.Local,
		StdoutColumns: terminalColumns(os.Stdout),
		StderrColumns: terminalColumns(os.Stderr),
	}
}

// terminalColumns returns the width of the terminal that file is, or 0.
func terminalColumns(file *os.File) int {
	fd := int(file.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	columns, _, err := term.GetSize(fd)
	if err != nil || columns <= 0 {
		// A terminal that does not tell its size, as some serial consoles.
		return defaultColumns
	}
	return columns
}
