package spendtest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend/book"
)

// manyEvents are more than any page, of two capabilities and several states, put in an order that is not theirs.
func manyEvents(t testing.TB, store book.Store) []*book.Event {
	var all []*book.Event
	states := []book.State{book.Deferred, book.Reserved, book.Settled, book.Deferred, book.Dispatched}
	for i := range 1500 {
		e := &book.Event{
			Policy: "p", ID: strconv.Itoa(i), Capability: "c" + strconv.Itoa(i%2), AdmissionSeq: int64(i + 1), State: states[i%5],
			Outbox: i%3 == 0, AdmittedAt: t0,
		}
		if i%7 != 0 { // the rest may wait for ever
			e.Deadline = t0.Add(time.Duration(i*7919%1000) * time.Second)
		}
		e.Waiting = e.State == book.Dispatched && i%2 == 0
		all = append(all, e)
	}
	update(t, store, func(tx book.Tx) error {
		for i := range all {
			if err := tx.Put(all[(i*7)%len(all)]); err != nil {
				return err
			}
		}
		return tx.Put(&book.Event{Policy: "other", ID: "1", Capability: "c1", AdmissionSeq: 9999, State: book.Deferred})
	})
	return all
}

func eventsInOrder(t *testing.T, open Factory) {
	store, _ := open(t)
	all := manyEvents(t, store)
	for _, q := range []book.Query{
		{Policy: "p"},
		{Policy: "p", AfterSeq: 700},
		{Policy: "p", Capability: "c1"},
		{Policy: "p", Capability: "c1", States: []book.State{book.Deferred}},
		{Policy: "p", Capability: "c0", States: []book.State{book.Deferred}, AfterSeq: 301},
		{Policy: "p", States: []book.State{book.Reserved, book.Dispatched}},
		{Policy: "p", Outbox: true},
		{Policy: "p", Outbox: true, States: []book.State{book.Reserved}},
		{Policy: "nobody"},
	} {
		var want []string
		for _, e := range all {
			if q.Policy == e.Policy && e.AdmissionSeq > q.AfterSeq && (q.Capability == "" || q.Capability == e.Capability) &&
				(q.States == nil || slices.Contains(q.States, e.State)) && (!q.Outbox || e.Outbox && e.State != book.Settled) {
				want = append(want, e.ID)
			}
		}
		compareIDs(t, store, q, want)
	}
}

func compareIDs(t *testing.T, store book.Store, q book.Query, want []string) {
	t.Helper()
	view(t, store, func(tx book.Tx) {
		var got []string
		for _, e := range events(t, tx, q) {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("query %+v: %d events %.60v..., want %d %.60v...", q, len(got), got, len(want), want)
		}
	})
}

func dueInOrder(t *testing.T, open Factory) {
	store, _ := open(t)
	all := manyEvents(t, store)
	for _, by := range []time.Time{t0, t0.Add(500 * time.Second), t0.Add(time.Hour), t0.Add(-time.Second)} {
		var due []*book.Event
		for _, e := range all {
			waits := e.State == book.Deferred || e.Waiting
			if waits && !e.Deadline.IsZero() && !e.Deadline.After(by) {
				due = append(due, e)
			}
		}
		slices.SortStableFunc(due, func(a, b *book.Event) int { return a.Deadline.Compare(b.Deadline) })
		var want []string
		for _, e := range due {
			want = append(want, e.ID)
		}
		compareIDs(t, store, book.Query{Policy: "p", DueBy: by}, want)
	}
}

// Every event of a walk is yielded once and as it is, although the walk changes each of them so that it no longer belongs.
func writeDuringWalk(t *testing.T, open Factory) {
	store, _ := open(t)
	all := manyEvents(t, store)
	want := 0
	for _, e := range all {
		if e.State == book.Deferred && e.Capability == "c1" {
			want++
		}
	}
	update(t, store, func(tx book.Tx) error {
		seen := make(map[string]bool)
		q := book.Query{Policy: "p", Capability: "c1", States: []book.State{book.Deferred}}
		for e, err := range tx.Events(q) {
			if err != nil {
				return err
			}
			if seen[e.ID] || e.State != book.Deferred {
				t.Errorf("event %s comes twice or as %s", e.ID, e.State)
			}
			seen[e.ID] = true
			e = e.Clone()
			e.State = book.Reserved
			if err := tx.Put(e); err != nil {
				return err
			}
		}
		if len(seen) != want {
			t.Errorf("%d events, want %d", len(seen), want)
		}
		if n := len(events(t, tx, q)); n != 0 {
			t.Errorf("%d events are still deferred", n)
		}
		return nil
	})
}
