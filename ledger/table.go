package ledger

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/ledger/journal"
)

// table describes a kind of rows that has the same columns in every format: how a row becomes a CSV record, and back.
type table[T any] struct {
	columns []string
	record  func(*T) []string
	parse   func([]string) (T, error)
	parquet parquetTable[T]
}

// isCount tells which columns are numbers.
func isCount(column string) bool {
	return column == "used" || strings.HasPrefix(column, "observed_")
}

// exportTable writes a table.
func exportTable[T any](t *table[T], rows iter.Seq2[T, error], w io.Writer, format Format) (n int64, err error) {
	buffered := bufio.NewWriterSize(w, 64<<10)
	write, finish, err := t.writer(buffered, format)
	if err != nil {
		return 0, err
	}
	for row, err := range rows {
		if err == nil {
			err = write(&row)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, errors.Join(finish(), buffered.Flush())
}

func (t *table[T]) writer(w io.Writer, format Format) (write func(*T) error, finish func() error, err error) {
	switch format {
	case FormatCSV:
		c := csv.NewWriter(w)
		flush := func() error { c.Flush(); return c.Error() }
		return func(row *T) error { return c.Write(t.record(row)) }, flush, c.Write(t.columns)
	case FormatJSONL:
		write := func(row *T) error { _, err := w.Write(t.object(t.record(row))); return err }
		return write, func() error { return nil }, nil
	case FormatParquet:
		write, finish := t.parquet.writer(w)
		return write, finish, nil
	default:
		return nil, nil, fmt.Errorf("%q is not a format: %s, %s or %s", format, FormatJSONL, FormatCSV, FormatParquet)
	}
}

// object is a record as a line of JSON, in the order of the columns; a count that is absent is left out.
func (t *table[T]) object(record []string) []byte {
	line := []byte{'{'}
	for i, column := range t.columns {
		if record[i] == "" && isCount(column) {
			continue
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = append(line, `"`+column+`":`...)
		if isCount(column) {
			line = append(line, record[i]...)
			continue
		}
		line, _ = jsontext.AppendQuote(line, strings.ToValidUTF8(record[i], "\uFFFD"))
	}
	return append(line, '}', '\n')
}

// importTable reads a table and hands it on in groups. The format is told by the file's first bytes.
func importTable[T any](t *table[T], name string, options journal.Options, apply func([]T) error) (n int64, err error) {
	raw, done, err := openTable(name, options)
	if err != nil {
		return 0, err
	}
	defer done()
	text, unpacked, err := journal.Unpack(raw)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	defer unpacked()
	group := make([]T, 0, importGroup)
	for row, err := range t.rows(text) {
		if err != nil {
			return n, fmt.Errorf("%s%w", place(name, row.line), err)
		}
		n++
		if group = append(group, row.row); len(group) == importGroup {
			if err := apply(group); err != nil {
				return n, err
			}
			group = group[:0]
		}
	}
	if len(group) > 0 {
		err = apply(group)
	}
	return n, err
}

// lined is a row and the line that it stands on, from 1; for Parquet its number.
type lined[T any] struct {
	row  T
	line int64
}

// place is how a message begins that is about a line of a file; line 0 is the whole.
func place(name string, line int64) string {
	if line == 0 {
		return name + ": "
	}
	return fmt.Sprintf("%s:%d: ", name, line)
}

func openTable(name string, options journal.Options) (io.Reader, func(), error) {
	if name == "-" {
		if options.Stdin == nil {
			return nil, nil, errors.New(`"-" names the standard input, and there is none`)
		}
		return options.Stdin, func() {}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil // it was only read
}

// rows reads a table of any format.
func (t *table[T]) rows(text *bufio.Reader) iter.Seq2[lined[T], error] {
	head, _ := text.Peek(4)
	switch {
	case len(head) > 0 && head[0] == '{':
		return t.lines(text)
	case string(head) == "PAR1":
		return t.numbered(text)
	default:
		return t.records(text)
	}
}

// numbered reads Parquet.
func (t *table[T]) numbered(text io.Reader) iter.Seq2[lined[T], error] {
	return func(yield func(lined[T], error) bool) {
		number := int64(0)
		for row, err := range t.parquet.rows(text) {
			number++
			if !yield(lined[T]{row, number}, err) {
				return
			}
		}
	}
}

// records reads CSV. The columns may stand in any order; those of counts may be absent.
func (t *table[T]) records(text *bufio.Reader) iter.Seq2[lined[T], error] {
	return func(yield func(lined[T], error) bool) {
		first := lined[T]{line: 1}
		next := journal.Records(text)
		header, _, err := next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(first, err)
			return
		}
		index := make([]int, len(t.columns))
		for i, column := range t.columns {
			if index[i] = slices.Index(header, column); index[i] < 0 && !strings.HasPrefix(column, "observed_") {
				yield(first, fmt.Errorf("no column %q: needed are %s", column, strings.Join(t.columns, ", ")))
				return
			}
		}
		record := make([]string, len(t.columns))
		for {
			fields, line, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			var row T
			switch {
			case err != nil:
			case len(fields) != len(header):
				err = fmt.Errorf("%d fields, where the header has %d", len(fields), len(header))
			default:
				for i, at := range index {
					if record[i] = ""; at >= 0 {
						record[i] = fields[at]
					}
				}
				row, err = t.parse(record)
			}
			if !yield(lined[T]{row, line}, err) || err != nil {
				return
			}
		}
	}
}

// lines reads JSON objects.
func (t *table[T]) lines(text io.Reader) iter.Seq2[lined[T], error] {
	return func(yield func(lined[T], error) bool) {
		dec := jsontext.NewDecoder(text)
		record := make([]string, len(t.columns))
		for n := int64(1); ; n++ {
			clear(record)
			err := t.readObject(dec, record)
			if errors.Is(err, io.EOF) {
				return
			}
			var row T
			if err == nil {
				row, err = t.parse(record)
			}
			if !yield(lined[T]{row, n}, err) || err != nil {
				return
			}
		}
	}
}

// readObject reads the next object into a record; io.EOF where there is none.
func (t *table[T]) readObject(dec *jsontext.Decoder, record []string) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return fmt.Errorf("%q where an object should begin", token.String())
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return unexpected(err)
		}
		i := slices.Index(t.columns, name.String())
		if i < 0 {
			if err := dec.SkipValue(); err != nil {
				return unexpected(err)
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			return unexpected(err)
		}
		switch value.Kind() {
		case '"', '0':
			record[i] = value.String()
		case 'n':
		default:
			return fmt.Errorf("%s is neither a text nor a number", t.columns[i])
		}
	}
	_, err = dec.ReadToken()
	return unexpected(err)
}

// unexpected makes an end inside an object an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("used %q is not a count", text)
	}
	return n, nil
}

func formatOptional(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func parseOptional(text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("observed %q is not a whole number", text)
	}
	return &n, nil
}
