package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	chunkBytes = 1 << 18
	// maxLineBytes is the longest line that is kept in memory. A longer one is a bad row: some file without newlines must not
	// take all memory there is.
	maxLineBytes = 64 << 20
)

var errLongLine = fmt.Errorf("line longer than %d MiB", maxLineBytes>>20)

// source gives the rows of one file, in its order. next returns io.EOF at the end; a batch is the caller's until it is handed
// back with recycle. Record and line numbers, and the lines of bad rows, are relative to the batch.
type source interface {
	next() (*Batch, error)
	recycle(*Batch)
	close()
}

// lineParser appends the row of one line to its batch, by the time of finish at the latest; what is wrong with it is either
// returned or already among the batch's bad rows.
type lineParser interface {
	line(b []byte, line, number int64) error
	use(*Batch)
	finish() *Batch
}

func (d *builder) use(b *Batch) { d.batch = b }

// lineSource cuts a file into chunks of whole lines, which workers parse side by side; they come out in the file's order.
//
// One goroutine reads and every worker parses; all end when the file does or close is called, which waits for them.
type lineSource struct {
	reader io.Reader
	chunk  int
	free   chan *lineJob // empty ones
	work   chan *lineJob // to the workers
	order  chan *lineJob // the same jobs, to next
	quit   chan struct{}
	once   sync.Once
	group  sync.WaitGroup

	batches chan *Batch // recycled ones
	err     error       // of the reader; set before order is closed
}

// lineJob is a chunk on its way.
type lineJob struct {
	buf   []byte // memory; text is a part of it
	text  []byte
	long  bool // what follows text was a line beyond maxLineBytes
	batch *Batch
	done  chan struct{}
}

func newLineSource(r io.Reader, chunk, workers int, parser func() lineParser) *lineSource {
	jobs := workers + 2
	s := &lineSource{
		reader: r, chunk: chunk, free: make(chan *lineJob, jobs), work: make(chan *lineJob, jobs), order: make(chan *lineJob, jobs),
		quit: make(chan struct{}), batches: make(chan *Batch, 256),
	}
	for range jobs {
		s.free <- &lineJob{done: make(chan struct{}, 1)}
	}
	s.group.Go(s.read)
	for range workers {
		p := parser()
		s.group.Go(func() {
			for job := range s.work {
				job.batch = parseLines(p, s.emptyBatch(), job)
				job.done <- struct{}{}
			}
		})
	}
	return s
}

func (s *lineSource) emptyBatch() *Batch {
	select {
	case b := <-s.batches:
		b.reset()
		return b
	default:
		return &Batch{}
	}
}

// read fills chunks. What follows the last newline of one begins the next.
func (s *lineSource) read() {
	defer close(s.order)
	defer close(s.work)
	var rest []byte
	for {
		var job *lineJob
		select {
		case job = <-s.free:
		case <-s.quit:
			return
		}
		var eof bool
		rest, eof = s.fill(job, rest)
		s.order <- job // as long as there are jobs: never blocks
		s.work <- job
		if eof {
			return
		}
	}
}

// fill reads one chunk, and returns what belongs to the next.
func (s *lineSource) fill(job *lineJob, rest []byte) (next []byte, eof bool) {
	job.long = false
	if cap(job.buf) < max(s.chunk, len(rest)) {
		job.buf = make([]byte, max(s.chunk, 2*len(rest)))
	}
	job.buf = job.buf[:cap(job.buf)]
	n := copy(job.buf, rest)
	for {
		m, err := io.ReadFull(s.reader, job.buf[n:])
		end := n + m
		if err != nil {
			if err != io.EOF && err != io.ErrUnexpectedEOF { // the latter is ReadFull's own: decompressors say errCutOff
				s.err = err
			}
			job.text = job.buf[:end]
			return nil, true
		}
		if i := bytes.LastIndexByte(job.buf[n:end], '\n'); i >= 0 {
			job.text = job.buf[:n+i+1]
			return bytes.Clone(job.buf[n+i+1 : end]), false
		}
		if n = end; n >= maxLineBytes {
			job.text, job.long = nil, true
			return s.skipLine()
		}
		job.buf = append(job.buf, make([]byte, len(job.buf))...)
	}
}

// skipLine drops the rest of a line.
func (s *lineSource) skipLine() (next []byte, eof bool) {
	buf := make([]byte, s.chunk)
	for {
		n, err := s.reader.Read(buf)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return buf[i+1 : n], false
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			return nil, true
		}
	}
}

func (s *lineSource) next() (*Batch, error) {
	job, ok := <-s.order
	if !ok {
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	<-job.done
	b := job.batch
	job.batch = nil
	if cap(job.buf) > 4*s.chunk { // one long line must not keep its memory for good
		job.buf = nil
	}
	s.free <- job
	return b, nil
}

func (s *lineSource) recycle(b *Batch) {
	select {
	case s.batches <- b:
	default:
	}
}

func (s *lineSource) close() {
	s.once.Do(func() { close(s.quit) })
	for job := range s.order { // let the reader see quit
		<-job.done
		select {
		case s.free <- job:
		default:
		}
	}
	s.group.Wait()
}

// parseLines parses the lines of a chunk.
func parseLines(p lineParser, b *Batch, job *lineJob) *Batch {
	p.use(b)
	text := job.text
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		b.lines++
		if len(line) == 0 || (line[0] <= ' ' && onlySpace(line)) {
			continue
		}
		b.count++
		if err := p.line(line, b.lines, b.count); err != nil {
			b.addBad(b.lines, b.count, err)
		}
	}
	out := p.finish()
	if n := len(job.text); n > 0 && job.text[n-1] != '\n' {
		out.suspectCut()
	}
	if job.long {
		out.lines++
		out.count++
		out.addBad(out.lines, out.count, errLongLine)
	}
	out.measure()
	return out
}

// suspectCut says of a bad last line that it has no newline.
func (b *Batch) suspectCut() {
	if n := len(b.bad); n > 0 && b.bad[n-1].Line == b.lines {
		b.bad[n-1].Err = fmt.Errorf("%w (the last line has no newline: was the file cut off?)", b.bad[n-1].Err)
	}
}

// addBad counts a bad row and keeps the first ones.
func (b *Batch) addBad(line, number int64, err error) {
	b.badCount++
	if len(b.bad) < shownBad {
		b.bad = append(b.bad, &BadRowError{Line: line, Record: number, Err: err})
	}
}

// pump is a source whose rows come one by one from a function: a goroutine runs it, a few batches ahead of next.
type pump struct {
	out     chan *Batch
	quit    chan struct{}
	once    sync.Once
	group   sync.WaitGroup
	batches chan *Batch
	err     error
}

const pumpRows = 2048

// errStopped ends a pump's function early.
var errStopped = errors.New("stopped")

// emitter is what a pump's function calls. Lines and records are counted by the caller from the file's beginning.
type emitter struct {
	builder
	pump *pump
}

// newPump runs feed, which calls row or bad for every record, in order, and returns when there are no more.
func newPump(d builder, feed func(*emitter) error) *pump {
	p := &pump{out: make(chan *Batch, 2), quit: make(chan struct{}), batches: make(chan *Batch, 64)}
	d.batch = &Batch{}
	e := &emitter{builder: d, pump: p}
	p.group.Go(func() {
		defer close(p.out)
		err := feed(e)
		if e.flush() == nil && err != nil && !errors.Is(err, errStopped) {
			p.err = err
		}
	})
	return p
}

func (e *emitter) row(row *Row, in instant, line, number int64) error {
	e.add(row, in, line, number)
	return e.full()
}

func (e *emitter) bad(line, number int64, err error) error {
	e.batch.addBad(line, number, err)
	return e.full()
}

func (e *emitter) full() error {
	if len(e.batch.Records)+int(e.batch.badCount) < pumpRows && len(e.batch.text) < chunkBytes {
		return nil
	}
	return e.flush()
}

// flush hands the batch on.
func (e *emitter) flush() error {
	b := e.finish()
	b.measure()
	select {
	case e.pump.out <- b:
	case <-e.pump.quit:
		return errStopped
	}
	select {
	case e.batch = <-e.pump.batches:
		e.batch.reset()
	default:
		e.batch = &Batch{}
	}
	return nil
}

func (p *pump) next() (*Batch, error) {
	b, ok := <-p.out
	if ok {
		return b, nil
	}
	if p.err != nil {
		return nil, p.err
	}
	return nil, io.EOF
}

func (p *pump) recycle(b *Batch) {
	select {
	case p.batches <- b:
	default:
	}
}

func (p *pump) close() {
	p.once.Do(func() { close(p.quit) })
	for range p.out {
	}
	p.group.Wait()
}
