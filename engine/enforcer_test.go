package engine_test

import (
	"testing"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const tallyDocuments = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: pace, kind: rate, rate: 1/s, burst: 3 }
    - { name: slots, kind: concurrency, max: 2 }
    - { name: hourly, kind: quota, max: 10, window: { period: hour } }
    - { name: lately, kind: quota, max: 5, window: { rolling: 1m } }
`

func tallies(t *testing.T, f *engine.Enforcer, now int64) map[string]engine.Tally {
	t.Helper()
	out := make(map[string]engine.Tally)
	r := match.Request{Provider: "vendor", Account: "key", Method: "GET", Endpoint: "/things"}
	p, err := f.Prepare(now, &r)
	if err != nil {
		t.Fatal(err)
	}
	f.Tally(now, p, func(x *engine.Tally) { out[x.Limit.Spec.Name] = *x })
	return out
}

// TestTally holds what a server tells in its headers against counts made by hand, before and after a maximum is lowered.
func TestTally(t *testing.T) {
	config := validatetest.Config(t, tallyDocuments)
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano()
	second := int64(time.Second)
	f := engine.NewEnforcer(config)
	r := match.Request{Provider: "vendor", Account: "key", Method: "GET", Endpoint: "/things"}
	var tickets []engine.Ticket
	for range 2 {
		ticket, _, err := f.Allow(start, &r)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	check := func(now int64, name string, maximum, used, reset int64) {
		t.Helper()
		got := tallies(t, f, now)[name]
		if got.MaxUnits != maximum || got.UsedUnits != used || got.ResetNanos != reset {
			t.Errorf("%s: max %d, used %d, reset %d; want %d, %d, %d", name, got.MaxUnits, got.UsedUnits, got.ResetNanos-start, maximum, used, reset-start)
		}
	}
	check(start, "pace", 3, 2, start+2*second)
	check(start+second, "pace", 3, 1, start+2*second)
	check(start+second, "slots", 2, 2, start+second)
	check(start+second, "hourly", 10, 2, start+3600*second)
	check(start+second, "lately", 5, 2, start+60*second)
	for _, ticket := range tickets {
		f.Done(start+second, ticket, 200)
	}
	check(start+second, "slots", 2, 0, start+second)
	check(start+60*second, "lately", 5, 0, start+60*second)

	if !f.SetMax(start+60*second, "vendor", "hourly", 2) {
		t.Fatal("the quota was not found")
	}
	if f.SetMax(start+60*second, "vendor", "pace", 2) || f.SetMax(start, "nobody", "hourly", 2) {
		t.Error("a bucket, or a limit of nobody, got a maximum")
	}
	check(start+60*second, "hourly", 2, 2, start+3600*second)
	_, wait, err := f.Allow(start+60*second, &r)
	if err == nil || wait != 3540 {
		t.Errorf("after the maximum was lowered: %v, retry after %d s; want a refusal for 3540 s", err, wait)
	}
	p, err := f.Prepare(start, &r)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 { // prepared requests are counted as others are
		_, wait, refused := f.AllowPrepared(start+3600*second, p)
		if (refused != nil) != (n == 2) || refused != nil && (refused.Limit != "hourly" || wait != 3600) {
			t.Errorf("request %d of the next hour: %v, retry after %d s", n+1, refused, wait)
		}
	}
}

// TestSetRate: what a bucket holds stays when its rate changes, to the part of a token that has come; a full one stays full.
func TestSetRate(t *testing.T) {
	config := validatetest.Config(t, tallyDocuments)
	rate := func(text string) schema.Rate {
		t.Helper()
		r, err := schema.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano()
	second := int64(time.Second)
	f := engine.NewEnforcer(config)
	r := match.Request{Provider: "vendor", Account: "key", Method: "GET", Endpoint: "/things"}
	allowed := func(at int64) bool {
		ticket, _, err := f.Allow(at, &r)
		if err == nil {
			f.Done(at, ticket, 200)
		}
		return err == nil
	}
	if f.SetRate(start, "vendor", "hourly", rate("1/s")) || f.SetRate(start, "nobody", "pace", rate("1/s")) {
		t.Error("a quota, or a limit of nobody, got a rate")
	}
	for range 3 {
		if !allowed(start) {
			t.Fatal("the burst is not there")
		}
	}
	// Half a token has come at 1/s; at 1/4s the other half takes two seconds.
	if !f.SetRate(start+second/2, "vendor", "pace", rate("1/4s")) {
		t.Fatal("the bucket was not found")
	}
	if at := start + second/2 + 2*second; allowed(at-1) || !allowed(at) {
		t.Error("the token is not there after 2.5 s and not before")
	}
	if got := tallies(t, f, start+3*second)["pace"]; got.MaxUnits != 3 || got.UsedUnits != 3 || got.ResetNanos != start+second/2+14*second {
		t.Errorf("max %d, used %d, full at %v; want 3, 3 and 14.5 s", got.MaxUnits, got.UsedUnits, time.Duration(got.ResetNanos-start))
	}
	// Long after, the bucket is full; no rate changes that.
	f.SetRate(start+60*second, "vendor", "pace", rate("1/h"))
	if got := tallies(t, f, start+60*second)["pace"]; got.UsedUnits != 0 {
		t.Errorf("%d tokens are missing from a full bucket", got.UsedUnits)
	}
}
