package engine

import "github.com/tapyr/tapyr/match"

// What replaying a journal needs beyond Force: to know what a prepared request meets, answers of one instant together, and
// refusals that somebody else has decided.

// Met is a limit that a prepared request takes of.
type Met struct {
	// Provider and Limit name it, Kind is rate, concurrency or quota.
	Provider, Limit, Kind string
	// Key is the scope key, Cost what a request takes.
	Key  string
	Cost int64
	// Shadow tells that the limit only watches.
	Shadow bool
}

// Met lists the limits that a prepared request takes of, in declared order.
func (e *Engine) Met(p *Prepared) []Met {
	var list []Met
	for i := range p.entries {
		if en := &p.entries[i]; en.limit.kind != kindNone {
			list = append(list, Met{en.limit.provider.name, en.limit.name, en.limit.matcher.Spec.Kind, e.key(en.cold), en.cost, en.limit.shadow})
		}
	}
	return list
}

// Matched is a prepared request as limits see it: with the variables of its account and target.
func (e *Engine) Matched(p *Prepared) match.Request {
	r := p.request.Request
	r.Vars = p.account.merged(p.request)
	r.Endpoint = match.CleanPath(r.Endpoint)
	if r.Provider == "" {
		r.Provider = p.account.provider.name
	}
	return r
}

// Answer is a response to a granted request.
type Answer struct {
	Ticket   Ticket
	Response *Response
}

// SettleAll reads the responses of one instant, which have all arrived: none of them is in flight at the others' observation. It
// also releases the requests.
func (e *Engine) SettleAll(now int64, all []Answer) {
	now = e.tick(now)
	e.settling = e.settling[:0]
	for i := range all {
		e.land(now, all[i].Ticket, all[i].Response)
	}
	e.learn(now)
	for i := range all {
		e.Release(now, all[i].Ticket)
	}
}

// Decline counts a refusal that was decided elsewhere, as a journal records it: in the window of the first quota that has no room
// for the request as the engine sees it, else of the first that it meets.
func (e *Engine) Decline(now int64, p *Prepared, retry bool, reason Reason) {
	now = e.tick(now)
	if e.onWindow == nil {
		return
	}
	e.freshen(now, p)
	cl := classOf(p.priority, retry)
	var named *entry
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.kind != kindQuota {
			continue
		}
		e.current(now, en)
		full := en.scope.used+en.cost > en.scope.cap(cl) || en.lack(now) != 0
		if named == nil || full {
			named = en
		}
		if full {
			break
		}
	}
	if named == nil {
		return
	}
	for i, known := range reasons {
		if known == reason {
			named.cold.counts().refused[i]++
			named.cold.quota.touched = true
		}
	}
}

// Now is the latest instant that the engine has seen.
func (e *Engine) Now() int64 { return e.now }

// Touch reads what Force, Settle and Release of these requests will read. Where many requests are about to come, their keys are
// rarely in a cache, and waits for memory that do not depend on each other pass together: so all requests are read before all
// entries, and those before all keys. The result means nothing; it is there so that the reads are.
func (*Engine) Touch(all []*Prepared) (sum int64) {
	for _, p := range all {
		sum += int64(p.priority)
	}
	for _, p := range all {
		sum += int64(p.account.breaker.failures)
		for i := range p.entries {
			sum += p.entries[i].cost + int64(p.entries[i].id)
		}
	}
	for _, p := range all {
		for i := range p.entries {
			en := &p.entries[i]
			sum += en.scope.used
			if en.limit.kind == kindQuota {
				sum += int64(en.cold.variant)
			}
		}
	}
	for _, p := range all {
		for i := range p.entries {
			if q := p.entries[i].cold.quota; p.entries[i].limit.kind == kindQuota {
				sum += q.start + q.learned
			}
		}
	}
	for _, p := range all {
		for i := range p.entries {
			if en := &p.entries[i]; en.limit.watched && en.cold.quota.seen != nil {
				sum += en.cold.quota.seen.remaining
			}
		}
	}
	return sum
}
