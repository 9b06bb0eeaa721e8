package engine

// Observer hears what an engine does. Its methods are called while the engine is at work, in a Gate under its lock: they must be
// quick and must not call the engine.
type Observer interface {
	// Granted hears a grant and how long the request waited for it.
	Granted(r *Request, waitNanos int64)
	// Refused hears a refusal.
	Refused(r *Request, refused *RefusedError)
	// RateLimited hears a response that says a limit was exceeded.
	RateLimited(l *RateLimited)
	// Noticed hears of a header that disagrees with the documents or was not believed.
	Noticed(n *Notice)
}

// RateLimited is a response that says a limit was exceeded.
type RateLimited struct {
	// Request is the one that was answered.
	Request *Request
	// Limit and Key are those that the penalty falls on, the first of several; Limit is empty where no limit covers the request.
	Limit, Key string
	// Unexpected: the engine would have allowed the request, so the documents or the sharing of the quota are wrong.
	Unexpected bool
	// Parked is the text of a header that asked for more than maxPenalty; empty where none did.
	Parked string
}

// countLimited counts a rate-limited response, before anything is learned from it. It is unexpected where the engine would have
// allowed the request: at its grant, and no penalty, exhausted quota or observation of a response since then says otherwise.
func (e *Engine) countLimited(now int64, l *landing) {
	r, p := l.record, l.record.prepared
	unexpected := r.allowed
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
			c.RateLimited++
			if unexpected {
				c.UnexpectedRateLimited++
			}
		}
	}
	if e.observer == nil {
		return
	}
	event := RateLimited{Request: p.request, Unexpected: unexpected}
	rules := &p.account.provider.errors
	_, event.Parked, _ = rules.wait(l.response, now)
	first := true
	p.penalizedBy(rules, l.response, func(en *entry) {
		if first {
			event.Limit, event.Key, first = en.limit.name, e.key(en.cold), false
		}
	})
	e.observer.RateLimited(&event)
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
				en.cold.counts().Refused[2]++
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
				en.cold.counts().Refused[i]++
			}
		}
	}
}

// counts are the counters of a quota's present window.
func (c *coldScope) counts() *Counters {
	if c.quota.counters == nil {
		c.quota.counters = new(Counters)
	}
	return c.quota.counters
}
