package journal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Options say how to read files. The zero value reads tapyr's own, and takes times without an offset as UTC.
type Options struct {
	// Stdin is what the name - stands for.
	Stdin io.Reader
	// Zone is that of times without an offset; nil is UTC.
	Zone *time.Location
	// From and To keep rows with From <= At < To; a zero time is no bound.
	From, To time.Time
	// Map names the columns of files that are not tapyr's; see ParseMapping. Files that have none of the columns are read as
	// tapyr's own.
	Map []Mapping
	// Provider and Account stand in for those that a row does not have.
	Provider, Account string
	// Locate finds the provider and account that a URL belongs to, and the path within it, for HAR files and mapped URLs.
	// Requests that it does not know are counted as OtherHosts. Nil: all belong to Provider and Account.
	Locate func(u *url.URL) (provider, account, path string, ok bool)
	// KeepHeader says which response headers of a HAR file to keep; nil keeps all.
	KeepHeader func(name string) bool
	// State opens the rows of a state file, in any order. Nil: such files are refused.
	State func(path string) (iter.Seq2[Row, error], error)
	// Dedupe also drops rows without an id that equal another one in everything, instant included, within the sort buffer.
	Dedupe bool
	// Strict makes the first bad row an error.
	Strict bool
	// Workers is the number of parsers; 0 is GOMAXPROCS.
	Workers int
	// SortRows is how many rows are held back, to be put in order and to look for repeated ids among; at least that many, at
	// most twice as many; 0 is 32,768. A row that comes later than that is a LateRowError.
	SortRows int
	// Unordered gives the rows in the order of the files, as far as they follow each other; there is no LateRowError then.
	Unordered bool
	// TempDir is where rows are spilled to; empty is the system's.
	TempDir string
}

// shownBad is how many bad rows (and warnings) a Stats describes.
const shownBad = 10

// BadRowError is a row that could not be read.
type BadRowError struct {
	// File is the name as given.
	File string
	// Line is where the row begins, from 1; in files without lines it is Record.
	Line int64
	// Record counts the file's rows from 1, bad ones included.
	Record int64
	// Err says what is wrong.
	Err error
}

func (e *BadRowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *BadRowError) Unwrap() error { return e.Err }

// LateRowError is a row that belongs before rows that the reader has already given out. Restart reads everything again, sorted
// on disk first; what came so far is to be forgotten.
type LateRowError struct {
	// File and Line are where the row stands.
	File string
	Line int64
	// At is the row's instant, After that of the last row given out.
	At, After time.Time
}

func (e *LateRowError) Error() string {
	return fmt.Sprintf("%s:%d: a row of %s comes after one of %s, too far out of order for the sort buffer; the files must be sorted first",
		e.File, e.Line, AppendTime(nil, e.At), AppendTime(nil, e.After))
}

// Stats count what a reader has met so far.
type Stats struct {
	// Rows were given out.
	Rows int64
	// Duplicates were dropped for a later row with the same id.
	Duplicates int64
	// BadRows could not be read; Bad are the first ten.
	BadRows int64
	Bad     []*BadRowError
	// OutsideInterval were before From or not before To, OtherHosts unknown to Locate.
	OutsideInterval, OtherHosts int64
	// Warnings tell of rows that were read, but perhaps not as meant.
	Warnings []string
	// Spilled tells that the rows were sorted on disk.
	Spilled bool
}

// Reader gives the rows of several files in order of time: of one instant, in the order of the files and then of their rows.
// It is for one goroutine; Progress may be called from others.
type Reader struct {
	options Options
	inputs  []*input
	symbols *symbols
	merger  *merger
	sorter  *sorter
	current *Batch
	// earlier is what Next gave out before current.
	earlier *Batch
	stats   Stats
	warned  warnings
	spill   *spill
	failed  error
	read    atomic.Int64
	total   int64
}

// Open opens files (- is Options.Stdin) of any mix of formats. What each is is told by its first bytes: gzip, zstd, UTF-8 or
// UTF-16 byte order marks, JSONL, CSV (with commas, semicolons, tabs or bars), HAR 1.2, Parquet, SQLite.
func Open(names []string, options Options) (*Reader, error) {
	if options.Workers <= 0 {
		options.Workers = runtime.GOMAXPROCS(0)
	}
	if options.SortRows <= 0 {
		options.SortRows = 1 << 15
	}
	r := &Reader{options: options, symbols: newSymbols()}
	for i, name := range names {
		in, err := newInput(r, int32(i), name)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.inputs = append(r.inputs, in)
		if in.size < 0 || r.total < 0 {
			r.total = -1
		} else {
			r.total += in.size
		}
	}
	r.start()
	return r, nil
}

func (r *Reader) builder() builder {
	return builder{symbols: r.symbols, provider: r.options.Provider, account: r.options.Account}
}

func (r *Reader) start() {
	r.sorter = newSorter(&r.options, r.symbols)
	if r.spill != nil {
		r.merger = newMerger([]*input{r.spill.input})
	} else {
		r.merger = newMerger(r.inputs)
	}
}

// Next returns the next rows, at least one; io.EOF after the last. A LateRowError asks for Restart; a BadRowError comes only
// where Strict was asked for. What it returns is valid until the call after the next one, so that one goroutine can read while
// another still looks at what was read before.
func (r *Reader) Next() (*Batch, error) {
	if r.earlier != nil {
		r.earlier.home.recycle(r.earlier)
	}
	r.earlier, r.current = r.current, nil
	for r.failed == nil {
		if b := r.sorter.pop(); b != nil {
			r.current = b
			r.stats.Rows += int64(len(b.Records))
			r.stats.Duplicates = r.sorter.duplicates
			return b, nil
		}
		if r.sorter.ended {
			r.failed = io.EOF
			break
		}
		r.failed = r.pull()
	}
	r.stats.Duplicates = r.sorter.duplicates
	return nil, r.failed
}

// pull moves one batch from the files to the sorter.
func (r *Reader) pull() error {
	b, err := r.merger.next()
	if errors.Is(err, io.EOF) {
		r.sorter.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	late := r.sorter.push(b)
	if late == nil {
		return nil
	}
	return &LateRowError{
		File: r.inputs[late.File].name, Line: late.Line, At: time.Unix(0, late.AtNanos).UTC(),
		After: time.Unix(0, r.sorter.emitted.AtNanos).UTC(),
	}
}

// Restart begins again after a LateRowError, with all rows sorted on disk. It needs about three times the files' size (plain)
// in TempDir, until Close.
func (r *Reader) Restart() error {
	for _, in := range r.inputs {
		if err := in.keepRest(); err != nil {
			return err
		}
	}
	r.closeInputs()
	r.current, r.earlier = nil, nil
	r.stats, r.warned = Stats{Spilled: true}, warnings{}
	r.read.Store(0)
	r.failed = nil
	sp, err := newSpill(r)
	if err != nil {
		r.failed = err
		return err
	}
	r.spill = sp
	r.start()
	return nil
}

// Stats tells what was met so far.
func (r *Reader) Stats() Stats {
	s := r.stats
	s.Bad = slices.Clone(s.Bad)
	s.Warnings = r.warned.texts()
	return s
}

// Progress tells how many bytes of the files, as they lie on disk, have been read, and of how many; total is -1 where the
// standard input's length is unknown.
func (r *Reader) Progress() (read, total int64) { return r.read.Load(), r.total }

// Close ends the reading, early or not, and removes what was spilled.
func (r *Reader) Close() error {
	r.closeInputs()
	var err error
	if r.spill != nil {
		err = r.spill.remove()
		r.spill = nil
	}
	for _, in := range r.inputs {
		in.forget()
	}
	r.failed = errClosed
	return err
}

var errClosed = errors.New("the journal's reader is closed")

func (r *Reader) closeInputs() {
	for _, in := range r.inputs {
		in.close()
	}
	if r.spill != nil {
		r.spill.input.close()
	}
}

// Rows gives the rows one by one, for programs that are in no hurry; a LateRowError is met by Restart if nothing was given out
// before it, which SortRows makes likely for small files only.
func (r *Reader) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for {
			b, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Row{}, err)
				}
				return
			}
			for i := range b.Records {
				if !yield(b.Row(&b.Records[i]), nil) {
					return
				}
			}
		}
	}
}

// admit takes a fresh batch of a file: makes its numbers absolute, gives wall times their zone, counts what is bad, and drops
// what was not asked for.
func (r *Reader) admit(in *input, b *Batch) error {
	for i := range b.Records {
		rec := &b.Records[i]
		rec.File, rec.Line, rec.Number = in.index, rec.Line+in.lines, rec.Number+in.records
	}
	if len(b.naive) > 0 {
		for _, i := range b.naive {
			b.Records[i].AtNanos = in.clock.instant(b.Records[i].AtNanos)
		}
		b.measure()
	}
	r.stats.BadRows += b.badCount
	r.stats.OtherHosts += b.skipped
	for _, bad := range b.bad {
		bad.File, bad.Line, bad.Record = in.name, bad.Line+in.lines, bad.Record+in.records
		if len(r.stats.Bad) < shownBad {
			r.stats.Bad = append(r.stats.Bad, bad)
		}
		if r.options.Strict {
			return bad
		}
	}
	in.lines += b.lines
	in.records += b.count
	r.keepInterval(b)
	return nil
}

// keepInterval drops rows outside [From, To).
func (r *Reader) keepInterval(b *Batch) {
	from, to := minNanos, maxNanos
	if !r.options.From.IsZero() {
		from = clampBound(r.options.From)
	}
	if !r.options.To.IsZero() {
		to = clampBound(r.options.To)
	}
	if len(b.Records) == 0 || (b.order.first >= from && b.order.last < to) {
		return
	}
	kept := b.Records[:0]
	for _, rec := range b.Records {
		if rec.AtNanos >= from && rec.AtNanos < to {
			kept = append(kept, rec)
		}
	}
	r.stats.OutsideInterval += int64(len(b.Records) - len(kept))
	b.Records = kept
	b.measure()
}

func clampBound(t time.Time) int64 {
	switch sec := t.Unix(); {
	case sec < minNanos/1e9:
		return minNanos
	case sec > maxNanos/1e9:
		return maxNanos
	default:
		return t.UnixNano()
	}
}
