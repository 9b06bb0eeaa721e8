// Package plan divides the budgets of quotas among the jobs that use them, or explains why it cannot. It turns the interval that
// each job asks for into one that fits every limit. It is pure: documents, sizes, history, counters and an instant go in, a plan
// comes out.
package plan

import (
	"time"

	"github.com/tapyr/tapyr/validate"
)

// Input is all that a plan is made from.
type Input struct {
	// Config are the documents.
	Config *validate.Config
	// At is the present.
	At time.Time
	// Fanout are the total numbers of items in jobs' inventories, by the job's name. They win over State and estimates.
	Fanout map[string]int64
	// State is what is known from running; nil where nothing is.
	State *State
	// NoReclaim leaves out the second pass, which gives room that the first left unused back to the jobs.
	NoReclaim bool
	// WorstWindow plans every calendar quota for its longest window of the coming year, and without counters.
	WorstWindow bool
	// Override replaces single figures of the documents.
	Override Override
	// Zone is the zone that Explain writes times in; nil is UTC. It changes no figure.
	Zone *time.Location
}

// Override replaces single figures of the documents, as remedies and sweeps do.
type Override struct {
	// Intervals are desired intervals by job.
	Intervals map[string]time.Duration
	// Max are maxima by "provider/limit".
	Max map[string]int64
	// Rates are rates in requests a second by "provider/limit".
	Rates map[string]float64
	// Shares are the parts of quotas that may be used, by account.
	Shares map[string]float64
}

// State is what is known from running.
type State struct {
	// Counters are the quotas' windows.
	Counters []Counter
	// Inventories are items by the name of the job that lists them; each item holds its variables and its ancestors'.
	Inventories map[string][]map[string]string
	// History is what the last runs of a job took, by its name.
	History map[string]History
}

// Counter is what was counted in one window of a quota.
type Counter struct {
	Provider, Limit, Key string
	// Start and End bound the window, half open.
	Start, End time.Time
	// UsedUnits is tapyr's own consumption.
	UsedUnits int64
	// ObservedRemaining, ObservedMax and ObservedUsed are what a response told last, and the own consumption at that time; nil
	// where none did.
	ObservedRemaining, ObservedMax, ObservedUsed *int64
}

// History is what the last runs of a job took.
type History struct {
	// PagesPerRun is the median number of requests of the last 20 runs of an instance; 0 where there were none.
	PagesPerRun float64
	// RetryRatio is retries over first attempts in the same runs; negative where it is not known.
	RetryRatio float64
	// LatencySeconds is the mean latency of a request; 0 where it is not known.
	LatencySeconds float64
	// Costs are the medians of the units that responses told, by limit.
	Costs map[string]float64
}

// Plan says which interval each job can have.
type Plan struct {
	// At is the instant that the plan was made for.
	At time.Time
	// Feasible tells that no key is over its budget.
	Feasible bool
	// Jobs are in document order.
	Jobs []Job
	// Scopes are in the order of provider, declared limit, key.
	Scopes []Scope
	// Assertions are the promises of the documents, kept or broken.
	Assertions []Assertion
	// Warnings are worth knowing.
	Warnings []Warning
}

// Job is the plan of one job.
type Job struct {
	Job, Account, Provider, Priority string
	// DesiredSeconds is the interval asked for, EffectiveSeconds the one that fits, Stretch their ratio.
	DesiredSeconds, EffectiveSeconds, Stretch float64
	// Instances is the size of the fan-out.
	Instances int64
	// CallsPerRun is the number of requests of one run of one instance, retries included.
	CallsPerRun float64
	// LimitedBy names what stretches the job; nil at stretch 1.
	LimitedBy *LimitedBy
	// Scopes are the keys that the job uses.
	Scopes []JobScope
}

// LimitedBy names the key that stretches a job, and how: by quota, rate or concurrency.
type LimitedBy struct{ Limit, Key, Reason string }

// JobScope is a job's part of a key.
type JobScope struct {
	Limit, Key string
	// CallsPerWindow are the units that the job takes in the key's horizon at its effective interval.
	CallsPerWindow float64
	// Instances are those on the key, and CostUnits is what each request takes.
	Instances int64
	CostUnits float64
}

// Scope is the plan of one scope key, or of all keys of a pattern such as acme/organizationId=*, of which it shows the one that
// decides.
type Scope struct {
	Provider, Limit, Kind, Key string
	// Keys is the number of keys of the pattern.
	Keys int64
	// WindowStart and WindowEnd bound a fixed window; zero for others.
	WindowStart, WindowEnd time.Time
	// HorizonSeconds is the span that Budget, Demand and Projected are for.
	HorizonSeconds float64
	// Quota is nil for rates and concurrency.
	Quota *Quota
	// Budget is what may be used in the horizon, Demand what the desired intervals would use, Projected what the effective do.
	Budget, Demand, Projected float64
	// Peak is the most that whole runs can add up to in the horizon.
	Peak float64
	// ExhaustsAt is when, at the desired intervals, the budget would be gone; zero for never.
	ExhaustsAt time.Time
	// Feasible tells that Projected is within Budget.
	Feasible bool
	// Assumed tells that the limit's figure is only assumed.
	Assumed bool
	// Unused says what the budget could do that it does not.
	Unused Unused

	lumpy bool // whole runs can come to more than the quota in one window, and be held up for long
}

// Quota are the figures of a quota.
type Quota struct {
	// Max is the vendor's maximum, Share the part that may be used, Usable that part, Reserve what is kept for retries.
	Max     int64
	Share   float64
	Usable  int64
	Reserve int64
	// Used is tapyr's consumption so far, External that of other clients; Remaining is what is left of both views.
	Used, External, Remaining int64
	// FromState tells that a counters row gave the figures.
	FromState bool
}

// Unused says what a budget could do that it does not.
type Unused struct {
	// QuotaForNoStretch is the smallest maximum at which no job on the key would have to be stretched by it; 0 for rates.
	QuotaForNoStretch int64
	// Faster is, by priority, how many times more often all jobs of the class on the key could run.
	Faster map[string]float64
}

// Assertion is a promise of the documents.
type Assertion struct {
	// Kind is maxInterval or headroom.
	Kind string
	// Job is set for maxInterval; Provider, Limit and Key for headroom.
	Job, Provider, Limit, Key string
	// Want and Got are seconds for maxInterval, and parts of the budget for headroom.
	Want, Got float64
	// OK tells that the promise is kept.
	OK bool
}

// Warning is something worth knowing about a plan.
type Warning struct {
	// Code is stable: fanout-unknown, fanout-too-large, peak-over-budget, assumed-limit, learned-scope.
	Code string
	// Job, Provider, Limit and Key say where; empty where they do not matter.
	Job, Provider, Limit, Key string
	// Message says it in words.
	Message string
}

// Make plans. It never fails: what does not fit is in the plan.
func Make(in Input) *Plan {
	p := newProblem(in)
	p.solve()
	return p.result()
}

// Holds tells whether the plan is feasible and keeps every promise.
func (p *Plan) Holds() bool {
	for _, a := range p.Assertions {
		if !a.OK {
			return false
		}
	}
	return p.Feasible
}
