package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/tapyr/tapyr/schema"
)

// roundingSlackSeconds is taken off before an interval is rounded up to a whole second, so that an exact fit stays exact.
const roundingSlackSeconds = 1e-6

// overBudget is the part of a budget by which the rounded intervals may exceed it.
const overBudget = 1e-6

// effectiveSeconds is the interval of a level, a whole number of seconds unless the desired interval stands.
func (j *jobLoad) effectiveSeconds() float64 {
	if j.x >= 1 {
		return j.desiredSeconds
	}
	return max(j.desiredSeconds, math.Ceil(j.desiredSeconds/j.x-roundingSlackSeconds))
}

// result writes down the solution.
func (p *problem) result() *Plan {
	out := &Plan{At: p.in.At, Feasible: true, Warnings: p.warnings}
	out.Jobs = make([]Job, 0, len(p.jobs))
	for _, j := range p.jobs {
		out.Jobs = append(out.Jobs, j.result())
	}
	groups := p.groups()
	out.Scopes = make([]Scope, 0, len(groups))
	for _, group := range groups {
		s := p.scope(group)
		out.Feasible = out.Feasible && s.Feasible
		out.Scopes = append(out.Scopes, s)
		out.warnAbout(s)
	}
	out.Assertions = p.assertions(out)
	return out
}

func (j *jobLoad) result() Job {
	effective := j.effectiveSeconds()
	out := Job{
		Job: j.job.Name, Priority: j.job.Priority,
		DesiredSeconds: j.desiredSeconds, EffectiveSeconds: effective, Stretch: effective / j.desiredSeconds,
		Instances: j.instances, CallsPerRun: j.callsPerRun,
	}
	if a := j.job.Account; a != nil {
		out.Account, out.Provider = a.Name, a.Spec.Provider
	}
	if k := j.limitedBy; k != nil && effective > j.desiredSeconds {
		out.LimitedBy = &LimitedBy{Limit: k.limit.Spec.Name, Key: k.pattern, Reason: k.limit.Spec.Kind}
	}
	out.Scopes = make([]JobScope, 0, len(j.uses))
	last := rowName{limit: -1}
	for _, u := range j.uses {
		id := rowName{u.key.limit.Index, u.key.pattern}
		s := JobScope{
			Limit: u.key.limit.Spec.Name, Key: u.key.pattern, Instances: u.instances, CostUnits: u.cost,
			CallsPerWindow: u.perRun * u.key.figures.horizonSeconds / effective,
		}
		// The uses of one row stand together; of several keys the fullest is shown.
		if id != last {
			out.Scopes = append(out.Scopes, s)
			last = id
		} else if shown := &out.Scopes[len(out.Scopes)-1]; s.CallsPerWindow > shown.CallsPerWindow {
			*shown = s
		}
	}
	return out
}

// groups collects the keys of each row, in order.
func (p *problem) groups() [][]*keyLoad {
	type id struct {
		provider string
		row      rowName
	}
	at := make(map[id]int)
	var out [][]*keyLoad
	for _, k := range p.keys {
		if k.limit.Spec.Kind == schema.KindConcurrency && p.projected(k) == 0 {
			continue // without a known latency nothing can be said of it
		}
		name := id{k.limit.Provider.Name, rowName{k.limit.Index, k.pattern}}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], k)
	}
	return out
}

// projected is what the effective intervals use of a key in its horizon: units, or for concurrency the mean number in flight.
func (p *problem) projected(k *keyLoad) float64 {
	sum := 0.0
	for _, m := range k.members {
		sum += m.perRun * k.figures.horizonSeconds / m.job.effectiveSeconds() * p.weight(k, m.job)
	}
	return sum
}

// weight turns requests a second into requests in flight (Little's law) where the limit bounds those.
func (p *problem) weight(k *keyLoad, j *jobLoad) float64 {
	if k.limit.Spec.Kind == schema.KindConcurrency {
		return p.latencySeconds(j)
	}
	return 1
}

// scope writes down a row: of its keys the one that is fullest.
func (p *problem) scope(group []*keyLoad) Scope {
	decisive, most, keys, shortest := group[0], -1.0, int64(0), math.Inf(1)
	for _, k := range group {
		keys += k.keys
		load := p.projected(k)
		if ratio := load / max(k.figures.units, 1e-300); ratio > most {
			decisive, most = k, ratio
		}
	}
	k := decisive
	s := Scope{
		Provider: k.limit.Provider.Name, Limit: k.limit.Spec.Name, Kind: k.limit.Spec.Kind, Key: k.pattern, Keys: keys,
		WindowStart: k.figures.window.Start, WindowEnd: k.figures.window.End, HorizonSeconds: k.figures.horizonSeconds,
		Quota: k.figures.quota, Budget: k.figures.units, Projected: p.projected(k),
		Assumed: k.limit.Spec.Source != nil && k.limit.Spec.Source.Kind == "assumed",
	}
	for _, m := range k.members {
		s.Demand += m.demand * p.weight(k, m.job)
		s.Peak += m.perRun * math.Ceil(k.figures.horizonSeconds/m.job.effectiveSeconds())
		shortest = min(shortest, m.job.effectiveSeconds())
	}
	s.lumpy = lumpy(&s, shortest)
	s.Feasible = s.Projected <= s.Budget*(1+overBudget)
	if s.Kind == schema.KindQuota {
		s.ExhaustsAt = exhaustsAt(k, s)
	} else {
		s.Peak = 0
	}
	s.Unused = p.unused(k, s)
	return s
}

// lumpPatience is the part of the shortest interval on a key by which its runs may be held up without a warning.
const lumpPatience = 0.1

// lumpy tells whether whole runs can come to more than the quota in one window, such that what is left over is held up for long. Of
// a second's quota it goes in the next seconds, and nobody needs to know.
func lumpy(s *Scope, shortestSeconds float64) bool {
	if s.Quota == nil || s.Peak <= float64(s.Quota.Usable) {
		return false
	}
	if s.Quota.Usable <= 0 {
		return true
	}
	further := math.Ceil(s.Peak/float64(s.Quota.Usable)) - 1
	return further*s.HorizonSeconds > lumpPatience*shortestSeconds
}

// exhaustsAt is when, at the desired intervals, the budget of a fixed window would be gone; zero for never.
func exhaustsAt(k *keyLoad, s Scope) time.Time {
	if s.Demand <= s.Budget || k.figures.window.Start.IsZero() {
		return time.Time{}
	}
	seconds := s.HorizonSeconds * s.Budget / s.Demand
	return k.figures.from.Add(time.Duration(seconds * float64(time.Second)))
}

func (p *Plan) warnAbout(s Scope) {
	if s.lumpy && s.Feasible && s.Projected > 0 {
		p.Warnings = append(p.Warnings, Warning{
			Code: "peak-over-budget", Provider: s.Provider, Limit: s.Limit, Key: s.Key,
			Message: fmt.Sprintf("whole runs on %s/%s %s can add up to %s in one window, the usable quota is %d", s.Provider, s.Limit, s.Key, Figure(s.Peak), s.Quota.Usable),
		})
	}
	if s.Assumed {
		p.Warnings = append(p.Warnings, Warning{
			Code: "assumed-limit", Provider: s.Provider, Limit: s.Limit, Key: s.Key,
			Message: fmt.Sprintf("the figure of %s/%s is only assumed; measure it, or look it up, and say so in its source", s.Provider, s.Limit),
		})
	}
}

// assertions holds the plan against the documents' promises.
func (p *problem) assertions(out *Plan) []Assertion {
	var list []Assertion
	for i, j := range p.jobs {
		if m := j.job.Spec.MaxInterval; m != nil {
			got := out.Jobs[i].EffectiveSeconds
			want := m.Or(0).Seconds()
			list = append(list, Assertion{Kind: "maxInterval", Job: j.job.Name, Want: want, Got: got, OK: got <= want})
		}
	}
	for _, a := range p.in.Config.Settings.Spec.Assert {
		for _, s := range out.Scopes {
			if s.Provider+"/"+s.Limit != a.Limit {
				continue
			}
			want, got := a.Headroom.Float64(), s.Headroom()
			list = append(list, Assertion{
				Kind: "headroom", Provider: s.Provider, Limit: s.Limit, Key: s.Key, Want: want, Got: got, OK: got >= want-overBudget,
			})
		}
	}
	return list
}

// Headroom is the part of the budget that the effective intervals leave: 1 where nothing is used, below 0 where it is exceeded.
func (s Scope) Headroom() float64 {
	switch {
	case s.Projected == 0:
		return 1
	case s.Budget <= 0:
		return -1
	}
	return (s.Budget - s.Projected) / s.Budget
}
