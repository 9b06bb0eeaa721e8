package engine

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

// landing is a settlement on its way.
type landing struct {
	record   *record
	response *Response
	outcome  outcome
}

// Settle reads the response of a granted request: it corrects what the request took, learns what the vendor shows, sets
// penalties, and counts for the circuit breaker. Instants of responses do not go backwards. It is false where the request was
// settled or released before.
func (e *Engine) Settle(now int64, t Ticket, r *Response) bool {
	now = e.tick(now)
	e.settling = e.settling[:0]
	e.land(now, t, r)
	if len(e.settling) == 0 {
		return false
	}
	e.learn(now)
	return true
}

// settleAll reads the responses of one instant. All of them have arrived: none is in flight at the others' observations.
func (e *Engine) settleAll(now int64, all []answer) {
	now = e.tick(now)
	e.settling = e.settling[:0]
	for i := range all {
		e.land(now, all[i].ticket, all[i].response)
	}
	e.learn(now)
}

// land ends the flight of one request.
func (e *Engine) land(now int64, t Ticket, response *Response) {
	r := e.find(t)
	if r == nil || r.state != stateFlying {
		return
	}
	r.becomeSettled()
	p := r.prepared
	for i := range p.entries {
		en := &p.entries[i]
		switch en.limit.kind {
		case kindRate:
			if actual, ok := en.actual(response); ok && !en.limit.shadow {
				en.scope.refill(now, en.ratio())
				en.scope.used = saturatedAdd(en.scope.used, actual-en.cost)
			}
		case kindQuota:
			if en.limit.plain && e.onWindow == nil && now < en.scope.until {
				en.scope.flying -= en.cost
				continue
			}
			actual, ok := en.actual(response)
			if !ok {
				actual = en.cost
			}
			if en.limit.counts != nil && !slices.Contains(en.limit.counts, response.Status) {
				actual = 0
			}
			e.landUnits(now, r, en, actual)
			en.cold.quota.touched = true
		}
	}
	e.settling = append(e.settling, landing{r, response, p.account.provider.errors.outcomeOf(response)})
}

// maxUnits bounds what a header can say of units: as much as a document can.
const maxUnits = 1e15

// actual is the cost that a response tells; ok is false where it tells none that makes sense.
func (en *entry) actual(r *Response) (units int64, ok bool) {
	return en.limit.costFrom.units(r)
}

// units is the cost that the reader finds in a response; without a reader there is none.
func (r *reader) units(response *Response) (units int64, ok bool) {
	if r == nil {
		return 0, false
	}
	d, _, ok := r.number(response, largest)
	if !ok || d.negative() {
		return 0, false
	}
	return min(d.ceil(), maxUnits), true
}

// Units is the cost of the response's request as the engine reads it, for those who look at responses afterwards. ok is false where
// the response tells none that makes sense.
func (r *Response) Units(from *schema.CostFrom) (units int64, ok bool) {
	return compileReader(from.Header, from.Index, from.Pattern, "").units(r)
}

// landUnits ends the flight of units that a quota counts: kept of them stay.
func (e *Engine) landUnits(now int64, r *record, en *entry, kept int64) {
	e.current(now, en)
	s, c := en.scope, en.cold
	if e.serverSide {
		if c.limit.counts != nil && kept > 0 {
			e.countServed(now, en)
		}
		return
	}
	s.flying -= en.cost
	switch {
	case c.limit.rolling:
		s.used += kept - en.cost
		s.since = now
		e.arrive(now, kept, c)
		e.refresh(now, s, c, en.variant)
	case c.grantedIn(now, r.granted):
		s.used += kept - en.cost
	}
	if kept != en.cost {
		e.correct(r.granted, en, kept)
	}
	if c.limit.watched {
		if f, _ := c.quota.flights.find(r.granted, r.id); f != nil {
			f.settled, f.units = now, kept
		}
	}
}

// learn reads the responses that have landed.
func (e *Engine) learn(now int64) {
	for i := range e.settling {
		l := &e.settling[i]
		if !e.serverSide {
			e.learnOne(now, l)
		}
	}
	for i := range e.settling {
		for j := range e.settling[i].record.prepared.entries {
			en := &e.settling[i].record.prepared.entries[j]
			if en.limit.watched {
				e.prune(en.cold.quota)
			}
		}
		e.settling[i] = landing{}
	}
}

func (e *Engine) learnOne(now int64, l *landing) {
	r, p := l.record, l.record.prepared
	rules := &p.account.provider.errors
	limited := l.outcome == outcomeLimited
	if limited {
		e.countLimited(now, l)
	}
	if !cached(l.response) {
		for i := range p.entries {
			if en := &p.entries[i]; en.limit.sync != nil {
				e.observe(now, l, en)
			}
		}
	}
	if limited {
		asked, _, ok := rules.wait(l.response, now)
		p.penalizedBy(rules, l.response, func(en *entry) {
			base := asked
			if !ok {
				base = en.limit.base(rules)
			}
			en.penalize(now, r.granted, base, rules.maxNanos)
		})
	} else if l.outcome == outcomeSuccess {
		for i := range p.entries {
			p.entries[i].forgive(r.granted)
		}
	}
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.adaptive == nil {
			continue
		}
		if named := rules.named(l.response); !limited || named != "" || !p.request.Unresolved {
			en.adapt(now, l.outcome, named)
		}
	}
	p.tell(now, r, l.outcome)
}

// Release ends a request that was granted: its slot is free, and what a limit counts only by the response's status is given back
// if no response was read. It is called at least once for each granted request, in every case, and does nothing the second time.
func (e *Engine) Release(now int64, t Ticket) bool {
	r := e.find(t)
	if r == nil || r.state != stateFlying && r.state != stateSettled {
		return false
	}
	now = e.tick(now)
	p := r.prepared
	e.flying--
	p.account.flying--
	for i := range p.entries {
		en := &p.entries[i]
		en.scope.pins--
		en.cold.lastUse = minuteOf(now)
		switch {
		case en.limit.kind == kindConcurrency:
			en.scope.used--
			en.scope.since = now
		case en.limit.plain && r.state == stateFlying && now < en.scope.until:
			en.scope.flying -= en.cost
		case en.limit.kind == kindQuota && r.state == stateFlying:
			kept := en.cost
			if en.limit.counts != nil {
				kept = 0
			}
			e.landUnits(now, r, en, kept)
			if en.limit.watched {
				e.prune(en.cold.quota)
			}
		}
	}
	if r.probes != 0 {
		p.abandon(r)
	}
	e.freeRecord(r)
	return true
}
