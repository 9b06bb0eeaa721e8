package plan

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Remedy is one change with which a scope that is over its budget would fit. Every remedy was checked by planning again with it.
type Remedy struct {
	// Kind is interval, max, rate, share or fanout.
	Kind string
	// Provider, Limit and Key name the scope.
	Provider, Limit, Key string
	// Flag is the change as a flag of tapyr plan, such as --set job.devices.interval=7m.
	Flag string
	// Message says it in words.
	Message string
	// Feasible tells that the whole plan is feasible with this change alone.
	Feasible bool
}

const (
	mostScopesRemedied  = 3
	mostJobsInFull      = 2000 // larger plans search among the jobs of the scope alone, and check the answer in full
	longestIntervalDays = 366
)

// Remedies searches, for the scopes of a plan that are most over their budgets, the smallest change of each kind that helps. It
// plans again some hundred times; progress, if not nil, is called after each.
func Remedies(in Input, p *Plan, progress func()) []Remedy {
	var over []Scope
	for _, s := range p.Scopes {
		if !s.Feasible {
			over = append(over, s)
		}
	}
	sort.SliceStable(over, func(i, j int) bool { return overload(over[i]) > overload(over[j]) })
	if len(over) > mostScopesRemedied {
		over = over[:mostScopesRemedied]
	}
	var out []Remedy
	for _, s := range over {
		r := remedy{in: in, search: in, scope: s, plan: p, progress: progress}
		if len(in.Config.Jobs) > mostJobsInFull {
			r.search.Config = onlyJobsOn(in.Config, p, s)
		}
		out = append(out, r.all()...)
	}
	return out
}

func overload(s Scope) float64 { return s.Projected / max(s.Budget, 1e-300) }

// onlyJobsOn is the configuration with only those jobs that use the scope.
func onlyJobsOn(c *validate.Config, p *Plan, s Scope) *validate.Config {
	on := make(map[string]bool)
	for i := range p.Jobs {
		if p.Jobs[i].Provider == s.Provider && p.Jobs[i].on(s) {
			on[p.Jobs[i].Job] = true
		}
	}
	out := *c
	out.Jobs, out.Providers = nil, nil
	for _, j := range c.Jobs {
		if on[j.Name] {
			out.Jobs = append(out.Jobs, j)
		}
	}
	for _, provider := range c.Providers {
		if provider.Name == s.Provider {
			one := *provider
			one.Jobs = out.Jobs
			out.Providers = append(out.Providers, &one)
		}
	}
	return &out
}

func (j *Job) on(s Scope) bool {
	for _, u := range j.Scopes {
		if u.Limit == s.Limit && u.Key == s.Key {
			return true
		}
	}
	return false
}

// remedy searches changes for one scope.
type remedy struct {
	in, search Input
	scope      Scope
	plan       *Plan
	progress   func()
}

func (r *remedy) all() []Remedy {
	var out []Remedy
	for _, find := range []func() (Remedy, bool){r.interval, r.maximum, r.share, r.fanout} {
		if found, ok := find(); ok {
			found.Provider, found.Limit, found.Key = r.scope.Provider, r.scope.Limit, r.scope.Key
			out = append(out, found)
		}
	}
	return out
}

// fits plans with a change and tells whether the scope is then within its budget.
func (r *remedy) fits(in Input, change func(*Input)) (scope, all bool) {
	in.Override = in.Override.clone()
	in.Fanout = cloneMap(in.Fanout)
	change(&in)
	p := Make(in)
	if r.progress != nil {
		r.progress()
	}
	for _, s := range p.Scopes {
		if s.Provider == r.scope.Provider && s.Limit == r.scope.Limit && s.Key == r.scope.Key {
			return s.Feasible, p.Feasible
		}
	}
	return true, p.Feasible // the scope has no key left
}

// least searches the smallest n in [low, high] with which the scope fits; what fits must fit above, too.
func (r *remedy) least(low, high int64, change func(*Input, int64)) (n int64, all, ok bool) {
	try := func(in Input, n int64) (bool, bool) {
		return r.fits(in, func(in *Input) { change(in, n) })
	}
	if fit, _ := try(r.search, high); !fit {
		return 0, false, false
	}
	fits := func(n int64) bool { fit, _ := try(r.search, n); return fit }
	below, above := low-1, high
	for step := int64(1); below+step < high; step *= 2 { // most answers are near
		if fits(below + step) {
			above = below + step
			break
		}
		below += step
	}
	n = smallest(below, above, fits)
	fit, all := try(r.in, n)
	return n, all, fit
}

// interval asks for a longer interval of one job, the first of the largest users with which the scope fits.
func (r *remedy) interval() (Remedy, bool) {
	for _, j := range r.users() {
		now := int64(math.Ceil(j.DesiredSeconds))
		n, all, ok := r.least(now+1, longestIntervalDays*86400, func(in *Input, n int64) {
			in.Override.Intervals[j.Job] = time.Duration(n) * time.Second
		})
		if ok {
			text := duration(float64(n))
			return Remedy{
				Kind: "interval", Feasible: all, Flag: fmt.Sprintf("--set job.%s.interval=%s", j.Job, text),
				Message: fmt.Sprintf("raise the interval of job %s from %s to %s", j.Job, duration(j.DesiredSeconds), text),
			}, true
		}
	}
	return Remedy{}, false
}

// users are the jobs on the scope, the largest first.
func (r *remedy) users() []Job {
	calls := func(j Job) float64 {
		for _, u := range j.Scopes {
			if u.Limit == r.scope.Limit && u.Key == r.scope.Key {
				return u.CallsPerWindow
			}
		}
		return 0
	}
	var users []Job
	for _, j := range r.plan.Jobs {
		if j.Provider == r.scope.Provider && calls(j) > 0 {
			users = append(users, j)
		}
	}
	sort.SliceStable(users, func(a, b int) bool { return calls(users[a]) > calls(users[b]) })
	return users
}

// maximum asks the vendor for more.
func (r *remedy) maximum() (Remedy, bool) {
	name := r.scope.Provider + "/" + r.scope.Limit
	path := fmt.Sprintf("provider.%s.limits.%s", r.scope.Provider, r.scope.Limit)
	if r.scope.Quota == nil {
		return r.rate(name, path)
	}
	now := r.scope.Quota.Max
	n, all, ok := r.least(now+1, max(now, 1)*100_000, func(in *Input, n int64) { in.Override.Max[name] = n })
	if !ok {
		return Remedy{}, false
	}
	return Remedy{
		Kind: "max", Feasible: all, Flag: fmt.Sprintf("--set %s.max=%d", path, n),
		Message: fmt.Sprintf("raise the quota %s from %s to %s", name, Figure(float64(now)), Figure(float64(n))),
	}, true
}

// rate asks the vendor for a higher rate, in tenths of a request a second.
func (r *remedy) rate(name, path string) (Remedy, bool) {
	if r.scope.Kind != schema.KindRate {
		return Remedy{}, false
	}
	const steps = 1000
	now := int64(r.scope.Budget * steps)
	n, all, ok := r.least(now+1, max(now, 1)*1_000_000, func(in *Input, n int64) { in.Override.Rates[name] = float64(n) / steps })
	if !ok {
		return Remedy{}, false
	}
	text := strconv.FormatFloat(float64(n)/steps, 'f', -1, 64) + "/s"
	return Remedy{
		Kind: "rate", Feasible: all, Flag: fmt.Sprintf("--set %s.rate=%s", path, text),
		Message: fmt.Sprintf("raise the rate %s from %s/s to %s", name, Figure(r.scope.Budget), text),
	}, true
}

// share asks for a larger part of the quota, in hundredths.
func (r *remedy) share() (Remedy, bool) {
	if r.scope.Quota == nil || r.scope.Quota.Share >= 1 {
		return Remedy{}, false
	}
	for _, j := range r.users() {
		now := int64(math.Floor(r.scope.Quota.Share * 100))
		n, all, ok := r.least(now+1, 100, func(in *Input, n int64) { in.Override.Shares[j.Account] = float64(n) / 100 })
		if ok {
			return Remedy{
				Kind: "share", Feasible: all, Flag: fmt.Sprintf("--set account.%s.budget.share=%g", j.Account, float64(n)/100),
				Message: fmt.Sprintf("raise the share of account %s from %g to %g", j.Account, r.scope.Quota.Share, float64(n)/100),
			}, true
		}
	}
	return Remedy{}, false
}

// fanout asks for fewer items of one inventory, the first with which the scope fits.
func (r *remedy) fanout() (Remedy, bool) {
	tried := make(map[string]bool)
	for _, user := range r.users() {
		job := r.in.Config.Job(user.Job)
		if job == nil || job.Parent == nil || tried[job.Parent.Name] || user.Instances < 2 {
			continue
		}
		parent := job.Parent.Name
		tried[parent] = true
		now := user.Instances
		less, all, ok := r.least(1, now, func(in *Input, n int64) { in.Fanout[parent] = now - n })
		if n := now - less; ok && n > 0 {
			return Remedy{
				Kind: "fanout", Feasible: all, Flag: fmt.Sprintf("--fanout %s=%d", parent, n),
				Message: fmt.Sprintf("poll at most %s of the %s items of %s", Figure(float64(n)), Figure(float64(now)), parent),
			}, true
		}
	}
	return Remedy{}, false
}

func (o Override) clone() Override {
	return Override{Intervals: cloneMap(o.Intervals), Max: cloneMap(o.Max), Rates: cloneMap(o.Rates), Shares: cloneMap(o.Shares)}
}

// cloneMap copies a map; the copy of nil can be written to.
func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}
