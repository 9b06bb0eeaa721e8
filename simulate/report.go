package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Report is how a scenario went.
type Report struct {
	// Start and End bound the time in which runs started, half open. Seed and Faults are the scenario's.
	Start, End time.Time
	Seed       uint64
	Faults     Faults
	// Requests were sent, retries among them; Answers are those by status, 0 for none.
	Requests, Retries int64
	Answers           map[int]int64
	// ExternalRequests were sent by others, and ExternalRefused of them refused.
	ExternalRequests, ExternalRefused int64
	// Jobs are in document order, Waits in the order of priority, Refusals and RateLimited the most frequent first.
	Jobs        []JobReport
	Waits       []WaitReport
	Refusals    []Refusal
	RateLimited []RateLimitedCount
	// Quotas are the keys that were used, in the order of their first use.
	Quotas []QuotaReport
	// Plans is how many plans were made, Infeasible how many of them did not fit; Last is the last one.
	Plans, Infeasible int64
	Last              *plan.Plan
	// Changes are the intervals that plans have changed, in order of time.
	Changes []IntervalChange
	// Violations are the first invariants that were broken; Broken is their number.
	Violations []Violation
	Broken     int64

	byJob    map[string]*jobState
	jobs     []*jobState
	waits    map[string]*waitState
	refusals map[Refusal]int64
	limited  map[RateLimitedCount]int64
	quotas   map[quotaName]int
}

// JobReport is one job: what was planned, and what came of it.
type JobReport struct {
	Job, Priority string
	// Instances at the end.
	Instances int64
	// Runs were started, Failed of them did not get all their pages, Missed starts were made up for by others.
	Runs, Failed, Missed int64
	Requests, Retries    int64
	// DesiredSeconds is the interval asked for, PlannedSeconds the one that would have made as many runs as those that plans gave, each
	// for as long as it held.
	DesiredSeconds, PlannedSeconds float64
	// MeanSeconds and LongestSeconds are between the starts of one instance's runs; 0 where no instance ran twice.
	MeanSeconds, LongestSeconds float64
	// PlannedRequests is what the last plan's calls a run would have made of these runs.
	PlannedRequests float64
}

// WaitReport is how long the granted requests of a priority waited for their budget, in seconds.
type WaitReport struct {
	Priority                        string
	Requests, Waited                int64
	Mean, Median, P95, P99, Longest float64
}

// Refusal counts what the engine refused.
type Refusal struct {
	Reason          engine.Reason
	Limit, Priority string
	Requests        int64
}

// RateLimitedCount counts answers that said rate limited.
type RateLimitedCount struct {
	Provider, Limit string
	Cause           Cause
	Answers         int64
}

// QuotaReport is one key of a quota over time.
type QuotaReport struct {
	Provider, Limit, Key string
	Points               []QuotaPoint
}

// QuotaPoint is a quota at an instant: tapyr's own units in the window, what others were seen to have used, and the maximum in
// force.
type QuotaPoint struct {
	At                       time.Time
	UsedUnits, ExternalUnits int64
	UsableUnits, MaxUnits    int64
}

// IntervalChange is an interval that a plan has changed.
type IntervalChange struct {
	At time.Time
	schedule.Change
}

type quotaName struct{ provider, limit, key string }

// jobState collects what becomes a JobReport.
type jobState struct {
	job      *validate.Job
	report   JobReport
	gapSum   float64
	gaps     int64
	lastSeen map[*schedule.Instance]int64
	held     time.Duration
	heldFrom int64
	heldRuns float64 // that the intervals held so far would have made
	heldFor  float64
}

type waitState struct {
	requests int64
	waits    []int64 // above 0
}

func newReport(s *Scenario) *Report {
	r := &Report{
		Start: s.Start.UTC(), End: s.Start.Add(s.Duration).UTC(), Seed: s.Seed, Faults: s.Faults, Answers: make(map[int]int64),
		byJob: make(map[string]*jobState), waits: make(map[string]*waitState), refusals: make(map[Refusal]int64),
		limited: make(map[RateLimitedCount]int64), quotas: make(map[quotaName]int),
	}
	for _, j := range s.Config.Jobs {
		state := &jobState{job: j, lastSeen: make(map[*schedule.Instance]int64)}
		state.report = JobReport{Job: j.Name, Priority: j.Priority, DesiredSeconds: j.Interval.Seconds()}
		r.byJob[j.Name] = state
		r.jobs = append(r.jobs, state)
	}
	return r
}

func (r *Report) job(name string) *jobState { return r.byJob[name] }

// started notes a run of an instance.
func (j *jobState) started(now int64, i *schedule.Instance, missed int64) {
	j.report.Runs++
	j.report.Missed += missed
	if last, ran := j.lastSeen[i]; ran {
		gap := float64(now-last) / 1e9
		j.gapSum += gap
		j.gaps++
		j.report.LongestSeconds = max(j.report.LongestSeconds, gap)
	}
	j.lastSeen[i] = now
}

func (j *jobState) finished(step schedule.Step) {
	if step == schedule.Failed {
		j.report.Failed++
	}
}

// hold notes the interval that holds from now on.
func (j *jobState) hold(now int64, interval time.Duration) {
	if j.held > 0 {
		span := float64(now-j.heldFrom) / 1e9
		j.heldRuns += span / j.held.Seconds()
		j.heldFor += span
	}
	j.held, j.heldFrom = interval, now
}

// planned notes a plan and what was adopted of it.
func (r *Report) planned(now int64, p *plan.Plan, changes []schedule.Change) {
	r.Plans++
	if !p.Feasible {
		r.Infeasible++
	}
	r.Last = p
	for _, c := range changes {
		r.byJob[c.Job].hold(now, c.To)
		r.Changes = append(r.Changes, IntervalChange{time.Unix(0, now).UTC(), c})
	}
}

// sent notes a request that was granted and sent.
func (r *Report) sent(now int64, a *actor) {
	r.Requests++
	a.state.job.report.Requests++
	if a.run.Retry() {
		r.Retries++
		a.state.job.report.Retries++
	}
	w := r.waits[a.state.request.Priority]
	if w == nil {
		w = &waitState{}
		r.waits[a.state.request.Priority] = w
	}
	w.requests++
	if wait := now - a.asked; wait > 0 {
		w.waits = append(w.waits, wait)
	}
	if a.answer.limited {
		r.limited[RateLimitedCount{Provider: a.state.request.Provider, Limit: a.answer.limit, Cause: a.answer.cause}]++
	}
}

func (r *Report) refused(a *actor, refused *engine.RefusedError) {
	r.refusals[Refusal{Reason: refused.Reason, Limit: refused.Limit, Priority: a.state.request.Priority}]++
}

func (r *Report) answered(a *actor, _ schedule.Outcome) { r.Answers[a.answer.status]++ }

// mostQuotas is how many keys of quotas a report follows over time, those that were used first.
const mostQuotas = 100

// point notes the use of every quota at an instant.
func (r *Report) point(w *world, now int64) {
	w.watch.late(now)
	var all []engine.Projection
	w.engine.Projections(now, func(p *engine.Projection) { all = append(all, *p) })
	slices.SortFunc(all, func(a, b engine.Projection) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
	})
	for _, p := range all {
		name := quotaName{p.Provider, p.Limit, p.Key}
		at, known := r.quotas[name]
		if !known {
			if len(r.Quotas) >= mostQuotas {
				continue
			}
			at = len(r.Quotas)
			r.quotas[name] = at
			r.Quotas = append(r.Quotas, QuotaReport{Provider: p.Provider, Limit: p.Limit, Key: p.Key})
		}
		r.Quotas[at].Points = append(r.Quotas[at].Points, QuotaPoint{
			At: time.Unix(0, now).UTC(), UsedUnits: p.Used, ExternalUnits: p.External, UsableUnits: p.Usable, MaxUnits: p.Max,
		})
	}
}

// close makes lists of what was collected.
func (r *Report) close(w *world) {
	r.point(w, max(w.now, w.end))
	if w.external != nil {
		r.ExternalRequests, r.ExternalRefused = w.external.requests, w.external.refused
	}
	for _, j := range r.jobs {
		r.Jobs = append(r.Jobs, j.close(w, r.Last))
	}
	for _, priority := range []string{schema.PriorityCritical, schema.PriorityHigh, schema.PriorityNormal, schema.PriorityLow} {
		if state := r.waits[priority]; state != nil {
			r.Waits = append(r.Waits, state.report(priority))
		}
	}
	for one, n := range r.refusals {
		one.Requests = n
		r.Refusals = append(r.Refusals, one)
	}
	slices.SortFunc(r.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Priority, b.Priority))
	})
	for one, n := range r.limited {
		one.Answers = n
		r.RateLimited = append(r.RateLimited, one)
	}
	slices.SortFunc(r.RateLimited, func(a, b RateLimitedCount) int {
		return cmp.Or(cmp.Compare(b.Answers, a.Answers), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Cause, b.Cause))
	})
}

func (j *jobState) close(w *world, last *plan.Plan) JobReport {
	out := j.report
	out.Instances = int64(len(w.schedule.Instances(j.job.Name)))
	if j.gaps > 0 {
		out.MeanSeconds = j.gapSum / float64(j.gaps)
	}
	j.hold(w.end, j.held)
	if j.heldFor > 0 {
		out.PlannedSeconds = j.heldFor / j.heldRuns
	}
	if last != nil {
		for i := range last.Jobs {
			if last.Jobs[i].Job == j.job.Name {
				out.PlannedRequests = last.Jobs[i].CallsPerRun * float64(out.Runs)
			}
		}
	}
	return out
}

func (s *waitState) report(priority string) WaitReport {
	out := WaitReport{Priority: priority, Requests: s.requests, Waited: int64(len(s.waits))}
	slices.Sort(s.waits)
	sum := 0.0
	for _, wait := range s.waits {
		sum += float64(wait) / 1e9
	}
	out.Mean = sum / float64(max(1, s.requests))
	out.Median, out.P95, out.P99, out.Longest = s.quantile(0.5), s.quantile(0.95), s.quantile(0.99), s.quantile(1)
	return out
}

// quantile of all waits, those of no length included, in seconds: the smallest that a part q of them does not exceed.
func (s *waitState) quantile(q float64) float64 {
	rank := int64(q*float64(s.requests)+0.999999) - 1 - (s.requests - int64(len(s.waits)))
	if rank < 0 || len(s.waits) == 0 {
		return 0
	}
	return float64(s.waits[min(rank, int64(len(s.waits)-1))]) / 1e9
}
