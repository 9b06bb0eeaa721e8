package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// mixedDocuments are limits of all kinds whose scopes overlap.
const mixedDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: rate, kind: rate, rate: 4/s, burst: 6, scope: { by: [account] } }
    - { name: slots, kind: concurrency, max: 3, scope: { by: [account] } }
    - { name: org, kind: concurrency, max: 2, scope: { by: [account, "var:org"] } }
    - { name: end, kind: concurrency, max: 2, scope: { by: [endpoint] } }
    - { name: minute, kind: quota, max: 60, window: { period: minute }, scope: { by: [provider] } }
    - { name: roll, kind: quota, max: 25, window: { rolling: 20s }, scope: { by: [account, "var:org"] } }
    - { name: errors, kind: quota, max: 8, window: { every: 30s }, counts: { status: [403] }, scope: { by: [account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: bolt }
spec: { provider: vendor, budget: { share: 0.5 } }
`

// mixedRequest draws one of a few requests.
func mixedRequest(t *rapid.T) *Request {
	return &Request{
		Priority: rapid.SampledFrom([]string{"critical", "high", "normal", "low"}).Draw(t, "priority"),
		Request: match.Request{
			Account: rapid.SampledFrom([]string{"acme", "bolt"}).Draw(t, "account"), Method: "GET",
			Endpoint: rapid.SampledFrom([]string{"/o/{org}/a", "/o/{org}/b"}).Draw(t, "endpoint"),
			Vars:     map[string]string{"org": rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "org")},
		},
	}
}

// sums are what an engine counts, by limit and key: slots in use, units that fly, and those who refer to the key.
func (e *Engine) sums() map[string][3]int64 {
	out := map[string][3]int64{}
	for id := uint32(1); id <= e.slab.next; id++ {
		c, s := e.slab.cold(id), e.slab.hot(id)
		if c.limit == nil {
			continue
		}
		var n [3]int64
		switch n[2] = int64(s.pins); c.limit.kind {
		case kindConcurrency:
			n[0] = s.used
		case kindQuota:
			n[1] = s.flying
		}
		if n != [3]int64{} {
			out[c.limit.name+" "+e.key(c)] = n
		}
	}
	return out
}

// All or none, and nothing is lost: after any sequence of calls, slots, units in flight and pins are exactly those of the requests
// that are granted or wait.
func TestConservation(t *testing.T) {
	config := validatetest.Config(t, mixedDocuments)
	rapid.Check(t, func(t *rapid.T) {
		e := New(config, Options{})
		requests := map[Ticket]*Prepared{}
		granted, settled := map[Ticket]bool{}, map[Ticket]bool{}
		var order []Ticket
		now := goldenStart
		decided := func(ticket Ticket, refused *RefusedError) {
			if refused != nil {
				delete(requests, ticket)
				return
			}
			granted[ticket] = true
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += rapid.Int64Range(0, 2e9).Draw(t, "step")
			var ticket Ticket
			if len(order) > 0 {
				ticket = rapid.SampledFrom(order).Draw(t, "ticket")
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				p, err := e.Prepare(now, mixedRequest(t))
				if err != nil {
					t.Fatal(err)
				}
				ticket, ok, refused := e.Reserve(now, p, rapid.Bool().Draw(t, "retry"), now+rapid.Int64Range(0, 9e9).Draw(t, "patience"))
				if refused == nil {
					requests[ticket], granted[ticket] = p, ok
					order = append(order, ticket)
				}
			case 3:
				status := rapid.SampledFrom([]int{200, 403, 429, 500}).Draw(t, "status")
				ok := e.Settle(now, ticket, &Response{Status: status})
				if ok != (requests[ticket] != nil && granted[ticket] && !settled[ticket]) {
					t.Fatal("only a granted request can be settled, once")
				}
				settled[ticket] = settled[ticket] || ok
			case 4:
				for i := range 2 { // the second does nothing
					if ok := e.Release(now, ticket); ok != (i == 0 && requests[ticket] != nil && granted[ticket]) {
						t.Fatal("only a granted request can be released, once")
					}
				}
				if granted[ticket] {
					delete(requests, ticket)
				}
			case 5:
				e.Cancel(ticket)
				if !granted[ticket] {
					delete(requests, ticket)
				}
			}
			e.Advance(now, decided)
			want := map[string][3]int64{}
			for ticket, p := range requests {
				p.addTo(want, e, granted[ticket], settled[ticket])
			}
			if got := e.sums(); !reflect.DeepEqual(got, want) {
				t.Fatalf("counted %v, want %v", got, want)
			}
		}
	})
}

// addTo adds what a request that is granted or waits must hold.
func (p *Prepared) addTo(sums map[string][3]int64, e *Engine, granted, settled bool) {
	for i := range p.entries {
		en := &p.entries[i]
		name := en.limit.name + " " + e.key(en.cold)
		n := sums[name]
		n[2]++
		if granted && en.limit.kind == kindConcurrency {
			n[0]++
		}
		if granted && !settled && en.limit.kind == kindQuota {
			n[1] += en.cost
		}
		sums[name] = n
	}
}

// A waiter that is cancelled leaves no trace: whatever comes later is decided as if it had never come.
func TestCancelledWaiterLeavesNoTrace(t *testing.T) {
	config := validatetest.Config(t, mixedDocuments)
	cancelled := 0
	rapid.Check(t, func(t *rapid.T) {
		with, without := New(config, Options{}), New(config, Options{})
		now := goldenStart
		type pair struct{ a, b Ticket }
		var open []pair
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 1e9).Draw(t, "step")
			q := mixedRequest(t)
			until := now + rapid.Int64Range(0, 9e9).Draw(t, "patience")
			if rapid.IntRange(0, 2).Draw(t, "ghost") == 0 {
				// It is cancelled before time goes on; only if it waits is it a ghost at all.
				ticket, granted, err := with.ReserveRequest(now, q, false, until)
				if err != nil {
					continue
				}
				if !granted {
					with.Cancel(ticket)
					cancelled++
					continue
				}
				other, alsoGranted, err := without.ReserveRequest(now, q, false, until)
				if err != nil || !alsoGranted {
					t.Fatal("a request is granted only where another was cancelled before")
				}
				open = append(open, pair{ticket, other})
			} else {
				a, grantedA, errA := with.ReserveRequest(now, q, false, until)
				b, grantedB, errB := without.ReserveRequest(now, q, false, until)
				if grantedA != grantedB || fmt.Sprint(errA) != fmt.Sprint(errB) {
					t.Fatalf("%v %v, but without the cancelled %v %v", grantedA, errA, grantedB, errB)
				}
				if errA == nil {
					open = append(open, pair{a, b})
				}
			}
			if len(open) > 0 && rapid.Bool().Draw(t, "land") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				with.Settle(now, open[i].a, &Response{Status: 200})
				without.Settle(now, open[i].b, &Response{Status: 200})
				with.Release(now, open[i].a)
				without.Release(now, open[i].b)
			}
			var a, b []string
			with.Advance(now, func(_ Ticket, r *RefusedError) { a = append(a, fmt.Sprint(r)) })
			without.Advance(now, func(_ Ticket, r *RefusedError) { b = append(b, fmt.Sprint(r)) })
			if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(with.sums(), without.sums()) {
				t.Fatalf("%v, but without the cancelled %v", a, b)
			}
		}
	})
	if cancelled == 0 {
		t.Error("nothing was ever cancelled")
	}
}

// First in, first out among equals; higher priority first.
func TestOrderOfWaiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := New(validatetest.Config(t, oneLimit("kind: rate, rate: 1/s, burst: 1", "")), Options{})
		now := goldenStart
		order, prepared := []Ticket{}, map[Ticket]*Prepared{}
		if _, granted, _ := e.ReserveRequest(now, plainRequest(), false, now); !granted {
			t.Fatal("the first is not granted")
		}
		n := rapid.IntRange(2, 20).Draw(t, "waiters")
		age := map[Ticket]int{}
		for i := range n {
			q := plainRequest()
			q.Priority = rapid.SampledFrom([]string{"critical", "high", "normal", "low"}).Draw(t, "priority")
			p, _ := e.Prepare(now, q)
			ticket, granted, refused := e.Reserve(now, p, false, forever)
			if granted || refused != nil {
				t.Fatal("a request does not wait")
			}
			prepared[ticket], age[ticket] = p, i
		}
		for range n {
			at, ok := e.Next()
			if !ok {
				t.Fatal("nobody is woken, though requests wait: a deadlock")
			}
			now = at
			e.Advance(now, func(ticket Ticket, _ *RefusedError) { order = append(order, ticket) })
		}
		if len(order) != n {
			t.Fatalf("%d of %d are granted in %d s", len(order), n, n)
		}
		for i := 1; i < n; i++ {
			a, b := prepared[order[i-1]].priority, prepared[order[i]].priority
			if a < b || a == b && age[order[i-1]] > age[order[i]] {
				t.Fatalf("number %d goes before one that comes first", age[order[i-1]])
			}
		}
	})
}

// A restored engine behaves like the one that the snapshot was taken from, also by way of its JSON.
func TestRestoreBehavesLikeTheOriginal(t *testing.T) {
	one := func(t *rapid.T) {
		documents := drawDocuments(t)
		config := tryConfig(documents)
		if config == nil {
			t.Skip("documents are not valid")
		}
		rows := drawRows(t, rapid.IntRange(10, 60).Draw(t, "rows"))
		at := rapid.IntRange(1, len(rows)-1).Draw(t, "restart after")
		a := New(config, Options{})
		enforce(t, config, a, rows[:at])
		// What is in flight at a restart is lost, so the loop has drained.
		now := max(a.now, rows[at].at) + rapid.Int64Range(0, 30e9).Draw(t, "pause")
		data, err := json.Marshal(a.Snapshot(now))
		if err != nil {
			t.Fatal(err)
		}
		var snapshot Snapshot
		if err := json.Unmarshal(data, &snapshot); err != nil {
			t.Fatal(err)
		}
		b := New(config, Options{})
		if n := b.Restore(now, &snapshot); n != 0 {
			t.Fatalf("%d are skipped", n)
		}
		want, got := normal(&snapshot), normal(b.Snapshot(now))
		for id, state := range want {
			if got[id] != state {
				t.Fatalf("%s:\n%s, restored\n%s", id, state, got[id])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d keys, restored %d", len(want), len(got))
		}
		compareRestored(t, config, a, b, rows[at:], now)
	}
	for n := 0; n < soak(2000); n += 4000 {
		rapid.Check(t, one)
		if t.Failed() {
			return
		}
	}
}

// compareRestored runs the same rows, moved to now, through both engines.
func compareRestored(t *rapid.T, config *validate.Config, a, b *Engine, rows []*row, now int64) {
	move := now - rows[0].at
	for _, r := range rows {
		r.at += move
	}
	want, got := enforce(t, config, a, rows), enforce(t, config, b, rows)
	for _, r := range rows {
		if x, y := got[r.index].words(), want[r.index].words(); x != y {
			t.Fatalf("row %d: restored: %s, original: %s", r.index, x, y)
		}
	}
}

// normal is the keys of a snapshot as JSON, without the instants at which full buckets were full.
func normal(s *Snapshot) map[string]string {
	out := map[string]string{}
	for _, state := range s.Scopes {
		if state.Used == 0 && state.EndNanos == 0 {
			state.StartNanos = 0
		}
		text, _ := json.Marshal(state)
		out[state.Provider+" "+state.Limit+" "+state.Key] = string(text)
	}
	return out
}

func TestRestoreLeavesOutWhatIsUnknown(t *testing.T) {
	e := New(validatetest.Config(t, oneLimit("kind: quota, max: 10, window: { period: hour }", "")), Options{})
	skipped := e.Restore(goldenStart, &Snapshot{
		Scopes: []ScopeState{
			{Provider: "gone", Limit: "l", Key: "acme"},
			{Provider: "vendor", Limit: "gone", Key: "acme"},
			{Provider: "vendor", Limit: "l", Key: "acme/org=1"},
			{
				Provider: "vendor", Limit: "l", Key: "acme", Used: 7, Learned: 20,
				StartNanos: goldenStart - 12*3600e9, EndNanos: goldenStart + 12*3600e9,
			}, // a day, as the limit was before
		},
		Breakers: []BreakerState{{Account: "gone", Open: true}},
	})
	if skipped != 4 {
		t.Errorf("%d skipped, want 4", skipped)
	}
	e.Projections(goldenStart, func(p *Projection) {
		if p.Used != 0 || p.Max != 20 {
			t.Errorf("used %d of %d, want 0 of the learned 20", p.Used, p.Max)
		}
	})
}

// Keys that nobody uses any more are dropped, and their symbols with them; those that have something to remember are not.
func TestMemoryFollowsWhatIsLive(t *testing.T) {
	e := New(validatetest.Config(t, benchDocuments), Options{})
	symbols := e.symbols.index.count
	now := benchStart
	for i := range 200_000 {
		now += 50e6 // a day and more in all: buckets, slots and days become idle
		ticket, granted, err := e.ReserveRequest(now, benchRequest(i), false, now)
		if !granted {
			t.Fatal(err)
		}
		e.Settle(now, ticket, &Response{Status: 200})
		e.Release(now, ticket)
	}
	// Rates and slots are kept 15 minutes: 18,000 keys each and as many again that wait for the sweep; days to the end of tomorrow.
	if rates := e.providers["vendor"].limits[0].keys.count; rates > 60_000 {
		t.Errorf("%d buckets are kept", rates)
	}
	for range 400_000 {
		now += 1e9
		ticket, _, _ := e.ReserveRequest(now, benchRequest(1), false, now)
		e.Release(now, ticket)
	}
	if e.Keys() != 3 || e.symbols.index.count > symbols+5 {
		t.Errorf("%d keys and %d symbols are kept, want 3 and about %d", e.Keys(), e.symbols.index.count, symbols)
	}
}

// A key is dropped only when nothing would be forgotten: a penalty's row lasts, and a prepared request finds its key again.
func TestDroppedKeysComeBack(t *testing.T) {
	d := newDesk(t, oneLimit("kind: rate, rate: 1/s, burst: 5", ""))
	d.send(0, 0, 200)
	for i := range int64(10_000) { // time passes elsewhere
		d.tick(i * 1e9)
		d.sweep(i * 1e9)
	}
	if d.Keys() != 0 {
		t.Fatalf("%d keys are kept", d.Keys())
	}
	d.send(1e13, 1e13, 429)
	d.send(1e13+3e9, 1e13+3e9, 429)
	for i := range int64(10_000) {
		d.sweep(1e13 + i*1e9)
	}
	if d.Keys() != 1 || d.blockedFor(1e13+3e9) != 4 {
		t.Errorf("the second penalty in a row is %v s, want 4; %d keys", d.blockedFor(1e13+3e9), d.Keys())
	}
}

// Keys of many dimensions are told apart, and written and read as they are shown.
func TestKeysOfManyDimensions(t *testing.T) {
	e := New(validatetest.Config(t, oneLimit(`kind: quota, max: 9, window: { period: day }, scope: { by: [account, target, credential, method, endpoint, "var:a", instance, "var:b"] }`, "")), Options{})
	seen := map[string]bool{}
	for _, a := range []string{"1", "12", "", "x/y", "50%", "\x00"} {
		for _, b := range []string{"2", "1", "", "3:1"} {
			q := plainRequest()
			q.Target, q.Credential, q.Vars = "t", "c", map[string]string{"a": a, "b": b}
			p, err := e.Prepare(0, q)
			if err != nil || len(p.entries) != 1 {
				t.Fatal(err, p)
			}
			key := e.key(p.entries[0].cold)
			if want := e.config.Providers[0].Limits[0].Match(&q.Request).Key; key != want || seen[key] {
				t.Errorf("key %q, want %q, seen before: %v", key, want, seen[key])
			}
			seen[key] = true
			values, ok := p.entries[0].limit.parseKey(key)
			if !ok || !reflect.DeepEqual(values, e.keyValues(p.entries[0].cold)) {
				t.Errorf("%q is read as %q", key, values)
			}
		}
	}
	if e.Keys() != 24 {
		t.Errorf("%d keys, want 24", e.Keys())
	}
}
