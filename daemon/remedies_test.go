package daemon_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// A plan that is over a budget comes with what would help, once looked for, and a feasible one with nothing.
func TestRemediesOfThePlanInForce(t *testing.T) {
	limits := `  limits: [{ name: day, kind: quota, max: 100, window: { period: day }, scope: { by: [account] } }]`
	critical := strings.Replace(one("x", ""), "interval: 1h", "interval: 1m\n  priority: critical", 1)
	r := newRig(t, provider(limits)+critical, numbers)
	defer r.start(r.daemon)()
	s := r.daemon.Snapshot()
	if s.PlanFeasible {
		t.Fatal("1440 calls of 100 a day are feasible")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = r.daemon.Remedies(ctx, s.Plan, time.Minute) // begins to look, and does not wait
	found, ready := r.daemon.Remedies(t.Context(), s.Plan, time.Minute)
	kinds := make([]string, 0, len(found))
	for _, one := range found {
		kinds = append(kinds, one.Kind)
		if one.Limit != "day" || one.Key != "a" || one.Flag == "" || one.Message == "" {
			t.Errorf("%+v", one)
		}
	}
	if !ready || !slices.Contains(kinds, "interval") || !slices.Contains(kinds, "max") {
		t.Errorf("%v %+v", ready, found)
	}
	again, _ := r.daemon.Remedies(t.Context(), s.Plan, time.Minute)
	if len(again) == 0 || &again[0] != &found[0] {
		t.Error("they were looked for again")
	}
	if !s.Jobs[0].Kept || s.Accounts[0].Health != daemon.HealthDegraded || !strings.Contains(strings.Join(s.Accounts[0].Reasons, ";"), "the plan is infeasible: day of a") {
		t.Errorf("the account is shown as %+v", s.Accounts[0])
	}

	r.set(provider(limits) + one("x", ""))
	r.daemon.Reload()
	r.until("a feasible plan", func() bool { return r.daemon.Snapshot().PlanFeasible })
	for _, p := range []*daemon.Snapshot{new(daemon.Snapshot), &s} {
		if found, ready := r.daemon.Remedies(t.Context(), p.Plan, time.Minute); len(found) > 0 || !ready {
			t.Errorf("of a plan that is not in force: %+v", found)
		}
	}
}
