package replay

import (
	"math"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/validate"
)

// side is one replay in progress.
type side struct {
	config  *validate.Config
	options *Options
	enforce bool
	engine  *engine.Engine
	library *learn.Library
	// until is the last instant that has happened; noInstant is no bound.
	until int64

	requests  requests
	names     fieldNames
	jobs      jobTallies
	flights   flights    // as recorded
	virtual   *virtual   // with enforcement
	decisions *decisions // with enforcement
	hour      hourly
	curves    *curves
	unknown   unknownTally
	findings  findings
	windows   windowList
	explained *Explanation

	rows, afterAt, unresolved int64
	// first and last are instants of rows, settled the latest one of a response.
	first, last, settled int64
	// tickAt is the next instant at which tick has something to do.
	tickAt int64
}

func newSide(o *Options) *side {
	s := &side{config: o.Config, options: o, enforce: o.Enforce, until: noInstant, first: noInstant, last: noInstant, settled: noInstant}
	if !o.At.IsZero() {
		s.until = o.At.UnixNano()
	}
	s.engine = engine.New(o.Config, engine.Options{Observer: &s.findings, OnWindow: s.windows.add, KeepKeys: true})
	s.library = learn.New(o.Config, learn.Options{Forever: true}) // rows confirm nothing
	s.names = newFieldNames(o.Config)
	s.requests.side, s.requests.config = s, o.Config
	s.flights.side, s.findings.side, s.hour.side = s, s, s
	s.jobs.config = o.Config
	s.tickAt = math.MaxInt64
	if o.Forecast || o.Backtest {
		s.hour.byScope = make(map[scopeID]*hourSeries)
		s.tickAt = noInstant + 1
	}
	if o.CurvePoints > 0 {
		s.curves = newCurves(s.engine, o.CurvePoints)
		s.tickAt = noInstant + 1
	}
	if o.Enforce {
		s.virtual = newVirtual(s)
		s.decisions = newDecisions(o.Decide)
	}
	return s
}

// tick does what is due between rows: consumption by the hour, and the points of curves. Everything before now has happened then.
func (s *side) tick(now int64) {
	next := int64(math.MaxInt64)
	if s.hour.byScope != nil {
		next = s.hour.turn(now)
	}
	if s.curves != nil {
		for at := s.curves.next(now); at <= now; at = s.curves.next(now) {
			s.settleBefore(at)
			s.curves.sample(at)
		}
		next = min(next, s.curves.at)
	}
	s.tickAt = next
}

// settleBefore lets everything happen that comes before an instant.
func (s *side) settleBefore(now int64) {
	if s.enforce {
		s.virtual.runTo(now - 1)
		return
	}
	s.flights.settleTo(now - 1)
}

// at is the present of the report.
func (s *side) at() int64 {
	if s.until != noInstant {
		return s.until
	}
	return max(s.settled, s.last, 0)
}

// finish lets happen what is still due, and closes the books at the present.
func (s *side) finish() error {
	if s.enforce {
		s.virtual.finish()
		if err := s.decisions.finish(); err != nil {
			return err
		}
	} else {
		until := s.until
		if until == noInstant {
			until = math.MaxInt64
		}
		s.flights.settleTo(until)
	}
	s.requests.begin()
	for _, q := range s.requests.list {
		s.tally(q)
	}
	s.hour.write()
	if s.curves != nil {
		s.curves.finish(s.at())
	}
	s.engine.Windows(s.at(), s.windows.addOpen)
	s.jobs.finish()
	return nil
}

// tally counts the rows of a request, once all are known: those whose names no document has.
func (s *side) tally(q *request) {
	if q == nil {
		return
	}
	if q.unknown != nil {
		s.unknown.add(q.unknown, q.rows)
	}
	if q.prepared == nil {
		s.unresolved += q.rows
	}
}

func instantOf(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }
