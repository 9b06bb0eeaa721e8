package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// TestExactHalvingAtNoon: after half a day of spending evenly, half of the maximum leaves next to nothing. The critical job lives
// on the reserve and keeps its interval; the vendor refuses nobody.
func TestExactHalvingAtNoon(t *testing.T) {
	text := strings.Replace(undersized("{ period: day }", readHeaders), "max: 6000", "max: 10000", 1)
	text = strings.Replace(text, "interval: 30s, priority: critical", "interval: 2m, priority: critical", 1)
	r := simulate.Run(simulate.Scenario{
		Config: validatetest.Config(t, text), Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 24 * time.Hour, Seed: 1,
		Faults: simulate.Faults{
			Latency: 100 * time.Millisecond,
			Changes: []simulate.LimitChange{{After: 12 * time.Hour, Provider: "vendor", Limit: "daily", Max: 5000}},
		},
	})
	if len(r.RateLimited) > 0 {
		t.Errorf("rate limited: %+v", r.RateLimited)
	}
	if critical := byName(t, r, "critical"); critical.MeanSeconds != 120 || critical.Failed > 0 {
		t.Errorf("the critical job ran every %v s and failed %d times", critical.MeanSeconds, critical.Failed)
	}
	if r.Requests > 5000 {
		t.Errorf("%d requests, more than the vendor's new limit", r.Requests)
	}
	low, high := byName(t, r, "low"), byName(t, r, "high")
	if low.MeanSeconds < high.MeanSeconds {
		t.Errorf("low ran every %v s, high every %v s", low.MeanSeconds, high.MeanSeconds)
	}
	if r.Broken > 0 {
		t.Errorf("violations %v", r.Violations)
	}
}
