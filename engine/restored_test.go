package engine

import (
	"testing"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// Until its next request a restored quota shows what it showed before the restart: its maximum, the account's share, the reserve.
// It was shown as a quota of 0 units, and plans made at a start found every job infeasible.
func TestRestoredQuotaShowsItsMaximum(t *testing.T) {
	config := validatetest.Config(t, `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://api.example.com
  limits:
  - { name: plain, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] } }
  - { name: shared, kind: quota, max: 1000, window: { period: day }, scope: { by: [provider] } }
  - { name: byplan, kind: quota, max: { byVar: plan, values: { small: 200, large: 600 } }, window: { rolling: 1h }, scope: { by: ["var:plan", account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p, vars: { plan: small }, budget: { share: 0.5 } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: b }
spec: { provider: p, vars: { plan: large } }`)
	e := New(config, Options{})
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).UnixNano()
	for _, account := range []string{"a", "b"} {
		r := &Request{Request: match.Request{Provider: "p", Account: account, Method: "GET", Endpoint: "/x"}}
		ticket, granted, err := e.ReserveRequest(now, r, false, now)
		if !granted {
			t.Fatal(err)
		}
		e.Settle(now, ticket, &Response{Status: 200})
		e.Release(now, ticket)
	}
	figures := func(e *Engine) map[string][4]int64 {
		out := make(map[string][4]int64)
		e.Projections(now, func(p *Projection) { out[p.Limit+" "+p.Key] = [4]int64{p.Max, p.Usable, p.Reserve, p.Remaining} })
		return out
	}
	want := figures(e)
	again := New(config, Options{})
	if skipped := again.Restore(now, e.Snapshot(now)); skipped != 0 {
		t.Fatal("skipped", skipped)
	}
	got := figures(again)
	if len(got) != 5 || len(want) != 5 {
		t.Fatalf("%d and %d keys, want 5", len(want), len(got))
	}
	for key, figure := range want {
		if got[key] != figure {
			t.Errorf("%s had max, usable, reserve and remaining %v, has %v after a restart", key, figure, got[key])
		}
	}
}
