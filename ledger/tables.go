package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/tapyr/tapyr/ledger/journal"
)

// counterTable is the counters' CSV.
var counterTable = &table[Counter]{
	columns: []string{
		"provider", "limit", "scope_key", "window_start", "window_end", "used", "observed_remaining", "observed_max", "observed_used", "updated_at",
	},
	record: func(c *Counter) []string {
		return []string{
			c.Provider, c.Limit, c.ScopeKey, formatNanos(c.StartNanos), formatNanos(c.EndNanos), strconv.FormatInt(c.Used, 10),
			formatOptional(c.ObservedRemaining), formatOptional(c.ObservedMax), formatOptional(c.ObservedUsed), formatNanos(c.UpdatedNanos),
		}
	},
	parse: func(f []string) (c Counter, err error) {
		c.Provider, c.Limit, c.ScopeKey = f[0], f[1], f[2]
		var errs [7]error
		c.StartNanos, errs[0] = parseNanos(f[3])
		c.EndNanos, errs[1] = parseNanos(f[4])
		c.Used, errs[2] = parseCount(f[5])
		c.ObservedRemaining, errs[3] = parseOptional(f[6])
		c.ObservedMax, errs[4] = parseOptional(f[7])
		c.ObservedUsed, errs[5] = parseOptional(f[8])
		c.UpdatedNanos, errs[6] = parseNanos(f[9])
		if err = errors.Join(errs[:]...); err != nil {
			return c, err
		}
		return c, c.check()
	},
	parquet: parquetTable[Counter]{
		writer: func(w io.Writer) (func(*Counter) error, func() error) {
			return parquetWriter(w, func(c *Counter) parquetCounter {
				return parquetCounter{
					c.Provider, c.Limit, c.ScopeKey, c.StartNanos, c.EndNanos, c.Used, c.ObservedRemaining, c.ObservedMax, c.ObservedUsed, c.UpdatedNanos,
				}
			})
		},
		rows: func(r io.Reader) iter.Seq2[Counter, error] {
			return parquetRows(r, func(p *parquetCounter) (Counter, error) {
				c := Counter{
					CounterKey: CounterKey{p.Provider, p.Limit, p.ScopeKey, p.WindowStart}, EndNanos: p.WindowEnd, Used: p.Used,
					ObservedRemaining: p.ObservedRemaining, ObservedMax: p.ObservedMax, ObservedUsed: p.ObservedUsed, UpdatedNanos: p.UpdatedAt,
				}
				return c, c.check()
			})
		},
	},
}

func (c *Counter) check() error {
	if c.EndNanos <= c.StartNanos {
		return fmt.Errorf("window_end %s is not after window_start %s", formatNanos(c.EndNanos), formatNanos(c.StartNanos))
	}
	for _, observed := range []struct {
		name  string
		count *int64
	}{{"used", &c.Used}, {"observed_remaining", c.ObservedRemaining}, {"observed_max", c.ObservedMax}, {"observed_used", c.ObservedUsed}} {
		if observed.count != nil && *observed.count < 0 {
			return fmt.Errorf("%s %d is negative", observed.name, *observed.count)
		}
	}
	return nil
}

// ReadCounters reads counters as Export wrote them, in any of its formats, and tells each with the line it stands on (in Parquet the
// row's number), from 1. The first row that cannot be read ends it with an error that names the file and the line.
func ReadCounters(name string, options journal.Options, each func(line int64, c *Counter)) error {
	raw, done, err := openTable(name, options)
	if err != nil {
		return err
	}
	defer done()
	text, unpacked, err := journal.Unpack(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer unpacked()
	if _, err := text.Peek(1); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is empty: there is not even a header", name)
	}
	for row, err := range counterTable.rows(text) {
		if err != nil {
			return fmt.Errorf("%s%w", place(name, row.line), err)
		}
		each(row.line, &row.row)
	}
	return nil
}

// minuteTable is the minutes' CSV.
var minuteTable = &table[Minute]{
	columns: []string{"provider", "limit", "scope_key", "minute", "used"},
	record: func(m *Minute) []string {
		return []string{m.Provider, m.Limit, m.ScopeKey, formatNanos(m.StartNanos), strconv.FormatInt(m.Used, 10)}
	},
	parse: func(f []string) (m Minute, err error) {
		m.Provider, m.Limit, m.ScopeKey = f[0], f[1], f[2]
		var errs [2]error
		m.StartNanos, errs[0] = parseNanos(f[3])
		m.Used, errs[1] = parseCount(f[4])
		return m, errors.Join(errs[:]...)
	},
	parquet: parquetTable[Minute]{
		writer: func(w io.Writer) (func(*Minute) error, func() error) {
			return parquetWriter(w, func(m *Minute) parquetMinute {
				return parquetMinute{m.Provider, m.Limit, m.ScopeKey, m.StartNanos, m.Used}
			})
		},
		rows: func(r io.Reader) iter.Seq2[Minute, error] {
			return parquetRows(r, func(p *parquetMinute) (Minute, error) {
				return Minute{CounterKey: CounterKey{p.Provider, p.Limit, p.ScopeKey, p.Minute}, Used: p.Used}, nil
			})
		},
	},
}

func formatNanos(nanos int64) string {
	return string(journal.AppendTime(nil, time.Unix(0, nanos)))
}

func parseNanos(text string) (int64, error) {
	t, err := journal.ParseTime(text)
	if err != nil {
		return 0, err
	}
	return t.UnixNano(), nil
}

// parquetTable is how a kind of rows is written to and read from Parquet.
type parquetTable[T any] struct {
	writer func(io.Writer) (write func(*T) error, finish func() error)
	rows   func(io.Reader) iter.Seq2[T, error]
}

type parquetCounter struct {
	Provider          string `parquet:"provider,dict"`
	Limit             string `parquet:"limit,dict"`
	ScopeKey          string `parquet:"scope_key,dict"`
	WindowStart       int64  `parquet:"window_start,timestamp(nanosecond)"`
	WindowEnd         int64  `parquet:"window_end,timestamp(nanosecond)"`
	Used              int64  `parquet:"used"`
	ObservedRemaining *int64 `parquet:"observed_remaining,optional"`
	ObservedMax       *int64 `parquet:"observed_max,optional"`
	ObservedUsed      *int64 `parquet:"observed_used,optional"`
	UpdatedAt         int64  `parquet:"updated_at,timestamp(nanosecond)"`
}

type parquetMinute struct {
	Provider string `parquet:"provider,dict"`
	Limit    string `parquet:"limit,dict"`
	ScopeKey string `parquet:"scope_key,dict"`
	Minute   int64  `parquet:"minute,timestamp(nanosecond)"`
	Used     int64  `parquet:"used"`
}

func parquetWriter[T, P any](w io.Writer, convert func(*T) P) (write func(*T) error, finish func() error) {
	out := parquet.NewGenericWriter[P](w, journal.ParquetOptions()...)
	write = func(row *T) error {
		_, err := out.Write([]P{convert(row)})
		return err
	}
	return write, out.Close
}

// parquetRows reads a Parquet file, from a copy: its directory is at its end.
func parquetRows[T, P any](r io.Reader, convert func(*P) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		file, err := os.CreateTemp("", "tapyr-parquet-*")
		if err != nil {
			yield(zero, err)
			return
		}
		defer os.Remove(file.Name())
		defer func() { _ = file.Close() }() // a copy, which goes
		if _, err = bufio.NewReader(r).WriteTo(file); err != nil {
			yield(zero, err)
			return
		}
		rows, err := readParquet[P](file)
		if err != nil {
			yield(zero, err)
			return
		}
		for i := range rows {
			row, err := convert(&rows[i])
			if err != nil {
				err = fmt.Errorf("row %d: %w", i+1, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// readParquet reads a whole file: counters and minutes are a few thousand. The library panics on some damaged files.
func readParquet[P any](file *os.File) (rows []P, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the Parquet file is damaged: %v", p)
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return parquet.Read[P](file, info.Size())
}
