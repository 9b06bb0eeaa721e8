package report

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// Rehearsal is what a policy made of recorded events on a store of its own.
type Rehearsal struct {
	// Events were admitted, Repeated of the lines were repetitions, Refused asked for something that cannot be decided.
	Events   int64 `json:"events"`
	Repeated int64 `json:"repeated"`
	Refused  int64 `json:"refused"`
	// Unknown counts the events of capabilities that the policy does not have, by name.
	Unknown map[string]int64 `json:"unknown"`
	// Mix is by capability and what was decided in the end: the route's class, or the disposition.
	Mix []Share `json:"mix"`
	// Wait is the essential event that waited longest; null where none had to.
	Wait *Waited `json:"oldestEssential"`
	// Exhausted are capabilities that came to their own limit while the account had headroom, once for each window.
	Exhausted []Exhausted `json:"exhausted"`
	// Crossed are the bands of the account's limit, in the order of time.
	Crossed []book.Crossing `json:"crossed"`
	// Report is where the policy stands at the end, with the spend by capability and day.
	Report *Report `json:"report"`
}

// Share is a part of a capability's events.
type Share struct {
	Capability string `json:"capability"`
	// RouteClass is that of the route (its name where it has none), or defer, minimal or reject.
	RouteClass string     `json:"routeClass"`
	Events     int64      `json:"events"`
	Units      book.Units `json:"units"`
	// Part is the share of the capability's events, 0 to 1.
	Part float64 `json:"part"`
}

// Waited is how long an event was deferred.
type Waited struct {
	EventID     string  `json:"eventId"`
	Capability  string  `json:"capability"`
	WaitSeconds float64 `json:"waitSeconds"`
	// Ended is what came of it; defer where it still waits at the end.
	Ended book.Disposition `json:"ended"`
}

// Exhausted is a capability at its limit in a window.
type Exhausted struct {
	Capability string     `json:"capability"`
	At         time.Time  `json:"at"`
	EventID    string     `json:"eventId"`
	Used       book.Units `json:"used"`
	Limit      book.Units `json:"limit"`
	// AccountHeadroom is what the account had left, without what others have protected.
	AccountHeadroom book.Units `json:"accountHeadroom"`
}

// DryRun admits recorded events, in the order of their times, by the machine that decides in earnest, on a store that is thrown
// away. Time passes between them: windows open and deadlines are met when they are due.
func DryRun(ctx context.Context, p *spend.Policy, events []Event) (_ *Rehearsal, err error) {
	r := &rehearsal{
		policy: p, seen: make(map[exhaustedKey]bool),
		result: &Rehearsal{Unknown: map[string]int64{}, Mix: []Share{}, Exhausted: []Exhausted{}, Crossed: []book.Crossing{}},
	}
	events = byTime(events)
	now := time.Unix(0, 0).UTC()
	if len(events) > 0 {
		now = events[0].At
	}
	if r.machine, r.store, err = spend.Rehearse(ctx, now, p); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	for i := range events {
		if err := r.admit(ctx, &events[i], now); err != nil {
			return nil, err
		}
		now = events[i].At
	}
	if err := r.finish(ctx, now); err != nil {
		return nil, err
	}
	r.result.Report, err = Make(ctx, r.store, p.Name, now)
	return r.result, err
}

type rehearsal struct {
	policy  *spend.Policy
	machine *spend.Machine
	store   book.Store
	result  *Rehearsal
	seen    map[exhaustedKey]bool
}

type exhaustedKey struct {
	capability string
	start      time.Time
}

func (r *rehearsal) admit(ctx context.Context, e *Event, before time.Time) error {
	if err := r.pass(ctx, before, e.At); err != nil {
		return err
	}
	out, err := r.machine.Admit(ctx, e.At, e.Admission)
	var unknown *spend.UnknownCapabilityError
	var input *spend.InputError
	switch {
	case errors.As(err, &unknown):
		r.result.Refused++
		r.result.Unknown[unknown.Capability]++
		return nil
	case errors.As(err, &input):
		r.result.Refused++
		return nil
	case err != nil:
		return err
	case out.Repeated:
		r.result.Repeated++
	default:
		r.result.Events++
	}
	r.result.Crossed = append(r.result.Crossed, out.Crossed...)
	if out.Disposition != book.Dispatch && !out.Repeated {
		return r.noteExhausted(ctx, e)
	}
	return nil
}

// pass lets time pass at the instants at which something happens by itself: deadlines and openings of windows.
func (r *rehearsal) pass(ctx context.Context, from, to time.Time) error {
	for {
		next, err := r.nextInstant(ctx, from)
		if err != nil || next.IsZero() || next.After(to) {
			return err
		}
		out, err := r.machine.Tick(ctx, next)
		if err != nil {
			return err
		}
		r.result.Crossed = append(r.result.Crossed, out.Crossed...)
		from = next
	}
}

// nextInstant is when something happens next, zero where nothing waits.
func (r *rehearsal) nextInstant(ctx context.Context, now time.Time) (next time.Time, err error) {
	err = r.store.View(ctx, func(tx book.Tx) error {
		_, status, err := r.machine.Active(tx)
		if err != nil {
			return err
		}
		if len(status.Deferred) > 0 {
			next = r.policy.WindowAt(now).End
		}
		if d := status.NextDeadline; !d.IsZero() && (next.IsZero() || d.Before(next)) {
			next = d
		}
		return nil
	})
	return next, err
}

// noteExhausted looks at why no route fitted.
func (r *rehearsal) noteExhausted(ctx context.Context, e *Event) error {
	x, err := r.machine.Explain(ctx, e.EventID)
	if err != nil {
		return err
	}
	headroom := x.AccountLimit.Sub(x.AccountUnits).Sub(x.ProtectedUnits)
	for _, a := range x.Alternatives {
		if a.Obstacle != "capability" {
			return nil
		}
	}
	key := exhaustedKey{e.Capability, r.policy.WindowAt(e.At).Start}
	if r.seen[key] {
		return nil
	}
	r.seen[key] = true
	r.result.Exhausted = append(r.result.Exhausted, Exhausted{
		Capability: e.Capability, At: e.At, EventID: e.EventID,
		Used: x.CapabilityUnits, Limit: x.CapabilityLimit, AccountHeadroom: headroom,
	})
	return nil
}

// finish adds up what came of the events.
func (r *rehearsal) finish(ctx context.Context, now time.Time) error {
	shares := make(map[[2]string]*Share)
	totals := make(map[string]int64)
	err := r.store.View(ctx, func(tx book.Tx) error {
		for e, err := range tx.Events(book.Query{Policy: r.policy.Name}) {
			if err != nil {
				return err
			}
			class := string(e.Disposition)
			if e.Disposition == book.Dispatch {
				class = cmp.Or(e.RouteClass, e.Route)
			}
			key := [2]string{e.Capability, class}
			if shares[key] == nil {
				shares[key] = &Share{Capability: e.Capability, RouteClass: class}
			}
			shares[key].Events++
			shares[key].Units = shares[key].Units.Add(e.Units())
			totals[e.Capability]++
			r.noteWait(e, now)
		}
		return nil
	})
	for _, s := range shares {
		s.Part = float64(s.Events) / float64(totals[s.Capability])
		r.result.Mix = append(r.result.Mix, *s)
	}
	slices.SortFunc(r.result.Mix, func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.RouteClass, b.RouteClass))
	})
	return err
}

// noteWait keeps the essential event that waited longest.
func (r *rehearsal) noteWait(e *book.Event, now time.Time) {
	waits := e.State == book.Deferred
	if !r.policy.Terms(e.Capability).Essential || !waits && e.DecisionSeq == e.AdmissionSeq {
		return
	}
	end := e.DecidedAt
	if waits {
		end = now
	}
	if wait := end.Sub(e.AdmittedAt).Seconds(); r.result.Wait == nil || wait > r.result.Wait.WaitSeconds {
		r.result.Wait = &Waited{e.ID, e.Capability, wait, e.Disposition}
	}
}

// Change is how a share differs between two rehearsals of the same events.
type Change struct {
	Capability string  `json:"capability"`
	RouteClass string  `json:"routeClass"`
	OldEvents  int64   `json:"oldEvents"`
	NewEvents  int64   `json:"newEvents"`
	OldPart    float64 `json:"oldPart"`
	NewPart    float64 `json:"newPart"`
	// Units is the new amount less the old one.
	Units book.Units `json:"units"`
}

// Compare sets the mixes of two policies side by side, the largest change of a share first.
func Compare(before, after *Rehearsal) []Change {
	changes := make(map[[2]string]*Change)
	at := func(s Share) *Change {
		key := [2]string{s.Capability, s.RouteClass}
		if changes[key] == nil {
			changes[key] = &Change{Capability: s.Capability, RouteClass: s.RouteClass}
		}
		return changes[key]
	}
	for _, s := range before.Mix {
		c := at(s)
		c.OldEvents, c.OldPart, c.Units = s.Events, s.Part, c.Units.Sub(s.Units)
	}
	for _, s := range after.Mix {
		c := at(s)
		c.NewEvents, c.NewPart, c.Units = s.Events, s.Part, c.Units.Add(s.Units)
	}
	list := make([]Change, 0, len(changes))
	for _, c := range changes {
		list = append(list, *c)
	}
	size := func(c Change) float64 { return max(c.NewPart-c.OldPart, c.OldPart-c.NewPart) }
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Capability, b.Capability), cmp.Compare(a.RouteClass, b.RouteClass))
	})
	return list
}
