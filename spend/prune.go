package spend

import (
	"context"
	"slices"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// Pruned is what Prune took away.
type Pruned struct {
	// References, Responses and Decisions are numbers of events, Entries of entries of the chain.
	References int64 `json:"references"`
	Responses  int64 `json:"responses"`
	Decisions  int64 `json:"decisions"`
	Entries    int64 `json:"entries"`
}

// pruneBatch bounds the events of one transaction, so that admissions come between.
const pruneBatch = 500

// Prune drops what is beyond its horizon, by the retain of the active policy for the event's capability: payload references and
// decisions by the age of the admission, responses by their own. Of a decision nothing stays but that the event was decided, so
// that it is never admitted again, and the hashes of its entries, so that the chain still holds; an entry that says so is
// added. Events that are not over keep everything. Counters and tallies stay.
func (m *Machine) Prune(ctx context.Context, now time.Time) (Pruned, error) {
	var total Pruned
	after := int64(0)
	for more := true; more; {
		var batch Pruned
		var last int64
		_, err := m.run(ctx, now, func(s *step) (Outcome, error) {
			var err error
			batch = Pruned{}
			last, more, err = s.prune(after, &batch)
			return Outcome{}, err
		})
		if err != nil {
			return total, err
		}
		after = last
		total.References += batch.References
		total.Responses += batch.Responses
		total.Decisions += batch.Decisions
		total.Entries += batch.Entries
	}
	return total, nil
}

// prune handles one batch of the events that were admitted after an entry.
func (s *step) prune(after int64, done *Pruned) (last int64, more bool, err error) {
	if !s.retains() {
		return after, false, nil
	}
	var events []*book.Event // collected first: what is written must not disturb what is read
	for e, err := range s.tx.Events(book.Query{Policy: s.m.policy, AfterSeq: after}) {
		if err != nil {
			return after, false, err
		}
		if events = append(events, e); len(events) == pruneBatch {
			break
		}
	}
	var seqs []int64
	var over prunedEvents
	for _, e := range events {
		left, erased, err := s.pruneEvent(e, done)
		if err != nil {
			return after, false, err
		}
		if len(erased) > 0 {
			over.before, over.left = append(over.before, e), append(over.left, left)
		}
		seqs = append(seqs, erased...)
		after = e.AdmissionSeq
	}
	if len(seqs) > 0 {
		slices.Sort(seqs)
		done.Entries = int64(len(seqs))
		counted, err := s.countPruned(over)
		if err != nil {
			return after, false, err
		}
		if _, err := s.seal("", append(chain.Prune(seqs), counted)); err != nil {
			return after, false, err
		}
	}
	return after, len(events) == pruneBatch, nil
}

// retains tells whether the policy has any horizon.
func (s *step) retains() bool {
	for _, c := range s.policy.offered {
		if c.retain != (schema.Retain{}) {
			return true
		}
	}
	return false
}

// pruneEvent drops what is over of one event and returns what is left of it, with the entries that it erased.
func (s *step) pruneEvent(old *book.Event, done *Pruned) (e *book.Event, erased []int64, err error) {
	c := s.policy.capabilities[old.Capability]
	if c == nil || !old.State.Final() {
		return old, nil, nil
	}
	e = old.Clone()
	changed := false
	if old.Response != "" && s.over(c.retain.Response, old.ResponseAt) {
		e.Response, e.ResponseAt, changed = "", time.Time{}, true
		done.Responses++
	}
	if (old.Reference != "" || len(old.Vars) > 0) && s.over(c.retain.Reference, old.AdmittedAt) {
		e.Reference, e.Vars, changed = "", nil, true
		done.References++
	}
	if !old.Pruned && s.over(c.retain.Decision, old.AdmittedAt) {
		if err := eachEntry(s.tx, old.LastSeq, func(entry chain.Entry) { erased = append(erased, entry.Seq) }); err != nil {
			return nil, nil, err
		}
		for _, seq := range erased {
			if err := s.tx.Erase(seq); err != nil {
				return nil, nil, err
			}
		}
		e.Pruned, e.Route, e.RouteClass, e.Version, e.Result, changed = true, "", "", "", "", true
		e.Reserved, e.Actual, e.Class, e.Size, e.ContentHash = book.Units{}, book.Units{}, "", 0, ""
		done.Decisions++
	}
	if !changed {
		return old, nil, nil
	}
	return e, erased, s.tx.Put(e) // not keep: what was counted stays counted
}

// over tells whether a horizon that began at an instant has ended.
func (s *step) over(horizon *schema.Duration, since time.Time) bool {
	return horizon != nil && !s.now.Before(since.Add(time.Duration(*horizon)))
}
