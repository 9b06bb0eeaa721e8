package engine

import (
	"testing"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// What Counted says of a request's quotas is what projections and timelines say of all keys.
func TestCountedAgreesWithProjectionsAndTimelines(t *testing.T) {
	config := validatetest.Config(t, `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://api.example.com
  limits:
  - { name: day, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] } }
  - { name: month, kind: quota, max: 9000, window: { period: month }, scope: { by: [account] } }
  - { name: roll, kind: quota, max: 500, window: { rolling: 1h }, scope: { by: [account] } }
  - { name: pace, kind: rate, rate: 1000/s, scope: { by: [account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }`)
	e := New(config, Options{})
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).UnixNano()
	p, err := e.Prepare(now, &Request{Request: match.Request{Provider: "p", Account: "a", Method: "GET", Endpoint: "/x"}})
	if err != nil {
		t.Fatal(err)
	}
	for step := range 200 {
		now += int64(time.Duration(step%7) * 20 * time.Second)
		ticket, granted, refused := e.Reserve(now, p, false, now)
		if !granted {
			t.Fatal(refused)
		}
		e.Settle(now, ticket, &Response{Status: 200})
		e.Release(now, ticket)
		seen := 0
		e.Counted(now, p, func(c Counted) {
			seen++
			slots := e.Timeline(now, c.Provider, c.Limit, c.Key)
			if last := slots[len(slots)-1]; last.StartNanos != c.CellNanos || last.Units != c.CellUnits {
				t.Fatalf("step %d: %s has cell %d with %d units, the timeline %+v", step, c.Limit, c.CellNanos, c.CellUnits, last)
			}
			e.Projections(now, func(j *Projection) {
				if j.Limit == c.Limit && !c.Rolling && (j.Used != c.UsedUnits || j.StartNanos != c.StartNanos || j.EndNanos != c.EndNanos) {
					t.Fatalf("step %d: %s counted %+v, projected %+v", step, c.Limit, c, j)
				}
			})
		})
		if seen != 3 {
			t.Fatalf("%d quotas, want 3: rates have no count to keep", seen)
		}
	}
}
