package replay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate"
)

// Options say what one side of a replay is.
type Options struct {
	// Config are the documents.
	Config *validate.Config
	// Files is how many the reader was given.
	Files int
	// At is the present; zero is the latest instant of a response. Rows and responses after it have not happened.
	At time.Time
	// From begins the report's interval where it is given; the reader keeps rows from it (journal.Options.From).
	From time.Time
	// Enforce asks what the engine would have done: rows are arrivals.
	Enforce bool
	// Decide hears, with Enforce, what became of each row, in the order of the journal: for one file that of its rows, for
	// several that of time. (A single file that had to be sorted on disk is told in order of time, too.) Its error ends the replay.
	Decide func(*Decision) error
	// Explain is a row to explain; nil for none.
	Explain *RowID
	// CurvePoints bounds the points of each scope's Curve; 0 is no curves.
	CurvePoints int
	// Forecast adds, where there is enough history, a band to where each window leads; Backtest tells how often bands made in the
	// same way have held.
	Forecast, Backtest bool
}

// RowID names a row: the index of its file in what the reader was given, and its number in it, from 1.
type RowID struct {
	File   int
	Number int64
}

// noInstant is before all instants.
const noInstant = math.MinInt64

// Run replays what the reader gives, for each side. Errors are the reader's, the context's and those of Decide. After a
// *journal.LateRowError, Restart the reader and Run again: what was decided so far is to be forgotten.
func Run(ctx context.Context, rows *journal.Reader, sides ...Options) ([]*Report, error) {
	list := make([]*side, len(sides))
	for i := range sides {
		list[i] = newSide(&sides[i])
	}
	err := readAhead(rows, func(batch *journal.Batch) error {
		for _, s := range list {
			if err := s.feed(batch); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return nil, err
	}
	reports := make([]*Report, len(list))
	for i, s := range list {
		if err := s.finish(); err != nil {
			return nil, err
		}
		reports[i] = s.report(rows.Stats())
	}
	return reports, nil
}

// readAhead calls take with all batches, while a goroutine of its own reads, sorts and drops repeated rows for the next one. The
// goroutine has ended when it returns: a batch is handed over only when the one before has been taken, which is as long as a batch
// is valid.
func readAhead(rows *journal.Reader, take func(*journal.Batch) error) error {
	batches, quit := make(chan *journal.Batch), make(chan struct{})
	var failed error // of the reader; set before batches is closed
	go func() {
		defer close(batches)
		for {
			batch, err := rows.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
			select {
			case batches <- batch:
			case <-quit:
				return
			}
		}
	}()
	var refused error
	for batch := range batches {
		if refused != nil {
			continue // until the reader has seen it
		}
		if refused = take(batch); refused != nil {
			close(quit)
		}
	}
	if refused != nil {
		return refused
	}
	return failed
}

// ahead is how many rows are looked up before they are taken one by one. Looking up is waiting for memory, and waits that do not
// depend on each other pass together.
const ahead = 64

// feed takes the rows of a batch.
func (s *side) feed(b *journal.Batch) error {
	s.requests.begin()
	var known [ahead]*request
	for rest := b.Records; len(rest) > 0; {
		block := rest[:min(len(rest), ahead)]
		rest = rest[len(block):]
		s.requests.lookUp(block, &known)
		for i := range block {
			rec := &block[i]
			if s.until != noInstant && rec.AtNanos > s.until {
				s.afterAt++
				continue
			}
			q := known[i]
			if q == nil {
				q = s.requests.of(b, rec)
			}
			s.take(b, rec, q)
		}
	}
	if s.enforce {
		return s.decisions.err
	}
	s.flights.detach(b)
	return nil
}

// take takes one row.
func (s *side) take(b *journal.Batch, rec *journal.Record, q *request) {
	s.rows++
	if s.first == noInstant {
		s.first = rec.AtNanos
	}
	s.last = max(s.last, rec.AtNanos)
	if rec.AtNanos >= s.tickAt {
		s.tick(rec.AtNanos)
	}
	if q.odd {
		q.rows++
		if q.learning != nil {
			s.requests.follow(q, rec)
		}
	}
	if s.enforce {
		s.arrive(b, rec, q)
		return
	}
	s.record(b, rec, q)
}
