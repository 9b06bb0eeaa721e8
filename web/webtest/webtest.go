// Package webtest makes snapshots of daemons that never ran, for tests of what is shown of them.
package webtest

import (
	"fmt"
	"math"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/plan"
)

// Condition is how a daemon fares.
type Condition string

const (
	// Healthy: all is well.
	Healthy Condition = "healthy"
	// Degraded: jobs are stretched, a quota runs out, a key is refused, requests wait.
	Degraded Condition = "degraded"
	// Infeasible: the plan does not fit, the files cannot be loaded and the disk is full.
	Infeasible Condition = "infeasible"
)

// At is the instant of all snapshots.
var At = time.Date(2026, 11, 30, 13, 5, 0, 0, time.UTC)

// Snapshot of a daemon with at least three quota keys. It is the same for the same arguments.
func Snapshot(c Condition, scopes int) *daemon.Snapshot {
	s := &daemon.Snapshot{
		At: At, StartedAt: At.Add(-37*time.Hour - 12*time.Minute), Version: "v1.2.3", Ready: true, PlanFeasible: true, PlanHolds: true,
		PlannedAt: before(3 * time.Minute), Replans: 446,
		Config:  daemon.ConfigState{Generation: 2, LoadedAt: At.Add(-5 * time.Hour), Reloads: 1},
		State:   daemon.StateHealth{Path: "tapyr.db", OK: true, FlushedAt: before(4 * time.Second), Flushes: 26784},
		Changes: []daemon.IntervalChange{{At: At.Add(-5 * time.Hour), Job: "meraki-clients", FromSeconds: 900, ToSeconds: 2232, Why: "reload"}},
		Inventories: []daemon.InventoryState{
			{Job: "meraki-organizations", Instances: 1, Listed: 1, Items: 3, RefreshedAt: before(11 * time.Minute), AgeSeconds: seconds(660)},
			{Job: "meraki-networks", Instances: 3, Listed: 3, Items: 120, RefreshedAt: before(7 * time.Minute), AgeSeconds: seconds(420)},
		},
		Learned: []learn.Count{
			{Provider: "meraki", Var: "organizationId", Key: "device", Identifiers: 1418},
			{Provider: "meraki", Var: "organizationId", Key: "network", Identifiers: 120},
		},
		Deliveries: &dispatch.State{
			Policies: []dispatch.PolicyState{{Policy: "logistics", Pending: 14, OldestAt: before(12 * time.Second)}},
			Routes: []dispatch.RouteState{
				{Policy: "logistics", Route: "economy", Account: "carrier-b", InFlight: 2, Attempts: map[string]int64{"ok": 941}},
				{Policy: "logistics", Route: "standard", Account: "carrier-a", Attempts: map[string]int64{"ok": 1204, "busy": 3}},
			},
		},
		Totals: daemon.Totals{
			Granted: 1_204_311, Refused: map[string]int64{},
			ByLimit: []daemon.LimitTotals{
				{Provider: "aruba-central", Limit: "daily", Refused: map[string]int64{}},
				{Provider: "meraki", Limit: "daily", Refused: map[string]int64{}},
			},
			Waits: []daemon.WaitHistogram{
				{Priority: "critical", BoundsSeconds: []float64{0.1, 1, 10}, Counts: []int64{900, 990, 1000}, Count: 1000, SumSeconds: 55.5},
				{Priority: "low", BoundsSeconds: []float64{0.1, 1, 10}, Counts: []int64{10, 40, 90}, Count: 100, SumSeconds: 512},
			},
		},
	}
	s.Accounts = accounts()
	s.Jobs = jobs()
	s.Scopes = quotas(c, max(3, scopes))
	s.Plan = planOf(s)
	if c != Healthy {
		degrade(s)
	}
	if c == Infeasible {
		breakPlan(s)
	}
	return s
}

func before(d time.Duration) *time.Time {
	t := At.Add(-d)
	return &t
}

func seconds(f float64) *float64 { return &f }

func accounts() []daemon.AccountHealth {
	return []daemon.AccountHealth{
		{
			Account: "acme-meraki", Provider: "meraki", Health: daemon.HealthOK, Reasons: []string{}, Requests: 1_190_000, Succeeded: 1_189_100,
			Failed: 900, LastSuccessAt: before(2 * time.Second),
		},
		{
			Account: "acme-aruba", Provider: "aruba-central", Health: daemon.HealthOK, Reasons: []string{}, Requests: 14_311, Succeeded: 14_311,
			LastSuccessAt: before(40 * time.Second),
		},
	}
}

func jobs() []daemon.JobState {
	names := []struct {
		job, account, provider, priority, forEach string
		desired, interval                         float64
		instances                                 int
	}{
		{"meraki-organizations", "acme-meraki", "meraki", "normal", "", 3600, 3600, 1},
		{"meraki-statuses", "acme-meraki", "meraki", "critical", "meraki-organizations", 60, 60, 3},
		{"meraki-devices", "acme-meraki", "meraki", "high", "meraki-organizations", 300, 300, 3},
		{"meraki-networks", "acme-meraki", "meraki", "normal", "meraki-organizations", 600, 600, 3},
		{"meraki-clients", "acme-meraki", "meraki", "low", "meraki-networks", 900, 2232, 120},
		{"aruba-aps", "acme-aruba", "aruba-central", "normal", "", 300, 300, 1},
	}
	out := make([]daemon.JobState, len(names))
	for i, n := range names {
		next := At.Add(time.Duration(n.interval/3) * time.Second)
		out[i] = daemon.JobState{
			Job: n.job, Account: n.account, Provider: n.provider, Priority: n.priority, ForEach: n.forEach, Kept: true, DesiredSeconds: n.desired,
			IntervalSeconds: n.interval, Stretch: n.interval / n.desired, Instances: n.instances,
			Runs: map[string]int64{"ok": int64(1000 * n.instances)}, Requests: int64(2000 * n.instances), Retries: 4,
			LastRun: &daemon.RunState{
				Instance: n.job, StartedAt: At.Add(-time.Duration(n.interval/2) * time.Second), DurationSeconds: 1.25, Status: "ok", Pages: 2, Requests: 2, Items: 240,
			},
			NextRunAt: &next, LastSuccessAt: before(time.Duration(n.interval/2) * time.Second), AgeSeconds: seconds(n.interval / 2), Fresh: true, Series: 120 * n.instances,
		}
		if n.interval > n.desired {
			out[i].LimitedBy = "daily acme-meraki (quota)"
		}
	}
	return out
}

// quotas are keys of three limits: a calendar day, a rolling hour, and the rest a day for each of many organizations.
func quotas(c Condition, n int) []daemon.ScopeState {
	day := At.Truncate(24 * time.Hour)
	out := []daemon.ScopeState{
		quota("aruba-central", "daily", "acme-aruba", day, day.Add(24*time.Hour), 5000, 5000, 2300, 120),
		quota("aruba-central", "hourly", "acme-aruba", At.Add(-time.Hour), At, 1000, 1000, 240, 0),
	}
	for i := range n - 2 {
		key := "acme-meraki"
		if n > 3 {
			key = fmt.Sprintf("acme-meraki/organizationId=%d", 549236+7919*i)
		}
		used := int64(9000 + 6000*math.Abs(math.Sin(float64(i))))
		if c != Healthy && i%29 == 0 {
			used = 24_500 - int64(i)*20
		}
		out = append(out, quota("meraki", "daily", key, day, day.Add(24*time.Hour), 40_000, 30_000, used, 2600))
	}
	if c != Healthy {
		out[0] = quota("aruba-central", "daily", "acme-aruba", day, day.Add(24*time.Hour), 5000, 5000, 4500, 500)
	}
	return out
}

// quota is a key with a timeline that adds up to used, and what follows from its pace.
func quota(provider, limit, key string, start, end time.Time, most, usable, used, external int64) daemon.ScopeState {
	s := daemon.ScopeState{
		Provider: provider, Limit: limit, Kind: "quota", Key: key, WindowStart: start, WindowEnd: end, Max: most, Declared: most, Usable: usable,
		Reserve: usable / 10, Used: used, External: external, Remaining: min(usable-used, most-used-external), SlotSeconds: 900,
	}
	elapsed := At.Sub(start)
	if !end.After(At) {
		elapsed = end.Sub(start)
		s.SlotSeconds = 60
	}
	slot := time.Duration(s.SlotSeconds) * time.Second
	slots := int64(elapsed / slot)
	for i := -slots / 2; i < slots; i++ { // the window before, too
		wave := 1 + 0.6*math.Sin(float64(i)/4)
		s.Timeline = append(s.Timeline, daemon.Slot{At: start.Add(time.Duration(i) * slot), Units: int64(float64(used) / float64(slots) * wave)})
	}
	s.OwnPerHour = float64(used) / elapsed.Hours()
	s.RecentPerHour = s.OwnPerHour * 1.2
	s.ExternalPerHour = float64(external) / elapsed.Hours()
	left := max(0, end.Sub(At).Hours())
	s.ProjectedEnd = float64(used) + s.RecentPerHour*left
	s.ProjectedTotal = s.ProjectedEnd + float64(external) + s.ExternalPerHour*left
	if pace := s.RecentPerHour + s.ExternalPerHour; pace > 0 {
		if at := At.Add(time.Duration(float64(max(0, s.Remaining)) / pace * float64(time.Hour))); at.Before(end) {
			s.ExhaustsAt = &at
		}
	}
	return s
}

// planOf is a plan over the snapshot's quotas.
func planOf(s *daemon.Snapshot) *plan.Plan {
	p := &plan.Plan{At: At.Add(-3 * time.Minute), Feasible: true}
	for i := range s.Scopes {
		q := &s.Scopes[i]
		budget := float64(q.Remaining - q.Reserve)
		p.Scopes = append(p.Scopes, plan.Scope{
			Provider: q.Provider, Limit: q.Limit, Kind: q.Kind, Key: q.Key, Keys: 1, WindowStart: q.WindowStart, WindowEnd: q.WindowEnd,
			HorizonSeconds: 39_300, Quota: &plan.Quota{Max: q.Max, Share: 1, Usable: q.Usable, Reserve: q.Reserve, Used: q.Used, Remaining: q.Remaining},
			Budget: max(0, budget), Demand: budget * 1.4, Projected: max(0, budget*(0.97-0.001*float64(i))), Peak: budget, Feasible: true,
		})
	}
	for _, j := range s.Jobs {
		p.Jobs = append(p.Jobs, plan.Job{
			Job: j.Job, Account: j.Account, Provider: j.Provider, Priority: j.Priority, DesiredSeconds: j.DesiredSeconds,
			EffectiveSeconds: j.IntervalSeconds, Stretch: j.Stretch, Instances: int64(j.Instances), CallsPerRun: 1.05,
		})
	}
	p.Assertions = []plan.Assertion{
		{Kind: "maxInterval", Job: "meraki-devices", Want: 900, Got: 300, OK: true},
		{Kind: "headroom", Provider: "meraki", Limit: "daily", Key: "acme-meraki", Want: 0.01, Got: 0.03, OK: true},
	}
	return p
}

// degrade is what goes wrong on an ordinary bad day.
func degrade(s *daemon.Snapshot) {
	aruba := &s.Accounts[1]
	aruba.Health, aruba.RateLimited = daemon.HealthFailing, 12
	aruba.Reasons = []string{"the quota daily of acme-aruba is used up until 00:00 UTC", "3 of the last 5 runs failed"}
	s.Accounts[0].Health, s.Accounts[0].Reasons = daemon.HealthDegraded, []string{"meraki-clients runs every 37m 12s instead of every 15m"}
	s.Scopes[0].RateLimited, s.Scopes[0].UnexpectedRateLimited, s.Scopes[0].Refused, s.Scopes[0].Disagreements = 12, 3, 41, 1
	s.Totals.RateLimited, s.Totals.UnexpectedRateLimited, s.Totals.Disagreements, s.Totals.IgnoredHeaders = 12, 3, 1, 2
	s.Totals.Refused = map[string]int64{"quota_exhausted": 40, "deadline": 1}
	s.Totals.ByLimit[0] = daemon.LimitTotals{
		Provider: "aruba-central", Limit: "daily", RateLimited: 12, UnexpectedRateLimited: 3, Disagreements: 1,
		Refused: map[string]int64{"quota_exhausted": 40, "deadline": 1},
	}
	job := &s.Jobs[5]
	job.Fresh, job.AgeSeconds, job.LastSuccessAt = false, seconds(5400), before(90*time.Minute)
	job.Error, job.ErrorAt = "page 1: the server answered 429 Too Many Requests", before(time.Minute)
	job.LastRun.Status, job.LastRun.Error, job.Runs["failed"] = "failed", job.Error, 7
	s.Jobs[3].Paused, s.Jobs[3].NextRunAt = true, nil
	s.Jobs[4].Running, s.Jobs[4].SeriesCut = 2, 310
	s.Waiting = []daemon.WaitingRequest{
		{Job: "aruba-aps", Instance: "aruba-aps", Account: "acme-aruba", Priority: "normal", Since: At.Add(-42 * time.Second), Deadline: At.Add(4 * time.Minute), Reason: "quota_exhausted"},
		{Job: "meraki-clients", Instance: "meraki-clients/networkId=N_24329156", Account: "acme-meraki", Priority: "low", Since: At.Add(-3 * time.Second), Deadline: At.Add(30 * time.Minute)},
	}
	s.WaitingTotal = 117
	again := s.Scopes[0].WindowEnd
	s.Refusals = []daemon.Refusal{
		{At: At.Add(-42 * time.Second), Provider: "aruba-central", Account: "acme-aruba", Method: "GET", Endpoint: "/monitoring/v2/aps", Reason: "quota_exhausted", Limit: "daily", Key: "acme-aruba", RetryAt: &again},
		{At: At.Add(-26 * time.Hour), Provider: "meraki", Account: "acme-meraki", Method: "GET", Endpoint: "/networks/{networkId}/clients", Reason: "deadline", Limit: "organization", Key: "organizationId=549236"},
	}
	s.RateLimited = []daemon.RateLimitedCall{
		{At: At.Add(-time.Minute), Provider: "aruba-central", Account: "acme-aruba", Method: "GET", Endpoint: "/monitoring/v2/aps", Limit: "daily", Key: "acme-aruba", Unexpected: true},
		{At: At.Add(-2 * time.Hour), Provider: "aruba-central", Account: "acme-aruba", Method: "GET", Endpoint: "/monitoring/v2/switches", Parked: "86400"},
	}
}

// breakPlan is what keeps somebody awake.
func breakPlan(s *daemon.Snapshot) {
	s.PlanFeasible, s.PlanHolds, s.Plan.Feasible = false, false, false
	last := &s.Plan.Scopes[len(s.Plan.Scopes)-1]
	last.Feasible, last.Projected = false, last.Budget*1.31
	s.Plan.Assertions[0].OK, s.Plan.Assertions[0].Got = false, 1260
	s.Plan.Warnings = []plan.Warning{{Code: "fanout-unknown", Job: "meraki-clients", Message: `the number of items of "meraki-networks" is not known yet; 40 are assumed`}}
	s.Config.Error, s.Config.ErrorAt = `jobs.yaml:14:13: error: interval "5 minuts" is not a duration, such as 90s, 5m or 1h30m [duration]`, before(20*time.Minute)
	s.Config.Reloads, s.Config.ReloadErrors = 2, 1
	s.Deliveries.Policies[0].Waiting, s.Deliveries.Policies[0].InDoubt = 3, 1
	standard := &s.Deliveries.Routes[1]
	standard.Down, standard.Until, standard.Why = true, before(-time.Minute), `status 402: "the account is closed"`
	standard.Attempts["unauthorized"], standard.Attempts["unavailable"] = 3, 3
	s.State.OK, s.State.Fault, s.State.Error, s.State.Since = false, "full", "no space left on device", before(8*time.Minute)
	s.State.Failures, s.State.PendingRows, s.State.DroppedRows = 96, 41_200, 17
}
