package keep

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/ledgertest"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const documents = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://api.example.com
  circuitBreaker: { failures: 2 }
  limits:
  - { name: day, kind: quota, max: 5000, window: { period: day }, scope: { by: [account] }, sync: { remainingHeader: X-Left, limitHeader: X-Limit } }
  - { name: month, kind: quota, max: 90000, window: { period: month }, scope: { by: [account, "var:o"] } }
  - { name: roll, kind: quota, max: 4000, window: { rolling: 1h }, scope: { by: [account] } }
  - { name: opened, kind: quota, max: 3000, window: { every: 10m, anchor: firstRequest }, scope: { by: [account] } }
  - { name: pace, kind: rate, rate: 100/s, burst: 50, scope: { by: [account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }
`

type failer interface{ Fatal(...any) }

// life is one process: an engine that begins where the store is.
type life struct {
	keeper *Keeper
	engine *engine.Engine
	config *validate.Config
}

func begin(t failer, store ledger.Ledger, config *validate.Config, now time.Time) *life {
	l := &life{keeper: New(store), engine: engine.New(config, engine.Options{}), config: config}
	snapshot, err := l.keeper.Restore(context.Background(), now, config)
	if err != nil {
		t.Fatal(err)
	}
	if skipped := l.engine.Restore(now.UnixNano(), snapshot); skipped != 0 {
		t.Fatal("skipped", skipped)
	}
	return l
}

// call makes a request as the daemon does: granted, noted, covered, answered.
func (l *life) call(t failer, now time.Time, organization string, response *engine.Response) bool {
	request := &engine.Request{Request: match.Request{
		Provider: "p", Account: "a", Method: "GET", Endpoint: "/x", Vars: map[string]string{"o": organization},
	}}
	at := now.UnixNano()
	p, err := l.engine.Prepare(at, request)
	if err != nil {
		t.Fatal(err)
	}
	ticket, granted, _ := l.engine.Reserve(at, p, false, at)
	if !granted {
		return false
	}
	covered := true
	l.engine.Counted(at, p, func(c engine.Counted) { covered = l.keeper.Note(at, c) && covered })
	if !covered {
		if err := l.keeper.Write(context.Background(), now); err != nil {
			t.Fatal(err)
		}
	}
	l.engine.Settle(at, ticket, response)
	l.engine.Release(at, ticket)
	return true
}

func (l *life) flush(t failer, now time.Time, exact bool) {
	s := l.engine.Snapshot(now.UnixNano())
	l.keeper.Count(l.config, s)
	if err := l.keeper.Flush(context.Background(), l.config, s, exact); err != nil {
		t.Fatal(err)
	}
}

// used are the counts of all quotas by limit and key.
func (l *life) used(now time.Time) map[string]int64 {
	out := make(map[string]int64)
	l.engine.Projections(now.UnixNano(), func(p *engine.Projection) { out[p.Limit+" "+p.Key] = p.Used })
	return out
}

var start = time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC)

// After a clean end the next life has exactly what the last one had: counts, observations, penalties, breakers, timelines.
func TestCleanRestartIsExact(t *testing.T) {
	for name, open := range map[string]func() ledger.Ledger{
		"memory": func() ledger.Ledger { return ledgertest.NewMemory() },
		"sqlite": func() ledger.Ledger {
			s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), sqlite.Options{Mode: sqlite.Owner})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, config, now := open(), validatetest.Config(t, documents), start
			l := begin(t, store, config, now)
			for i := range 40 {
				response := &engine.Response{Status: 200}
				if i == 20 {
					response.Fields = []engine.Field{{Name: "X-Left", Value: "4000"}, {Name: "X-Limit", Value: "4900"}}
				}
				if i > 37 {
					response = &engine.Response{Status: 429, Fields: []engine.Field{{Name: "Retry-After", Value: "600"}}}
				}
				l.call(t, now, "one", response)
				now = now.Add(7 * time.Second)
			}
			l.flush(t, now, true)
			want := l.engine.Snapshot(now.UnixNano())
			again := begin(t, store, config, now)
			got := again.engine.Snapshot(now.UnixNano())
			if !reflect.DeepEqual(got, want) {
				for i := range want.Scopes {
					if i >= len(got.Scopes) || !reflect.DeepEqual(got.Scopes[i], want.Scopes[i]) {
						t.Errorf("was  %+v\nnow %+v", want.Scopes[i], got.Scopes[min(i, len(got.Scopes)-1)])
					}
				}
				t.Errorf("breakers were %+v, are %+v", want.Breakers, got.Breakers)
			}
		})
	}
}

// Whenever a process is killed, the next one's counts are never below what was spent, and above by at most the lease.
func TestKilledNeverTooLow(t *testing.T) {
	config := validatetest.Config(t, documents)
	rapid.Check(t, func(rt *rapid.T) {
		store, now := ledgertest.NewMemory(), start
		for range rapid.IntRange(1, 4).Draw(rt, "lives") {
			l := begin(rt, store, config, now)
			for range rapid.IntRange(0, 60).Draw(rt, "calls") {
				switch rapid.IntRange(0, 9).Draw(rt, "what") {
				case 0:
					l.flush(rt, now, false)
				case 1:
					now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(rt, "seconds")) * time.Second)
				default:
					l.call(rt, now, "one", &engine.Response{Status: 200})
				}
			}
			want := l.used(now)
			next := begin(rt, store, config, now)
			for key, used := range want {
				got := next.used(now)[key]
				if got < used {
					rt.Fatalf("%s was %d, is %d after a kill", key, used, got)
				}
				if lease := int64(5000 / leasePart * 4); got > used+lease {
					rt.Fatalf("%s was %d, is %d after a kill, more than a lease above", key, used, got)
				}
			}
		}
	})
}

// LG-17 for quotas: a store that fails stops nothing. Counts go on, Health says what is wrong, and everything is written when it can.
func TestAFailingStoreStopsNothing(t *testing.T) {
	store, config, now := ledgertest.NewMemory(), validatetest.Config(t, documents), start
	l := begin(t, store, config, now)
	full := &ledger.StorageError{Op: "write", Path: "s.db", Fault: ledger.FaultFull, Err: errors.New("database or disk is full")}
	store.Fail(full)
	at := now.UnixNano()
	request := &engine.Request{Request: match.Request{Provider: "p", Account: "a", Method: "GET", Endpoint: "/x", Vars: map[string]string{"o": "1"}}}
	p, err := l.engine.Prepare(at, request)
	if err != nil {
		t.Fatal(err)
	}
	for range 9 {
		ticket, granted, refused := l.engine.Reserve(at, p, false, at)
		if !granted {
			t.Fatal(refused)
		}
		l.engine.Counted(at, p, func(c engine.Counted) { l.keeper.Note(at, c) })
		if err := l.keeper.Write(t.Context(), now); !errors.Is(err, full) {
			t.Errorf("the write says %v", err)
		}
		l.engine.Release(at, ticket)
		l.keeper.Row(ledger.Row{At: now})
	}
	if h := l.keeper.Health(); h.Fault() != "full" || h.Err == nil || h.Failures != 1 || h.Pending != 9 || !h.Since.Equal(now) {
		t.Errorf("health: %+v", h)
	}
	store.Fail(nil)
	l.flush(t, now, true)
	if h := l.keeper.Health(); h.Err != nil || h.Fault() != "" || h.Pending != 0 || !h.Flushed.Equal(now) {
		t.Errorf("health afterwards: %+v", h)
	}
	if got := begin(t, store, config, now).used(now)["day a"]; got != 9 {
		t.Errorf("the next life counts %d, want 9", got)
	}
}

// What the documents no longer know does not come back, and what they cut differently counts anew.
func TestChangedDocuments(t *testing.T) {
	store, now := ledgertest.NewMemory(), start
	l := begin(t, store, validatetest.Config(t, documents), now)
	for range 5 {
		l.call(t, now, "one", &engine.Response{Status: 200})
	}
	l.flush(t, now, true)
	changed := validatetest.Config(t, `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://api.example.com
  limits:
  - { name: day, kind: quota, max: 100, window: { period: day }, scope: { by: [account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }
`)
	k := New(store)
	snapshot, err := k.Restore(t.Context(), now, changed)
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(changed, engine.Options{})
	e.Restore(now.UnixNano(), snapshot)
	count := 0
	e.Projections(now.UnixNano(), func(p *engine.Projection) {
		count++
		if p.Limit != "day" || p.Used != 5 {
			t.Errorf("restored %+v", p)
		}
	})
	if count != 1 {
		t.Errorf("%d quotas restored, want 1", count)
	}
}

func TestPruneFollowsWhatIsLive(t *testing.T) {
	store, config, now := ledgertest.NewMemory(), validatetest.Config(t, documents), start
	l := begin(t, store, config, now)
	for range 200 {
		l.call(t, now, "one", &engine.Response{Status: 200})
		l.flush(t, now, false)
		now = now.Add(11 * time.Hour)
	}
	if _, err := l.keeper.Prune(t.Context(), now, time.Hour, config); err != nil {
		t.Fatal(err)
	}
	if n := len(l.keeper.cells); n > 4*140 { // of four quotas, one every eleven hours
		t.Errorf("%d cells are remembered of %v", n, Horizon(config))
	}
	if n := len(l.keeper.noted); n > 200 {
		t.Errorf("%d counters are remembered", n)
	}
	if h := Horizon(config); h < 62*24*time.Hour {
		t.Errorf("the horizon of a month's quota is %v", h)
	}
}
