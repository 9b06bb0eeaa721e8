package spend

import (
	"context"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// ResultUnavailable is the result of an attempt whose route is down. What follows is the capability's onUnavailable.
const ResultUnavailable = "unavailable"

// Delivery is an attempt to deliver an event.
type Delivery struct {
	// Number counts the attempts of an event from 1. 0 is the one that follows the last.
	Number int64
	// Result is the category of the outcome: lower-case letters, digits and dashes, at most 40, such as ok, timeout or
	// server-error. ResultUnavailable means something to the machine, all others are only recorded.
	Result string
	// Response is what came back, or where it is kept. It is not part of the chain and is dropped at its own horizon.
	Response string
}

// maxResponseBytes bounds Delivery.Response.
const maxResponseBytes = 4 << 10

func (d Delivery) check() error {
	const want = "lower-case letters, digits and dashes, at most 40, beginning with a letter, such as timeout"
	if d.Result == "" || len(d.Result) > 40 || d.Result[0] < 'a' || d.Result[0] > 'z' {
		return &InputError{"result", d.Result, want}
	}
	for _, c := range d.Result {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return &InputError{"result", d.Result, want}
		}
	}
	if d.Number < 0 {
		return &InputError{"attempt", strconv.FormatInt(d.Number, 10), "a number from 1, or 0 for the next"}
	}
	if len(d.Response) > maxResponseBytes {
		return &InputError{"response", d.Response[:64] + "...", "at most 4096 bytes; keep the rest elsewhere and give a reference"}
	}
	return nil
}

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
		if err := e.BecomeSettled(s.now, actual); err != nil {
			return Outcome{}, err
		}
		e.Outbox = false
		err = s.record(e, kindSettlement,
			chain.Field{Name: "actual_units", Text: actual.String()},
			chain.Field{Name: "reserved_units", Text: e.Reserved.String()},
		)
		return s.kept(old, e, err)
	})
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
		if err := e.BecomeReleased(s.now); err != nil {
			return Outcome{}, err
		}
		e.Outbox = false
		err = s.record(e, kindRelease, appendText([]chain.Field{
			{Name: "reserved_units", Text: e.Reserved.String()},
		}, "reason", reason)...)
		return s.kept(old, e, err)
	})
}

// Attempt records a delivery attempt. It never charges: all attempts of an event share its reservation. An attempt that was
// recorded before changes nothing.
//
// Where the route is down (ResultUnavailable), an event of a capability with onUnavailable: next takes the next route that fits:
// its units are given back and those of that route are reserved instead. If none fits, or with onUnavailable: wait, it keeps
// its reservation and waits for its route, until its deadline; the next attempt with another result ends the wait.
func (m *Machine) Attempt(ctx context.Context, now time.Time, event string, d Delivery) (Outcome, error) {
	if err := d.check(); err != nil {
		return Outcome{}, err
	}
	return m.run(ctx, now, func(s *step) (Outcome, error) {
		old, err := s.known(event)
		if err != nil {
			return Outcome{}, err
		}
		if d.Number != 0 && d.Number <= old.Attempts {
			return s.outcome(old, true)
		}
		e := old.Clone()
		if err := e.BecomeDispatched(s.now); err != nil {
			return Outcome{}, err
		}
		if e.Attempts++; d.Number != 0 {
			e.Attempts = d.Number
		}
		e.Result = d.Result
		if d.Response != "" {
			e.Response, e.ResponseAt = d.Response, s.now
		}
		e.Waiting = d.Result == ResultUnavailable
		if err := s.record(e, kindAttempt, chain.Int("attempt", e.Attempts), chain.Field{Name: "result", Text: d.Result},
			chain.Field{Name: "route", Text: e.Route}); err != nil {
			return Outcome{}, err
		}
		if e.Waiting {
			took, err := s.takeNext(old, e)
			if err != nil {
				return Outcome{}, err
			}
			if took {
				return s.outcome(e, false)
			}
		}
		return s.kept(old, e, nil)
	})
}

// takeNext moves an event whose route is down to the next one that fits, where the capability says so. old is what is stored, e
// the copy that is being changed.
func (s *step) takeNext(old, e *book.Event) (took bool, err error) {
	c := s.policy.capabilities[e.Capability]
	if c == nil || !c.takesNext {
		return false, nil
	}
	q, err := s.quote(c)
	if err != nil {
		return false, err
	}
	if q.start.Equal(e.WindowStart) { // its own units are free for the next route
		q.accountUsed, q.ownUsed = q.accountUsed.Sub(e.Reserved), q.ownUsed.Sub(e.Reserved)
	}
	r := q.first(routesAfter(c.routes, e.Route))
	if r == nil {
		return false, nil
	}
	if err := s.reserve(e, r); err != nil {
		return false, err
	}
	if err := s.decide(e, kindDecision, causeUnavailable, q); err != nil {
		return false, err
	}
	return true, s.keep(old, e)
}

// routesAfter are the routes behind the one of this name; all of them where the policy no longer has it.
func routesAfter(routes []route, name string) []route {
	for i := range routes {
		if routes[i].name == name {
			return routes[i+1:]
		}
	}
	return routes
}
