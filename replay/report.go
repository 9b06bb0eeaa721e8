package replay

import (
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
)

// Report is what a replay found.
type Report struct {
	// From and To are the interval: the one asked for, or the instants of the first and last row. At is the present.
	From, To, At time.Time
	// Rows were replayed. Journal tells what the reader met; AfterAt rows came after the present; Unresolved rows concern no
	// account of the documents, or can never be granted.
	Rows, AfterAt, Unresolved int64
	Journal                   journal.Stats
	// Enforced tells that rows were arrivals.
	Enforced bool
	// Scopes are the keys of quotas with a grant or a response, by provider, declared limit and key.
	Scopes []Scope
	// Jobs are those that occur, by name and account.
	Jobs []Job
	// Disagreements are where responses contradict the documents, the most frequent first.
	Disagreements []Disagreement
	// Unknown are names that no document has, the most frequent first, at most 100; MoreUnknown are the others.
	Unknown     []UnknownName
	MoreUnknown int64
	// Explanation is of the row that was asked for; nil where it did not occur.
	Explanation *Explanation
}

// Scope is a quota's key.
type Scope struct {
	Provider, Limit, Key string
	// Windows are those with a grant or a response, in order of time.
	Windows []Window
	// Forecast is of the last window; nil where there is not enough history.
	Forecast *Forecast
	// Backtest tells how often such forecasts have held; nil where none could be made.
	Backtest *Backtest
	// Curve is the course of the quota; empty where none was asked for.
	Curve []CurvePoint
}

// Window is one window of a quota: as it was at its end, or at the present.
type Window struct {
	// Start and End bound it, half open; At is the instant that the figures are for.
	Start, End, At time.Time
	// Open tells that it is not over.
	Open bool
	// Max is M, Usable U, Reserve R, Used c; External what others used; Remaining is below 0 by what was overrun.
	Max, Usable, Reserve, Used, External, Remaining int64
	// RecentPerSecond is the pace of the last 15 minutes, OwnPerSecond that since the start, ExternalPerSecond the others', in units
	// a second.
	RecentPerSecond, OwnPerSecond, ExternalPerSecond float64
	// ProjectedEnd is the own consumption at the end at the recent pace, ProjectedTotal everybody's.
	ProjectedEnd, ProjectedTotal float64
	// ExhaustsAt is when nothing will be left; zero for not in this window.
	ExhaustsAt time.Time
	// RateLimited counts responses, UnexpectedRateLimited those among them that no limit predicted.
	RateLimited, UnexpectedRateLimited int64
	// Refused counts refusals by reason; nil for none.
	Refused map[string]int64
}

// Job is what a job did.
type Job struct {
	Job, Account string
	// Requests were granted, Retries among them; Refused were not sent.
	Requests, Retries, RateLimited, Refused int64
	// RetryRatio is retries over first attempts.
	RetryRatio float64
	// PagesPerRun is the median number of first attempts of a run of an instance; a run begins at least half an interval after
	// the one before. 0 where the job is not among the documents.
	PagesPerRun float64
	// LatencyP50Seconds and LatencyP95Seconds are quantiles, right to 3%.
	LatencyP50Seconds, LatencyP95Seconds float64
}

// UnknownName is a name in the rows that no document has.
type UnknownName struct {
	// Kind is provider, account, job or endpoint.
	Kind, Name string
	// Rows have it.
	Rows int64
}

// report is what was found up to the present.
func (s *side) report(stats journal.Stats) *Report {
	r := &Report{
		At: instantOf(s.at()), Rows: s.rows, AfterAt: s.afterAt, Unresolved: s.unresolved, Journal: stats, Enforced: s.enforce,
		Scopes: s.scopes(), Jobs: s.jobs.report(), Disagreements: s.findings.report(), Explanation: s.explained,
	}
	if s.first != noInstant {
		r.From, r.To = instantOf(s.first), instantOf(s.last)
	}
	if !s.options.From.IsZero() {
		r.From = s.options.From
	}
	r.Unknown, r.MoreUnknown = s.unknown.report()
	for i := range r.Scopes {
		sc := &r.Scopes[i]
		id := scopeID{sc.Provider, sc.Limit, sc.Key}
		if s.curves != nil {
			sc.Curve = s.curves.of(id)
		}
		if series := s.hour.byScope[id]; series != nil {
			s.forecast(sc, series)
		}
	}
	return r
}
