package spend

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/schema"
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
	// server-error. ResultUnavailable, that nothing was sent, means something to the machine, all others are only recorded.
	Result string
	// Response is what came back, or where it is kept. It is not part of the chain and is dropped at its own horizon.
	Response string

	// The rest is said by who sends events of the outbox, after Send.

	// Route is the one by which the event was sent. Where the event has another one by now, nothing is recorded.
	Route string
	// Down tells that the route is down, as ResultUnavailable does.
	Down bool
	// InDoubt tells that the vendor may charge for this attempt, or for one before it. Such an event takes no other route, does not
	// expire, and keeps its units.
	InDoubt bool
	// Actual, if not nil, settles the event in the same step; Reason, if not empty, releases it.
	Actual *book.Units
	Reason string
	// GiveUp takes the event out of the outbox, though it is not over: somebody else settles or releases it.
	GiveUp bool
}

// maxResponseBytes bounds Delivery.Response.
const maxResponseBytes = 4 << 10

func (d *Delivery) check() error {
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
	if d.Actual != nil && d.Actual.Sign() < 0 {
		return &book.UnitsError{Text: d.Actual.String(), Reason: "is negative"}
	}
	return checkText("reason", d.Reason)
}

// Attempt records a delivery attempt. It never charges: all attempts of an event share its reservation. An attempt that was
// recorded before changes nothing.
//
// Where the route is down, an event of a capability with onUnavailable: next takes the next route that fits: its units are given
// back and those of that route are reserved instead. If none fits, or with onUnavailable: wait, it keeps its reservation and
// waits for its route, until its deadline; the next attempt with another result ends the wait. An event that is in doubt does
// neither.
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
		if d.Route != "" && d.Route != old.Route {
			return Outcome{}, &InputError{"route", d.Route, "the event's, which is " + strconv.Quote(old.Route)}
		}
		e := old.Clone()
		if err := s.attempt(e, &d); err != nil {
			return Outcome{}, err
		}
		switch {
		case d.Actual != nil:
			return s.kept(old, e, s.settle(e, *d.Actual))
		case d.Reason != "":
			return s.kept(old, e, s.release(e, d.Reason))
		case e.Waiting:
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

// attempt puts what came of an attempt into an event that is being changed.
func (s *step) attempt(e *book.Event, d *Delivery) error {
	if err := e.BecomeDispatched(s.now); err != nil {
		return err
	}
	if e.Attempts++; d.Number != 0 {
		e.Attempts = d.Number
	}
	e.Result = d.Result
	if d.Response != "" {
		e.Response, e.ResponseAt = d.Response, s.now
	}
	givesUp := false
	if d.Route != "" { // else somebody tells of an attempt who does not know of ours
		givesUp = e.Outbox && d.GiveUp
		e.Outbox = e.Outbox && !d.GiveUp
		if d.Result != ResultUnavailable { // else nothing was sent, and what was not known stays so
			e.InDoubt = d.InDoubt
		}
	}
	e.Waiting = (d.Down || d.Result == ResultUnavailable) && !e.InDoubt
	fields := []chain.Field{
		chain.Int("attempt", e.Attempts), {Name: "result", Text: d.Result}, {Name: "route", Text: e.Route},
	}
	for name, told := range map[string]bool{"in_doubt": e.InDoubt, "waiting": e.Waiting, "given_up": givesUp} {
		if told {
			fields = append(fields, chain.Field{Name: name, Literal: "true"}) // in any order: the entry sorts them
		}
	}
	return s.record(e, kindAttempt, fields...)
}

// Send is to be called before a request leaves for an event of the outbox, by this route. It notes that from now on nobody knows
// whether the vendor charges, so that a crash leaves no event behind that is sent by another route or released although it was
// paid for; Attempt tells what came of it. The event is returned as it was before: in doubt, where an earlier request was not
// answered. It is nil where it is no longer to be sent so: somebody has settled or released it, it has expired, or it has another
// route.
func (m *Machine) Send(ctx context.Context, now time.Time, event, route string) (*book.Event, error) {
	var before *book.Event
	_, err := m.run(ctx, now, func(s *step) (Outcome, error) {
		before = nil
		old, err := s.known(event)
		if err != nil || !old.Outbox || !old.State.Holds() || old.Route != route {
			return Outcome{}, err
		}
		before = old
		if old.InDoubt && !old.Waiting {
			return Outcome{}, nil
		}
		e := old.Clone()
		e.InDoubt, e.Waiting = true, false
		return Outcome{}, s.keep(old, e)
	})
	if err != nil {
		return nil, err
	}
	return before, nil
}

// Outbox visits the events that tapyr itself has to deliver and that hold units, the oldest first, with the route that RouteOf
// would give (an empty one where it fails), until visit returns false. An event that is visited must not be changed.
func (m *Machine) Outbox(ctx context.Context, visit func(*book.Event, schema.SpendRoute) (more bool)) error {
	return m.store.View(ctx, func(tx book.Tx) error {
		for e, err := range tx.Events(book.Query{Policy: m.policy, Outbox: true}) {
			if err != nil {
				return err
			}
			if !e.State.Holds() {
				continue
			}
			route, err := m.routeOf(tx, e)
			var unknown *PolicyError
			if err != nil && !errors.As(err, &unknown) {
				return err
			}
			if !visit(e, route) {
				return nil
			}
		}
		return nil
	})
}

// Next is the first instant after now at which time alone changes something, so that Tick must be called: a deadline, or the
// opening of a window that events wait for. ok is false where nothing waits.
func (m *Machine) Next(ctx context.Context, now time.Time) (next time.Time, ok bool, err error) {
	err = m.store.View(ctx, func(tx book.Tx) error {
		p, status, err := m.Active(tx)
		if err != nil {
			return err
		}
		next = status.NextDeadline
		if w := p.WindowAt(now); len(status.Deferred) > 0 && !w.End.IsZero() && (next.IsZero() || w.End.Before(next)) {
			next = w.End
			if w.Start.After(status.WindowStart) {
				next = w.Start
			}
		}
		return nil
	})
	return next, !next.IsZero(), err
}

// RouteOf is the route of an event as the version of the policy declares it that made the decision. The error is a *PolicyError
// where there is none, or of the store.
func (m *Machine) RouteOf(ctx context.Context, e *book.Event) (route schema.SpendRoute, err error) {
	err = m.store.View(ctx, func(tx book.Tx) (err error) {
		route, err = m.routeOf(tx, e)
		return err
	})
	return route, err
}

func (m *Machine) routeOf(tx book.Tx, e *book.Event) (schema.SpendRoute, error) {
	p, err := m.version(tx, e.Version)
	if err != nil {
		return schema.SpendRoute{}, err
	}
	route, ok := p.Spec.Routes[e.Route]
	if !ok {
		return route, p.errorf("route %q is not declared", e.Route)
	}
	return route, nil
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
