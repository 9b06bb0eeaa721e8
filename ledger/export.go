package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/tapyr/tapyr/ledger/journal"
)

// What is a kind of rows that can be exported.
type What string

// The kinds. A journal's file is described in package journal; counters and minutes have the columns of their CSV in all
// formats.
const (
	WhatJournal  What = "journal"
	WhatCounters What = "counters"
	WhatMinutes  What = "minutes"
)

// Format is a file format.
type Format string

// The formats. Files whose names end in .gz or .zst are compressed beside that.
const (
	FormatJSONL   Format = "jsonl"
	FormatCSV     Format = "csv"
	FormatParquet Format = "parquet"
)

// FormatOf tells the format and the compression ("", "gz" or "zst") by a file's name; the format is empty where the name does
// not tell.
func FormatOf(name string) (format Format, compression string) {
	for _, c := range []string{"gz", "zst"} {
		if rest, ok := strings.CutSuffix(name, "."+c); ok {
			name, compression = rest, c
		}
	}
	for _, f := range []Format{FormatJSONL, FormatCSV, FormatParquet} {
		if strings.HasSuffix(name, "."+string(f)) {
			format = f
		}
	}
	return format, compression
}

// Compress wraps a writer; compression is as FormatOf returns it. The result must be closed; w stays open.
func Compress(w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case "":
		return nopCloser{w}, nil
	case "gz":
		return gzip.NewWriter(w), nil
	case "zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) // more would make the bytes depend on the machine
	default:
		return nil, fmt.Errorf("%q is not a compression: gz or zst", compression)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Export writes the rows of one kind in an interval (of the request's instant, the window's start, the cell's start), and
// tells how many. The same rows are the same bytes.
func Export(ctx context.Context, store Ledger, w io.Writer, what What, format Format, in Interval) (rows int64, err error) {
	switch what {
	case WhatJournal:
		return exportJournal(store.Journal(ctx, in), w, format)
	case WhatCounters:
		return exportTable(counterTable, store.Counters(ctx, in), w, format)
	case WhatMinutes:
		return exportTable(minuteTable, store.Minutes(ctx, in), w, format)
	default:
		return 0, fmt.Errorf("%q cannot be exported: %s, %s or %s can", what, WhatJournal, WhatCounters, WhatMinutes)
	}
}

func exportJournal(rows iter.Seq2[Row, error], w io.Writer, format Format) (n int64, err error) {
	out, err := journal.NewWriter(w, string(format))
	if err != nil {
		return 0, err
	}
	for row, err := range rows {
		if err == nil {
			err = out.Write(&row)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, out.Close()
}

// importGroup is how many rows are written in one transaction.
const importGroup = 4096

// Import reads what Export wrote, or, for a journal, whatever journal.Open reads. Rows of the same key are replaced, so that a
// second import changes nothing; a journal's rows without an id are added. It tells how many rows there were. A bad row ends
// the import of counters and minutes, and for a journal with options.Strict.
func Import(ctx context.Context, store Ledger, name string, what What, options journal.Options) (journal.Stats, error) {
	var stats journal.Stats
	var err error
	switch what {
	case WhatJournal:
		return importJournal(ctx, store, name, options)
	case WhatCounters:
		stats.Rows, err = importTable(counterTable, name, options, func(group []Counter) error {
			return store.Apply(ctx, Changes{Counters: group})
		})
	case WhatMinutes:
		stats.Rows, err = importTable(minuteTable, name, options, func(group []Minute) error {
			return store.Apply(ctx, Changes{Minutes: group})
		})
	default:
		err = fmt.Errorf("%q cannot be imported: %s, %s or %s can", what, WhatJournal, WhatCounters, WhatMinutes)
	}
	return stats, err
}

func importJournal(ctx context.Context, store Ledger, name string, options journal.Options) (stats journal.Stats, err error) {
	options.Unordered = true // a store puts rows in order itself
	r, err := journal.Open([]string{name}, options)
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	group := make([]Row, 0, importGroup)
	for row, err := range r.Rows() {
		if err != nil {
			return r.Stats(), err
		}
		if group = append(group, row); len(group) == importGroup {
			if err := store.Apply(ctx, Changes{Rows: group}); err != nil {
				return r.Stats(), err
			}
			group = group[:0]
		}
	}
	if len(group) > 0 {
		err = store.Apply(ctx, Changes{Rows: group})
	}
	return r.Stats(), err
}
