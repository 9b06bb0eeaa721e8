package spend

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/spend/audit"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// recorded is what an entry of any kind says.
type recorded struct {
	Seq            int64            `json:"seq"`
	Kind           string           `json:"kind"`
	Policy         string           `json:"policy"`
	At             time.Time        `json:"at"`
	EventID        string           `json:"event_id"`
	EventPrevious  int64            `json:"event_previous"`
	Capability     string           `json:"capability"`
	State          book.State       `json:"state"`
	Disposition    book.Disposition `json:"disposition"`
	Route          string           `json:"route"`
	RouteClass     string           `json:"route_class"`
	PolicyVersion  string           `json:"policy_version"`
	Cause          string           `json:"cause"`
	Class          string           `json:"class"`
	Size           int64            `json:"size"`
	ContentHash    string           `json:"content_hash"`
	AccountUnits   book.Units       `json:"account_units"`
	OwnUnits       book.Units       `json:"capability_units"`
	ProtectedUnits book.Units       `json:"protected_units"`
	ReservedUnits  book.Units       `json:"reserved_units"`
	ActualUnits    book.Units       `json:"actual_units"`
	WindowStart    time.Time        `json:"window_start"`
	Attempt        int64            `json:"attempt"`
	Result         string           `json:"result"`
	InDoubt        bool             `json:"in_doubt"`
	Waiting        bool             `json:"waiting"`
	GivenUp        bool             `json:"given_up"`
	PolicyContent  string           `json:"policy_content"`
	PolicyHash     string           `json:"policy_hash"`
	Publication    json.RawMessage  `json:"publication"`
	Count          int64            `json:"count"`
	Counted        prunedCounts     `json:"counted"`
}

// entry derives what follows from one entry.
func (a *auditor) entry(entry chain.Entry) error {
	if entry.Body == nil {
		a.unaccounted++
		return nil
	}
	var r recorded
	if err := json.Unmarshal(entry.Body, &r); err != nil {
		return differs{&audit.Difference{Record: "entry", Name: strconv.FormatInt(entry.Seq, 10), Seq: entry.Seq, Field: "content", Stored: err.Error(), Derived: "an entry of a book"}}
	}
	r.Seq = entry.Seq
	d := a.of(r.Policy)
	s := d.step
	if p := d.pending; p != nil && (r.EventID != p.event.ID || r.Cause != causeUnavailable) {
		if err := d.settlePending(); err != nil {
			return err
		}
	}
	s.now, s.freed = r.At.UTC(), false
	if r.Kind == kindPublication {
		return d.publication(&r)
	}
	if s.policy == nil {
		return r.differs("policy", r.Policy, "not published yet")
	}
	if start := s.policy.WindowAt(s.now).Start; start.After(s.status.WindowStart) {
		s.edit().WindowStart = start
	}
	switch r.Kind {
	case kindAdmission:
		return d.admission(&r, a.unaccounted > 0)
	case kindDecision:
		return d.decision(&r, a.unaccounted > 0)
	case kindAttempt, kindSettlement, kindRelease:
		return d.other(&r)
	case kindNote:
		return nil
	case "prune":
		a.unaccounted -= r.Count
		d.prunings = append(d.prunings, pruning{r.Seq, r.Counted.Events, r.Counted.Left})
		for _, seq := range r.Counted.Events {
			d.isPruned[seq] = true
		}
		return s.countAgain(&r.Counted)
	}
	return r.differs("kind", r.Kind, "one that this version of tapyr writes")
}

// differs is the error of a difference at the entry.
func (r *recorded) differs(field, stored, derived string) error {
	return differs{&audit.Difference{
		Policy: r.Policy, Record: "entry", Name: strconv.FormatInt(r.Seq, 10), Event: r.EventID, Seq: r.Seq,
		Field: field, Stored: stored, Derived: derived,
	}}
}

// same is nil where what was recorded is what follows, pair by pair: name, recorded, derived.
func (r *recorded) same(triples ...string) error {
	for triple := range slices.Chunk(triples, 3) {
		if triple[1] != triple[2] {
			return r.differs(triple[0], triple[1], triple[2])
		}
	}
	return nil
}

// publication puts a version in force, as activate does.
func (d *derivation) publication(r *recorded) error {
	s, old := d.step, d.step.policy
	v := &book.Version{
		Policy: r.Policy, Version: r.PolicyVersion, Content: r.PolicyContent, Hash: r.PolicyHash, Record: string(r.Publication),
		PublishedAt: s.now, Seq: r.Seq,
	}
	p, err := restore(v)
	if err != nil {
		return r.differs("policy_content", err.Error(), "a policy")
	}
	if err := r.same("policy_hash", r.PolicyHash, p.hash); err != nil {
		return err
	}
	s.policy = p
	if s.status == nil {
		s.status, s.changed = &book.Status{Policy: r.Policy}, true
	}
	status := s.edit()
	status.Active, status.ActiveSeq = p.Version, r.Seq
	if err := s.keepVersion(v); err != nil {
		return err
	}
	current := p.WindowAt(s.now)
	if old != nil && !sameWindow(old, p, s.now) {
		if err := s.recount(current); err != nil {
			return err
		}
		for _, record := range d.shadow.list(book.KindEvent) {
			e := record.(*book.Event)
			d.bySeq[e.AdmissionSeq] = e
		}
	}
	status.WindowStart = current.Start
	return nil
}

// keep stores an event and counts it, as the machine does.
func (d *derivation) keep(before, after *book.Event) error {
	d.bySeq[after.AdmissionSeq] = after
	return d.step.keep(before, after)
}

// settlePending ends an attempt that nothing of the same step followed.
func (d *derivation) settlePending() error {
	p := d.pending
	if p == nil {
		return nil
	}
	d.pending = nil
	return d.keep(p.old, p.event)
}

// admission makes the decision again and compares. partial tells that the counters lack what was pruned: then the entry's word
// is taken for the route.
func (d *derivation) admission(r *recorded, partial bool) error {
	s := d.step
	c := s.policy.capabilities[r.Capability]
	if c == nil {
		return r.differs("capability", r.Capability, "not in version "+s.policy.Version)
	}
	if known := d.shadow.records[book.EventKey(r.Policy, r.EventID)]; known != nil {
		return r.differs("event_id", r.EventID, "admitted before, at entry "+strconv.FormatInt(known.(*book.Event).AdmissionSeq, 10))
	}
	e := &book.Event{Policy: r.Policy, ID: r.EventID, Capability: r.Capability, Class: r.Class, Size: r.Size, ContentHash: r.ContentHash}
	if err := e.BecomeAccepted(s.now); err != nil {
		return err
	}
	e.Day, e.AdmissionSeq = s.policy.Day(s.now), r.Seq
	if c.deadline > 0 {
		e.Deadline, e.OnDeadline = s.now.Add(c.deadline), c.onDeadline
	}
	q, err := s.quote(c)
	if err != nil {
		return err
	}
	route, err := r.route(&q, c.routes, partial)
	switch {
	case err != nil:
		return err
	case route != nil:
		err = s.reserve(e, route)
	case c.fallback == book.Defer:
		err = e.BecomeDeferred(s.now)
	case c.fallback == book.Reject:
		err = e.BecomeRejected(s.now)
	}
	if err != nil {
		return err
	}
	return d.decided(nil, e, r)
}

// route is the one that a decision must have taken, nil for none.
func (r *recorded) route(q *quote, routes []route, partial bool) (*route, error) {
	if !partial {
		err := r.same("account_units", audit.Plain(r.AccountUnits), audit.Plain(q.accountUsed), "capability_units", audit.Plain(r.OwnUnits), audit.Plain(q.ownUsed),
			"protected_units", audit.Plain(r.ProtectedUnits), audit.Plain(q.protected))
		return q.first(routes), err
	}
	if i := slices.IndexFunc(routes, func(x route) bool { return x.name == r.Route }); i >= 0 {
		return &routes[i], nil
	}
	return nil, nil
}

// decided compares the decision that an event came to with the recorded one, and keeps it.
func (d *derivation) decided(old, e *book.Event, r *recorded) error {
	e.Version, e.DecidedAt, e.DecisionSeq = d.step.policy.Version, d.step.now, r.Seq
	err := r.same(
		"policy_version", r.PolicyVersion, e.Version, "state", string(r.State), string(e.State), "disposition", string(r.Disposition), string(e.Disposition),
		"route", r.Route, e.Route, "reserved_units", audit.Plain(r.ReservedUnits), audit.Plain(e.Reserved), "capability", r.Capability, e.Capability,
	)
	if err == nil && e.Route != "" {
		err = r.same("route_class", r.RouteClass, e.RouteClass, "window_start", text(r.WindowStart), text(e.WindowStart))
	}
	if err != nil {
		return err
	}
	e.Reserved = r.ReservedUnits // as it is written
	return d.kept(old, e, r)
}

// kept links an entry to the event's one before, and keeps the event.
func (d *derivation) kept(old, e *book.Event, r *recorded) error {
	if err := r.same("event_previous", strconv.FormatInt(r.EventPrevious, 10), strconv.FormatInt(e.LastSeq, 10)); err != nil {
		return err
	}
	e.LastSeq = r.Seq
	return d.keep(old, e)
}

// event is the one that an entry is about, with a copy to change.
func (d *derivation) event(r *recorded) (old, e *book.Event, err error) {
	record, ok := d.shadow.records[book.EventKey(r.Policy, r.EventID)].(*book.Event)
	if !ok {
		return nil, nil, r.differs("event_id", r.EventID, "not admitted before")
	}
	return record, record.Clone(), nil
}

// decision makes a changed decision again: an offer, a deadline or another route.
func (d *derivation) decision(r *recorded, partial bool) error {
	s := d.step
	old, e, err := d.event(r)
	if err != nil {
		return err
	}
	if p := d.pending; p != nil {
		d.pending = nil
		old, e = p.old, p.event
	}
	c := s.policy.capabilities[e.Capability]
	var q quote
	if c != nil {
		if q, err = s.quote(c); err != nil {
			return err
		}
	}
	if r.Cause == causeDeadline {
		if !e.Due() || s.now.Before(e.Deadline) {
			return r.differs("cause", r.Cause, "the deadline is "+text(e.Deadline))
		}
		if err := e.BecomeExpired(s.now, e.OnDeadline); err != nil {
			return r.differs("state", string(r.State), err.Error())
		}
		e.Outbox = false
		return d.decided(old, e, r)
	}
	if c == nil {
		return r.differs("capability", e.Capability, "not in version "+s.policy.Version)
	}
	routes := c.routes
	if r.Cause == causeUnavailable {
		routes = routesAfter(c.routes, e.Route)
		if q.start.Equal(e.WindowStart) {
			q.accountUsed, q.ownUsed = q.accountUsed.Sub(e.Reserved), q.ownUsed.Sub(e.Reserved)
		}
	}
	route, err := r.route(&q, routes, partial)
	if err != nil {
		return err
	}
	if route == nil {
		return r.differs("route", r.Route, "none fits")
	}
	if err := s.reserve(e, route); err != nil {
		return r.differs("state", string(r.State), err.Error())
	}
	return d.decided(old, e, r)
}

// other takes the steps that decide nothing.
func (d *derivation) other(r *recorded) error {
	s := d.step
	old, e, err := d.event(r)
	if err != nil {
		return err
	}
	switch r.Kind {
	case kindAttempt:
		if err = e.BecomeDispatched(s.now); err != nil {
			break
		}
		if r.Attempt <= old.Attempts {
			return r.differs("attempt", strconv.FormatInt(r.Attempt, 10), "more than "+strconv.FormatInt(old.Attempts, 10))
		}
		e.Attempts, e.Result, e.Waiting, e.InDoubt = r.Attempt, r.Result, r.Waiting, r.InDoubt
		e.Outbox = e.Outbox && !r.GivenUp
		if e.Waiting { // the next entry may be part of the same step
			err := r.same("event_previous", strconv.FormatInt(r.EventPrevious, 10), strconv.FormatInt(e.LastSeq, 10), "route", r.Route, e.Route)
			e.LastSeq = r.Seq
			d.pending = &pendingAttempt{old, e}
			return err
		}
		err = nil
	case kindSettlement:
		e.Outbox, e.InDoubt = false, false
		err = e.BecomeSettled(s.now, r.ActualUnits)
	case kindRelease:
		e.Outbox, e.InDoubt = false, false
		err = e.BecomeReleased(s.now)
	}
	if err != nil {
		return r.differs("kind", r.Kind, err.Error())
	}
	if r.Kind != kindAttempt {
		if err := r.same("reserved_units", audit.Plain(r.ReservedUnits), audit.Plain(e.Reserved)); err != nil {
			return err
		}
	}
	return d.kept(old, e, r)
}
