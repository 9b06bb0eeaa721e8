package spend

import (
	"context"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// known is a stored event; it must be there.
func (s *step) known(id string) (*book.Event, error) {
	e, err := s.event(id)
	if err == nil && e == nil {
		err = &UnknownEventError{id}
	}
	return e, err
}

// Settle replaces an event's reservation by what was really spent, over or under. The same amount again changes nothing,
// another one is a *SettledError. An event that holds no units is a *book.StateError.
func (m *Machine) Settle(ctx context.Context, now time.Time, event string, actual book.Units) (Outcome, error) {
	if actual.Sign() < 0 {
		return Outcome{}, &book.UnitsError{Text: actual.String(), Reason: "is negative"}
	}
	return m.run(ctx, now, func(s *step) (Outcome, error) {
		old, err := s.known(event)
		if err != nil {
			return Outcome{}, err
		}
		if old.State == book.Settled {
			if old.Actual.Cmp(actual) != 0 {
				return Outcome{}, &SettledError{event, old.Actual, actual}
			}
			return s.outcome(old, true)
		}
		e := old.Clone()
		return s.kept(old, e, s.settle(e, actual))
	})
}

// settle charges what was really spent on an event that is being changed.
func (s *step) settle(e *book.Event, actual book.Units) error {
	if err := e.BecomeSettled(s.now, actual); err != nil {
		return err
	}
	e.Outbox, e.InDoubt = false, false
	return s.record(e, kindSettlement,
		chain.Field{Name: "actual_units", Text: actual.String()},
		chain.Field{Name: "reserved_units", Text: e.Reserved.String()},
	)
}

// kept stores an event after its entry was recorded.
func (s *step) kept(old, e *book.Event, err error) (Outcome, error) {
	if err == nil {
		err = s.keep(old, e)
	}
	if err != nil {
		return Outcome{}, err
	}
	return s.outcome(e, false)
}

// Release gives an event's units back to the window that they were taken from, or calls the wait of a deferred event off. The
// reason is recorded. For an event that is over, which a settled one is, it changes nothing.
func (m *Machine) Release(ctx context.Context, now time.Time, event, reason string) (Outcome, error) {
	if err := checkText("reason", reason); err != nil {
		return Outcome{}, err
	}
	return m.run(ctx, now, func(s *step) (Outcome, error) {
		old, err := s.known(event)
		if err != nil {
			return Outcome{}, err
		}
		if old.State.Final() {
			return s.outcome(old, true)
		}
		e := old.Clone()
		return s.kept(old, e, s.release(e, reason))
	})
}

// release gives the units back of an event that is being changed.
func (s *step) release(e *book.Event, reason string) error {
	if err := e.BecomeReleased(s.now); err != nil {
		return err
	}
	e.Outbox, e.InDoubt = false, false
	return s.record(e, kindRelease, appendText([]chain.Field{
		{Name: "reserved_units", Text: e.Reserved.String()},
	}, "reason", reason)...)
}
