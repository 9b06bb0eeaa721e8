package engine

// Observer hears what an engine does. Its methods are called while the engine is at work, through a Gate under its lock: they must
// be quick and must not call the engine.
type Observer interface {
	// Granted hears a grant and how long the request waited for it.
	Granted(r *Request, waitNanos int64)
	// Refused hears a refusal.
	Refused(r *Request, refused *RefusedError)
	// RateLimited hears a response that says a limit was exceeded: the limit and key that the penalty falls on, the first of
	// several (the limit is empty where none covers the request, or it is not known which one it met); whether it is unexpected,
	// because the engine would have allowed the request, so that the documents or the sharing of a quota are wrong; and the text of
	// a header that asked for more than maxPenalty, empty where none did.
	RateLimited(r *Request, limit, key string, unexpected bool, parked string)
	// Disagrees hears that a response names another maximum than the documents, once a window.
	Disagrees(provider, limit, key string, declared, named int64)
	// Ignored hears of a value in a header that cannot be: what was read (limit, remaining, used, percent, reset or policy), and
	// the text where one header held it.
	Ignored(provider, limit, key, header, text string)
}

// countLimited counts a rate-limited response, before anything is learned from it. It is unexpected where the engine would have
// allowed the request: at its grant, and no penalty, exhausted quota or observation of a response since then says otherwise.
func (e *Engine) countLimited(now int64, l *landing) {
	r, p := l.record, l.record.prepared
	unexpected := r.allowed && !p.request.Unresolved // it met a limit that it was not held against
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.shadow {
			continue
		}
		if en.penalized(now) {
			unexpected = false
		}
		if en.limit.kind == kindQuota {
			unexpected = unexpected && !en.cold.spent(now, en.scope)
		}
	}
	for i := range p.entries {
		if en := &p.entries[i]; en.limit.kind == kindQuota && e.onWindow != nil {
			c := en.cold.counts()
			c.limited++
			if unexpected {
				c.unexpected++
			}
		}
	}
	if e.observer == nil {
		return
	}
	rules := &p.account.provider.errors
	_, parked, _ := rules.wait(l.response, now)
	first := true
	p.penalizedBy(rules, l.response, func(en *entry) {
		if first {
			e.observer.RateLimited(p.request, en.limit.name, e.key(en.cold), unexpected, parked)
		}
		first = false
	})
	if first {
		e.observer.RateLimited(p.request, "", p.account.name, unexpected, parked)
	}
}

// spent tells whether responses have shown that a quota has less than nothing left, the request in question apart: its own units
// are in the count, or in v.
func (c *coldScope) spent(now int64, s *scope) bool {
	q := c.quota
	if now < q.exhaustedUntil {
		return true
	}
	o := q.seen
	return o != nil && o.held && now < o.admitUntil && o.remaining-(s.used-o.usedThen)-o.uncertain < 0
}

// countShadows counts what limits in shadow mode would have refused.
func (e *Engine) countShadows(now int64, p *Prepared, cl class) {
	for i := range p.entries {
		en := &p.entries[i]
		if !en.limit.shadow {
			continue
		}
		refuses := false
		switch en.limit.kind {
		case kindRate:
			refuses = en.nextTokens(now) > now
		case kindConcurrency:
			refuses = en.scope.used >= en.scope.normalCap
		case kindQuota:
			refuses = en.scope.used+en.cost > en.scope.cap(cl)
		}
		if refuses {
			en.limit.shadowRefusals++
			if en.limit.kind == kindQuota && e.onWindow != nil {
				en.cold.counts().refused[2]++
			}
		}
	}
}

// Shadowed calls f with each limit in shadow mode and the number of requests that it would have refused so far.
func (e *Engine) Shadowed(f func(provider, limit string, refusals int64)) {
	for _, p := range e.config.Providers {
		for _, l := range e.providers[p.Name].limits {
			if l.shadow {
				f(p.Name, l.name, l.shadowRefusals)
			}
		}
	}
}

// countRefusal counts a refusal in the window of the quota that it names.
func (e *Engine) countRefusal(p *Prepared, refused *RefusedError) {
	if e.onWindow == nil {
		return
	}
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.kind != kindQuota || en.limit.name != refused.Limit {
			continue
		}
		for i, reason := range reasons {
			if reason == refused.Reason {
				en.cold.counts().refused[i]++
			}
		}
	}
}

// counts are the counters of a quota's present window.
func (c *coldScope) counts() *counters {
	if c.quota.counters == nil {
		c.quota.counters = new(counters)
	}
	return c.quota.counters
}
