package spend

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// Audit compares everything that a book says with what follows from its audit chain, and names the first difference. It walks the
// chain once, makes every decision again on counters of its own, and compares first what each entry recorded, then the records
// as they stand. Whether the chain itself is whole, chain.Verify tells; on a chain that is not, an audit proves nothing.
//
// The chain does not hold the payload's reference, the variables and the response of an event, which have horizons of their own,
// so those are not compared. Of a status, the next deadline and the latest window are bounded only: time moves both without an
// entry. It holds the derived events in memory.
func Audit(ctx context.Context, store book.Store, now time.Time) (book.Audit, error) {
	a := &auditor{policies: make(map[string]*derivation), now: now.UTC()}
	err := store.View(ctx, func(tx book.Tx) error {
		*a = auditor{policies: make(map[string]*derivation), now: now.UTC()}
		if err := a.walk(ctx, tx); err != nil || a.audit.Difference != nil {
			return err
		}
		return a.compare(tx)
	})
	return a.audit, err
}

// auditor is one audit.
type auditor struct {
	audit    book.Audit
	policies map[string]*derivation
	now      time.Time
	// erased are the entries without a body; unaccounted is how many of them come before the entry of their pruning, which tells
	// what they counted: until then, what is derived is less than what was.
	erased      map[int64]bool
	unaccounted int64
}

// derivation is the book of one policy as the chain tells it.
type derivation struct {
	step   *step
	shadow *shadow
	// bySeq are the events by the entry of their admission.
	bySeq map[int64]*book.Event
	// pending is an attempt whose route was down: if the next entry takes another route, both are one step of the event.
	pending *pendingAttempt
}

type pendingAttempt struct{ old, event *book.Event }

// differs is the error that ends a walk at a difference.
type differs struct{ d *book.Difference }

func (e differs) Error() string { return e.d.String() }

// walk derives the books of all policies.
func (a *auditor) walk(ctx context.Context, tx book.Tx) error {
	a.erased = make(map[int64]bool)
	for entry, err := range tx.Entries(1) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = a.entry(entry)
		}
		if found, ok := err.(differs); ok { //nolint:errorlint // it is made here and never wrapped
			a.audit.Difference = found.d
			return nil
		}
		if err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.policies)) {
		if err := a.policies[name].settlePending(); err != nil {
			return err
		}
	}
	a.audit.Policies = int64(len(a.policies))
	return nil
}

// of is the derivation of a policy.
func (a *auditor) of(policy string) *derivation {
	d := a.policies[policy]
	if d == nil {
		d = &derivation{bySeq: make(map[int64]*book.Event), shadow: &shadow{records: make(map[book.Key]book.Record)}}
		d.step = &step{m: New(nil, policy), tx: d.shadow}
		a.policies[policy] = d
	}
	return d
}

// compare holds the records against what was derived.
func (a *auditor) compare(tx book.Tx) error {
	names := maps.Clone(a.policies)
	for _, kind := range [...]book.Kind{book.KindVersion, book.KindStatus, book.KindCounter, book.KindTally} {
		for r, err := range tx.List(kind, "") { // records of a policy that the chain does not know
			if err != nil {
				return err
			}
			if p := r.Key().Policy; names[p] == nil {
				names[p] = a.of(p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := names[name]
		for _, compare := range [...]func(book.Tx, *derivation) (*book.Difference, error){
			a.compareEvents, a.compareRecords, a.compareStatus,
		} {
			found, err := compare(tx, d)
			if err != nil {
				return err
			}
			if found != nil {
				a.audit.Difference = found
				return nil
			}
		}
	}
	return nil
}

// compareEvents compares in the order of admission.
func (a *auditor) compareEvents(tx book.Tx, d *derivation) (*book.Difference, error) {
	seen := make(map[int64]bool)
	for stored, err := range tx.Events(book.Query{Policy: d.step.m.policy}) {
		if err != nil {
			return nil, err
		}
		derived := d.bySeq[stored.AdmissionSeq]
		if derived == nil && a.erased[stored.AdmissionSeq] {
			a.audit.PrunedEvents++
			derived = a.prunedEvent(stored)
		}
		if derived == nil {
			return book.Compare(stored, nil), nil
		}
		if found := book.Compare(stored, derived); found != nil {
			return found, nil
		}
		seen[stored.AdmissionSeq] = true
		a.audit.Events++
	}
	for _, seq := range slices.Sorted(maps.Keys(d.bySeq)) {
		if !seen[seq] {
			return book.Compare(nil, d.bySeq[seq]), nil
		}
	}
	return nil, nil
}

// prunedEvent is what must be left of an event whose entries are gone: what they said is not there any more, and its entries are
// among those that the chain says were erased. What is left of it otherwise, nothing proves.
func (a *auditor) prunedEvent(stored *book.Event) *book.Event {
	e := stored.Clone()
	e.Pruned, e.Route, e.RouteClass, e.Version, e.Result, e.Class, e.Size, e.ContentHash = true, "", "", "", "", "", 0, ""
	e.Reserved, e.Actual = book.Units{}, book.Units{}
	e.Outbox, e.Waiting = false, false
	for _, seq := range [...]*int64{&e.DecisionSeq, &e.LastSeq} {
		if !a.erased[*seq] {
			*seq = e.AdmissionSeq
		}
	}
	if !e.State.Final() { // only events that are over are pruned
		return nil
	}
	return e
}

// compareRecords compares versions, counters and tallies, in the order of their keys.
func (a *auditor) compareRecords(tx book.Tx, d *derivation) (*book.Difference, error) {
	for _, kind := range [...]book.Kind{book.KindVersion, book.KindCounter, book.KindTally} {
		derived := d.shadow.list(kind)
		stored := make(map[book.Key]book.Record)
		for r, err := range tx.List(kind, d.step.m.policy) {
			if err != nil {
				return nil, err
			}
			stored[r.Key()] = r
		}
		keys := slices.Collect(maps.Keys(stored))
		for key := range derived {
			if stored[key] == nil {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(keys, book.CompareKeys)
		for _, key := range keys {
			if found := book.Compare(stored[key], derived[key]); found != nil && (found.Field != "record" || !nought(stored[key]) || !nought(derived[key])) {
				return found, nil
			}
			if kind != book.KindVersion {
				a.audit.Totals++
			}
		}
	}
	return nil, nil
}

// nought tells that a record is not there, or counts nothing: rows of zeros are left behind by what came and went.
func nought(r book.Record) bool {
	switch r := r.(type) {
	case nil:
		return true
	case *book.Counter:
		return r.Used.Sign() == 0 && r.Settled.Sign() == 0 && len(r.Crossed) == 0
	case *book.Tally:
		return r.Events == 0 && r.Reserved.Sign() == 0 && r.Settled.Sign() == 0
	}
	return false
}

// compareStatus compares a status, and holds what time moves within its bounds.
func (a *auditor) compareStatus(tx book.Tx, d *derivation) (*book.Difference, error) {
	record, err := tx.Get(book.StatusKey(d.step.m.policy))
	if err != nil {
		return nil, err
	}
	var derived book.Record
	if d.step.status != nil {
		derived = d.step.status
	}
	if found := book.Compare(record, derived); record == nil || derived == nil || found != nil {
		return found, nil
	}
	stored := record.(*book.Status)
	found := book.Difference{Policy: stored.Policy, Record: "status", Name: strconv.Quote(stored.Policy)}
	if first := d.firstDeadline(); !first.IsZero() && (stored.NextDeadline.IsZero() || stored.NextDeadline.After(first)) {
		found.Field, found.Stored, found.Derived = "next deadline", text(stored.NextDeadline), "at most "+text(first)
		return &found, nil
	}
	// An entry opens the window of its instant; later ones open without an entry.
	policy, known, at := d.step.policy, d.step.status.WindowStart, stored.WindowStart
	opened := at.After(known) && policy.WindowAt(at).Start.Equal(at) && !at.After(a.now)
	if !at.Equal(known) && !opened {
		found.Field, found.Stored = "window start", text(at)
		found.Derived = text(known) + " or that of a later window up to now"
		return &found, nil
	}
	return nil, nil
}

// text writes an instant.
func text(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// firstDeadline is the earliest of the events that wait.
func (d *derivation) firstDeadline() time.Time {
	var first time.Time
	for _, e := range d.bySeq {
		if e.Due() && (first.IsZero() || e.Deadline.Before(first)) {
			first = e.Deadline
		}
	}
	return first
}

// shadow is the book.Tx of a derivation: it keeps what the machine's own counting puts, and knows nothing else.
type shadow struct {
	book.Tx
	records map[book.Key]book.Record
}

// Get implements book.Tx.
func (s *shadow) Get(key book.Key) (book.Record, error) { return s.records[key], nil }

// Put implements book.Tx.
func (s *shadow) Put(records ...book.Record) error {
	for _, r := range records {
		s.records[r.Key()] = r
	}
	return nil
}

// Entry implements book.Tx.
func (s *shadow) Entry(int64) (chain.Entry, error) { return chain.Entry{}, nil }

// Events implements book.Tx: all events, as only a changed window asks for them, in the order of admission.
func (s *shadow) Events(q book.Query) iter.Seq2[*book.Event, error] {
	events := make([]*book.Event, 0)
	for _, r := range s.list(book.KindEvent) {
		if e := r.(*book.Event); q.Matches(e) {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b *book.Event) int { return int(a.AdmissionSeq - b.AdmissionSeq) })
	return func(yield func(*book.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s *shadow) list(kind book.Kind) map[book.Key]book.Record {
	found := make(map[book.Key]book.Record)
	for key, r := range s.records {
		if key.Kind == kind {
			found[key] = r
		}
	}
	return found
}
