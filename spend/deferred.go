package spend

import (
	"time"

	"github.com/tapyr/tapyr/spend/book"
)

// endOfTime is after every deadline and within what a count of nanoseconds can hold.
var endOfTime = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)

// advance lets time pass up to now: first what is due expires, so that no event is offered at its deadline or later; then, if a
// window has opened or an expiry gave units back, what still waits is offered, before anything new can take them. An instant
// before the latest one that the store knows changes nothing.
func (s *step) advance() error {
	if next := s.status.NextDeadline; !next.IsZero() && !s.now.Before(next) {
		if err := s.expire(); err != nil {
			return err
		}
	}
	start := s.policy.WindowAt(s.now).Start
	if start.After(s.status.WindowStart) {
		s.edit().WindowStart = start
		return s.offer(causeWindow)
	}
	if s.freed {
		return s.offer(causeFreed)
	}
	return nil
}

// expire ends the wait of every event whose deadline is reached, the earliest deadline first.
func (s *step) expire() error {
	for old, err := range s.tx.Events(book.Query{Policy: s.m.policy, DueBy: s.now}) {
		if err != nil {
			return err
		}
		e := old.Clone()
		if err := e.BecomeExpired(s.now, e.OnDeadline); err != nil {
			return err
		}
		e.Outbox = false
		if err := s.redecide(old, e, causeDeadline); err != nil {
			return err
		}
	}
	s.edit().NextDeadline = time.Time{}
	for e, err := range s.tx.Events(book.Query{Policy: s.m.policy, DueBy: endOfTime}) {
		if err != nil {
			return err
		}
		s.edit().NextDeadline = e.Deadline
		break
	}
	return nil
}

// redecide records that another decision holds for a stored event, and keeps it.
func (s *step) redecide(old, e *book.Event, cause string) error {
	var q quote
	if c := s.policy.capabilities[e.Capability]; c != nil {
		var err error
		if q, err = s.quote(c); err != nil {
			return err
		}
	}
	return s.keepDecision(old, e, cause, q)
}

func (s *step) keepDecision(old, e *book.Event, cause string, q quote) error {
	if err := s.decide(e, kindDecision, cause, q); err != nil {
		return err
	}
	if err := s.keep(old, e); err != nil {
		return err
	}
	d, err := decisionOf(s.tx, e)
	s.others = append(s.others, d)
	return err
}

// offer gives deferred events another chance: capability by capability, in each the oldest first, up to the first that does not
// fit. An event of a capability that the policy no longer has waits for its deadline.
func (s *step) offer(cause string) error {
	s.freed = false
	for _, c := range s.policy.offered {
		if s.status.Deferred[c.name] == 0 {
			continue
		}
		if err := s.offerOne(c, cause); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) offerOne(c *capability, cause string) error {
	waiting := book.Query{Policy: s.m.policy, Capability: c.name, States: []book.State{book.Deferred}}
	for old, err := range s.tx.Events(waiting) {
		if err != nil {
			return err
		}
		q, err := s.quote(c)
		if err != nil {
			return err
		}
		r := q.first(c.routes)
		if r == nil {
			return nil
		}
		if old.Due() && !s.now.Before(old.Deadline) {
			continue // it expires at the next instant; a clock that went back must not save it
		}
		e := old.Clone()
		if err := s.reserve(e, r); err != nil {
			return err
		}
		if err := s.keepDecision(old, e, cause, q); err != nil {
			return err
		}
	}
	return nil
}
