package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxQuotedBytes is how far a quote may reach. A quote that nobody closed would otherwise swallow the rest of the file.
const maxQuotedBytes = 4 << 20

var errOpenQuote = fmt.Errorf("a quote is opened and not closed within %d MiB", maxQuotedBytes>>20)

// csvScanner splits CSV (RFC 4180) into records, as tolerantly as encoding/csv with LazyQuotes: a quote inside an unquoted
// field, or one that neither ends a field nor is doubled, stands for itself. Unlike encoding/csv it keeps CR LF inside quotes as
// it is, and survives a quote that is never closed: that line is an error, and the next line begins a record.
type csvScanner struct {
	text  *bufio.Reader
	comma byte
	line  int64  // of the last line read
	raw   []byte // the lines of the record
	first int    // length of its first line
	buf   []byte
	ends  []int
	again []byte // to be read before text
}

// Records reads CSV as Open does, header included: each call gives the next record that is not blank, and the line on which it
// begins; io.EOF after the last. The delimiter is the one that the first line has most of.
func Records(text *bufio.Reader) func() (fields []string, line int64, err error) {
	head, _ := text.Peek(4096)
	return (&csvScanner{text: text, comma: sniffComma(head)}).next
}

// next returns the next record that is not blank, and the line on which it begins. io.EOF at the end; errOpenQuote and
// errLongLine are bad records, after which there may be more.
func (c *csvScanner) next() (fields []string, line int64, err error) {
	for {
		c.raw = c.raw[:0]
		if err := c.readLine(); err != nil {
			return nil, c.line, err
		}
		if !onlySpace(c.raw) {
			break
		}
	}
	line, c.first = c.line, len(c.raw)
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	for p := 0; ; {
		next, more, err := c.field(p)
		if err != nil {
			return nil, line, err
		}
		c.ends = append(c.ends, len(c.buf))
		if !more {
			break
		}
		p = next
	}
	all, start := string(c.buf), 0
	fields = make([]string, len(c.ends))
	for i, end := range c.ends {
		fields[i], start = all[start:end], end
	}
	return fields, line, nil
}

// field reads the field at p, and tells whether another follows.
func (c *csvScanner) field(p int) (next int, more bool, err error) {
	if p >= len(c.raw) || c.raw[p] != '"' {
		end := bytes.IndexByte(c.raw[p:], c.comma)
		if end < 0 {
			c.buf = append(c.buf, c.raw[p:len(c.raw)-endOfLine(c.raw[p:])]...)
			return 0, false, nil
		}
		c.buf = append(c.buf, c.raw[p:p+end]...)
		return p + end + 1, true, nil
	}
	for p++; ; {
		quote := bytes.IndexByte(c.raw[p:], '"')
		if quote < 0 { // the field goes on in the next line
			c.buf = append(c.buf, c.raw[p:]...)
			p = len(c.raw)
			if err := c.readQuoted(); err != nil {
				return 0, false, err
			}
			continue
		}
		c.buf = append(c.buf, c.raw[p:p+quote]...)
		p += quote + 1
		switch rest := c.raw[p:]; {
		case len(rest) == endOfLine(rest):
			return 0, false, nil
		case rest[0] == c.comma:
			return p + 1, true, nil
		case rest[0] == '"':
			c.buf = append(c.buf, '"')
			p++
		default:
			c.buf = append(c.buf, '"')
		}
	}
}

// readQuoted reads a line inside quotes. Where there is none, what was read behind the record's first line is put back.
func (c *csvScanner) readQuoted() error {
	var err error
	if len(c.raw) > maxQuotedBytes {
		err = errOpenQuote
	} else if err = c.readLine(); errors.Is(err, io.EOF) {
		err = errOpenQuote
	}
	if errors.Is(err, errOpenQuote) {
		rest := c.raw[c.first:]
		c.line -= int64(bytes.Count(rest, []byte{'\n'}))
		if len(rest) > 0 && rest[len(rest)-1] != '\n' {
			c.line--
		}
		c.again = append(bytes.Clone(rest), c.again...)
	}
	return err
}

// endOfLine is the length of the newline at the end of b: LF, CR LF, nothing, or the CR of a file cut off before its LF.
func endOfLine(b []byte) int {
	n := len(b)
	if n > 0 && b[n-1] == '\n' {
		n--
	}
	if n > 0 && b[n-1] == '\r' {
		n--
	}
	return len(b) - n
}

// readLine appends one line to raw.
func (c *csvScanner) readLine() error {
	start := len(c.raw)
	if len(c.again) > 0 {
		n := bytes.IndexByte(c.again, '\n') + 1
		if n == 0 {
			n = len(c.again)
		}
		c.raw, c.again = append(c.raw, c.again[:n]...), c.again[n:]
		c.line++
		return nil
	}
	for {
		part, err := c.text.ReadSlice('\n')
		c.raw = append(c.raw, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(c.raw) > maxLineBytes {
				return c.skipLine()
			}
			continue
		}
		if len(c.raw) == start {
			return err
		}
		if err != nil && err != io.EOF {
			return err
		}
		break
	}
	c.line++
	return nil
}

func (c *csvScanner) skipLine() error {
	c.line++
	for {
		if _, err := c.text.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return errLongLine
		}
	}
}

// sniffComma picks the delimiter that the header line has most of.
func sniffComma(head []byte) byte {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	best := byte(',')
	for _, c := range []byte(";\t|") {
		if bytes.Count(line, []byte{c}) > bytes.Count(line, []byte{best}) {
			best = c
		}
	}
	return best
}

// openCSV reads the header and picks the reading.
func (in *input) openCSV(text *bufio.Reader, head []byte) error {
	r := in.reader
	scan := &csvScanner{text: text, comma: sniffComma(head)}
	header, _, err := scan.next()
	if err != nil {
		return fmt.Errorf("%s: the line with the column names does not read: %w", in.name, err)
	}
	index := make(map[string]int, len(header))
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		if _, twice := index[header[i]]; twice && slices.Contains(columns, header[i]) {
			return fmt.Errorf("%s: column %q stands twice", in.name, header[i])
		}
		index[header[i]] = i
	}
	table := &csvTable{scan: scan, width: len(header)}
	has := func(column string) bool { _, ok := index[column]; return ok }
	switch {
	case mapped(r.options.Map, has):
		table.row = mappedCSV(newMapper(&r.options), index)
	case has("ts"):
		table.row = ownCSV(index)
	default:
		return fmt.Errorf("%s has no column ts, only %s: name the column of the time with --map ts=COLUMN", in.name, quotedList(header))
	}
	in.source = newPump(r.builder(), table.feed)
	return nil
}

func quotedList(names []string) string {
	quoted := make([]string, 0, 12)
	for _, n := range names[:min(len(names), 12)] {
		if len(n) > 40 {
			n = n[:40] + "..."
		}
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	if len(names) > 12 {
		quoted = append(quoted, "...")
	}
	return strings.Join(quoted, ", ")
}

// csvTable is a CSV behind its header.
type csvTable struct {
	scan  *csvScanner
	width int
	row   func(fields []string) (draft, error)
}

func (t *csvTable) feed(e *emitter) error {
	for number := int64(1); ; number++ {
		fields, line, err := t.scan.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var d draft
		switch {
		case err == nil:
			d, err = t.read(fields)
		case !errors.Is(err, errOpenQuote) && !errors.Is(err, errLongLine):
			return err
		}
		switch {
		case err != nil:
			err = e.bad(line, number, err)
		case d.skip:
			e.batch.skipped++
		default:
			err = e.row(&d.row, d.at, line, number)
		}
		if err != nil {
			return err
		}
	}
}

func (t *csvTable) read(fields []string) (draft, error) {
	for len(fields) > t.width && fields[len(fields)-1] == "" { // commas at the end of a line
		fields = fields[:len(fields)-1]
	}
	if len(fields) != t.width {
		return draft{}, fmt.Errorf("%d fields, where the header has %d", len(fields), t.width)
	}
	return t.row(fields)
}

func mappedCSV(m *mapper, index map[string]int) func([]string) (draft, error) {
	return func(fields []string) (draft, error) {
		return m.row(func(column string) (string, bool) {
			i, ok := index[column]
			if !ok {
				return "", false
			}
			return fields[i], true
		})
	}
}

// ownCSV reads the columns of tapyr's journal, as far as they are there.
func ownCSV(index map[string]int) func([]string) (draft, error) {
	vars, headers := mapCache{}, mapCache{}
	return func(fields []string) (draft, error) {
		get := func(name string) string {
			if i, ok := index[name]; ok {
				return fields[i]
			}
			return ""
		}
		d := draft{row: Row{
			ID: get("id"), Status: 0, Refused: get("refused"), Body: clipBody(get("body")),
			Request: Request{
				Provider: get("provider"), Account: get("account"), Target: get("target"), Credential: get("credential"),
				Method: get("method"), Endpoint: get("endpoint"), Job: get("job"), Priority: get("priority"),
			},
		}}
		var errs [7]error
		d.at, errs[0] = parseInstant(get("ts"))
		d.row.Vars, errs[1] = vars.parse(get("vars"))
		d.row.Headers, errs[2] = headers.parse(get("headers"))
		d.row.Retry, errs[3] = parseBool(get("retry"))
		d.row.Auth, errs[4] = parseBool(get("auth"))
		if text := get("status"); text != "" {
			d.row.Status, errs[5] = parseStatus(text)
		}
		if text := get("latencyMs"); text != "" {
			d.row.Latency, errs[6] = parseLatency(text, time.Millisecond)
		}
		for _, err := range errs {
			if err != nil {
				return draft{}, err
			}
		}
		return d, nil
	}
}

// mapCache remembers the last object read: neighbouring rows often have the same.
type mapCache struct {
	text  string
	value map[string]string
}

func (c *mapCache) parse(text string) (map[string]string, error) {
	if text == c.text {
		return c.value, nil
	}
	value, err := parseMap(text)
	if err == nil {
		c.text, c.value = text, value
	}
	return value, err
}
