// Package planjson is the JSON form of a plan, the same on the command line and in the daemon's API. Its keys are a contract: other
// programs read them.
package planjson

import (
	"math"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/plan"
)

// Plan is a plan as JSON. Lists stand in document order; durations are seconds, instants UTC.
type Plan struct {
	At         time.Time   `json:"at"`
	Feasible   bool        `json:"feasible"`
	Jobs       []job       `json:"jobs"`
	Scopes     []scope     `json:"scopes"`
	Assertions []assertion `json:"assertions"`
	Remedies   []remedy    `json:"remedies"`
	Warnings   []warning   `json:"warnings"`
}

type job struct {
	Job              string     `json:"job"`
	Account          string     `json:"account"`
	Provider         string     `json:"provider"`
	Priority         string     `json:"priority"`
	DesiredSeconds   float64    `json:"desiredSeconds"`
	EffectiveSeconds float64    `json:"effectiveSeconds"`
	Stretch          float64    `json:"stretch"`
	Instances        int64      `json:"instances"`
	CallsPerRun      float64    `json:"callsPerRun"`
	LimitedBy        *limitedBy `json:"limitedBy"`
	Scopes           []jobScope `json:"scopes"`
}

type limitedBy struct {
	Limit  string `json:"limit"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

type jobScope struct {
	Limit          string  `json:"limit"`
	Key            string  `json:"key"`
	CallsPerWindow float64 `json:"callsPerWindow"`
}

type scope struct {
	Provider          string             `json:"provider"`
	Limit             string             `json:"limit"`
	Kind              string             `json:"kind"`
	Key               string             `json:"key"`
	Keys              int64              `json:"keys"`
	WindowStart       *time.Time         `json:"windowStart"`
	WindowEnd         *time.Time         `json:"windowEnd"`
	HorizonSeconds    float64            `json:"horizonSeconds"`
	Max               *int64             `json:"max"`
	Share             *float64           `json:"share"`
	Usable            *int64             `json:"usable"`
	Reserve           *int64             `json:"reserve"`
	Used              *int64             `json:"used"`
	Remaining         *int64             `json:"remaining"`
	External          *int64             `json:"external"`
	Budget            float64            `json:"budget"`
	Demand            float64            `json:"demand"`
	Projected         float64            `json:"projected"`
	Peak              *float64           `json:"peak"`
	ExhaustsAt        *time.Time         `json:"exhaustsAt"`
	Feasible          bool               `json:"feasible"`
	Headroom          float64            `json:"headroom"`
	QuotaForNoStretch *int64             `json:"quotaForNoStretch"`
	Faster            map[string]float64 `json:"faster"`
	Assumed           bool               `json:"assumed"`
}

type assertion struct {
	Kind     string  `json:"kind"`
	Job      string  `json:"job,omitempty"`
	Provider string  `json:"provider,omitempty"`
	Limit    string  `json:"limit,omitempty"`
	Key      string  `json:"key,omitempty"`
	Want     float64 `json:"want"`
	Got      float64 `json:"got"`
	OK       bool    `json:"ok"`
}

type remedy struct {
	Kind     string `json:"kind"`
	Provider string `json:"provider"`
	Limit    string `json:"limit"`
	Key      string `json:"key"`
	Flag     string `json:"flag"`
	Message  string `json:"message"`
	Feasible bool   `json:"feasible"`
}

type warning struct {
	Code     string `json:"code"`
	Job      string `json:"job,omitempty"`
	Provider string `json:"provider,omitempty"`
	Limit    string `json:"limit,omitempty"`
	Key      string `json:"key,omitempty"`
	Message  string `json:"message"`
}

// Of is the JSON form of a plan, with the remedies that were found for it; nil for none.
func Of(p *plan.Plan, remedies []plan.Remedy) Plan {
	out := Plan{At: p.At.UTC(), Feasible: p.Feasible}
	for i := range p.Jobs {
		out.Jobs = append(out.Jobs, jobOf(&p.Jobs[i]))
	}
	for i := range p.Scopes {
		out.Scopes = append(out.Scopes, scopeOf(&p.Scopes[i]))
	}
	for _, a := range p.Assertions {
		out.Assertions = append(out.Assertions, assertion(a))
	}
	for _, r := range remedies {
		out.Remedies = append(out.Remedies, remedy(r))
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, warning(w))
	}
	return out
}

func jobOf(j *plan.Job) job {
	out := job{
		Job: j.Job, Account: j.Account, Provider: j.Provider, Priority: j.Priority, DesiredSeconds: j.DesiredSeconds,
		EffectiveSeconds: j.EffectiveSeconds, Stretch: Rounded(j.Stretch), Instances: j.Instances, CallsPerRun: Rounded(j.CallsPerRun),
	}
	if j.LimitedBy != nil {
		limited := limitedBy(*j.LimitedBy) // a copy: the plan may be in others' hands
		out.LimitedBy = &limited
	}
	for _, s := range j.Scopes {
		out.Scopes = append(out.Scopes, jobScope{s.Limit, s.Key, Rounded(s.CallsPerWindow)})
	}
	return out
}

func scopeOf(s *plan.Scope) scope {
	out := scope{
		Provider: s.Provider, Limit: s.Limit, Kind: s.Kind, Key: s.Key, Keys: s.Keys,
		WindowStart: Instant(s.WindowStart), WindowEnd: Instant(s.WindowEnd), HorizonSeconds: s.HorizonSeconds,
		Budget: Rounded(s.Budget), Demand: Rounded(s.Demand), Projected: Rounded(s.Projected), ExhaustsAt: Instant(s.ExhaustsAt),
		Feasible: s.Feasible, Headroom: Rounded(s.Headroom()), Faster: map[string]float64{}, Assumed: s.Assumed,
	}
	for priority, times := range s.Unused.Faster {
		out.Faster[priority] = Rounded(times)
	}
	if q := s.Quota; q != nil {
		out.Max, out.Share, out.Usable, out.Reserve = &q.Max, &q.Share, &q.Usable, &q.Reserve
		out.Used, out.Remaining, out.External = &q.Used, &q.Remaining, &q.External
		peak := Rounded(s.Peak)
		out.Peak, out.QuotaForNoStretch = &peak, &s.Unused.QuotaForNoStretch
	}
	return out
}

// Instant is an instant in UTC to the millisecond, or nil for the zero time.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC().Truncate(time.Millisecond)
	return &utc
}

// Rounded keeps 13 significant digits: more than any figure means, and none of the noise of binary sums.
func Rounded(f float64) float64 {
	if f == math.Trunc(f) || math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 13, 64), 64)
	if err != nil {
		return f
	}
	return short
}
