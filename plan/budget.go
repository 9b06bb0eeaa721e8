package plan

import (
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// budget is what a key may use, and for how long.
type budget struct {
	units          float64 // B
	horizonSeconds float64 // H
	from           time.Time
	window         window.Window // zero where it rolls
	quota          *Quota
}

// yearAhead is how far a plan for the worst window looks.
const yearAhead = 366 * 24 * time.Hour

// setBudgets gives every key its budget, and every use its demand.
func (p *problem) setBudgets() {
	counters := indexCounters(p.in)
	for _, k := range p.keys {
		switch k.limit.Spec.Kind {
		case schema.KindRate:
			k.figures = budget{units: p.rate(k.limit), horizonSeconds: 1}
		case schema.KindQuota:
			k.figures = p.quotaBudget(k, counters)
		case schema.KindConcurrency:
			maximum, _ := k.limit.Max(k.vars())
			k.figures = budget{units: float64(maximum), horizonSeconds: 1}
		}
	}
	for _, j := range p.jobs {
		for i := range j.uses {
			j.uses[i].demand = j.uses[i].perRun * j.uses[i].key.figures.horizonSeconds / j.desiredSeconds
		}
	}
	for _, k := range p.keys {
		for i := range k.members {
			m := &k.members[i]
			m.demand = m.perRun * k.figures.horizonSeconds / m.job.desiredSeconds
		}
	}
}

// rate of a limit in requests a second.
func (p *problem) rate(limit *validate.Limit) float64 {
	if r, ok := p.in.Override.Rates[limit.Provider.Name+"/"+limit.Spec.Name]; ok {
		return r
	}
	return limit.Spec.Rate.PerSecond()
}

// vars are the variables of the account that the key's jobs belong to.
func (k *keyLoad) vars() map[string]string { return k.account.Spec.Vars }

// counterIndex finds the rows of a limit.
type counterIndex map[[2]string][]*Counter

// indexCounters sorts the counters that are state at the instant of the plan by provider and limit.
func indexCounters(in Input) counterIndex {
	if in.State == nil || in.WorstWindow {
		return nil
	}
	index := make(counterIndex)
	for i := range in.State.Counters {
		c := &in.State.Counters[i]
		if w := (window.Window{Start: c.Start, End: c.End}); w.Contains(in.At) {
			id := [2]string{c.Provider, c.Limit}
			index[id] = append(index[id], c)
		}
	}
	return index
}

// quotaBudget is the budget of a quota's key; of a pattern's keys with counters, the one with the least a second decides.
func (p *problem) quotaBudget(k *keyLoad, counters counterIndex) budget {
	fresh := p.freshBudget(k)
	rows := counters[[2]string{k.limit.Provider.Name, k.limit.Spec.Name}]
	best, found, matched := budget{}, false, int64(0)
	for _, c := range rows {
		if c.Key != k.name && !matchesPattern(k.name, c.Key) {
			continue
		}
		matched++
		b := p.stateBudget(k, c, fresh)
		if !found || b.units/b.horizonSeconds < best.units/best.horizonSeconds {
			best, found = b, true
		}
	}
	if !found || matched < k.keys && fresh.units/fresh.horizonSeconds < best.units/best.horizonSeconds {
		return fresh
	}
	return best
}

// Covers tells whether a key is one that the plan's jobs use of a limit: a counter of another is of no account to it.
func (p *Plan) Covers(provider, limit, key string) bool {
	for i := range p.Scopes {
		s := &p.Scopes[i]
		if s.Provider == provider && s.Limit == limit && (s.Key == key || matchesPattern(s.Key, key)) {
			return true
		}
	}
	return false
}

// matchesPattern tells whether a scope key is one of a row whose unknown values are "*".
func matchesPattern(pattern, key string) bool {
	if !strings.Contains(pattern, "*") {
		return false
	}
	want, got := strings.Split(pattern, "/"), strings.Split(key, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		prefix, any := strings.CutSuffix(want[i], "*")
		if want[i] != got[i] && !(any && strings.HasPrefix(got[i], prefix)) {
			return false
		}
	}
	return true
}

// figuresName is what decides the figures of a quota.
type figuresName struct {
	limit   *validate.Limit
	account *validate.Account
	maximum int64
}

// figuresOf are the usable part and the reserve of a maximum.
func (p *problem) figuresOf(k *keyLoad, maximum int64) *Quota {
	name := figuresName{k.limit, k.account, maximum}
	q, ok := p.figures[name]
	if !ok {
		share := p.share(k.limit, k.account)
		q = Quota{Max: maximum, Share: share.Float64(), Usable: share.MulFloor(maximum)}
		q.Reserve = p.in.Config.Settings.RetryReserve.MulFloor(q.Usable)
		q.Remaining = q.Usable
		p.figures[name] = q
	}
	return &q
}

// share is the limit's share for an account, overrides considered.
func (p *problem) share(limit *validate.Limit, account *validate.Account) schema.Decimal {
	if len(p.in.Override.Shares) == 0 {
		return limit.Share(account)
	}
	overridden := func(a *validate.Account) *validate.Account {
		value, ok := p.in.Override.Shares[a.Name]
		if !ok {
			return a
		}
		changed := *a
		changed.Share = schema.DecimalOf(value)
		return &changed
	}
	provider := *limit.Provider
	provider.Accounts = nil
	for _, a := range limit.Provider.Accounts {
		provider.Accounts = append(provider.Accounts, overridden(a))
	}
	changed := *limit
	changed.Provider = &provider
	return changed.Share(overridden(account))
}

func (p *problem) maxOf(k *keyLoad) int64 {
	if m, ok := p.in.Override.Max[k.limit.Provider.Name+"/"+k.limit.Spec.Name]; ok {
		return m
	}
	for _, o := range k.limit.Spec.Overrides {
		if !p.in.At.Before(o.From) && p.in.At.Before(o.To) {
			return o.Max
		}
	}
	maximum, _ := k.limit.Max(k.vars())
	return maximum
}

// freshBudget is that of a key nothing is known of: the whole window.
func (p *problem) freshBudget(k *keyLoad) budget {
	q := p.figuresOf(k, p.maxOf(k))
	b := budget{quota: q, units: float64(q.Usable - q.Reserve), from: p.in.At}
	switch kind := k.limit.Window.Kind(); {
	case kind == window.Rolling || kind == window.FirstRequest:
		b.horizonSeconds = k.limit.Window.Length().Seconds()
		return b
	case p.in.WorstWindow:
		b.window = k.limit.Window.Longest(p.in.At, yearAhead)
	default:
		b.window = k.limit.Window.At(p.in.At)
	}
	b.from = b.window.Start
	b.horizonSeconds = b.window.Length().Seconds()
	return b
}

// stateBudget is that of a key with a counters row: what is left of the window.
func (p *problem) stateBudget(k *keyLoad, c *Counter, fresh budget) budget {
	maximum := fresh.quota.Max
	if _, overridden := p.in.Override.Max[k.limit.Provider.Name+"/"+k.limit.Spec.Name]; c.ObservedMax != nil && !overridden {
		maximum = *c.ObservedMax
	}
	q := p.figuresOf(k, maximum)
	q.FromState, q.Used = true, c.UsedUnits
	remaining := q.Usable - c.UsedUnits
	if c.ObservedRemaining != nil {
		atObservation := c.UsedUnits
		if c.ObservedUsed != nil {
			atObservation = *c.ObservedUsed
		}
		remaining = min(remaining, *c.ObservedRemaining-(c.UsedUnits-atObservation))
		q.External = max(0, maximum-*c.ObservedRemaining-atObservation)
	}
	q.Remaining = remaining
	b := budget{quota: q, from: p.in.At}
	if k.limit.Window.Kind() == window.Rolling {
		b.horizonSeconds = k.limit.Window.Length().Seconds()
		b.units = max(0, float64(q.Usable-q.Reserve-q.External))
		return b
	}
	w := window.Window{Start: c.Start, End: c.End}
	elapsed := max(p.in.At.Sub(w.Start).Seconds(), w.Length().Seconds()/24)
	left := w.End.Sub(p.in.At).Seconds()
	b.window, b.horizonSeconds = w, left
	b.units = max(0, float64(remaining-q.Reserve)-float64(q.External)/elapsed*left)
	return b
}
