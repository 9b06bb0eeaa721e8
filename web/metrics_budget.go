package web

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
)

// scopeAt is a quota's key at an instant.
type scopeAt struct {
	*daemon.ScopeState
	at time.Time
}

// scopeSheet is about one key of a quota, in units of the limit.
var scopeSheet = func() *sheet[scopeAt] {
	type S = scopeAt
	t := &sheet[S]{prefix: "tapyr_budget_", labels: []string{"provider", "limit", "key"}}
	t.add(gauge, "max", "The provider's maximum in the window.", always(func(s S) int64 { return s.Max }))
	t.add(gauge, "usable", "The part of the maximum that is for this tapyr.", always(func(s S) int64 { return s.Usable }))
	t.add(gauge, "reserve", "The part of the usable that is kept for retries.", always(func(s S) int64 { return s.Reserve }))
	t.add(gauge, "used", "Used by this tapyr in the window.", always(func(s S) int64 { return s.Used }))
	t.add(gauge, "external_usage", "Used by others in the window, as a response last showed it.", always(func(s S) int64 { return s.External }))
	t.add(gauge, "remaining", "What is left in the window; negative where the limit was overrun.", always(func(s S) int64 { return s.Remaining }))
	t.add(gauge, "window_start_timestamp_seconds", "When the window began.", func(s S) (float64, bool) { return secondsOf(&s.WindowStart) })
	t.add(gauge, "window_end_timestamp_seconds", "When the window resets; the present for a rolling one.",
		func(s S) (float64, bool) { return secondsOf(&s.WindowEnd) })
	t.add(gauge, "projected_used", "What this tapyr will have used at the window's end, at the pace of the last 15 minutes.",
		always(func(s S) float64 { return s.ProjectedEnd }))
	t.add(gauge, "projected_usage", "What everybody will have used at the window's end.", always(func(s S) float64 { return s.ProjectedTotal }))
	t.add(gauge, "exhaustion_eta_seconds", "Until nothing is left, at the present pace; absent where that is not within the window.",
		func(s S) (float64, bool) {
			if s.ExhaustsAt == nil {
				return 0, false
			}
			return max(0, s.ExhaustsAt.Sub(s.at).Seconds()), true
		})
	t.add(gauge, "assumed", "1 where nobody has published the maximum: it is only assumed.", flag(func(s S) bool { return s.Assumed }))
	t.add(gauge, "shadow", "1 where the limit only watches and holds nothing back.", flag(func(s S) bool { return s.Shadow }))
	return t
}()

// limitSheet counts by limit, over all keys that there ever were.
var limitSheet = func() *sheet[*daemon.LimitTotals] {
	type L = *daemon.LimitTotals
	t := &sheet[L]{prefix: "tapyr_budget_", labels: []string{"provider", "limit"}}
	t.add(counter, "rate_limited_total", "Answers that said a limit was exceeded; limit is empty where none covers the request.",
		always(func(l L) int64 { return l.RateLimited }))
	t.add(counter, "unexpected_429_total", "Those to requests that were within all declared limits: a limit that nobody has declared, or somebody else.",
		always(func(l L) int64 { return l.UnexpectedRateLimited }))
	t.add(counter, "limit_disagreement_total", "Responses that name another maximum than the documents.", always(func(l L) int64 { return l.Disagreements }))
	return t
}()

// float is an exact amount as the binary float that Prometheus keeps.
func float(u book.Units) float64 {
	value, err := strconv.ParseFloat(u.String(), 64)
	if err != nil {
		return 0 // beyond what a float can hold; at most 60 digits are allowed, so it cannot be
	}
	return value
}

// newLineSheet is about an account of a policy, or one of its capabilities, in the present window.
func newLineSheet(prefix string, labels ...string) *sheet[*report.Line] {
	type L = *report.Line
	t := &sheet[L]{prefix: prefix, labels: labels}
	t.add(gauge, "limit_units", "The limit in the window.", always(func(l L) float64 { return float(l.Limit) }))
	t.add(gauge, "used_units", "Reserved and settled together. Reservations, not attempts, are what is spent.", always(func(l L) float64 { return float(l.Used) }))
	t.add(gauge, "reserved_units", "Reserved and not settled.", always(func(l L) float64 { return float(l.Reserved) }))
	t.add(gauge, "settled_units", "Settled.", always(func(l L) float64 { return float(l.Settled) }))
	t.add(gauge, "headroom_units", "What is left of the limit; negative where settlements exceeded it.", always(func(l L) float64 { return float(l.Headroom) }))
	t.add(gauge, "protected_units", "What is kept for one capability alone, and not taken yet.", always(func(l L) float64 { return float(l.Protected) }))
	t.add(gauge, "deferred_events", "Events that wait.", always(func(l L) int64 { return l.Deferred }))
	t.add(gauge, "oldest_deferred_seconds", "The age of the oldest event that waits; 0 where none does.", always(func(l L) float64 { return l.OldestSeconds }))
	return t
}

var (
	spendAccountSheet    = newLineSheet("tapyr_spend_account_", "policy", "unit")
	spendCapabilitySheet = newLineSheet("tapyr_spend_capability_", "policy", "unit", "capability")

	spendEvents = prometheus.NewDesc("tapyr_spend_events", "Logical events by what holds for them now.",
		[]string{"policy", "capability", "route_class", "disposition"}, nil)
	spendBand = prometheus.NewDesc("tapyr_spend_band_crossed_timestamp_seconds", "When a band of the account's limit was reached in the window.",
		[]string{"policy", "band"}, nil)
	spendReserved = prometheus.NewDesc("tapyr_spend_reserved_units", "Reserved and not settled, by what was admitted, whenever that was.",
		[]string{"policy", "unit", "capability", "route_class"}, nil)
	spendSettled = prometheus.NewDesc("tapyr_spend_settled_units", "Settled, by what was admitted, whenever that was.",
		[]string{"policy", "unit", "capability", "route_class"}, nil)
	spendChain = prometheus.NewDesc("tapyr_spend_chain_entries", "The entries of the audit chain, which all policies share.", nil, nil)

	spendFiles = prometheus.NewDesc("tapyr_spend_reconcile_files", "Settled files that were compared so far, or could not be read since the start.",
		[]string{"policy", "result"}, nil)
	spendLooked = prometheus.NewDesc("tapyr_spend_reconcile_timestamp_seconds", "When the folder of settled files was last looked at.", []string{"policy"}, nil)
	spendItems  = prometheus.NewDesc("tapyr_spend_reconcile_items", "What the last settled file came to, by kind.", []string{"policy", "kind"}, nil)

	spendInfo = prometheus.NewDesc("tapyr_spend_policy_info", "1; the label tells the version in force.", []string{"policy", "version", "unit"}, nil)
)

// spendCollector reports on paid calls.
type spendCollector struct{ s *server }

// Describe implements prometheus.Collector.
func (c spendCollector) Describe(ch chan<- *prometheus.Desc) {
	spendAccountSheet.describe(ch)
	spendCapabilitySheet.describe(ch)
	for _, d := range []*prometheus.Desc{
		spendEvents, spendBand, spendInfo, spendReserved, spendSettled, spendChain, spendFiles, spendLooked, spendItems,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A book that cannot be read costs these metrics, not the others.
func (c spendCollector) Collect(ch chan<- prometheus.Metric) {
	reports, err := c.s.reportsAt(context.Background(), c.s.Now())
	if err != nil {
		ch <- prometheus.NewInvalidMetric(spendInfo, err)
		return
	}
	if len(reports) > 0 {
		send(ch, spendChain, gauge, float64(reports[0].Chain.Count))
	}
	for _, r := range reports {
		send(ch, spendInfo, gauge, 1, r.Policy, r.Version, r.Unit)
		spendAccountSheet.emit(ch, &r.Account, r.Policy, r.Unit)
		for i := range r.Capabilities {
			spendCapabilitySheet.emit(ch, &r.Capabilities[i], r.Policy, r.Unit, r.Capabilities[i].Capability)
		}
		collectEvents(ch, r)
		collectReconciling(ch, r)
		for _, band := range r.Bands {
			if at, ok := secondsOf(&band.At); ok {
				send(ch, spendBand, gauge, at, r.Policy, band.Band)
			}
		}
	}
}

// collectEvents adds up the days: a day in a label would be a new series every day.
func collectEvents(ch chan<- prometheus.Metric, r *report.Report) {
	type group struct{ capability, class, disposition string }
	counts := make(map[group]int64)
	reserved, settled := make(map[group]book.Units), make(map[group]book.Units)
	for _, day := range r.Days {
		counts[group{day.Capability, day.RouteClass, string(day.Disposition)}] += day.Events
		g := group{capability: day.Capability, class: day.RouteClass}
		reserved[g], settled[g] = reserved[g].Add(day.Reserved), settled[g].Add(day.Settled)
	}
	for g, u := range reserved {
		send(ch, spendReserved, gauge, float(u), r.Policy, r.Unit, g.capability, g.class)
		send(ch, spendSettled, gauge, float(settled[g]), r.Policy, r.Unit, g.capability, g.class)
	}
	for g, n := range counts {
		send(ch, spendEvents, gauge, float64(n), r.Policy, g.capability, g.class, g.disposition)
	}
}

// collectReconciling is about the settled files of a policy whose folder is watched.
func collectReconciling(ch chan<- prometheus.Metric, r *report.Report) {
	c := r.Reconcile
	if c == nil {
		return
	}
	send(ch, spendFiles, gauge, float64(c.Files), r.Policy, "compared")
	send(ch, spendFiles, gauge, float64(c.BadFiles), r.Policy, "unreadable")
	if at, ok := secondsOf(c.LookedAt); ok {
		send(ch, spendLooked, gauge, at, r.Policy)
	}
	if c.Last == nil {
		return
	}
	for kind, n := range map[string]int{
		"matched": c.Last.Matched, "corrected": c.Last.Corrected, "unmatched_rows": c.Last.UnmatchedRows, "unmatched_events": c.Last.UnmatchedEvents,
		"conflicts": c.Last.Conflicts, "stale": c.Last.Stale, "bad_rows": c.Last.BadRows, "failed": c.Last.Failed,
	} {
		send(ch, spendItems, gauge, float64(n), r.Policy, kind)
	}
}
