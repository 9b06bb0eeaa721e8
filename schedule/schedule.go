package schedule

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate"
)

// never is an instant that does not come.
const never = math.MaxInt64

// Schedule says which instance starts when. An instance starts at phase + n*interval since the Unix epoch, with the phases of
// plan.Phases; after a change of the interval, the new one after its last start. At most one run of an instance is under way: a
// start that comes too early waits for the end of the run, and starts that were missed meanwhile, or while the machine slept,
// become one; so do those that were missed while nothing ran (Ran). A job whose inventory nobody has told yet starts at once, since others wait for it.
type Schedule struct {
	config    *validate.Config
	held      map[string]plan.Held
	instances map[string][]*Instance // by job, sorted by name
	byName    map[string]*Instance
	waiting   waiting
	paused    map[string]bool
	backoffs  map[*validate.Provider]*Backoff
	ran       map[string]int64 // when instances started last, before there was this schedule, by name

	plannedNanos int64 // of the last plan
	turnNanos    int64 // the next window opens
	asked        bool  // a plan is wanted now
}

// New is a schedule of all jobs of a configuration. Nothing starts before the first Adopt.
func New(config *validate.Config) *Schedule {
	s := &Schedule{
		config: config, held: make(map[string]plan.Held), instances: make(map[string][]*Instance),
		byName: make(map[string]*Instance), paused: make(map[string]bool), plannedNanos: -never, turnNanos: never, asked: true,
		backoffs: make(map[*validate.Provider]*Backoff), ran: make(map[string]int64),
	}
	for _, p := range config.Providers {
		b := BackoffOf(p)
		s.backoffs[p] = &b
	}
	for _, j := range config.Jobs {
		if j.Parent != nil {
			continue
		}
		if len(j.Account.Spec.Targets) == 0 {
			s.open(j, "", nil, nil)
		}
		for i := range j.Account.Spec.Targets {
			s.open(j, j.Account.Spec.Targets[i].Name, nil, nil)
		}
		s.sortInstances(j)
	}
	return s
}

// open makes an instance, without a start.
func (s *Schedule) open(j *validate.Job, target string, vars map[string]string, parent *Instance) {
	name := nameOf(j.Name, target, vars)
	if s.byName[name] != nil {
		return // two items with the same variables are one
	}
	one := &Instance{Name: name, Job: j, Target: target, Vars: vars, nextNanos: never, lastNanos: never, place: -1, parent: parent}
	one.backoff = s.backoffs[j.Account.Provider]
	s.byName[name] = one
	s.instances[j.Name] = append(s.instances[j.Name], one)
	if parent != nil {
		parent.children = append(parent.children, one)
	}
}

func (s *Schedule) sortInstances(j *validate.Job) {
	slices.SortFunc(s.instances[j.Name], func(a, b *Instance) int { return strings.Compare(a.Name, b.Name) })
}

// Instance of a name, or nil.
func (s *Schedule) Instance(name string) *Instance { return s.byName[name] }

// Instances of a job, sorted by name. The caller must not change the list.
func (s *Schedule) Instances(job string) []*Instance { return s.instances[job] }

// Interval that a job has; 0 before the first Adopt.
func (s *Schedule) Interval(job string) time.Duration { return s.held[job].Interval }

// Next is the next instant at which Due has an instance, if nothing else happens; ok is false where there is none.
func (s *Schedule) Next() (nanos int64, ok bool) {
	if len(s.waiting) == 0 || s.waiting[0].nextNanos == never {
		return 0, false
	}
	return s.waiting[0].nextNanos, true
}

// Due is an instance whose time has come, and whose run begins with that; nil where there is none. missed is the number of starts
// that are made up for by this one. The run ends with Finish.
func (s *Schedule) Due(now int64) (due *Instance, missed int64) {
	if len(s.waiting) == 0 || s.waiting[0].nextNanos > now {
		return nil, 0
	}
	due = heap.Pop(&s.waiting).(*Instance)
	interval := int64(s.held[due.Job.Name].Interval)
	due.running = true
	if due.resumeNanos != 0 {
		missed, due.missed = due.missed, 0
		due.nextNanos, due.resumeNanos = due.resumeNanos, 0
		if due.nextNanos > now {
			due.lastNanos = due.nextNanos - interval
			return due, missed
		}
	}
	over := (now - due.nextNanos) / interval
	missed += over
	due.lastNanos = due.nextNanos + over*interval
	due.nextNanos = due.lastNanos + interval
	return due, missed
}

// Ran tells when an instance started last, before there was this schedule: in an earlier process, or with other documents. It counts
// for the first start of the instance, so it is to be told before that is placed. An instance that missed a start by its phase starts
// soon, once for all that it missed; others wait for the first of their phase that is at least half an interval after the last.
func (s *Schedule) Ran(instance string, startedNanos int64) {
	s.ran[instance] = max(s.ran[instance], startedNanos)
}

// Finish ends a run that Due began. A start that has come meanwhile is due at once.
func (s *Schedule) Finish(i *Instance) {
	if !i.running {
		return
	}
	i.running = false
	switch {
	case i.gone:
	case !s.paused[i.Job.Name]:
		heap.Push(&s.waiting, i)
	}
}

// Trigger makes all instances of a job start now, apart from those that run. It tells their number.
func (s *Schedule) Trigger(now int64, job string) int {
	started := 0
	for _, i := range s.instances[job] {
		if i.place >= 0 {
			i.nextNanos = min(i.nextNanos, now)
			heap.Fix(&s.waiting, i.place)
			started++
		}
	}
	return started
}

// Pause keeps the instances of a job from starting, until it is called with false: then what was missed is made up for by one run.
// Runs that are under way go on.
func (s *Schedule) Pause(job string, paused bool) {
	if s.paused[job] == paused {
		return
	}
	s.paused[job] = paused
	for _, i := range s.instances[job] {
		switch {
		case paused && i.place >= 0:
			heap.Remove(&s.waiting, i.place)
		case !paused && !i.running:
			heap.Push(&s.waiting, i)
		}
	}
}

// SetItems takes in what a run of an instance found: one instance of each child job for every item. changed tells whether the
// items differ from the last ones; a plan is then wanted, and new instances start after it. A run that failed sets nothing: the
// last items stay. The items are the schedule's from then on: the caller must not change them.
func (s *Schedule) SetItems(of *Instance, items []map[string]string) (changed bool) {
	if of.gone {
		return false
	}
	first := !of.listed
	of.listed = true
	if !first && slices.EqualFunc(of.items, items, maps.Equal[map[string]string, map[string]string]) {
		return false
	}
	of.items, of.complete = items, completed(items, of.Vars)
	keep := make(map[string]bool)
	for _, child := range of.Job.Children {
		for _, vars := range of.complete {
			keep[nameOf(child.Name, of.Target, vars)] = true
			s.open(child, of.Target, vars, of)
		}
	}
	closed := make(map[string]bool)
	of.children = slices.DeleteFunc(of.children, func(child *Instance) bool {
		if !keep[child.Name] {
			s.close(child, closed)
		}
		return !keep[child.Name]
	})
	for job := range closed {
		s.instances[job] = slices.DeleteFunc(s.instances[job], func(i *Instance) bool { return i.gone })
	}
	for _, child := range of.Job.Children {
		s.sortInstances(child)
	}
	s.asked = true
	return true
}

// completed are items with their ancestors' variables beside their own. Children and plans share them, and where there are no ancestors
// they are the items themselves: of a hundred thousand, every copy takes tens of megabytes.
func completed(items []map[string]string, ancestors map[string]string) []map[string]string {
	if len(ancestors) == 0 {
		return items
	}
	all := make([]map[string]string, len(items))
	for k, item := range items {
		all[k] = make(map[string]string, len(ancestors)+len(item))
		maps.Copy(all[k], ancestors)
		maps.Copy(all[k], item)
	}
	return all
}

// close forgets an instance and all that came of its items, up to the lists of the jobs, which it names: going through a list for each
// of a hundred thousand would take minutes.
func (s *Schedule) close(i *Instance, jobs map[string]bool) {
	for _, child := range i.children {
		s.close(child, jobs)
	}
	jobs[i.Job.Name] = true
	i.gone, i.children = true, nil
	delete(s.byName, i.Name)
	if i.place >= 0 {
		heap.Remove(&s.waiting, i.place)
	}
}

// Inventories are the items that each job has listed, with their ancestors' variables, for plan.State; jobs of which not all
// instances have listed theirs are left out. The caller must not change them.
func (s *Schedule) Inventories() map[string][]map[string]string {
	out := make(map[string][]map[string]string)
	for _, j := range s.config.Jobs {
		if len(j.Children) == 0 || len(s.instances[j.Name]) == 0 && j.Parent != nil && out[j.Parent.Name] == nil {
			continue
		}
		all := []map[string]string{}
		complete := true
		for _, i := range s.instances[j.Name] {
			complete = complete && i.listed
			all = append(all, i.complete...)
		}
		if complete {
			out[j.Name] = all
		}
	}
	return out
}
