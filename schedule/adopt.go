package schedule

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/plan"
)

// Change is a job's interval that a plan has replaced.
type Change struct {
	// Job is the job's name.
	Job string
	// From is 0 for a job that had none.
	From, To time.Duration
}

// breather is the shortest time between two plans: a fan-out whose parents end one after the other is not planned for each of them.
const breather = time.Second

// PlanAt is when the next plan is wanted: a replan interval after the last, or when a window of the last plan ends; now, before the
// first plan and after Ask or a changed inventory.
func (s *Schedule) PlanAt(now int64) int64 {
	if s.asked {
		return max(now, s.plannedNanos+int64(breather))
	}
	return min(s.plannedNanos+int64(s.config.Settings.ReplanInterval), s.turnNanos)
}

// Ask wants a plan now: because documents, an inventory or what is known of a quota have changed.
func (s *Schedule) Ask() { s.asked = true }

// Adopt takes over what a plan changes, as far as plan.Adopt lets it, sorted by job. The next start of an instance is its last start
// plus the new interval, but not before now.
func (s *Schedule) Adopt(now int64, p *plan.Plan) []Change {
	before := s.held
	s.held = p.Adopt(before, time.Unix(0, now), s.config.Settings.ReplanInterval)
	s.asked, s.plannedNanos, s.turnNanos = false, now, never
	for i := range p.Scopes {
		// A window that turns more often than plans are made is planned for as it mostly is.
		start, end := p.Scopes[i].WindowStart, p.Scopes[i].WindowEnd
		if end.Sub(start) > s.config.Settings.ReplanInterval && end.UnixNano() > now {
			s.turnNanos = min(s.turnNanos, end.UnixNano())
		}
	}
	var changes []Change
	for _, job := range slices.Sorted(maps.Keys(s.held)) {
		if from, to := before[job].Interval, s.held[job].Interval; from != to {
			changes = append(changes, Change{job, from, to})
			s.move(now, job, int64(from), int64(to))
		}
	}
	s.place(now)
	return changes
}

// move brings the instances of a job to its new interval. Those that a shorter one would make overdue do not all start at once,
// which could take what is left of a window: the rest of their wait is shortened as the interval is.
func (s *Schedule) move(now int64, job string, from, to int64) {
	for _, i := range s.instances[job] {
		i.resumeNanos, i.missed = 0, 0 // a start that makes up for others stays, the one after it follows from the new interval
		if i.lastNanos == never {
			continue
		}
		next := i.lastNanos + to
		if next < now {
			left := max(0, i.nextNanos-now)
			next = now + int64(float64(left)*float64(to)/float64(from))
		}
		i.nextNanos = next
		if i.place >= 0 {
			heap.Fix(&s.waiting, i.place)
		}
	}
}

// place gives every instance that never had a start its first one: now, where others wait for what it lists; else the first of its
// phase.
func (s *Schedule) place(now int64) {
	var fresh []*Instance
	for _, j := range s.config.Jobs {
		for _, i := range s.instances[j.Name] {
			if i.nextNanos == never && s.held[j.Name].Interval > 0 {
				fresh = append(fresh, i)
			}
		}
	}
	if len(fresh) == 0 {
		return
	}
	intervals := make(map[string]time.Duration, len(s.byName))
	for name, i := range s.byName {
		if held := s.held[i.Job.Name].Interval; held > 0 {
			intervals[name] = held
		}
	}
	phases := plan.Phases(intervals)
	for _, i := range fresh {
		i.nextNanos = now
		if len(i.Job.Children) == 0 || i.listed {
			s.first(now, i, int64(phases[i.Name]), int64(intervals[i.Name]))
		}
		if !s.paused[i.Job.Name] {
			heap.Push(&s.waiting, i)
		}
	}
}

// makeUpSpread bounds how long after now a start is made up for: what is missing is wanted soon, but not all at once.
const makeUpSpread = 5 * time.Minute

// first sets the first start of an instance: the first of its phase, or one that makes up for those that it missed. The latter come
// in the order of their phases, over a tenth of the interval.
func (s *Schedule) first(now int64, i *Instance, phase, interval int64) {
	ran, known := s.ran[i.Name]
	if !known || ran > now { // a clock that was set back knows nothing of the past
		i.nextNanos = firstAfter(now, phase, interval)
		return
	}
	due := firstAfter(ran+interval/2, phase, interval)
	if due >= now {
		i.nextNanos = due
		return
	}
	spread := min(interval/10, int64(makeUpSpread))
	i.nextNanos = now + int64(float64(phase)/float64(interval)*float64(spread))
	i.resumeNanos = firstAfter(i.nextNanos+interval/2, phase, interval)
	i.missed = (i.nextNanos - due) / interval
}

// firstAfter is the first phase + n*interval that is not before now.
func firstAfter(now, phase, interval int64) int64 {
	over := (now - phase) % interval
	if over < 0 {
		over += interval
	}
	if over == 0 {
		return now
	}
	return now - over + interval
}

// Counters are what an engine has counted and seen of each quota, for plan.State. Of a window that is no longer than the time
// between two plans only the maximum matters: what of it is used will be forgotten before the next plan.
func Counters(e *engine.Engine, now int64, replanInterval time.Duration) []plan.Counter {
	var out []plan.Counter
	e.Projections(now, func(p *engine.Projection) {
		if length := p.EndNanos - p.StartNanos; length <= int64(replanInterval) {
			p.StartNanos, p.EndNanos, p.Used, p.External = now, now+length, 0, 0
		}
		c := plan.Counter{
			Provider: p.Provider, Limit: p.Limit, Key: p.Key, Start: time.Unix(0, p.StartNanos).UTC(),
			End: time.Unix(0, p.EndNanos).UTC(), UsedUnits: p.Used, ObservedMax: &p.Max,
		}
		if p.EndNanos <= now { // a rolling window ends with the present, which is part of it
			c.End = time.Unix(0, now+1).UTC()
		}
		if p.External > 0 {
			remaining := max(0, p.Max-p.Used-p.External)
			c.ObservedRemaining, c.ObservedUsed = &remaining, &p.Used
		}
		out = append(out, c)
	})
	slices.SortFunc(out, func(a, b plan.Counter) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Key, b.Key))
	})
	return out
}
