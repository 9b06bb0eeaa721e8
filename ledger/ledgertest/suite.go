// Package ledgertest holds the suite that every ledger passes, and one that needs no file.
package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
)

// Run runs the suite. open makes an empty ledger; it is closed by the suite.
func Run(t *testing.T, open func(t *testing.T) ledger.Ledger) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, func(*testing.T) ledger.Ledger)
	}{
		{"restore", testRestore},
		{"replace", testReplace},
		{"journal", testJournal},
		{"intervals", testIntervals},
		{"states", testStates},
		{"inventories and runs", testRuns},
		{"salt", testSalt},
		{"prune", testPrune},
		{"files", testFiles},
		{"concurrent", testConcurrent},
		{"cancelled", testCancelled},
		{"empty", testEmpty},
		{"twin", testTwin},
		{"odd text", testOddText},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

// now is the suite's present.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func with(t *testing.T, open func(*testing.T) ledger.Ledger, changes ...ledger.Changes) ledger.Ledger {
	t.Helper()
	store := open(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range changes {
		if err := store.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func counter(key string, start time.Time, length time.Duration, used int64) ledger.Counter {
	return ledger.Counter{
		CounterKey: ledger.CounterKey{Provider: "meraki", Limit: "daily", ScopeKey: key, StartNanos: start.UnixNano()},
		EndNanos:   start.Add(length).UnixNano(), Used: used, UpdatedNanos: start.Add(length / 2).UnixNano(),
	}
}

func minute(key string, at time.Time, used int64) ledger.Minute {
	return ledger.Minute{CounterKey: ledger.CounterKey{Provider: "meraki", Limit: "daily", ScopeKey: key, StartNanos: at.UnixNano()}, Used: used}
}

func row(id string, at time.Time) ledger.Row {
	return ledger.Row{
		ID: id, At: at, Status: 200, Latency: 182 * time.Millisecond, Headers: map[string]string{"X-Left": "9", "Age": "0"},
		Request: ledger.RowRequest{
			Provider: "meraki", Account: "acme", Method: "GET", Endpoint: "/o/{id}/devices", Vars: map[string]string{"id": "5"}, Job: "devices",
			Priority: "normal",
		},
	}
}

func collect[T any](t interface {
	Helper()
	Fatal(...any)
}, rows iter.Seq2[T, error],
) (out []T) {
	t.Helper()
	for v, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

var loose = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)}

func same(t interface {
	Helper()
	Errorf(string, ...any)
}, what string, got, want any,
) {
	t.Helper()
	if diff := cmp.Diff(want, got, loose); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// testRestore: windows that hold now come back with their leases; those that are over, or not begun, do not.
func testRestore(t *testing.T, open func(*testing.T) ledger.Ledger) {
	day := 24 * time.Hour
	midnight := now.Truncate(day)
	remaining, most, used := int64(3), int64(5000), int64(7)
	current := counter("current", midnight, day, 110)
	current.Lease, current.ObservedRemaining, current.ObservedMax, current.ObservedUsed = 10, &remaining, &most, &used
	ended := counter("ended", now.Add(-day), day, 5) // its end is now: half open
	begins := counter("begins", now, day, 6)
	later := counter("later", now.Add(time.Nanosecond), day, 7)
	store := with(t, open, ledger.Changes{
		Counters: []ledger.Counter{current, ended, begins, later},
		Minutes:  []ledger.Minute{minute("k", now.Add(-time.Hour), 1), minute("k", now.Add(-59*time.Minute), 2), minute("k", now, 3), minute("k", now.Add(time.Minute), 4)},
	})
	got, err := store.Restore(t.Context(), now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "counters", got.Counters, []ledger.Counter{begins, current})
	same(t, "minutes", got.Minutes, []ledger.Minute{minute("k", now.Add(-59*time.Minute), 2), minute("k", now, 3)})
}

// testReplace: what is written twice is there once, as it was written last; a count can go down, when a lease is given back.
func testReplace(t *testing.T, open func(*testing.T) ledger.Ledger) {
	c, m := counter("k", now, time.Hour, 20), minute("k", now, 20)
	c.Lease, m.Lease = 8, 8
	less, lessM := counter("k", now, 2*time.Hour, 12), minute("k", now, 12)
	store := with(t, open, ledger.Changes{Counters: []ledger.Counter{c}, Minutes: []ledger.Minute{m}},
		ledger.Changes{Counters: []ledger.Counter{c}, Minutes: []ledger.Minute{m}},
		ledger.Changes{Counters: []ledger.Counter{less}, Minutes: []ledger.Minute{lessM}})
	same(t, "counters", collect(t, store.Counters(t.Context(), ledger.Interval{})), []ledger.Counter{less})
	same(t, "minutes", collect(t, store.Minutes(t.Context(), ledger.Interval{})), []ledger.Minute{lessM})
}

// testJournal: order by instant, then as written; of one id, provider and account the last; without an id all.
func testJournal(t *testing.T, open func(*testing.T) ledger.Ledger) {
	first, second := row("a", now.Add(time.Second)), row("b", now)
	partial, final, other := row("m1", now.Add(2*time.Second)), row("m1", now.Add(2*time.Second)), row("m1", now.Add(2*time.Second))
	partial.Status, final.Status, other.Account = 0, 200, "bolt"
	anonymous := row("", now.Add(3*time.Second))
	refused := row("r", now.Add(4*time.Second))
	refused.Status, refused.Refused, refused.Headers, refused.Latency = 0, "quota_exhausted", nil, 0
	body := row("body", now.Add(5*time.Second+time.Nanosecond))
	body.Body, body.Retry, body.Auth, body.Vars = "slow \"down\"\n", true, true, nil
	store := with(t, open,
		ledger.Changes{Rows: []ledger.Row{first, second, partial, other, anonymous, anonymous, refused, body}},
		ledger.Changes{Rows: []ledger.Row{final}})
	got := collect(t, store.Journal(t.Context(), ledger.Interval{}))
	same(t, "journal", got, []ledger.Row{second, first, final, other, anonymous, anonymous, refused, body})
}

// testIntervals: all reading is half open.
func testIntervals(t *testing.T, open func(*testing.T) ledger.Ledger) {
	var c ledger.Changes
	for i := range 5 {
		at := now.Add(time.Duration(i) * time.Minute)
		c.Rows = append(c.Rows, row(fmt.Sprint(i), at))
		c.Counters = append(c.Counters, counter("k", at, time.Minute, int64(i)))
		c.Minutes = append(c.Minutes, minute("k", at, int64(i)))
	}
	store := with(t, open, c)
	for _, test := range []struct {
		in       ledger.Interval
		from, to int
	}{
		{ledger.Interval{}, 0, 5},
		{ledger.Interval{From: now.Add(time.Minute), To: now.Add(3 * time.Minute)}, 1, 3},
		{ledger.Interval{From: now.Add(time.Minute + 1)}, 2, 5},
		{ledger.Interval{To: now.Add(time.Minute + 1)}, 0, 2},
		{ledger.Interval{From: now, To: now}, 0, 0},
	} {
		same(t, fmt.Sprint(test.in, " rows"), collect(t, store.Journal(t.Context(), test.in)), c.Rows[test.from:test.to])
		same(t, fmt.Sprint(test.in, " counters"), collect(t, store.Counters(t.Context(), test.in)), c.Counters[test.from:test.to])
		same(t, fmt.Sprint(test.in, " minutes"), collect(t, store.Minutes(t.Context(), test.in)), c.Minutes[test.from:test.to])
	}
	n := 0
	for _, err := range store.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break // a reader may stop
		}
	}
	if n != 2 {
		t.Errorf("stopped after %d rows", n)
	}
}

// testStates: each list replaces the one before, nil leaves it, and what has expired does not come back.
func testStates(t *testing.T, open func(*testing.T) ledger.Ledger) {
	penalty := ledger.State{Kind: "penalty", Name: "meraki/perOrg", Key: "5", Value: []byte{0, 1, 255}, ExpiresNanos: now.UnixNano() + 1}
	expired := ledger.State{Kind: "penalty", Name: "meraki/perOrg", Key: "6", Value: []byte("x"), ExpiresNanos: now.UnixNano()}
	learned := ledger.State{Kind: "learned", Name: "meraki/daily", Key: "acme", Value: nil}
	store := with(t, open, ledger.Changes{States: []ledger.State{expired}}, ledger.Changes{States: []ledger.State{penalty, learned, expired}}, ledger.Changes{})
	got, err := store.Restore(t.Context(), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "states", got.States, []ledger.State{learned, penalty})
	if err := store.Apply(t.Context(), ledger.Changes{States: []ledger.State{}}); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Restore(t.Context(), now, 0); err != nil || len(got.States) != 0 {
		t.Errorf("after an empty list there are %v, %v", got.States, err)
	}
}

func testRuns(t *testing.T, open func(*testing.T) ledger.Ledger) {
	old := ledger.Inventory{Job: "orgs", At: now, Items: []map[string]string{{"id": "1"}, {"id": "2", "name": "é"}}}
	fresh := ledger.Inventory{Job: "orgs", At: now.Add(time.Hour), Items: []map[string]string{{"id": "3"}}}
	nets := ledger.Inventory{Job: "networks", Instance: "3", At: now}
	run := func(job string, minutes int, status string) ledger.Run {
		return ledger.Run{Job: job, Account: "acme", Started: now.Add(time.Duration(minutes) * time.Minute), Duration: time.Second, Pages: 2, Requests: 3, Items: 40, Status: status}
	}
	failed := run("devices", 3, "failed")
	failed.Error = "503"
	store := with(t, open, ledger.Changes{
		Inventories: []ledger.Inventory{old, nets}, Runs: []ledger.Run{run("devices", 1, "ok"), run("orgs", 2, "ok"), run("devices", 3, "ok")},
	}, ledger.Changes{Inventories: []ledger.Inventory{fresh}, Runs: []ledger.Run{failed}})
	inventories, err := store.Inventories(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "inventories", inventories, []ledger.Inventory{nets, fresh})
	gone := ledger.Changes{Inventories: []ledger.Inventory{{Job: "networks", Instance: "3", Gone: true}, {Job: "none", Gone: true}}}
	if err := store.Apply(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	left, err := store.Inventories(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "inventories without the one that is gone", left, []ledger.Inventory{fresh})
	for _, test := range []struct {
		job  string
		n    int
		want []ledger.Run
	}{
		{"", 10, []ledger.Run{failed, run("orgs", 2, "ok"), run("devices", 1, "ok")}},
		{"devices", 1, []ledger.Run{failed}},
		{"devices", 0, nil},
		{"none", 5, nil},
	} {
		got, err := store.Runs(t.Context(), test.job, test.n)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("last %d runs of %q", test.n, test.job), got, test.want)
	}
}

func testSalt(t *testing.T, open func(*testing.T) ledger.Ledger) {
	store := with(t, open)
	first, err := store.Salt(t.Context(), []byte("first"))
	if err != nil || string(first) != "first" {
		t.Fatalf("%q, %v", first, err)
	}
	second, err := store.Salt(t.Context(), []byte("second"))
	if err != nil || string(second) != "first" {
		t.Errorf("a second salt replaced the first: %q, %v", second, err)
	}
}

func testPrune(t *testing.T, open func(*testing.T) ledger.Ledger) {
	var c ledger.Changes
	for i := range 4 {
		at := now.Add(time.Duration(i) * time.Hour)
		c.Rows = append(c.Rows, row(fmt.Sprint(i), at))
		c.Counters = append(c.Counters, counter("k", at, time.Hour, 1))
		c.Minutes = append(c.Minutes, minute("k", at, 1))
		c.Runs = append(c.Runs, ledger.Run{Job: "j", Started: at, Status: "ok"})
	}
	c.Rows[0].Account = "bolt" // a request of which nothing is left
	store := with(t, open, c)
	got, err := store.Prune(t.Context(), now.Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pruned", got, ledger.Pruned{Rows: 2, Counters: 2, Minutes: 2, Runs: 2})
	same(t, "rows", collect(t, store.Journal(t.Context(), ledger.Interval{})), c.Rows[2:])
	same(t, "counters", collect(t, store.Counters(t.Context(), ledger.Interval{})), c.Counters[2:])
	same(t, "minutes", collect(t, store.Minutes(t.Context(), ledger.Interval{})), c.Minutes[2:])
	// What was pruned can come back, its request included.
	if err := store.Apply(t.Context(), ledger.Changes{Rows: c.Rows[:1]}); err != nil {
		t.Fatal(err)
	}
	same(t, "after adding again", collect(t, store.Journal(t.Context(), ledger.Interval{})), []ledger.Row{c.Rows[0], c.Rows[2], c.Rows[3]})
}

// testFiles: export, import, export gives the same bytes, for every kind, format and compression; a second import changes
// nothing.
func testFiles(t *testing.T, open func(*testing.T) ledger.Ledger) {
	random := rand.New(rand.NewPCG(1, 2))
	from := with(t, open, randomChanges(random, 300))
	for _, what := range []ledger.What{ledger.WhatJournal, ledger.WhatCounters, ledger.WhatMinutes} {
		for _, name := range []string{"a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz", "a.csv.zst", "a.parquet.gz"} {
			t.Run(string(what)+" "+name, func(t *testing.T) {
				format, compression := ledger.FormatOf(name)
				first := export(t, from, what, format, compression)
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, first, 0o600); err != nil {
					t.Fatal(err)
				}
				to := with(t, open)
				for range 2 {
					stats, err := ledger.Import(t.Context(), to, path, what, journal.Options{Strict: true})
					if err != nil || stats.Rows != 300 {
						t.Fatalf("%d rows, %v", stats.Rows, err)
					}
					if second := export(t, to, what, format, compression); !bytes.Equal(first, second) {
						t.Fatalf("%d bytes became %d others", len(first), len(second))
					}
				}
			})
		}
	}
}

func export(t *testing.T, store ledger.Ledger, what ledger.What, format ledger.Format, compression string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := ledger.Compress(&b, compression)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ledger.Export(t.Context(), store, w, what, format, ledger.Interval{})
	if err = errors.Join(err, w.Close()); err != nil || n != 300 {
		t.Fatalf("%d rows, %v", n, err)
	}
	return b.Bytes()
}

// randomChanges makes n rows, counters and minutes, with all that is awkward in a file.
func randomChanges(random *rand.Rand, n int) (c ledger.Changes) {
	awkward := []string{"", "a", `"`, ",", "\r\n", "é", "a b", "{}", "0", "-", "#x", "\u2028"}
	pick := func() string { return awkward[random.IntN(len(awkward))] + awkward[random.IntN(len(awkward))] }
	for i := range n {
		r := row(fmt.Sprintf("id-%d%s", i, pick()), now.Add(time.Duration(random.Int64N(int64(time.Hour)))))
		r.Status, r.Latency, r.Body = random.IntN(1000), time.Duration(random.Int64N(1e10)), pick()
		r.Headers, r.Vars = map[string]string{pick(): pick(), "A": pick()}, map[string]string{pick(): pick()}
		r.Account, r.Target, r.Refused, r.Retry = pick(), pick(), pick(), random.IntN(2) == 0
		c.Rows = append(c.Rows, r)
		at := now.Add(time.Duration(i) * time.Minute)
		count := counter(pick(), at, time.Minute, random.Int64N(1e15))
		if random.IntN(2) == 0 {
			observed := random.Int64()
			count.ObservedMax = &observed
		}
		c.Counters = append(c.Counters, count)
		c.Minutes = append(c.Minutes, minute(pick(), at, random.Int64N(100)))
	}
	return c
}

// testConcurrent: writers and readers side by side; every reader sees whole transactions.
func testConcurrent(t *testing.T, open func(*testing.T) ledger.Ledger) {
	store := with(t, open)
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range 25 {
				at := now.Add(time.Duration(i) * time.Minute)
				c := ledger.Changes{Rows: []ledger.Row{row(fmt.Sprintf("%d-%d", w, i), at)}, Minutes: []ledger.Minute{minute(fmt.Sprint(w), at, 1)}}
				if err := store.Apply(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		group.Go(func() {
			for range 10 {
				s, err := store.Restore(t.Context(), now.Add(time.Hour), 2*time.Hour)
				if err != nil {
					t.Error(err)
				}
				last := map[string]int64{}
				for _, m := range s.Minutes { // in order of time: none may be missing before one that is there
					if want := last[m.ScopeKey]; m.StartNanos != now.UnixNano()+want*int64(time.Minute) {
						t.Errorf("writer %s: minute %d is missing", m.ScopeKey, want)
					}
					last[m.ScopeKey]++
				}
			}
		})
	}
	group.Wait()
	if n := len(collect(t, store.Journal(t.Context(), ledger.Interval{}))); n != 100 {
		t.Errorf("%d rows of 100", n)
	}
}

func testCancelled(t *testing.T, open func(*testing.T) ledger.Ledger) {
	store := with(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Apply(ctx, ledger.Changes{Rows: []ledger.Row{row("a", now)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was called off says %v", err)
	}
	if n := len(collect(t, store.Journal(t.Context(), ledger.Interval{}))); n != 0 {
		t.Errorf("a write that was called off wrote %d rows", n)
	}
}

func testEmpty(t *testing.T, open func(*testing.T) ledger.Ledger) {
	store := with(t, open, ledger.Changes{})
	s, err := store.Restore(t.Context(), now, time.Hour)
	if err != nil || len(s.Counters)+len(s.Minutes)+len(s.States) > 0 {
		t.Errorf("an empty ledger restores %v, %v", s, err)
	}
	for _, what := range []ledger.What{ledger.WhatJournal, ledger.WhatCounters, ledger.WhatMinutes} {
		for _, format := range []ledger.Format{ledger.FormatJSONL, ledger.FormatCSV, ledger.FormatParquet} {
			name := filepath.Join(t.TempDir(), "empty")
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			n, err := ledger.Export(t.Context(), store, f, what, format, ledger.Interval{})
			if err = errors.Join(err, f.Close()); err != nil || n != 0 {
				t.Errorf("%s as %s: %d rows, %v", what, format, n, err)
			}
			if stats, err := ledger.Import(t.Context(), store, name, what, journal.Options{}); err != nil || stats.Rows != 0 {
				t.Errorf("%s from %s: %d rows, %v", what, format, stats.Rows, err)
			}
		}
		if _, err := ledger.Export(t.Context(), store, io.Discard, what, "xml", ledger.Interval{}); err == nil {
			t.Errorf("%s can be exported as XML", what)
		}
	}
	if _, err := ledger.Export(t.Context(), store, io.Discard, "all", ledger.FormatCSV, ledger.Interval{}); err == nil {
		t.Error("all can be exported")
	}
}

// testTwin: any changes leave the ledger as they leave one in memory. Durable writes are slow: TAPYR_SOAK=1 does more of them.
func testTwin(t *testing.T, open func(*testing.T) ledger.Ledger) {
	store, twin := with(t, open), NewMemory()
	rounds := 15
	if os.Getenv("TAPYR_SOAK") != "" {
		rounds = 500
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	all := ledger.Interval{}
	for round := range rounds {
		c := randomChanges(random, random.IntN(12))
		before := now.Add(time.Duration(random.IntN(8)-4) * time.Minute)
		var got [2]ledger.Pruned
		for i, l := range []ledger.Ledger{store, twin} {
			err := l.Apply(t.Context(), c)
			if err == nil {
				got[i], err = l.Prune(t.Context(), before)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		same(t, "pruned", got[0], got[1])
		same(t, "journal", collect(t, store.Journal(t.Context(), all)), collect(t, twin.Journal(t.Context(), all)))
		same(t, "counters", collect(t, store.Counters(t.Context(), all)), collect(t, twin.Counters(t.Context(), all)))
		same(t, "minutes", collect(t, store.Minutes(t.Context(), all)), collect(t, twin.Minutes(t.Context(), all)))
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// testOddText: what a vendor sends need not be UTF-8, and may hold a zero.
func testOddText(t *testing.T, open func(*testing.T) ledger.Ledger) {
	odd := row("a\x00b\xff", now)
	odd.Headers = map[string]string{"X\xfe": "caf\xe9\x00"}
	odd.Body = "\xc3"
	want := row("a\x00b\uFFFD", now)
	want.Headers, want.Body = map[string]string{"X\uFFFD": "caf\uFFFD\x00"}, "\uFFFD"
	store := with(t, open, ledger.Changes{Rows: []ledger.Row{odd}})
	same(t, "journal", collect(t, store.Journal(t.Context(), ledger.Interval{})), []ledger.Row{want})
}
