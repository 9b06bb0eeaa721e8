package web

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/learn"
)

// secondsOf is an instant as Prometheus has it, where there is one.
func secondsOf(t *time.Time) (float64, bool) {
	if t == nil || t.IsZero() {
		return 0, false
	}
	return float64(t.UnixMilli()) / 1000, true
}

// daemonSheet is about the daemon as a whole.
var daemonSheet = func() *sheet[*daemon.Snapshot] {
	type S = *daemon.Snapshot
	t := &sheet[S]{prefix: "tapyr_"}
	t.add(gauge, "start_timestamp_seconds", "When the daemon began, in seconds since the epoch.",
		func(s S) (float64, bool) { return secondsOf(&s.StartedAt) })
	t.add(gauge, "ready", "1 once documents, state and plan are there.", flag(func(s S) bool { return s.Ready }))
	t.add(gauge, "stopping", "1 while nothing starts any more.", flag(func(s S) bool { return s.Stopping }))

	t.add(gauge, "plan_feasible", "1 where every key of the plan in force is within its budget.", flag(func(s S) bool { return s.PlanFeasible }))
	t.add(gauge, "plan_holds", "1 where the plan in force also keeps every promise: maxInterval, assert.", flag(func(s S) bool { return s.PlanHolds }))
	t.add(gauge, "plan_timestamp_seconds", "When the plan in force was made.", func(s S) (float64, bool) { return secondsOf(s.PlannedAt) })
	t.add(counter, "plan_replans_total", "Plans made.", always(func(s S) int64 { return s.Replans }))

	t.add(gauge, "config_generation", "Configurations that were in force, from 1.", always(func(s S) int64 { return s.Config.Generation }))
	t.add(gauge, "config_loaded_timestamp_seconds", "When the configuration came into force.",
		func(s S) (float64, bool) { return secondsOf(&s.Config.LoadedAt) })
	t.add(gauge, "config_last_reload_successful", "0 where the files could not be loaded and an older configuration is in force.",
		flag(func(s S) bool { return s.Config.Error == "" }))
	t.add(counter, "config_reloads_total", "Attempts to load new documents.", always(func(s S) int64 { return s.Config.Reloads }))
	t.add(counter, "config_reload_errors_total", "Attempts that failed.", always(func(s S) int64 { return s.Config.ReloadErrors }))

	t.add(gauge, "state_ok", "1 where the last write of counts and journal succeeded.", flag(func(s S) bool { return s.State.OK }))
	t.add(gauge, "state_flush_timestamp_seconds", "The last successful write.", func(s S) (float64, bool) { return secondsOf(s.State.FlushedAt) })
	t.add(counter, "state_flushes_total", "Successful writes.", always(func(s S) int64 { return s.State.Flushes }))
	t.add(counter, "state_flush_errors_total", "Writes that failed.", always(func(s S) int64 { return s.State.Failures }))
	t.add(gauge, "state_pending_rows", "Journal rows that the state has not taken yet.", always(func(s S) int { return s.State.PendingRows }))
	t.add(counter, "state_dropped_rows_total", "Journal rows lost for want of memory.", always(func(s S) int64 { return s.State.DroppedRows }))

	t.add(gauge, "requests_waiting", "Requests that wait for a budget.", always(func(s S) int { return s.WaitingTotal }))
	t.add(counter, "requests_granted_total", "Requests that went.", always(func(s S) int64 { return s.Totals.Granted }))
	t.add(counter, "headers_ignored_total", "Values in headers that cannot be, and were not believed.",
		always(func(s S) int64 { return s.Totals.IgnoredHeaders }))
	return t
}()

// jobSheet is about one job.
var jobSheet = func() *sheet[*daemon.JobState] {
	type J = *daemon.JobState
	t := &sheet[J]{prefix: "tapyr_job_", labels: []string{"job", "account"}}
	planned := func(value func(J) float64) func(J) (float64, bool) {
		return func(j J) (float64, bool) { return value(j), j.IntervalSeconds > 0 }
	}
	t.add(gauge, "desired_interval_seconds", "The interval asked for.", always(func(j J) float64 { return j.DesiredSeconds }))
	t.add(gauge, "interval_seconds", "The interval in force.", planned(func(j J) float64 { return j.IntervalSeconds }))
	t.add(gauge, "stretch", "The interval in force over the one asked for; 1 where nothing is stretched.", planned(func(j J) float64 { return j.Stretch }))
	t.add(gauge, "instances", "The size of the fan-out.", always(func(j J) int { return j.Instances }))
	t.add(gauge, "running", "Runs under way.", always(func(j J) int { return j.Running }))
	t.add(gauge, "kept", "0 where nobody keeps what the job finds, so that it makes no call.", flag(func(j J) bool { return j.Kept }))
	t.add(gauge, "paused", "1 where an operator has stopped its starts.", flag(func(j J) bool { return j.Paused }))
	t.add(gauge, "fresh", "1 where the last good run is at most maxInterval ago, or three intervals where none is declared.",
		flag(func(j J) bool { return j.Fresh }))
	t.add(gauge, "last_success_timestamp_seconds", "The end of the last good run; absent before the first.",
		func(j J) (float64, bool) { return secondsOf(j.LastSuccessAt) })
	t.add(gauge, "last_run_duration_seconds", "How long the last run took that ended.", func(j J) (float64, bool) {
		if j.LastRun == nil {
			return 0, false
		}
		return j.LastRun.DurationSeconds, true
	})
	t.add(gauge, "next_run_timestamp_seconds", "The next start of any instance; absent where none is planned.",
		func(j J) (float64, bool) { return secondsOf(j.NextRunAt) })
	t.add(counter, "missed_runs_total", "Starts that one later run made up for.", always(func(j J) int64 { return j.Missed }))
	t.add(counter, "requests_total", "Requests sent, retries among them.", always(func(j J) int64 { return j.Requests }))
	t.add(counter, "retries_total", "Requests sent again.", always(func(j J) int64 { return j.Retries }))
	t.add(gauge, "series", "Metric series that the job has.", always(func(j J) int { return j.Series }))
	t.add(counter, "series_cut_total", "Series that did not fit into maxSeries.", always(func(j J) int64 { return j.SeriesCut }))
	t.add(counter, "lines_total", "Lines written to files.", always(func(j J) int64 { return j.Lines }))
	return t
}()

// runStatuses are the statuses of a job's runs, sorted: those that there can be, so that a rate exists before the first failure,
// and any other that there was.
func runStatuses(runs map[string]int64) []string {
	statuses := []string{"failed", "interrupted", "ok", "partial"}
	for status := range runs {
		if !slices.Contains(statuses, status) {
			statuses = append(statuses, status)
		}
	}
	slices.Sort(statuses)
	return statuses
}

// inventorySheet is about what a job has listed for others.
var inventorySheet = func() *sheet[*daemon.InventoryState] {
	type I = *daemon.InventoryState
	t := &sheet[I]{prefix: "tapyr_inventory_", labels: []string{"job"}}
	t.add(gauge, "items", "Items listed.", always(func(i I) int { return i.Items }))
	t.add(gauge, "age_seconds", "Since the oldest refresh among the instances; absent before the first.", func(i I) (float64, bool) {
		if i.AgeSeconds == nil {
			return 0, false
		}
		return *i.AgeSeconds, true
	})
	t.add(gauge, "instances", "Instances of the listing job.", always(func(i I) int { return i.Instances }))
	t.add(gauge, "instances_listed", "Those that have told their items.", always(func(i I) int { return i.Listed }))
	return t
}()

// learnedSheet is about the identifiers that lead to a variable.
var learnedSheet = func() *sheet[*learn.Count] {
	t := &sheet[*learn.Count]{prefix: "tapyr_learned_", labels: []string{"provider", "var", "key"}}
	t.add(gauge, "identifiers", "Identifiers by which requests find a scope variable that they do not name.",
		always(func(c *learn.Count) int { return c.Identifiers }))
	return t
}()

// accountSheet is about one account.
var accountSheet = func() *sheet[*daemon.AccountHealth] {
	type A = *daemon.AccountHealth
	t := &sheet[A]{prefix: "tapyr_account_", labels: []string{"account", "provider"}}
	t.add(counter, "requests_total", "Requests that were answered or failed.", always(func(a A) int64 { return a.Requests }))
	t.add(counter, "succeeded_total", "Requests with a good answer.", always(func(a A) int64 { return a.Succeeded }))
	t.add(counter, "rate_limited_total", "Requests that the provider refused for a limit.", always(func(a A) int64 { return a.RateLimited }))
	t.add(counter, "failed_total", "Requests that failed otherwise.", always(func(a A) int64 { return a.Failed }))
	t.add(gauge, "last_success_timestamp_seconds", "The last good answer; absent before the first.",
		func(a A) (float64, bool) { return secondsOf(a.LastSuccessAt) })
	return t
}()

// Metrics that fit into no table, for they have labels of their own.
var (
	buildInfo = prometheus.NewDesc("tapyr_build_info", "1; the label tells the version.", []string{"version"}, nil)
	jobRuns   = prometheus.NewDesc("tapyr_job_runs_total", "Ended runs by status: ok, partial, failed or interrupted.",
		[]string{"job", "account", "status"}, nil)
	accountHealth = prometheus.NewDesc("tapyr_account_health", "1 for how the account fares, 0 for the other states: ok, degraded, failing, unknown.",
		[]string{"account", "provider", "health"}, nil)
	budgetRefused = prometheus.NewDesc("tapyr_budget_refused_total", "Requests that did not go, by reason; limit is empty where none is the reason.",
		[]string{"provider", "limit", "reason"}, nil)
	budgetWait = prometheus.NewDesc("tapyr_budget_wait_seconds", "How long granted requests waited for their budget.", []string{"priority"}, nil)

	singleDescs = []*prometheus.Desc{buildInfo, jobRuns, accountHealth, budgetRefused, budgetWait}
)

// collectAccount sends an account's figures, and its health as one series a state, so that alerts and changes are simple.
func collectAccount(ch chan<- prometheus.Metric, a *daemon.AccountHealth) {
	accountSheet.emit(ch, a, a.Account, a.Provider)
	for _, health := range []daemon.Health{daemon.HealthOK, daemon.HealthDegraded, daemon.HealthFailing, daemon.HealthUnknown} {
		send(ch, accountHealth, gauge, number(a.Health == health), a.Account, a.Provider, string(health))
	}
}

// collectWaits sends the histograms of waits.
func collectWaits(ch chan<- prometheus.Metric, waits []daemon.WaitHistogram) {
	for _, h := range waits {
		buckets := make(map[float64]uint64, len(h.BoundsSeconds))
		for i, bound := range h.BoundsSeconds[:min(len(h.BoundsSeconds), len(h.Counts))] {
			buckets[bound] = uint64(h.Counts[i])
		}
		ch <- prometheus.MustNewConstHistogram(budgetWait, uint64(h.Count), h.SumSeconds, buckets, h.Priority)
	}
}

// collectLimits sends the counts by limit. They go on where keys come and go.
func collectLimits(ch chan<- prometheus.Metric, totals *daemon.Totals) {
	for i := range totals.ByLimit {
		l := &totals.ByLimit[i]
		limitSheet.emit(ch, l, l.Provider, l.Limit)
		for _, reason := range slices.Sorted(maps.Keys(l.Refused)) {
			send(ch, budgetRefused, counter, float64(l.Refused[reason]), l.Provider, l.Limit, reason)
		}
	}
}
