package spend

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/spend/audit"
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
func Audit(ctx context.Context, store book.Store, now time.Time) (audit.Result, error) {
	a := &auditor{policies: make(map[string]*derivation), now: now.UTC()}
	err := store.View(ctx, func(tx book.Tx) error {
		*a = auditor{policies: make(map[string]*derivation), now: now.UTC()}
		if err := a.walk(ctx, tx); err != nil || a.result.Difference != nil {
			return err
		}
		return a.compare(tx)
	})
	var damage *audit.DamageError
	if errors.As(err, &damage) { // what cannot be read differs from anything that was written
		a.result.Difference = &audit.Difference{
			Policy: damage.Key.Policy, Record: "row", Name: strconv.Quote(damage.Key.Name), Field: damage.Table + "." + damage.Column,
			Stored: damage.Reason, Derived: "a value that can be read",
		}
		return a.result, nil
	}
	return a.result, err
}

// auditor is one audit.
type auditor struct {
	result   audit.Result
	policies map[string]*derivation
	now      time.Time
	// unaccounted is how many entries without a body came before the entry of their pruning, which tells what they counted: until
	// then, what is derived is less than what was.
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
	// prunings are the prunings of the policy's events, isPruned those by the entry of their admission.
	prunings []pruning
	isPruned map[int64]bool
}

// pruning is what one entry says of the events whose entries it erased.
type pruning struct {
	seq    int64
	events []int64
	left   string
}

type pendingAttempt struct{ old, event *book.Event }

// differs is the error that ends a walk at a difference.
type differs struct{ d *audit.Difference }

func (e differs) Error() string { return e.d.String() }

// walk derives the books of all policies.
func (a *auditor) walk(ctx context.Context, tx book.Tx) error {
	for entry, err := range tx.Entries(1) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = a.entry(entry)
		}
		if found, ok := err.(differs); ok { //nolint:errorlint // it is made here and never wrapped
			a.result.Difference = found.d
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
	a.result.Policies = int64(len(a.policies))
	return nil
}

// of is the derivation of a policy.
func (a *auditor) of(policy string) *derivation {
	d := a.policies[policy]
	if d == nil {
		d = &derivation{bySeq: make(map[int64]*book.Event), isPruned: make(map[int64]bool), shadow: &shadow{records: make(map[book.Key]book.Record)}}
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
		for _, compare := range [...]func(book.Tx, *derivation) (*audit.Difference, error){
			a.compareEvents, a.compareRecords, a.compareStatus,
		} {
			found, err := compare(tx, d)
			if err != nil {
				return err
			}
			if found != nil {
				a.result.Difference = found
				return nil
			}
		}
	}
	return nil
}

// compareEvents compares in the order of admission, and then what is left of those that were pruned.
func (a *auditor) compareEvents(tx book.Tx, d *derivation) (*audit.Difference, error) {
	stored := make(map[int64]*book.Event) // only those that are pruned; the others leave a nil
	for e, err := range tx.Events(book.Query{Policy: d.step.m.policy}) {
		if err != nil {
			return nil, err
		}
		derived := d.bySeq[e.AdmissionSeq]
		if derived == nil && d.isPruned[e.AdmissionSeq] {
			stored[e.AdmissionSeq] = e
			continue
		}
		var want book.Record
		if derived != nil {
			d.sent(e, derived)
			want = d.bySeq[e.AdmissionSeq]
		}
		if found := audit.Compare(e, want); found != nil {
			return found, nil
		}
		stored[e.AdmissionSeq] = nil
		a.result.Events++
	}
	for _, seq := range slices.Sorted(maps.Keys(d.bySeq)) {
		if _, seen := stored[seq]; !seen {
			return audit.Compare(nil, d.bySeq[seq]), nil
		}
	}
	for _, p := range d.prunings {
		var left []*book.Event
		for _, seq := range p.events {
			e := stored[seq]
			if e == nil {
				return &audit.Difference{
					Policy: d.step.m.policy, Record: "event", Name: "admitted at entry " + strconv.FormatInt(seq, 10), Seq: seq,
					Field: "record", Stored: "missing", Derived: "pruned at entry " + strconv.FormatInt(p.seq, 10),
				}, nil
			}
			left = append(left, e)
		}
		if got := audit.Fingerprint(left); got != p.left {
			return &audit.Difference{
				Policy: d.step.m.policy, Record: "events", Name: "that entry " + strconv.FormatInt(p.seq, 10) + " pruned", Seq: p.seq,
				Field: "fingerprint", Stored: got, Derived: p.left,
			}, nil
		}
		a.result.PrunedEvents += int64(len(left))
	}
	return nil, nil
}

// sent takes over what Send notes without an entry, which is done before each request: from then on an event that holds units is in
// doubt, and does not wait. It is the safe side: what is in doubt is neither sent by another route nor given back.
func (d *derivation) sent(stored, derived *book.Event) {
	if !stored.InDoubt || derived.InDoubt || !stored.Outbox || !derived.State.Holds() {
		return
	}
	e := derived.Clone()
	e.InDoubt, e.Waiting = true, false
	d.bySeq[e.AdmissionSeq] = e
}

// compareRecords compares versions, counters and tallies, in the order of their keys.
func (a *auditor) compareRecords(tx book.Tx, d *derivation) (*audit.Difference, error) {
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
			if found := audit.Compare(stored[key], derived[key]); found != nil && (found.Field != "record" || !nought(stored[key]) || !nought(derived[key])) {
				return found, nil
			}
			if kind != book.KindVersion {
				a.result.Totals++
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
func (a *auditor) compareStatus(tx book.Tx, d *derivation) (*audit.Difference, error) {
	record, err := tx.Get(book.StatusKey(d.step.m.policy))
	if err != nil {
		return nil, err
	}
	var derived book.Record
	if d.step.status != nil {
		derived = d.step.status
	}
	if record == nil && derived == nil {
		return nil, nil
	}
	if found := audit.Compare(record, derived); found != nil {
		return found, nil
	}
	stored := record.(*book.Status)
	found := audit.Difference{Policy: stored.Policy, Record: "status", Name: strconv.Quote(stored.Policy)}
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
