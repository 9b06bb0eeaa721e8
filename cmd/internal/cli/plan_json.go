package cli

import (
	"math"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/plan"
)

// The JSON form of a plan. Its keys are a contract: other programs read them.

type planJSON struct {
	At         time.Time           `json:"at"`
	Feasible   bool                `json:"feasible"`
	Jobs       []planJobJSON       `json:"jobs"`
	Scopes     []planScopeJSON     `json:"scopes"`
	Assertions []planAssertionJSON `json:"assertions"`
	Remedies   []planRemedyJSON    `json:"remedies"`
	Warnings   []planWarningJSON   `json:"warnings"`
}

type planJobJSON struct {
	Job              string             `json:"job"`
	Account          string             `json:"account"`
	Provider         string             `json:"provider"`
	Priority         string             `json:"priority"`
	DesiredSeconds   float64            `json:"desiredSeconds"`
	EffectiveSeconds float64            `json:"effectiveSeconds"`
	Stretch          float64            `json:"stretch"`
	Instances        int64              `json:"instances"`
	CallsPerRun      float64            `json:"callsPerRun"`
	LimitedBy        *planLimitedJSON   `json:"limitedBy"`
	Scopes           []planJobScopeJSON `json:"scopes"`
}

type planLimitedJSON struct {
	Limit  string `json:"limit"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

type planJobScopeJSON struct {
	Limit          string  `json:"limit"`
	Key            string  `json:"key"`
	CallsPerWindow float64 `json:"callsPerWindow"`
}

type planScopeJSON struct {
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

type planAssertionJSON struct {
	Kind     string  `json:"kind"`
	Job      string  `json:"job,omitempty"`
	Provider string  `json:"provider,omitempty"`
	Limit    string  `json:"limit,omitempty"`
	Key      string  `json:"key,omitempty"`
	Want     float64 `json:"want"`
	Got      float64 `json:"got"`
	OK       bool    `json:"ok"`
}

type planRemedyJSON struct {
	Kind     string `json:"kind"`
	Provider string `json:"provider"`
	Limit    string `json:"limit"`
	Key      string `json:"key"`
	Flag     string `json:"flag"`
	Message  string `json:"message"`
	Feasible bool   `json:"feasible"`
}

type planWarningJSON struct {
	Code    string `json:"code"`
	Job     string `json:"job,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func planJSONOf(p *plan.Plan, remedies []plan.Remedy) planJSON {
	out := planJSON{At: p.At.UTC(), Feasible: p.Feasible}
	for i := range p.Jobs {
		out.Jobs = append(out.Jobs, planJobJSONOf(&p.Jobs[i]))
	}
	for i := range p.Scopes {
		out.Scopes = append(out.Scopes, planScopeJSONOf(&p.Scopes[i]))
	}
	for _, a := range p.Assertions {
		out.Assertions = append(out.Assertions, planAssertionJSON(a))
	}
	for _, r := range remedies {
		out.Remedies = append(out.Remedies, planRemedyJSON(r))
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, planWarningJSON(w))
	}
	return out
}

func planJobJSONOf(j *plan.Job) planJobJSON {
	out := planJobJSON{
		Job: j.Job, Account: j.Account, Provider: j.Provider, Priority: j.Priority, DesiredSeconds: j.DesiredSeconds,
		EffectiveSeconds: j.EffectiveSeconds, Stretch: rounded(j.Stretch), Instances: j.Instances, CallsPerRun: rounded(j.CallsPerRun),
	}
	if j.LimitedBy != nil {
		out.LimitedBy = (*planLimitedJSON)(j.LimitedBy)
	}
	for _, s := range j.Scopes {
		out.Scopes = append(out.Scopes, planJobScopeJSON{s.Limit, s.Key, rounded(s.CallsPerWindow)})
	}
	return out
}

func planScopeJSONOf(s *plan.Scope) planScopeJSON {
	out := planScopeJSON{
		Provider: s.Provider, Limit: s.Limit, Kind: s.Kind, Key: s.Key, Keys: s.Keys,
		WindowStart: instantOrNil(s.WindowStart), WindowEnd: instantOrNil(s.WindowEnd), HorizonSeconds: s.HorizonSeconds,
		Budget: rounded(s.Budget), Demand: rounded(s.Demand), Projected: rounded(s.Projected), ExhaustsAt: instantOrNil(s.ExhaustsAt),
		Feasible: s.Feasible, Headroom: rounded(s.Headroom()), Faster: map[string]float64{}, Assumed: s.Assumed,
	}
	for priority, times := range s.Unused.Faster {
		out.Faster[priority] = rounded(times)
	}
	if q := s.Quota; q != nil {
		out.Max, out.Share, out.Usable, out.Reserve = &q.Max, &q.Share, &q.Usable, &q.Reserve
		out.Used, out.Remaining, out.External = &q.Used, &q.Remaining, &q.External
		peak := rounded(s.Peak)
		out.Peak, out.QuotaForNoStretch = &peak, &s.Unused.QuotaForNoStretch
	}
	return out
}

// instantOrNil is the instant in UTC to the millisecond, or nil for the zero time.
func instantOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC().Truncate(time.Millisecond)
	return &utc
}

// rounded keeps 13 significant digits: more than any figure means, and none of the noise of binary sums.
func rounded(f float64) float64 {
	if f == math.Trunc(f) || math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 13, 64), 64)
	if err != nil {
		return f
	}
	return short
}
