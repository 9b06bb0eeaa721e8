package book

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is where an event stands. Only the Become… methods of Event change one.
type State string

// The states.
//
//	(new) ─ accepted ─┬─ reserved ─── dispatched ─┬─ settled
//	                  │    │ ▲            │       │
//	                  │    ▼ │            ▼       ▼
//	                  ├─ deferred ──── expired  released
//	                  └─ rejected
const (
	// Accepted: the event is stored and holds no units. In: every event starts here, within its admission. Out: Reserved,
	// Deferred, Rejected, still within the admission. An event that stays was given the minimal result, for good.
	Accepted State = "accepted"
	// Reserved: a route's units are held. In: Accepted, Deferred when it is offered again, Dispatched or Reserved when the next
	// route is taken. Out: Dispatched, Settled, Released, Expired.
	Reserved State = "reserved"
	// Dispatched: a delivery was attempted; the units are held. In: Reserved at the first attempt. Out: Reserved (the next
	// route), Settled, Released, Expired.
	Dispatched State = "dispatched"
	// Settled: the units really spent are charged. In: Reserved, Dispatched. Out: nothing.
	Settled State = "settled"
	// Released: the units were given back, or the wait was called off. In: Reserved, Dispatched, Deferred. Out: nothing.
	Released State = "released"
	// Deferred: no route fitted; the event waits without units and is offered again. In: Accepted. Out: Reserved, Expired,
	// Released.
	Deferred State = "deferred"
	// Expired: the deadline came first; the disposition says what the event got instead, and no units are held. In: Deferred,
	// and Reserved and Dispatched where the event waited for a route that is down. Out: nothing.
	Expired State = "expired"
	// Rejected: no route fitted and the event was refused. In: Accepted. Out: nothing.
	Rejected State = "rejected"
)

// Holds tells that an event in this state has units reserved.
func (s State) Holds() bool { return s == Reserved || s == Dispatched }

// Final tells that nothing changes an event in this state. Accepted is final once the admission is over.
func (s State) Final() bool { return !s.Holds() && s != Deferred }

// Disposition is what a decision tells the caller to do.
type Disposition string

// The dispositions.
const (
	// Dispatch: send the event by the decision's route.
	Dispatch Disposition = "dispatch"
	// Defer: the event waits; it will be offered again.
	Defer Disposition = "defer"
	// Minimal: go on with the result that costs nothing.
	Minimal Disposition = "minimal"
	// Reject: refuse the event.
	Reject Disposition = "reject"
)

// StateError is a step that an event's state does not allow.
type StateError struct {
	// Event is the event's id.
	Event string
	// State is the state that it is in, and Wanted the one that it cannot come to.
	State  State
	Wanted State
	// From are the states from which it could.
	From []State
}

// Error names both states and those from which the step is possible.
func (e *StateError) Error() string {
	from := make([]string, len(e.From))
	for i, s := range e.From {
		from[i] = string(s)
	}
	return fmt.Sprintf("event %q is %s and cannot become %s; only events that are %s can",
		e.Event, e.State, e.Wanted, strings.Join(from, " or "))
}

// become changes the state, or returns a *StateError and leaves the event as it is.
func (e *Event) become(to State, now time.Time, from ...State) error {
	if !slices.Contains(from, e.State) {
		return &StateError{Event: e.ID, State: e.State, Wanted: to, From: from}
	}
	e.State, e.UpdatedAt = to, now
	e.Waiting = false
	return nil
}

// BecomeAccepted starts an event. It has the minimal result until it becomes something else.
func (e *Event) BecomeAccepted(now time.Time) error {
	if err := e.become(Accepted, now, ""); err != nil {
		return err
	}
	e.Disposition, e.AdmittedAt = Minimal, now
	return nil
}

// BecomeReserved holds a route's units for the event, in the window that starts at start.
func (e *Event) BecomeReserved(now time.Time, route, class string, cost Units, start time.Time) error {
	if err := e.become(Reserved, now, Accepted, Deferred, Reserved, Dispatched); err != nil {
		return err
	}
	e.Disposition, e.Route, e.RouteClass, e.Reserved, e.WindowStart = Dispatch, route, class, cost, start
	return nil
}

// BecomeDispatched records that a delivery was attempted.
func (e *Event) BecomeDispatched(now time.Time) error {
	return e.become(Dispatched, now, Reserved, Dispatched)
}

// BecomeSettled replaces the reservation by what was really spent.
func (e *Event) BecomeSettled(now time.Time, actual Units) error {
	if err := e.become(Settled, now, Reserved, Dispatched); err != nil {
		return err
	}
	e.Actual = actual
	return nil
}

// BecomeReleased gives the units back.
func (e *Event) BecomeReleased(now time.Time) error {
	return e.become(Released, now, Reserved, Dispatched, Deferred)
}

// BecomeDeferred lets the event wait for units.
func (e *Event) BecomeDeferred(now time.Time) error {
	if err := e.become(Deferred, now, Accepted); err != nil {
		return err
	}
	e.Disposition = Defer
	return nil
}

// BecomeExpired ends the wait with what the capability says for its deadline: Minimal or Reject.
func (e *Event) BecomeExpired(now time.Time, instead Disposition) error {
	if err := e.become(Expired, now, Deferred, Reserved, Dispatched); err != nil {
		return err
	}
	e.Disposition, e.Route, e.RouteClass, e.Reserved = instead, "", "", Units{}
	return nil
}

// BecomeRejected refuses the event.
func (e *Event) BecomeRejected(now time.Time) error {
	if err := e.become(Rejected, now, Accepted); err != nil {
		return err
	}
	e.Disposition = Reject
	return nil
}
