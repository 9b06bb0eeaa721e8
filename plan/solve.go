package plan

import (
	"sort"

	"github.com/tapyr/tapyr/schema"
)

// solve finds every job's level: floors first, then the first pass, which takes from the lowest classes what a key lacks, then
// the second, which gives back what other keys left unused.
func (p *problem) solve() {
	p.setBudgets()
	p.setFloors()
	for _, j := range p.jobs {
		j.lo, j.x, j.limitedBy = j.hi, j.hi, j.floor
	}
	s := p.newSolver()
	for _, k := range p.keys {
		if k.stretches() {
			s.firstPass(k)
		}
	}
	for _, j := range p.jobs {
		j.x = j.lo
	}
	if !p.in.NoReclaim {
		p.secondPass()
	}
}

// stretches tells whether the key's budget is for sharing out; a limit of concurrency only sets floors.
func (k *keyLoad) stretches() bool { return k.limit.Spec.Kind != schema.KindConcurrency }

// setFloors finds the level that no job can exceed: a run must have ended before the next one starts.
func (p *problem) setFloors() {
	for _, j := range p.jobs {
		longest := 0.0
		for _, u := range j.uses {
			floor := p.floorSeconds(j, u)
			if floor > longest {
				longest = floor
				if floor > j.desiredSeconds {
					j.floor = u.key
				}
			}
		}
		j.hi = 1 / max(1, longest/j.desiredSeconds)
	}
}

// floorSeconds is the time that a limit takes for one run of a job.
func (p *problem) floorSeconds(j *jobLoad, u use) float64 {
	switch u.key.limit.Spec.Kind {
	case schema.KindRate:
		return u.perRun / u.key.figures.units
	case schema.KindConcurrency:
		if latency := p.latencySeconds(j); latency > 0 && u.key.figures.units > 0 {
			return u.perRun * latency / u.key.figures.units
		}
	}
	return 0
}

func (p *problem) latencySeconds(j *jobLoad) float64 {
	if p.in.State == nil {
		return 0
	}
	return p.in.State.History[j.job.Name].LatencySeconds
}

// solver holds what the first pass needs on every key.
type solver struct {
	lowest  float64 // 1/maxStretch
	byClass [4][]member
}

func (p *problem) newSolver() *solver {
	return &solver{lowest: 1 / p.in.Config.Settings.MaxStretch.Float64()}
}

// firstPass lowers the levels of the jobs on one key, class by class from the lowest, until the key's demand fits its budget. A
// job keeps the smallest level that any key asks of it.
func (s *solver) firstPass(k *keyLoad) {
	budget := k.figures.units
	sum := 0.0
	for c := range s.byClass {
		s.byClass[c] = s.byClass[c][:0]
	}
	for _, m := range k.members {
		sum += m.demand * m.job.hi
		s.byClass[m.job.class] = append(s.byClass[m.job.class], m)
	}
	for c := len(classes) - 1; c > 0 && sum > budget; c-- {
		members := s.byClass[c]
		if len(members) == 0 {
			continue
		}
		own := 0.0
		for _, m := range members {
			own += m.demand * m.job.hi
		}
		level, used := commonLevel(members, budget-(sum-own), s.lowest)
		sum += used - own
		for _, m := range members {
			if x := min(level, m.job.hi); x < m.job.lo {
				m.job.lo, m.job.limitedBy = x, k
			}
		}
	}
}

// commonLevel is the largest level in [lowest, 1] at which the members use at most what is free, and what they use at it. It is
// lowest where none does.
func commonLevel(members []member, free, lowest float64) (level, used float64) {
	sort.SliceStable(members, func(i, j int) bool { return members[i].job.hi < members[j].job.hi })
	rest := 0.0 // demand of the members whose hi is not below the level
	for _, m := range members {
		rest += m.demand
	}
	below := 0.0 // what the members with a lower hi use
	for i, m := range members {
		// The level is at most this member's hi if the members from here on do not all fit at it.
		if below+rest*m.job.hi > free {
			level = max(lowest, (free-below)/rest)
			return level, usedAt(members[i:], level) + below
		}
		below += m.demand * m.job.hi
		rest -= m.demand
	}
	return 1, below
}

func usedAt(members []member, level float64) float64 {
	sum := 0.0
	for _, m := range members {
		sum += m.demand * min(level, m.job.hi)
	}
	return sum
}
