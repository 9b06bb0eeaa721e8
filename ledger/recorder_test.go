package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/ledgertest"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func counter(key string, used int64) ledger.Counter {
	return ledger.Counter{
		CounterKey: ledger.CounterKey{Provider: "p", Limit: "daily", ScopeKey: key, StartNanos: now.UnixNano()},
		EndNanos:   now.Add(24 * time.Hour).UnixNano(), Used: used,
	}
}

// stored is what a store would restore of a counter; -1 for nothing.
func stored(t interface{ Fatal(...any) }, store ledger.Ledger, key string) (used, lease int64) {
	for c, err := range store.Counters(context.Background(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.ScopeKey == key {
			return c.Used, c.Lease
		}
	}
	return -1, 0
}

// TestLease: a count is written ahead, by half as many again as were used since; a shutdown writes it as it is.
func TestLease(t *testing.T) {
	store := ledgertest.NewMemory()
	r := ledger.NewRecorder(ledger.RecorderOptions{MinLease: 2, MaxLease: 50})
	if r.Counter(counter("k", 10)) {
		t.Error("a count that was never written is covered")
	}
	steps := []struct {
		used        int64
		exact       bool
		want, lease int64
	}{
		{10, false, 25, 15}, {11, false, 13, 2}, {111, false, 161, 50}, {111, true, 111, 0},
	}
	for _, s := range steps {
		r.Counter(counter("k", s.used))
		if err := r.Flush(t.Context(), store, now, s.exact); err != nil {
			t.Fatal(err)
		}
		if used, lease := stored(t, store, "k"); used != s.want || lease != s.lease {
			t.Errorf("at %d (exact %v) the store has %d with a lease of %d, want %d with %d", s.used, s.exact, used, lease, s.want, s.lease)
		}
		if !r.Counter(counter("k", s.want)) || r.Counter(counter("k", s.want+1)) {
			t.Errorf("at %d the cover does not end at %d", s.used, s.want)
		}
	}
	// A window that is over is written as it is, without being asked.
	r.Counter(counter("k", 120))
	if err := r.Flush(t.Context(), store, now.Add(24*time.Hour), false); err != nil {
		t.Fatal(err)
	}
	if used, lease := stored(t, store, "k"); used != 120 || lease != 0 {
		t.Errorf("an ended window is stored as %d with a lease of %d", used, lease)
	}
}

// TestLeaseOf: a lease is bounded by what it means to the limit; at 0 every count is written as it is.
func TestLeaseOf(t *testing.T) {
	for bound, want := range map[int64]int64{0: 100, 3: 103, -1: 100, 1000: 250} {
		store := ledgertest.NewMemory()
		r := ledger.NewRecorder(ledger.RecorderOptions{LeaseOf: func(provider, limit string) int64 { return bound }})
		r.Counter(counter("k", 100))
		if err := r.Flush(t.Context(), store, now, false); err != nil {
			t.Fatal(err)
		}
		if used, _ := stored(t, store, "k"); used != want {
			t.Errorf("bound %d: stored %d, want %d", bound, used, want)
		}
		if r.Counter(counter("k", want+1)) {
			t.Errorf("bound %d: what is beyond the lease is covered", bound)
		}
	}
}

// failing fails a flush after it was written: as when the answer is lost.
type failing struct {
	ledger.Ledger
	after bool
	err   error
	spy   func()
}

func (f *failing) Apply(ctx context.Context, c ledger.Changes) error {
	if f.spy != nil {
		f.spy()
	}
	if f.err != nil && !f.after {
		return f.err
	}
	if err := f.Ledger.Apply(ctx, c); err != nil {
		return err
	}
	return f.err
}

// TestNeverTooLow: whatever fails, and whenever the process ends, the store has at least what was spent, and at most a lease more.
func TestNeverTooLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := &failing{Ledger: ledgertest.NewMemory()}
		const maxLease = 8
		options := ledger.RecorderOptions{MinLease: 1, MaxLease: maxLease}
		r := ledger.NewRecorder(options)
		used, spent := int64(0), int64(0)
		check := func() {
			got, _ := stored(t, store, "k")
			if got < spent || got > max(used, spent)+maxLease {
				t.Fatalf("%d are spent, %d noted, and the store has %d", spent, used, got)
			}
		}
		store.spy = func() { // a request that is granted while a flush is under way
			if used++; r.Counter(counter("k", used)) {
				spent = used
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0: // a crash
				r = ledger.NewRecorder(options)
				snap, err := store.Restore(context.Background(), now, 0)
				if err != nil {
					t.Fatal(err)
				}
				r.Restored(snap)
				if len(snap.Counters) > 0 {
					used = snap.Counters[0].Used
				} else {
					used = 0
				}
			case 1:
				store.err, store.after = errors.New("full"), rapid.Bool().Draw(t, "after")
			case 2:
				store.err = nil
			case 3, 4:
				exact := rapid.Bool().Draw(t, "exact")
				if err := r.Flush(context.Background(), store, now, exact); (err != nil) != (store.err != nil) && err != nil {
					t.Fatal(err)
				}
			default:
				used += rapid.Int64Range(1, 4).Draw(t, "cost")
				if !r.Counter(counter("k", used)) && r.Flush(context.Background(), store, now, false) != nil {
					used = max(spent, used) // refused or not: it is counted, and was not spent
					continue
				}
				if r.Counter(counter("k", used)) {
					spent = used
				}
			}
			if spent > 0 {
				check()
			}
		}
	})
}

// TestNothingLost: rows wait while the store fails, are written once when it does not, and are bounded.
func TestNothingLost(t *testing.T) {
	store := ledgertest.NewMemory()
	r := ledger.NewRecorder(ledger.RecorderOptions{MaxRows: 100})
	down := &ledger.StorageError{Fault: ledger.FaultFull, Err: errors.New("no space")}
	n := 0
	add := func(k int) {
		for range k {
			r.Row(ledger.Row{ID: fmt.Sprint(n), At: now.Add(time.Duration(n))})
			n++
		}
	}
	for round := range 6 {
		add(15)
		if store.Fail(nil); round < 3 {
			store.Fail(down)
		}
		if err := r.Flush(t.Context(), store, now, false); (err != nil) != (round < 3) {
			t.Fatal(err)
		}
	}
	if got := ids(t, store); len(got) != 90 || got[0] != "0" || got[89] != "89" {
		t.Errorf("%d rows, %v", len(got), got)
	}
	store.Fail(down)
	add(135)
	rows, dropped := r.Waiting()
	if rows > 100 || int64(rows)+dropped != 135 {
		t.Errorf("%d rows wait, %d were dropped", rows, dropped)
	}
	store.Fail(nil)
	if err := r.Flush(t.Context(), store, now, true); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, store); len(got) != 90+rows || got[len(got)-1] != "224" {
		t.Errorf("%d rows, the last is %s", len(got), got[len(got)-1])
	}
	if !down.Temporary() || (&ledger.StorageError{Fault: ledger.FaultCorrupt}).Temporary() {
		t.Error("a full disk passes, a damaged file does not")
	}
}

func ids(t *testing.T, store ledger.Ledger) (out []string) {
	t.Helper()
	for row, err := range store.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row.ID)
	}
	return out
}

// TestRecorderRest: states, inventories and runs go with the flush; what comes in meanwhile stays for the next.
func TestRecorderRest(t *testing.T) {
	store := &failing{Ledger: ledgertest.NewMemory()}
	r := ledger.NewRecorder(ledger.RecorderOptions{})
	r.States([]ledger.State{{Kind: "penalty", Key: "a", Value: []byte("1")}})
	r.Inventory(ledger.Inventory{Job: "orgs", At: now})
	r.Run(ledger.Run{Job: "orgs", Started: now})
	store.spy = func() {
		r.States([]ledger.State{{Kind: "penalty", Key: "b", Value: []byte("2")}})
		r.Run(ledger.Run{Job: "orgs", Started: now.Add(1)})
	}
	if err := r.Flush(t.Context(), store, now, false); err != nil {
		t.Fatal(err)
	}
	store.spy = nil
	if err := r.Flush(t.Context(), store, now, false); err != nil {
		t.Fatal(err)
	}
	snap, err := store.Restore(t.Context(), now, 0)
	if err != nil || len(snap.States) != 1 || snap.States[0].Key != "b" {
		t.Errorf("states %v, %v", snap.States, err)
	}
	runs, err := store.Runs(t.Context(), "", 10)
	if err != nil || len(runs) != 2 {
		t.Errorf("runs %v, %v", runs, err)
	}
	if inventories, err := store.Inventories(t.Context()); err != nil || len(inventories) != 1 {
		t.Errorf("inventories %v, %v", inventories, err)
	}
}

// TestForget: memory follows what is live; what is not written yet stays.
func TestForget(t *testing.T) {
	store := ledgertest.NewMemory()
	r := ledger.NewRecorder(ledger.RecorderOptions{})
	r.Counter(counter("old", 5))
	over := now.Add(48 * time.Hour)
	r.Forget(over, time.Hour)
	if err := r.Flush(t.Context(), store, over, false); err != nil {
		t.Fatal(err)
	}
	if used, _ := stored(t, store, "old"); used != 5 {
		t.Errorf("an unwritten count was forgotten: %d", used)
	}
	r.Forget(over, time.Hour)
	if r.Counter(counter("old", 5)) {
		t.Error("a count that was forgotten is covered")
	}
}

// TestLG10Restart: after a kill the counter goes on where the ledger has it: neither from nothing nor doubled by the journal.
func TestLG10Restart(t *testing.T) {
	var in struct {
		Quota, Used int64
		ThenCalls   int
	}
	var want struct{ Allowed, Denied, LedgerTotal int64 }
	golden.Case(t, "LG-10", &in, &want)
	store := ledgertest.NewMemory()
	// A lease of 1: the case has no room for units lost to a crash. They are flushed before each is spent.
	before := ledger.NewRecorder(ledger.RecorderOptions{MinLease: 1, MaxLease: 1})
	for used := int64(1); used <= in.Used; used++ {
		spend(t, before, store, used)
	}
	if err := before.Flush(t.Context(), store, now, true); err != nil { // the last flush before the kill
		t.Fatal(err)
	}
	snap, err := store.Restore(t.Context(), now, 0)
	if err != nil || len(snap.Counters) != 1 {
		t.Fatal(snap, err)
	}
	after := ledger.NewRecorder(ledger.RecorderOptions{MinLease: 1, MaxLease: 1})
	after.Restored(snap)
	used, allowed, denied := snap.Counters[0].Used, int64(0), int64(0)
	for range in.ThenCalls {
		if used >= in.Quota {
			denied++
			continue
		}
		used++
		allowed++
		spend(t, after, store, used)
	}
	if err := after.Flush(t.Context(), store, now, true); err != nil {
		t.Fatal(err)
	}
	if total, _ := stored(t, store, "k"); allowed != want.Allowed || denied != want.Denied || total != want.LedgerTotal {
		t.Errorf("%d allowed, %d denied, %d in the ledger; want %+v", allowed, denied, total, want)
	}
}

func spend(t *testing.T, r *ledger.Recorder, store ledger.Ledger, used int64) {
	t.Helper()
	r.Row(ledger.Row{ID: fmt.Sprint(used), At: now})
	if !r.Counter(counter("k", used)) {
		if err := r.Flush(t.Context(), store, now, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConcurrentFlush: grants and flushes side by side keep the rule, for each count that was covered.
func TestConcurrentFlush(t *testing.T) {
	store := ledgertest.NewMemory()
	r := ledger.NewRecorder(ledger.RecorderOptions{})
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			k := fmt.Sprint(w)
			for used := int64(1); used <= 300; used++ {
				for !r.Counter(counter(k, used)) {
					if err := r.Flush(t.Context(), store, now, false); err != nil {
						t.Error(err)
						return
					}
				}
				if got, _ := stored(t, store, k); got < used {
					t.Errorf("%d are spent and %d stored", used, got)
					return
				}
			}
		})
	}
	group.Wait()
}

// While a store fails, jobs go on: of runs so many wait, of inventories the last of each instance, and what is lost is counted.
func TestRecorderIsBoundedWhileAStoreFails(t *testing.T) {
	const most = 100
	r := ledger.NewRecorder(ledger.RecorderOptions{MaxRows: most})
	broken := brokenStore{ledgertest.NewMemory()}
	for i := range 50_000 {
		at := now.Add(time.Duration(i) * time.Second)
		r.Run(ledger.Run{Job: "j", Instance: "i", Started: at, Status: "ok"})
		r.Inventory(ledger.Inventory{Job: "j", Instance: fmt.Sprint(i % 7), At: at, Items: []map[string]string{{"n": fmt.Sprint(i)}}})
		if i%1000 == 0 {
			if err := r.Flush(t.Context(), broken, at, false); err == nil {
				t.Fatal("the store works")
			}
		}
	}
	store := ledgertest.NewMemory()
	if err := r.Flush(t.Context(), store, now, false); err != nil {
		t.Fatal(err)
	}
	inventories, err := store.Inventories(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(inventories) != 7 {
		t.Fatalf("%d inventories, want 7", len(inventories))
	}
	for _, one := range inventories {
		var n, instance int
		fmt.Sscan(one.Items[0]["n"], &n)
		fmt.Sscan(one.Instance, &instance)
		if n < 50_000-7 || n%7 != instance {
			t.Errorf("instance %s has item %d: not its last", one.Instance, n)
		}
	}
	runs, err := store.Runs(t.Context(), "j", 1000)
	if err != nil {
		t.Fatal(err)
	}
	_, dropped := r.Waiting()
	if len(runs) == 0 || len(runs) > most || int64(len(runs))+dropped != 50_000 {
		t.Errorf("%d runs were kept and %d dropped, of 50,000 with room for %d", len(runs), dropped, most)
	}
	if last := now.Add(49_999 * time.Second); !runs[0].Started.Equal(last) {
		t.Errorf("the last run that was kept is of %v, want %v", runs[0].Started, last)
	}
}

// brokenStore takes nothing.
type brokenStore struct{ *ledgertest.Memory }

func (brokenStore) Apply(context.Context, ledger.Changes) error { return errors.New("no") }
