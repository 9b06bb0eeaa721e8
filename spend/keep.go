package spend

import (
	"time"

	"github.com/tapyr/tapyr/spend/book"
)

// counter is that of the account (with an empty name) or of a capability in the window that starts at start.
func (s *step) counter(capability string, start time.Time) (*book.Counter, error) {
	record, err := s.tx.Get(book.CounterKey(s.m.policy, capability, start))
	if err != nil {
		return nil, err
	}
	if record == nil {
		return &book.Counter{Policy: s.m.policy, Capability: capability, Start: start}, nil
	}
	return record.(*book.Counter), nil
}

func (s *step) used(capability string, start time.Time) (book.Units, error) {
	c, err := s.counter(capability, start)
	if err != nil {
		return book.Units{}, err
	}
	return c.Used, nil
}

// keep stores an event, and everything that is counted follows from the difference to what it was before (nil for a new one):
// there is no other place that changes a counter, a tally or the number of deferred events.
func (s *step) keep(before, after *book.Event) error {
	if err := s.tx.Put(after); err != nil {
		return err
	}
	if err := s.count(before, after); err != nil {
		return err
	}
	if err := s.tally(before, -1); err != nil {
		return err
	}
	if err := s.tally(after, 1); err != nil {
		return err
	}
	s.countDeferred(before, -1)
	s.countDeferred(after, 1)
	if next := s.status.NextDeadline; after.Due() && (next.IsZero() || after.Deadline.Before(next)) {
		s.edit().NextDeadline = after.Deadline
	}
	if before.Charged() && before.WindowStart.Equal(s.policy.WindowAt(s.now).Start) && after.Units().Cmp(before.Units()) < 0 {
		s.freed = true
	}
	return nil
}

// count moves the units of an event from what it was to what it is.
func (s *step) count(before, after *book.Event) error {
	if before.Charged() && after.Charged() && !before.WindowStart.Equal(after.WindowStart) {
		if err := s.charge(before, nil); err != nil {
			return err
		}
		return s.charge(nil, after)
	}
	return s.charge(before, after)
}

// charge changes the counters of one window.
func (s *step) charge(before, after *book.Event) error {
	e := after
	if !after.Charged() {
		e = before
	}
	if !e.Charged() {
		return nil
	}
	for _, capability := range [...]string{"", e.Capability} {
		old, err := s.counter(capability, e.WindowStart)
		if err != nil {
			return err
		}
		c := old.Clone()
		if c.End.IsZero() && !c.Start.IsZero() {
			c.End = s.policy.WindowAt(c.Start).End
		}
		if after.Charged() {
			c.Used = c.Used.Add(after.Units())
		}
		if before.Charged() {
			c.Used = c.Used.Sub(before.Units())
		}
		if isSettled(after) {
			c.Settled = c.Settled.Add(after.Actual)
		}
		if isSettled(before) {
			c.Settled = c.Settled.Sub(before.Actual)
		}
		if capability == "" {
			s.crossBands(c)
		}
		if err := s.tx.Put(c); err != nil {
			return err
		}
	}
	return nil
}

func isSettled(e *book.Event) bool { return e != nil && e.State == book.Settled }

// crossBands notes the bands that the account has reached and that were not reported in this window.
func (s *step) crossBands(c *book.Counter) {
	for _, b := range s.policy.bands {
		if c.Used.Sign() <= 0 || c.Used.Cmp(b.threshold) < 0 {
			return
		}
		known := false
		for _, old := range c.Crossed {
			known = known || old.Band == b.text
		}
		if !known {
			crossing := book.Crossing{Band: b.text, At: s.now}
			c.Crossed = append(c.Crossed, crossing)
			s.crossed = append(s.crossed, crossing)
		}
	}
}

// tally adds an event to the numbers of its day, or takes it out.
func (s *step) tally(e *book.Event, sign int64) error {
	if e == nil {
		return nil
	}
	t := tallyOf(e)
	record, err := s.tx.Get(t.Key())
	if err != nil {
		return err
	}
	if record != nil {
		t = record.(*book.Tally).Clone()
	}
	add := book.Units.Add
	if sign < 0 {
		add = book.Units.Sub
	}
	t.Events += sign
	if e.State.Holds() {
		t.Reserved = add(t.Reserved, e.Reserved)
	}
	if isSettled(e) {
		t.Settled = add(t.Settled, e.Actual)
	}
	return s.tx.Put(t)
}

// tallyOf is the tally that counts an event, at nought.
func tallyOf(e *book.Event) *book.Tally {
	t := &book.Tally{Policy: e.Policy, Day: e.Day, Capability: e.Capability, RouteClass: e.RouteClass, Disposition: e.Disposition}
	if e.Route != "" && e.RouteClass == "" {
		t.RouteClass = e.Route // a route without a class is one of its own
	}
	return t
}

func (s *step) countDeferred(e *book.Event, sign int64) {
	if e == nil || e.State != book.Deferred {
		return
	}
	status := s.edit()
	if status.Deferred == nil {
		status.Deferred = make(map[string]int64)
	}
	status.Deferred[e.Capability] += sign
	if status.Deferred[e.Capability] == 0 {
		delete(status.Deferred, e.Capability)
	}
}
