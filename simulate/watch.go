package simulate

import (
	"fmt"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Invariant is something that must hold in every scenario, whatever the faults are.
type Invariant string

const (
	// WithinLimits: our own requests alone never exceed a limit as the vendor counts. (Answers that lie about a maximum would be an
	// exception; Faults has no such lies.)
	WithinLimits Invariant = "within-limits"
	// NothingLost: every request that is asked for is granted or refused, every granted one is answered, every run that starts ends,
	// and what was held is given back.
	NothingLost Invariant = "nothing-lost"
	// InTime: no request waits beyond its deadline.
	InTime Invariant = "in-time"
	// InOrder: nobody starves among equals. Requests of one job that meet the same keys are granted in the order in which they came.
	InOrder Invariant = "in-order"
	// SameCount: where the vendor refused nothing, the engine and the vendor have counted the same units of every quota.
	SameCount Invariant = "same-count"
	// OnTime: a run starts within its interval, unless the one before is still under way.
	OnTime Invariant = "on-time"
)

// Violation is an invariant that was broken.
type Violation struct {
	// Invariant is which.
	Invariant Invariant
	// At is when it was noticed.
	At time.Time
	// Message says what was seen.
	Message string
}

// watch holds a scenario against the invariants while it is played.
type watch struct {
	world *world
	// violated hears of violations; nil for nobody.
	violated func(Violation) (stop bool)
	stopped  bool

	started, finished, asked, granted, refused int64

	answered int64
	// limited is how often the vendor refused one of ours.
	limited int64
	// lastAsked is the order of arrival of the last first attempt that was granted, by job, of jobs whose instances share all keys.
	lastAsked map[*validate.Job]uint64
	shared    map[*validate.Job]bool
}

// mostViolations is how many violations a report lists: after the first, the rest follows from it.
const mostViolations = 20

func (x *watch) broken(now int64, i Invariant, format string, args ...any) {
	v := Violation{Invariant: i, At: time.Unix(0, now).UTC(), Message: fmt.Sprintf(format, args...)}
	r := x.world.report
	if len(r.Violations) < mostViolations {
		r.Violations = append(r.Violations, v)
	}
	r.Broken++
	if x.violated != nil && x.violated(v) {
		x.stopped = true
	}
}

// decided looks at a decision of the engine.
func (x *watch) decided(now int64, a *actor, refused *engine.RefusedError) {
	job := a.run.Instance.Job
	if now > a.run.DeadlineNanos() && now > a.asked {
		x.broken(now, InTime, "a request of %s asked for at %s was decided %s after its deadline", a.run.Instance.Name,
			instant(a.asked), time.Duration(now-a.run.DeadlineNanos()))
	}
	if refused != nil {
		x.refused++
		return
	}
	x.granted++
	if a.run.Retry() || !x.sharesKeys(job) {
		return
	}
	if last := x.lastAsked[job]; last > a.askedOrder {
		x.broken(now, InOrder, "a request of %s asked for at %s was overtaken by a later one of the same job", a.run.Instance.Name, instant(a.asked))
	}
	x.lastAsked[job] = max(x.lastAsked[job], a.askedOrder)
}

// sent looks at a request that was sent, and at what our requests alone amount to.
func (x *watch) sent(now int64, a *actor) {
	if r := a.answer.ownRefused; r != nil {
		x.broken(now, WithinLimits, "a request of %s exceeds limit %s/%s on %q, which our own requests alone had used up", a.run.Instance.Name,
			r.Provider, r.Limit, r.Key)
	}
	if a.answer.limited && a.answer.cause != CauseSpurious {
		x.limited++
	}
}

// sharesKeys tells whether all instances of a job meet the same keys of all limits, so that they are equals.
func (x *watch) sharesKeys(j *validate.Job) bool {
	if shared, known := x.shared[j]; known {
		return shared
	}
	if x.shared == nil {
		x.shared, x.lastAsked = make(map[*validate.Job]bool), make(map[*validate.Job]uint64)
	}
	shared := true
	for _, l := range j.Account.Provider.Limits {
		for _, dimension := range l.By() {
			if len(dimension) > len(match.VariablePrefix) && dimension[:len(match.VariablePrefix)] == match.VariablePrefix || dimension == match.DimensionTarget {
				shared = false
			}
		}
		if f := l.Spec.AppliesTo; f != nil && f.RequestsWithVar != "" {
			shared = false
		}
	}
	// Circuit breakers of targets tell instances apart, too.
	shared = shared && len(j.Account.Spec.Targets) == 0
	x.shared[j] = shared
	return shared
}

// late looks for instances that should have started and have not.
func (x *watch) late(now int64) {
	w := x.world
	for _, j := range w.Config.Jobs {
		interval := int64(w.schedule.Interval(j.Name))
		for _, i := range w.schedule.Instances(j.Name) {
			if !i.Running() && interval > 0 && now-i.NextNanos() > interval && i.NextNanos() > 0 && now < w.end {
				x.broken(now, OnTime, "%s should have started at %s", i.Name, instant(i.NextNanos()))
			}
		}
	}
}

// close looks at what is left when everything has come to its end.
func (w *world) close() {
	x := &w.watch
	if !x.stopped {
		now := w.now
		if n := w.engine.Waiting(); n != 0 {
			x.broken(now, NothingLost, "%d requests still wait though nothing will happen any more", n)
		}
		if lost := x.asked - x.granted - x.refused; lost != 0 {
			x.broken(now, NothingLost, "%d of %d requests were neither granted nor refused", lost, x.asked)
		}
		if lost := x.granted - x.answered; lost != 0 {
			x.broken(now, NothingLost, "%d of %d granted requests were never answered", lost, x.granted)
		}
		if lost := x.started - x.finished; lost != 0 {
			x.broken(now, NothingLost, "%d of %d runs never ended", lost, x.started)
		}
		x.compareCounts(now)
	}
	w.report.close(w)
}

// compareCounts holds the engine's counts against the vendor's.
func (x *watch) compareCounts(now int64) {
	w := x.world
	if x.limited > 0 || len(w.unlearned) > 0 || w.Faults.External > 0 || w.Faults.Skew != 0 || len(w.Faults.Changes) > 0 {
		return // others count too, or the windows are not the same
	}
	used := make(map[[2]string]int64)
	w.engine.Projections(now, func(p *engine.Projection) { used[[2]string{p.Provider + "/" + p.Limit, p.Key}] = p.Used })
	for _, j := range w.Config.Jobs {
		for _, i := range w.schedule.Instances(j.Name) {
			state := w.states[i]
			if state == nil {
				continue
			}
			w.vendor.enforcer.Tally(w.vendor.clock(now), state.visitor.all, func(t *engine.Tally) { x.compare(now, state, t, used) })
		}
	}
}

func (x *watch) compare(now int64, state *instanceState, t *engine.Tally, used map[[2]string]int64) {
	name := t.Limit.Provider.Name + "/" + t.Limit.Spec.Name
	request := state.request.Request
	key, _ := t.Limit.Key(&request)
	switch {
	case t.Limit.Spec.Kind == schema.KindConcurrency:
		if t.UsedUnits != 0 {
			x.broken(now, NothingLost, "%d slots of %s on %q are still held", t.UsedUnits, name, key)
		}
	case t.Limit.Spec.Kind == schema.KindQuota && t.Limit.Spec.Window.Period != "" && t.Limit.Spec.Counts == nil && t.Limit.Spec.Sync == nil:
		if mine, known := used[[2]string{name, key}]; known && mine != t.UsedUnits {
			x.broken(now, SameCount, "the engine counts %d units of %s on %q, the vendor %d", mine, name, key, t.UsedUnits)
		}
	}
}

func instant(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }
