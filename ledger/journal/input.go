package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// errCutOff is what a compressed file that ends too early is worth: one bad row.
var errCutOff = errors.New("the compressed file is cut off here")

// input is one file: opened to see what it is, closed, and opened again when its turn comes, so that a thousand files in a row
// take the memory of one.
type input struct {
	reader *Reader
	index  int32
	name   string
	size   int64 // on disk; -1 for unknown
	clock  wallClock

	first   int64 // instant of the first good row; minNanos where it cannot be known before reading
	source  source
	closer  func()
	lines   int64 // read so far
	records int64

	sorted  bool     // its batches are complete: admitted before
	stdin   *os.File // the standard input's copy, or itself where it is a file
	stdinAt int64    // where the standard input began
	copied  bool
}

func newInput(r *Reader, index int32, name string) (*input, error) {
	in := &input{reader: r, index: index, name: name, size: -1, first: minNanos}
	if name == "-" {
		return in, in.takeStdin()
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%q is a folder: name its files", name)
	}
	if !info.Mode().IsRegular() { // a pipe can be read once
		return in, nil
	}
	in.size = info.Size()
	return in, in.probe()
}

// takeStdin finds out whether the standard input can be read twice.
func (in *input) takeStdin() error {
	if in.reader.options.Stdin == nil {
		return errors.New(`"-" names the standard input, and there is none`)
	}
	if f, ok := in.reader.options.Stdin.(*os.File); ok {
		info, err := f.Stat()
		if at, serr := f.Seek(0, io.SeekCurrent); err == nil && info.Mode().IsRegular() && serr == nil {
			in.stdin, in.stdinAt, in.size = f, at, info.Size()-at
		}
	}
	return nil
}

// probe reads the beginning, for the instant of the first row.
func (in *input) probe() error {
	if err := in.open(); err != nil {
		return err
	}
	defer func() {
		in.close()
		in.reader.read.Store(0)
		in.lines, in.records = 0, 0
	}()
	b, err := in.source.next()
	if err != nil || len(b.Records) == 0 {
		return nil // what is wrong will be met again
	}
	if len(b.naive) == 0 {
		in.first = b.Records[0].AtNanos
	} else { // whatever the zone, not earlier than this
		in.first = b.Records[0].AtNanos - 26*3600*1e9
	}
	return nil
}

// open makes the source.
func (in *input) open() error {
	in.lines, in.records = 0, 0
	in.clock = wallClock{zone: in.reader.options.Zone, warn: func(format string, args ...any) {
		in.reader.warned.add(in.name, format, args...)
	}}
	raw, err := in.openRaw()
	if err != nil {
		return err
	}
	if err := in.detect(&counter{raw, &in.reader.read}); err != nil {
		in.close()
		return err
	}
	return nil
}

// openRaw opens the bytes as they lie on disk.
func (in *input) openRaw() (io.Reader, error) {
	switch {
	case in.name == "-" && in.stdin != nil:
		_, err := in.stdin.Seek(in.stdinAt, io.SeekStart)
		return in.stdin, err
	case in.name == "-":
		spool, err := os.CreateTemp(in.reader.options.TempDir, "tapyr-stdin-*")
		if err != nil {
			return nil, err
		}
		in.stdin, in.copied = spool, true
		return io.TeeReader(in.reader.options.Stdin, spool), nil
	}
	f, err := os.Open(in.name)
	if err != nil {
		return nil, err
	}
	in.onClose(func() { _ = f.Close() }) // it was only read
	return f, nil
}

func (in *input) onClose(do func()) {
	before := in.closer
	in.closer = func() {
		do()
		if before != nil {
			before()
		}
	}
}

func (in *input) close() {
	if c, ok := in.reader.options.Stdin.(io.Closer); ok && in.copied && in.source != nil {
		c.Close() // wakes a reader that waits for it
	}
	if in.source != nil {
		in.source.close()
		in.source = nil
	}
	if in.closer != nil {
		in.closer()
		in.closer = nil
	}
}

// keepRest copies what is left of the standard input, for a second reading.
func (in *input) keepRest() error {
	if !in.copied || in.source == nil {
		return nil
	}
	in.source.close()
	in.source = nil
	_, err := io.Copy(in.stdin, in.reader.options.Stdin)
	return err
}

// forget removes the standard input's copy.
func (in *input) forget() {
	if in.copied {
		_ = in.stdin.Close() // a copy, which goes
		os.Remove(in.stdin.Name())
		in.copied = false
	}
}

var harStart = regexp.MustCompile(`^\s*\{\s*"log"\s*:\s*\{`)

// detect unpacks, and tells what a file is by its first bytes.
func (in *input) detect(raw io.Reader) error {
	text, done, err := Unpack(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	in.onClose(done)
	return in.choose(text)
}

// Unpack undoes gzip and zstd, drops a byte order mark and turns UTF-16 into UTF-8; what to undo is told by the first bytes.
// done ends it.
func Unpack(raw io.Reader) (text *bufio.Reader, done func(), err error) {
	text, done = bufio.NewReaderSize(raw, 64<<10), func() {}
	head, _ := text.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(text)
		if err != nil {
			return nil, nil, err
		}
		text = bufio.NewReaderSize(cutOff{z}, 64<<10)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(text, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, err
		}
		text, done = bufio.NewReaderSize(cutOff{z}, 64<<10), z.Close
	}
	head, _ = text.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}):
		_, _ = text.Discard(3) // they are there: Peek gave them
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		decoder := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder()
		text = bufio.NewReaderSize(transform.NewReader(text, decoder), 64<<10)
	}
	return text, done, nil
}

// choose makes the source for the text at hand.
func (in *input) choose(text *bufio.Reader) error {
	r := in.reader
	head, err := text.Peek(4096)
	if err != nil && err != io.EOF && !errors.Is(err, errCutOff) {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	body := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		return in.openState()
	case bytes.HasPrefix(head, []byte("PAR1")):
		return in.openParquet(text)
	case harStart.Match(head):
		in.source = newPump(r.builder(), func(e *emitter) error { return feedHAR(text, e, &r.options) })
	case len(body) == 0 || body[0] == '{':
		in.source = newLineSource(text, in.chunk(), r.options.Workers, in.lineParser(body))
	case arrayStart.Match(body):
		return fmt.Errorf("%s is one JSON array: write one object a line (jq -c '.[]' does)", in.name)
	default:
		// A line of something else before the objects, such as a shell's message or a cut-off row, is a bad row, not a header.
		if objects := objectLines(text); objects != nil && !in.isHeader(head) {
			in.source = newLineSource(text, in.chunk(), r.options.Workers, in.lineParser(objects))
			return nil
		}
		return in.openCSV(text, head)
	}
	return nil
}

// arrayStart is how a JSON array of objects begins, on one line or several.
var arrayStart = regexp.MustCompile(`^\[[ \t\r]*(?:\n|\{|\]|$)`)

// wholeObject is a line that holds an object, not the half of one that a crash left.
var wholeObject = regexp.MustCompile(`^\s*\{.*\}\s*$`)

// objectLines is the text at hand from the first line on that begins an object; nil where none does.
func objectLines(text *bufio.Reader) []byte {
	head, _ := text.Peek(text.Size()) // as far as there is as much; what cannot be read will be met again
	if at := bytes.Index(head, []byte("\n{")); at >= 0 {
		return head[at+1:]
	}
	return nil
}

// isHeader tells whether the first line names a column that rows need.
func (in *input) isHeader(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	names := make(map[string]bool)
	for _, name := range bytes.Split(line, []byte{sniffComma(head)}) {
		names[string(bytes.Trim(name, " \t\r\""))] = true
	}
	has := func(column string) bool { return names[column] }
	return has("ts") || mapped(in.reader.options.Map, has)
}

// chunk is how much of a file is parsed at once: less for small files, and where many may be open at a time.
func (in *input) chunk() int {
	n := int64(chunkBytes)
	if len(in.reader.inputs) > 4 {
		n /= 4
	}
	if in.size >= 0 && in.size < n && in.size > 0 {
		n = max(in.size*4, 4096) // compressed ones grow
	}
	return int(min(n, chunkBytes))
}

// lineParser picks the parser for a file of objects, by its first whole one.
func (in *input) lineParser(head []byte) func() lineParser {
	r := in.reader
	line, rest, _ := bytes.Cut(head, []byte{'\n'})
	for len(rest) > 0 && !wholeObject.Match(line) {
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
	}
	if mapped(r.options.Map, func(column string) bool { return bytes.Contains(line, []byte(lastOf(column))) }) {
		return func() lineParser {
			return &mappedLines{builder: r.builder(), mapper: newMapper(&r.options)}
		}
	}
	return func() lineParser {
		return &scanner{builder: r.builder(), ahead: true}
	}
}

func (in *input) openState() error {
	if in.reader.options.State == nil || in.name == "-" {
		return fmt.Errorf("%s is a SQLite file, which cannot be read here: export its journal first", in.name)
	}
	rows, err := in.reader.options.State(in.name)
	if err != nil {
		return err
	}
	in.source = newPump(in.reader.builder(), func(e *emitter) error {
		n := int64(0)
		for row, err := range rows {
			if err != nil {
				return err
			}
			n++
			if err := e.row(&row, instant{nanos: row.At.UnixNano()}, n, n); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// next gives the next batch, admitted; io.EOF at the end.
func (in *input) next() (*Batch, error) {
	if in.source == nil {
		if err := in.open(); err != nil {
			return nil, err
		}
	}
	b, err := in.source.next()
	if errors.Is(err, errCutOff) {
		in.source.close()
		in.source = finished{}
		b, err = &Batch{count: 1, lines: 1}, nil
		b.addBad(1, 1, errCutOff)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s: %w", in.name, err)
		}
		return nil, err
	}
	b.home = in.source
	if in.sorted {
		return b, nil
	}
	return b, in.reader.admit(in, b)
}

// finished is a source without rows.
type finished struct{}

func (finished) next() (*Batch, error) { return nil, io.EOF }
func (finished) recycle(*Batch)        {}
func (finished) close()                {}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// cutOff names the end of a compressed file that came too early.
type cutOff struct{ r io.Reader }

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCutOff
	}
	return n, err
}
