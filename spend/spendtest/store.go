package spendtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

var t0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// runStore checks the promises of book.Store and book.Tx one by one.
func runStore(t *testing.T, open Factory) {
	for name, test := range map[string]func(*testing.T, Factory){
		"RecordsComeBack":    recordsComeBack,
		"SeesOwnWrites":      seesOwnWrites,
		"ErrorLeavesNothing": errorLeavesNothing,
		"ErrorAfterQuery":    errorAfterQuery,
		"ViewCannotWrite":    viewCannotWrite,
		"EventsInOrder":      eventsInOrder,
		"DueInOrder":         dueInOrder,
		"WriteDuringWalk":    writeDuringWalk,
		"Chain":              chainComesBack,
		"Erase":              eraseKeepsHashes,
		"Serial":             updatesAreSerial,
		"Closed":             closedStoreRefuses,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func update(t testing.TB, store book.Store, fn func(book.Tx) error) {
	t.Helper()
	if err := store.Update(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

// fullEvent has a value in every field, so that a field which a store forgets shows.
func fullEvent(t testing.TB, seq int64) *book.Event {
	at := func(hours int) time.Time { return t0.Add(time.Duration(hours)*time.Hour + 1) }
	return &book.Event{
		Policy: "p", ID: fmt.Sprintf("événement %q 🚚 %d", "x", seq), Capability: "cap", State: book.Dispatched, Disposition: book.Dispatch,
		Route: "standard", RouteClass: "gold", Reserved: Units(t, "2.50"), Actual: Units(t, "0.0000001"), Version: "v1",
		WindowStart: at(0), AdmittedAt: at(1), DecidedAt: at(2), UpdatedAt: at(3), Day: "2026-11-01", Deadline: at(4),
		OnDeadline: book.Minimal, Waiting: true, Outbox: true, Attempts: 3, Result: "timeout", Class: "small", Size: 17,
		Vars: map[string]string{"id": "1", "name": "ä"}, Reference: "s3://x", ContentHash: "abc", Response: "ok", ResponseAt: at(5),
		AdmissionSeq: seq, DecisionSeq: seq + 1, LastSeq: seq + 2, Pruned: true,
	}
}

func fullRecords(t testing.TB) []book.Record {
	return []book.Record{
		fullEvent(t, 1),
		&book.Counter{
			Policy: "p", Capability: "cap", Start: t0, End: t0.Add(time.Hour), Used: Units(t, "12.50"), Settled: Units(t, "2"),
			Crossed: []book.Crossing{{Band: "0.5", At: t0.Add(time.Minute)}},
		},
		&book.Tally{
			Policy: "p", Day: "2026-11-01", Capability: "cap", RouteClass: "go ld", Disposition: book.Dispatch,
			Events: 7, Reserved: Units(t, "1"), Settled: Units(t, "3"),
		},
		&book.Status{
			Policy: "p", Active: "v1", ActiveSeq: 4, WindowStart: t0, NextDeadline: t0.Add(time.Second),
			Deferred: map[string]int64{"cap": 2},
		},
		&book.Version{Policy: "p", Version: "v1", Content: "{}", Hash: "aa", Record: `{"change":"x"}`, PublishedAt: t0, Seq: 1},
	}
}

// unitsEqual compares amounts with their decimals, which are part of what is kept.
var unitsEqual = cmp.Comparer(func(a, b book.Units) bool { return a.String() == b.String() })

func recordsComeBack(t *testing.T, open Factory) {
	store, reopen := open(t)
	want := fullRecords(t)
	update(t, store, func(tx book.Tx) error { return tx.Put(want...) })
	check := func() {
		t.Helper()
		view(t, store, func(tx book.Tx) {
			for _, w := range want {
				got, err := tx.Get(w.Key())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(w, got, unitsEqual); diff != "" {
					t.Errorf("record %+v:\n%s", w.Key(), diff)
				}
				missing := w.Key()
				missing.Policy = "q"
				if got, err := tx.Get(missing); got != nil || err != nil {
					t.Errorf("record %+v: got %v, %v, want nothing", missing, got, err)
				}
			}
		})
	}
	check()
	// A second version replaces the first one whole.
	e := want[0].(*book.Event).Clone()
	e.State, e.Vars, e.Pruned, e.Waiting = book.Settled, nil, false, false
	counter := want[1].(*book.Counter).Clone()
	counter.Crossed, counter.Used = nil, Units(t, "0.00")
	want[0], want[1] = e, counter
	update(t, store, func(tx book.Tx) error { return tx.Put(e, counter) })
	check()
	if reopen != nil {
		store = reopen()
		check()
	}
}

func seesOwnWrites(t *testing.T, open Factory) {
	store, _ := open(t)
	update(t, store, func(tx book.Tx) error {
		if err := tx.Put(fullRecords(t)...); err != nil {
			return err
		}
		for _, r := range fullRecords(t) {
			if got, err := tx.Get(r.Key()); got == nil || err != nil {
				t.Errorf("record %+v: got %v, %v", r.Key(), got, err)
			}
		}
		if n := len(events(t, tx, book.Query{Policy: "p"})); n != 1 {
			t.Errorf("%d events, want the one that was put", n)
		}
		for kind := book.KindCounter; kind <= book.KindVersion; kind++ {
			for policy, want := range map[string]int{"p": 1, "": 1, "q": 0} {
				n := 0
				for _, err := range tx.List(kind, policy) {
					if err != nil {
						return err
					}
					n++
				}
				if n != want {
					t.Errorf("kind %d of policy %q: %d records, want %d", kind, policy, n, want)
				}
			}
		}
		return nil
	})
}

func events(t testing.TB, tx book.Tx, q book.Query) []*book.Event {
	t.Helper()
	var found []*book.Event
	for e, err := range tx.Events(q) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	return found
}

var errTest = errors.New("test")

// state is everything that a store holds, as text.
func state(t testing.TB, store book.Store) string {
	var s string
	view(t, store, func(tx book.Tx) {
		head, err := tx.Head()
		if err != nil {
			t.Fatal(err)
		}
		s = fmt.Sprintln(head)
		for _, e := range events(t, tx, book.Query{Policy: "p"}) {
			s += fmt.Sprintf("%+v\n", *e)
		}
		for e, err := range tx.Entries(1) {
			s += fmt.Sprintf("%s %v\n", e.AppendJSON(nil), err)
		}
		for kind := book.KindCounter; kind <= book.KindVersion; kind++ {
			for r, err := range tx.List(kind, "") {
				s += fmt.Sprintf("%+v %v\n", r, err)
			}
		}
	})
	return s
}

func seal(t testing.TB, tx book.Tx, text string) chain.Entry {
	t.Helper()
	head, err := tx.Head()
	if err != nil {
		t.Fatal(err)
	}
	e, err := chain.Seal(head, false, chain.Field{Name: "text", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Append(e); err != nil {
		t.Fatal(err)
	}
	return e
}

func errorLeavesNothing(t *testing.T, open Factory) { undone(t, open, false) }

// An error after a query, which some stores can only answer by writing first.
func errorAfterQuery(t *testing.T, open Factory) { undone(t, open, true) }

func undone(t *testing.T, open Factory, query bool) {
	store, _ := open(t)
	update(t, store, func(tx book.Tx) error {
		seal(t, tx, "first")
		return tx.Put(fullRecords(t)...)
	})
	before := state(t, store)
	failing := func(tx book.Tx) error {
		e := fullEvent(t, 1)
		e.State = book.Settled
		seal(t, tx, "second")
		if err := tx.Put(e, fullEvent(t, 2), &book.Status{Policy: "p", Active: "v2"}, &book.Status{Policy: "new"}); err != nil {
			return err
		}
		if err := tx.Put(&book.Status{Policy: "p", Active: "v3"}); err != nil {
			return err
		}
		if query {
			if n := len(events(t, tx, book.Query{Policy: "p"})); n != 2 {
				t.Errorf("%d events in the transaction, want 2", n)
			}
			if err := tx.Erase(1); err != nil {
				return err
			}
		}
		return errTest
	}
	if err := store.Update(context.Background(), failing); !errors.Is(err, errTest) {
		t.Fatalf("error %v, want the function's own", err)
	}
	if after := state(t, store); after != before {
		t.Errorf("a failed transaction left\n%s\nwant\n%s", after, before)
	}
	// Together with others that do not fail.
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := store.Update(context.Background(), func(tx book.Tx) error {
				if i%4 == 0 {
					return failing(tx)
				}
				return tx.Put(&book.Tally{Policy: "p", Day: strconv.Itoa(i)})
			})
			if (i%4 == 0) != errors.Is(err, errTest) {
				t.Errorf("transaction %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	view(t, store, func(tx book.Tx) {
		for i := range 40 {
			r, err := tx.Get((&book.Tally{Policy: "p", Day: strconv.Itoa(i)}).Key())
			if err != nil || (r == nil) != (i%4 == 0) {
				t.Errorf("tally %d: %v, %v", i, r, err)
			}
		}
		if r, err := tx.Get(book.StatusKey("p")); err != nil || r.(*book.Status).Active != "v1" {
			t.Errorf("status %+v, %v, want the first one", r, err)
		}
		if head, err := tx.Head(); err != nil || head.Count != 1 {
			t.Errorf("head %+v, %v, want the first entry", head, err)
		}
	})
}

func viewCannotWrite(t *testing.T, open Factory) {
	store, _ := open(t)
	update(t, store, func(tx book.Tx) error { seal(t, tx, "first"); return nil })
	view(t, store, func(tx book.Tx) {
		if tx.Put(&book.Status{Policy: "p"}) == nil {
			t.Error("put in a view")
		}
		if tx.Append(chain.Entry{Seq: 2}) == nil {
			t.Error("append in a view")
		}
		if tx.Erase(1) == nil {
			t.Error("erase in a view")
		}
	})
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := store.Update(canceled, func(book.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("update after its context: %v", err)
	}
	if err := store.View(canceled, func(book.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("view after its context: %v", err)
	}
}

func chainComesBack(t *testing.T, open Factory) {
	store, reopen := open(t)
	var want []chain.Entry
	for range 3 {
		update(t, store, func(tx book.Tx) error {
			for i := range 300 {
				want = append(want, seal(t, tx, "é "+strconv.Itoa(i)))
			}
			if e, err := tx.Entry(want[len(want)-1].Seq); err != nil || !cmp.Equal(e, want[len(want)-1]) {
				t.Errorf("entry %+v, %v in its own transaction", e, err)
			}
			if err := tx.Append(chain.Entry{Seq: 1}); err == nil {
				t.Error("an entry was appended out of turn")
			}
			return nil
		})
	}
	if reopen != nil {
		store = reopen()
	}
	view(t, store, func(tx book.Tx) {
		for _, from := range []int64{-1, 1, 400, 901} {
			var got []chain.Entry
			for e, err := range tx.Entries(from) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			same := func(a, b chain.Entry) bool { return reflect.DeepEqual(a, b) }
			if tail := want[max(from, 1)-1:]; !slices.EqualFunc(tail, got, same) {
				t.Errorf("%d entries from %d, want %d as they were appended", len(got), from, len(tail))
			}
		}
		if e, err := tx.Entry(901); err != nil || e.Seq != 0 {
			t.Errorf("entry behind the end: %+v, %v", e, err)
		}
		result, err := chain.Verify(tx.Entries(1))
		if err != nil || !result.Valid() || result.Entries != 900 {
			t.Errorf("verify: %+v, %v", result, err)
		}
	})
}

func eraseKeepsHashes(t *testing.T, open Factory) {
	store, reopen := open(t)
	var want chain.Entry
	update(t, store, func(tx book.Tx) error {
		seal(t, tx, "first")
		want = seal(t, tx, "second")
		seal(t, tx, "third")
		return nil
	})
	update(t, store, func(tx book.Tx) error {
		if err := tx.Erase(2); err != nil {
			return err
		}
		if tx.Erase(9) == nil {
			t.Error("an entry that does not exist was erased")
		}
		return nil
	})
	if reopen != nil {
		store = reopen()
	}
	view(t, store, func(tx book.Tx) {
		want.Body = nil
		if e, err := tx.Entry(2); err != nil || !cmp.Equal(e, want) {
			t.Errorf("entry %+v, %v, want %+v", e, err, want)
		}
		if e, err := tx.Entry(1); err != nil || e.Body == nil {
			t.Errorf("entry %+v, %v lost its content", e, err)
		}
	})
}

// updatesAreSerial: a read and a write of it in one transaction, from many goroutines, loses nothing.
func updatesAreSerial(t *testing.T, open Factory) {
	store, reopen := open(t)
	const workers, each = 16, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := store.Update(context.Background(), func(tx book.Tx) error {
					r, err := tx.Get(book.StatusKey("p"))
					if err != nil {
						return err
					}
					next := &book.Status{Policy: "p"}
					if r != nil {
						next.ActiveSeq = r.(*book.Status).ActiveSeq
					}
					next.ActiveSeq++
					return tx.Put(next)
				})
				if err != nil {
					t.Error(err)
				}
				view(t, store, func(tx book.Tx) {
					if r, err := tx.Get(book.StatusKey("p")); err != nil || r == nil {
						t.Errorf("a view after an update saw %v, %v", r, err)
					}
				})
			}
		})
	}
	wg.Wait()
	if reopen != nil {
		store = reopen()
	}
	view(t, store, func(tx book.Tx) {
		r, err := tx.Get(book.StatusKey("p"))
		if err != nil || r.(*book.Status).ActiveSeq != workers*each {
			t.Errorf("status %+v, %v, want %d increments", r, err, workers*each)
		}
	})
}

func closedStoreRefuses(t *testing.T, open Factory) {
	store, reopen := open(t)
	if reopen == nil {
		t.Skip("a store in memory has nothing to close")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var storage *book.StorageError
	if err := store.Update(context.Background(), func(book.Tx) error { return nil }); !errors.As(err, &storage) {
		t.Errorf("update of a closed store: %v", err)
	}
	if err := store.View(context.Background(), func(book.Tx) error { return nil }); !errors.As(err, &storage) {
		t.Errorf("view of a closed store: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
