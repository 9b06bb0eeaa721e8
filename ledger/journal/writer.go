package journal

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Writer writes rows to a file.
type Writer interface {
	Write(*Row) error
	// Close writes what is left. It does not close what it writes to.
	Close() error
}

// NewWriter writes jsonl, csv or parquet.
func NewWriter(w io.Writer, format string) (Writer, error) {
	switch format {
	case "jsonl":
		return &jsonWriter{w: bufio.NewWriterSize(w, 64<<10)}, nil
	case "csv":
		c := &csvWriter{w: csv.NewWriter(w)}
		return c, c.w.Write(columns)
	case "parquet":
		return &parquetWriter{w: parquet.NewGenericWriter[parquetRow](w, ParquetOptions()...)}, nil
	default:
		return nil, fmt.Errorf("%q is not a format of a journal: jsonl, csv or parquet", format)
	}
}

type jsonWriter struct {
	w   *bufio.Writer
	buf []byte
}

func (j *jsonWriter) Write(r *Row) error {
	j.buf = append(r.AppendJSON(j.buf[:0]), '\n')
	_, err := j.w.Write(j.buf)
	return err
}

func (j *jsonWriter) Close() error { return j.w.Flush() }

type csvWriter struct {
	w      *csv.Writer
	record []string
}

func (c *csvWriter) Write(r *Row) error {
	c.record = r.csvRecord(c.record)
	return c.w.Write(c.record)
}

func (c *csvWriter) Close() error {
	c.w.Flush()
	return c.w.Error()
}

type parquetWriter struct {
	w   *parquet.GenericWriter[parquetRow]
	buf []parquetRow
}

func (p *parquetWriter) Write(r *Row) error {
	p.buf = append(p.buf, parquetRow{})
	p.buf[len(p.buf)-1].from(r)
	if len(p.buf) < 1024 {
		return nil
	}
	return p.flush()
}

func (p *parquetWriter) flush() error {
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}
