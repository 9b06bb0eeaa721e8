package engine

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/validate/validatetest"
)

func newHeard(t *testing.T, documents string) (*desk, *ears) {
	t.Helper()
	o := &ears{}
	d := &desk{Engine: New(validatetest.Config(t, documents), Options{Observer: o}), t: t}
	var err error
	if d.p, err = d.Prepare(0, plainRequest()); err != nil {
		t.Fatal(err)
	}
	return d, o
}

// A refusal is unexpected where the engine would have allowed the request; of a burst only the first is.
func TestUnexpectedRefusals(t *testing.T) {
	d, o := newHeard(t, oneLimit("kind: concurrency, max: 9", ""))
	var tickets []Ticket
	for range 3 {
		ticket, _ := d.try(0)
		tickets = append(tickets, ticket)
	}
	for i, ticket := range tickets {
		d.Settle(int64(i)+1, ticket, &Response{Status: 429})
		d.Release(int64(i)+1, ticket)
	}
	if o.limited != 3 || o.unexpected != 1 {
		t.Errorf("%d rate limited, %d unexpected, want 3 and 1", o.limited, o.unexpected)
	}
	// A recorded request that no limit would have let go.
	forced, allowed := d.Force(10, d.p, false)
	if d.Settle(20, forced, &Response{Status: 429}); allowed || o.unexpected != 1 {
		t.Errorf("allowed %v in a penalty, unexpected %d", allowed, o.unexpected)
	}
	d.Release(20, forced)
	later, allowed := d.Force(1e15, d.p, false)
	if d.Settle(1e15+1, later, &Response{Status: 429}); !allowed || o.unexpected != 2 {
		t.Errorf("allowed %v long after, unexpected %d", allowed, o.unexpected)
	}
}

// A limit header that disagrees is said once a window; what cannot be is counted and said each time.
func TestNotices(t *testing.T) {
	d, o := newHeard(t, oneLimit("kind: quota, max: 100, window: { every: 60s }, sync: { limitHeader: L, remainingHeader: R, resetHeader: T, remainingPercentHeader: P }", ""))
	for i := range int64(3) {
		d.send(i*30e9, i*30e9+1, 200, Field{"L", "50"}, Field{"R", "51"}, Field{"T", "9000"}, Field{"P", "100.5"})
	}
	if o.disagreed != 2 {
		t.Errorf("said %d times that the limit disagrees, want once in each of two windows", o.disagreed)
	}
	if got, want := strings.Join(o.ignored[:3], ", "), "l reset, l percent, l"; !strings.HasPrefix(got, want) || d.ignored < 6 {
		t.Errorf("%d ignored, first %s, want %s", d.ignored, got, want)
	}
	if o.granted != 3 || len(o.waits) != 3 || o.waits[0] != 0 {
		t.Errorf("%d grants with waits %v", o.granted, o.waits)
	}
}

// AIMD: a refusal multiplies the rate, a success adds to it, between the floor and the declared rate.
func TestAdaptiveRate(t *testing.T) {
	d, _ := newHeard(t, oneLimit("kind: rate, rate: 10/s, burst: 2, penalty: 1ms, adaptive: { decrease: 0.5, increase: 1, floor: 2 }", ""))
	rate := func() float64 {
		if r := d.p.entries[0].cold.rate; r != nil {
			return float64(r.micros) / micro
		}
		return 10
	}
	now := int64(0)
	answer := func(status int) float64 {
		now += 20e9
		d.send(now, now+1e6, status)
		return rate()
	}
	var got []float64
	for _, status := range []int{429, 429, 429, 200, 500, 200, 429, 200, 200, 200, 200, 200, 200, 200, 200} {
		got = append(got, answer(status))
	}
	want := []float64{5, 2.5, 2, 3, 3, 4, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("rates %v, want %v", got, want)
		}
	}
	// At 2/s the second token of a burst of 2 takes half a second.
	answer(429)
	answer(429)
	answer(429)
	now += 20e9
	d.send(now, now, 500)
	if wait := d.blockedFor(now); wait != 0.5 {
		t.Errorf("the next token comes after %v s, want 0.5", wait)
	}
}

func TestRead(t *testing.T) {
	documents := oneLimit("kind: quota, max: 100, window: { period: hour }, sync: { limitHeader: L, remainingHeader: R, resetHeader: T }",
		"  errors: { rateLimited: { maxPenalty: 1h } }")
	e := New(validatetest.Config(t, documents), Options{})
	read := func(status int, fields ...Field) string {
		t.Helper()
		r, err := e.Read(goldenStart, plainRequest(), &Response{Status: status, Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(r)
		return string(text)
	}
	for _, c := range []struct {
		got, want string
	}{
		{
			read(429, Field{"Retry-After", "30"}, Field{"l", "50"}, Field{"R", "0"}, Field{"T", "60"}),
			`{"rateLimited":true,"penaltySeconds":30,"penaltyOn":[{"limit":"l","key":"acme"}],` +
				`"limits":[{"limit":"l","max":50,"remaining":0,"resetAt":"2026-11-30T00:01:00Z"}],"ignored":[]}`,
		},
		{read(200, Field{"X", "1"}), `{"rateLimited":false,"penaltySeconds":0,"penaltyOn":[],"limits":[],"ignored":[]}`},
		{
			read(429, Field{"Retry-After", "99999"}, Field{"R", "101"}, Field{"Age", "0"}),
			`{"rateLimited":true,"penaltySeconds":3600,"penaltyOn":[{"limit":"l","key":"acme"}],"limits":[],` +
				`"ignored":["the wait \"99999\" is above maxPenalty, which holds instead","l: remaining \"101\" is above the maximum"]}`,
		},
		{
			read(429, Field{"Retry-After", "0"}, Field{"Age", "3"}, Field{"R", "1"}),
			`{"rateLimited":true,"penaltySeconds":2,"penaltyOn":[{"limit":"l","key":"acme"}],"limits":[],` +
				`"ignored":["Retry-After \"0\" asks for no wait, so the default holds","the response comes from a cache, so it teaches nothing about limits"]}`,
		},
	} {
		if c.got != c.want {
			t.Errorf("read\n%s, want\n%s", c.got, c.want)
		}
	}
	if _, err := e.Read(0, &Request{}, &Response{}); err == nil {
		t.Error("a request without an account is read")
	}
}

func TestCredentialKey(t *testing.T) {
	a := CredentialKey([]byte("salt"), "secret")
	if len(a) != 16 || strings.Trim(a, "0123456789abcdef") != "" || a != CredentialKey([]byte("salt"), "secret") {
		t.Errorf("%q is not 16 hexadecimal digits that stay the same", a)
	}
	for _, other := range []string{CredentialKey([]byte("pepper"), "secret"), CredentialKey([]byte("salt"), "sec", "ret"), CredentialKey([]byte("salt"), "secre", "t"), CredentialKey([]byte("salt"))} {
		if other == a {
			t.Error("another salt or other secrets have the same key")
		}
	}
}

// Projections never show what is no number, whatever the quota and the clock say.
func TestProjectionsAreNumbers(t *testing.T) {
	for _, limit := range []string{
		"kind: quota, max: 0, window: { period: day }", "kind: quota, max: 1, window: { rolling: 1ms }", "kind: quota, max: 5, window: { every: 1ms, anchor: firstRequest }",
		"kind: quota, max: 1000000000000000, cost: 1000000000000, window: { rolling: 1d }",
	} {
		d := newDesk(t, oneLimit(limit, ""))
		for _, now := range []int64{-1e18, 0, 1, 1e6, 5e18, math.MaxInt64 - 1} {
			d.try(now)
			d.Projections(now, func(p *Projection) {
				for _, x := range []float64{p.Recent, p.Own, p.ExternalRate, p.ProjectedEnd, p.ProjectedTotal} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Errorf("%s at %d: %+v", limit, now, p)
					}
				}
			})
		}
	}
}

// Two accounts with different shares and maxima use one key: each is held to its own.
func TestMixedShares(t *testing.T) {
	e := New(validatetest.Config(t, `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits: [{ name: l, kind: quota, max: { byVar: plan, values: { big: 20, small: 4 } }, window: { period: day }, scope: { by: [credential] } }]
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { budget: { retryReserve: 0 } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor, vars: { plan: big }, budget: { share: 0.5 } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: bolt }
spec: { provider: vendor, vars: { plan: small } }
`), Options{})
	count := map[string]int{}
	for i := range 24 {
		q := plainRequest()
		q.Account, q.Credential = []string{"acme", "bolt"}[i%2], "k"
		if _, granted, _ := e.ReserveRequest(goldenStart, q, false, goldenStart); granted {
			count[q.Account]++
		}
	}
	if count["bolt"] != 2 || count["acme"] != 8 || e.Keys() != 1 {
		t.Errorf("%v, want bolt held at 4 in all, acme at 10; %d keys", count, e.Keys())
	}
}

// The timeline of a window and the one before, by the minute; corrected costs are corrected there too.
func TestTimeline(t *testing.T) {
	d := newDesk(t, oneLimit("kind: quota, max: 1000, window: { every: 10m }, costFrom: { header: C }", ""))
	start := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(25) {
		d.send(start+i*60e9, start+i*60e9+5e9, 200, Field{"C", "3"})
		d.send(start+i*60e9+30e9, start+i*60e9+100e9, 200, Field{"C", "2"}) // answered in the next minute
	}
	slots := d.Timeline(start+24*60e9+59e9, "vendor", "l", "acme")
	if len(slots) != 15 || slots[0].StartNanos != start+10*60e9 || slots[14].StartNanos != start+24*60e9 {
		t.Fatalf("%d slots from %v", len(slots), slots)
	}
	for _, s := range slots {
		if s.Units != 5 {
			t.Errorf("%d units at %v, want 5", s.Units, time.Unix(0, s.StartNanos).UTC())
		}
	}
	if d.Timeline(start, "vendor", "l", "nobody") != nil {
		t.Error("an unknown key has a timeline")
	}
}

// A limit in shadow mode counts what it would have refused.
func TestShadowed(t *testing.T) {
	d := newDesk(t, oneLimit("kind: quota, max: 2, mode: shadow, window: { period: day } }\n    - { name: r, kind: rate, rate: 1/s, burst: 2, mode: shadow, scope: { by: [account] }", ""))
	for range 5 {
		if _, refused := d.try(goldenStart); refused != nil {
			t.Fatal(refused)
		}
	}
	got := map[string]int64{}
	d.Shadowed(func(provider, limit string, n int64) { got[provider+"/"+limit] = n })
	if got["vendor/l"] != 3 || got["vendor/r"] != 4 { // one of two tokens stays behind
		t.Errorf("%v would have been refused, want 3 by the quota and 4 by the bucket", got)
	}
}
