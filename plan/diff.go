package plan

import (
	"math"
	"time"
)

// Diff compares two plans: what a change of the documents does to the budgets.
type Diff struct {
	// Worse tells that the head does worse than the base: a job runs less often, or a scope has less headroom.
	Worse bool
	// Holds tells that the head is feasible and keeps its promises, BaseHolds that the base does.
	Holds, BaseHolds bool

	Jobs   []JobDiff
	Scopes []ScopeDiff
	// FirstExhaustion is the earliest of any scope, before and after; zero for never.
	FirstExhaustionBase, FirstExhaustionHead time.Time
}

// JobDiff is one job before and after; a side that does not have it is NaN.
type JobDiff struct {
	Job                                        string
	BaseEffectiveSeconds, HeadEffectiveSeconds float64
	BaseStretch, HeadStretch                   float64
}

// ScopeDiff is one scope before and after; a side that does not have it is NaN.
type ScopeDiff struct {
	Provider, Limit, Key             string
	BaseUnitsPerDay, HeadUnitsPerDay float64
	BaseHeadroom, HeadHeadroom       float64
	BaseExhaustsAt, HeadExhaustsAt   time.Time
}

// Changed tells whether anything differs.
func (d *Diff) Changed() bool {
	for _, j := range d.Jobs {
		if j.BaseEffectiveSeconds != j.HeadEffectiveSeconds || j.BaseStretch != j.HeadStretch {
			return true
		}
	}
	for _, s := range d.Scopes {
		if s.BaseUnitsPerDay != s.HeadUnitsPerDay || s.BaseHeadroom != s.HeadHeadroom {
			return true
		}
	}
	return false
}

// Bad tells what a reviewer must know: the head does worse than the base, and is infeasible or breaks a promise.
func (d *Diff) Bad() bool { return d.Worse && !d.Holds }

// worsens is the part by which a headroom must shrink, or an interval grow, to count: more than rounding.
const worsens = 1e-6

// Compare holds a head against a base. Jobs and scopes stand in the head's order, then those that only the base has.
func Compare(base, head *Plan) *Diff {
	d := &Diff{Holds: head.Holds(), BaseHolds: base.Holds(), FirstExhaustionBase: base.firstExhaustion(), FirstExhaustionHead: head.firstExhaustion()}
	d.jobs(base, head)
	d.scopes(base, head)
	if base.Holds() && !head.Holds() {
		d.Worse = true
	}
	return d
}

func (d *Diff) jobs(base, head *Plan) {
	before := make(map[string]*Job, len(base.Jobs))
	for i := range base.Jobs {
		before[base.Jobs[i].Job] = &base.Jobs[i]
	}
	for _, j := range head.Jobs {
		row := JobDiff{Job: j.Job, HeadEffectiveSeconds: j.EffectiveSeconds, HeadStretch: j.Stretch, BaseEffectiveSeconds: math.NaN(), BaseStretch: math.NaN()}
		if b := before[j.Job]; b != nil {
			row.BaseEffectiveSeconds, row.BaseStretch = b.EffectiveSeconds, b.Stretch
			d.Worse = d.Worse || j.Stretch > b.Stretch*(1+worsens)
			delete(before, j.Job)
		}
		d.Jobs = append(d.Jobs, row)
	}
	for _, j := range base.Jobs {
		if before[j.Job] != nil {
			d.Jobs = append(d.Jobs, JobDiff{Job: j.Job, BaseEffectiveSeconds: j.EffectiveSeconds, BaseStretch: j.Stretch, HeadEffectiveSeconds: math.NaN(), HeadStretch: math.NaN()})
		}
	}
}

type scopeName struct{ provider, limit, key string }

func (s *Scope) name() scopeName { return scopeName{s.Provider, s.Limit, s.Key} }

// UnitsPerDay is what the effective intervals use in a day.
func (s *Scope) UnitsPerDay() float64 { return s.Projected / s.HorizonSeconds * 86400 }

func (d *Diff) scopes(base, head *Plan) {
	before := make(map[scopeName]*Scope, len(base.Scopes))
	for i := range base.Scopes {
		before[base.Scopes[i].name()] = &base.Scopes[i]
	}
	for i := range head.Scopes {
		s := &head.Scopes[i]
		row := ScopeDiff{
			Provider: s.Provider, Limit: s.Limit, Key: s.Key, HeadUnitsPerDay: s.UnitsPerDay(), HeadHeadroom: s.Headroom(), HeadExhaustsAt: s.ExhaustsAt,
			BaseUnitsPerDay: math.NaN(), BaseHeadroom: math.NaN(),
		}
		if b := before[s.name()]; b != nil {
			row.BaseUnitsPerDay, row.BaseHeadroom, row.BaseExhaustsAt = b.UnitsPerDay(), b.Headroom(), b.ExhaustsAt
			d.Worse = d.Worse || s.Headroom() < b.Headroom()-worsens
			delete(before, s.name())
		}
		d.Scopes = append(d.Scopes, row)
	}
	for i := range base.Scopes {
		b := &base.Scopes[i]
		if before[b.name()] != nil {
			d.Scopes = append(d.Scopes, ScopeDiff{
				Provider: b.Provider, Limit: b.Limit, Key: b.Key, BaseUnitsPerDay: b.UnitsPerDay(), BaseHeadroom: b.Headroom(), BaseExhaustsAt: b.ExhaustsAt,
				HeadUnitsPerDay: math.NaN(), HeadHeadroom: math.NaN(),
			})
		}
	}
}

func (p *Plan) firstExhaustion() time.Time {
	var first time.Time
	for _, s := range p.Scopes {
		if !s.ExhaustsAt.IsZero() && (first.IsZero() || s.ExhaustsAt.Before(first)) {
			first = s.ExhaustsAt
		}
	}
	return first
}
