package plan

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
)

// Explain writes down, in words and numbers, how the interval of a job came about, one line an element. ok is false where there
// is no such job.
func Explain(in Input, job string) (lines []string, ok bool) {
	p := newProblem(in)
	p.solve()
	for _, j := range p.jobs {
		if j.job.Name == job {
			e := explanation{p: p, j: j}
			e.all()
			return e.lines, true
		}
	}
	return nil, false
}

type explanation struct {
	p     *problem
	j     *jobLoad
	lines []string
}

func (e *explanation) say(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

func (e *explanation) all() {
	j := e.j
	effective := j.effectiveSeconds()
	e.say("%s (%s) asks for a run every %s and gets one every %s: stretch %s.", j.job.Name, j.job.Priority, duration(j.desiredSeconds), duration(effective), Figure(effective/j.desiredSeconds))
	e.demand()
	for _, u := range j.uses {
		e.say("")
		e.key(u)
	}
	e.say("")
	e.verdict(effective)
}

func (e *explanation) demand() {
	j := e.j
	whence := "one run an interval"
	switch parent := j.job.Parent; {
	case parent != nil:
		whence = fmt.Sprintf("one for each of the %s items of %s", Figure(float64(j.instances)), parent.Name)
	case j.instances > 1:
		whence = fmt.Sprintf("one for each of the %d targets of %s", j.instances, j.job.Account.Name)
	}
	e.say("Instances: %s, %s.", Figure(float64(j.instances)), whence)
	pages, retries := e.p.pagesAndOverhead(j.job)
	e.say("Requests a run of one instance: %s × (1 + %s for retries) = %s.", plural(Figure(pages), "page"), Figure(retries), Figure(j.callsPerRun))
}

// key explains one key that the job uses.
func (e *explanation) key(u use) {
	k := u.key
	name := fmt.Sprintf("%s/%s", k.limit.Provider.Name, k.limit.Spec.Name)
	e.say("%s on %s (%s):", name, k.pattern, k.limit.Spec.Kind)
	if k.keys > 1 {
		e.say("  The %s instances spread over %s keys; the fullest has %s.", Figure(float64(e.j.instances)), Figure(float64(k.keys)), Figure(float64(u.instances)))
	}
	switch k.limit.Spec.Kind {
	case schema.KindRate:
		e.say("  Budget: %s requests a second.", Figure(k.figures.units))
		e.say("  Floor: a run takes %s × %s × %s / %s = %s, so no interval is shorter.", Figure(e.j.callsPerRun), Figure(u.cost), Figure(float64(u.instances)), Figure(k.figures.units), duration(math.Ceil(1000*u.perRun/k.figures.units)/1000))
	case schema.KindConcurrency:
		e.concurrency(u)
		return
	case schema.KindQuota:
		e.quota(k)
	}
	total := 0.0
	for _, m := range k.members {
		total += m.demand
	}
	e.say("  Demand of this job at the desired interval: %s × %s × %s × %s / %s = %s of %s by %s on the key.",
		Figure(e.j.callsPerRun), Figure(u.cost), Figure(float64(u.instances)), seconds3(k.figures.horizonSeconds), seconds3(e.j.desiredSeconds), Figure(u.demand), Figure(total), plural(Figure(float64(len(k.members))), "job"))
	e.classes(k, total)
}

func seconds3(s float64) string { return Figure(s) + " s" }

func (e *explanation) concurrency(u use) {
	latency := e.p.latencySeconds(e.j)
	if latency == 0 {
		e.say("  At most %s at once. Without a known latency this sets no floor.", Figure(u.key.figures.units))
		return
	}
	e.say("  Floor: a run takes %s × %s × %s / %s = %s, so no interval is shorter.", Figure(u.perRun), Figure(latency), "1", Figure(u.key.figures.units), duration(u.perRun*latency/u.key.figures.units))
}

// instant writes a time in the zone asked for.
func (e *explanation) instant(t time.Time) string {
	zone := e.p.in.Zone
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format(time.RFC3339)
}

func (e *explanation) quota(k *keyLoad) {
	q := k.figures.quota
	e.say("  Usable U = floor(%s × %s) = %s, reserve for retries R = floor(%s × %s) = %s.", Figure(float64(q.Max)), Figure(q.Share), Figure(float64(q.Usable)), Figure(float64(q.Usable)), e.p.in.Config.Settings.RetryReserve, Figure(float64(q.Reserve)))
	span := fmt.Sprintf("in any %s", duration(k.figures.horizonSeconds))
	if w := k.figures.window; !w.Start.IsZero() {
		span = fmt.Sprintf("in the %s from %s to %s", duration(k.figures.horizonSeconds), e.instant(k.figures.from), e.instant(w.End))
	}
	if !q.FromState {
		e.say("  Budget B = U - R = %s %s.", Figure(k.figures.units), span)
		return
	}
	e.say("  Used so far %s, by other clients %s, remaining min(U - used, vendor's remaining) = %s.", Figure(float64(q.Used)), Figure(float64(q.External)), Figure(float64(q.Remaining)))
	e.say("  Budget B = remaining - R - what others will take at their pace, at least 0 = %s %s.", Figure(k.figures.units), span)
}

// classes says how each class fared on a key.
func (e *explanation) classes(k *keyLoad, total float64) {
	if total <= k.figures.units {
		e.say("  It fits: nobody is stretched by this key.")
		return
	}
	e.say("  It does not fit into %s: the lowest classes give way first.", Figure(k.figures.units))
	for c := len(classes) - 1; c >= 0; c-- {
		asked, got, n := 0.0, 0.0, 0
		for _, m := range k.members {
			if m.job.class == class(c) {
				asked, got, n = asked+m.demand, got+m.demand*m.job.x, n+1
			}
		}
		if n > 0 {
			e.say("    %s: %s asked for %s, got %s.", classes[c], plural(Figure(float64(n)), "job"), Figure(asked), Figure(got))
		}
	}
}

func (e *explanation) verdict(effective float64) {
	j := e.j
	if effective <= j.desiredSeconds {
		e.say("Every limit leaves room for the desired interval.")
		return
	}
	if j.limitedBy != nil {
		e.say("What decides is %s/%s on %s (%s).", j.limitedBy.limit.Provider.Name, j.limitedBy.limit.Spec.Name, j.limitedBy.pattern, j.limitedBy.limit.Spec.Kind)
	}
	if j.lo < j.x && !e.p.in.NoReclaim {
		e.say("The first pass gave %s; room that other keys left unused brought it back to %s.", duration(math.Ceil(j.desiredSeconds/j.lo-roundingSlackSeconds)), duration(effective))
	}
	e.say("Effective interval: %s / %s = %s s, rounded up to %s.", seconds3(j.desiredSeconds), trimmed(j.x), trimmed(j.desiredSeconds/j.x), duration(effective))
}

// trimmed writes a number with six digits.
func trimmed(f float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", f), "0"), ".")
}

func plural(count, noun string) string {
	if count == "1" {
		return count + " " + noun
	}
	return count + " " + noun + "s"
}
