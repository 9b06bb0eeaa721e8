package plan

import (
	"time"

	"github.com/tapyr/tapyr/schema"
)

// Held is the interval that a running job has, and since when.
type Held struct {
	Interval  time.Duration
	ChangedAt time.Time
}

// worthwhile is the part of the old interval that a shorter one must stay below to replace it.
const worthwhile = 0.9

// Adopt decides which intervals of a new plan replace the running ones: one that is at least a tenth shorter, or one that is
// longer because the old no longer fits; and never a second change of a job within a replan interval. Jobs without a held
// interval start with the plan's. The result has every job of the plan. A job that is missing from held is new.
func (p *Plan) Adopt(held map[string]Held, now time.Time, replanInterval time.Duration) map[string]Held {
	fits := p.oldFits(held)
	out := make(map[string]Held, len(p.Jobs))
	for i, j := range p.Jobs {
		next := Held{Interval: seconds(j.EffectiveSeconds), ChangedAt: now}
		old, running := held[j.Job]
		if !running {
			out[j.Job] = next
			continue
		}
		recent := !old.ChangedAt.IsZero() && now.Sub(old.ChangedAt) < replanInterval
		shorter := float64(next.Interval) <= worthwhile*float64(old.Interval)
		longer := next.Interval > old.Interval && !fits[i]
		if recent || !shorter && !longer {
			out[j.Job] = old
			continue
		}
		out[j.Job] = next
	}
	return out
}

// oldFits tells for each job whether all its scopes would be within budget if every job kept its old interval.
func (p *Plan) oldFits(held map[string]Held) []bool {
	load := make(map[scopeName]float64)
	for _, j := range p.Jobs {
		interval := j.EffectiveSeconds
		if old, ok := held[j.Job]; ok {
			interval = old.Interval.Seconds()
		}
		for _, u := range j.Scopes {
			load[scopeName{j.Provider, u.Limit, u.Key}] += u.CallsPerWindow * j.EffectiveSeconds / interval
		}
	}
	over := make(map[scopeName]bool)
	for i := range p.Scopes {
		s := &p.Scopes[i]
		over[s.name()] = load[s.name()] > s.Budget*(1+overBudget)
	}
	fits := make([]bool, len(p.Jobs))
	for i, j := range p.Jobs {
		fits[i] = true
		for _, u := range j.Scopes {
			fits[i] = fits[i] && !over[scopeName{j.Provider, u.Limit, u.Key}]
		}
	}
	return fits
}

func seconds(s float64) time.Duration { return time.Duration(schema.DurationOf(s)) }
