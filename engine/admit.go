package engine

import (
	"fmt"
	"time"
)

// Reason is why a request is refused.
type Reason string

const (
	// CircuitOpen: the account or target keeps failing.
	CircuitOpen Reason = "circuit_open"
	// Penalized: the vendor said to wait, for longer than the request may.
	Penalized Reason = "penalized"
	// QuotaExhausted: a quota has no room for the request.
	QuotaExhausted Reason = "quota_exhausted"
	// DeadlineExceeded: the request cannot go before its deadline.
	DeadlineExceeded Reason = "deadline"
)

// reasons in the order in which they are tried.
var reasons = [...]Reason{CircuitOpen, Penalized, QuotaExhausted, DeadlineExceeded}

// RefusedError says why a request may not go, and from when a retry makes sense.
type RefusedError struct {
	// Reason is one of the four.
	Reason Reason
	// Provider is the provider's name.
	Provider string
	// Limit is the limit's name; empty for a circuit breaker, and for the penalty of an account whose request no limit covers.
	Limit string
	// Key is the limit's scope key, or what the breaker watches: an account, or account/target.
	Key string
	// RetryAtNanos is the instant from which a retry makes sense, in nanoseconds since the Unix epoch; meaningless unless
	// RetryKnown.
	RetryAtNanos int64
	// RetryKnown tells whether such an instant is known.
	RetryKnown bool
}

// Error names the limit and the instant.
func (e *RefusedError) Error() string {
	what := fmt.Sprintf("%s: %s/%s", e.Reason, e.Provider, e.Key)
	if e.Limit != "" {
		what = fmt.Sprintf("%s: limit %s/%s, key %q", e.Reason, e.Provider, e.Limit, e.Key)
	}
	if !e.RetryKnown {
		return what + ", until a request in flight is done"
	}
	return what + ", retry at " + time.Unix(0, e.RetryAtNanos).UTC().Format(time.RFC3339Nano)
}

// Reserve asks for a request that may wait until its deadline, in nanoseconds since the Unix epoch (at most now: it cannot
// wait). It is granted (the ticket's, until Release), refused (with the reason), or it waits: the ticket is then granted or
// refused by Advance. A request that is refused or waits holds nothing.
func (e *Engine) Reserve(now int64, p *Prepared, retry bool, deadline int64) (t Ticket, granted bool, refused *RefusedError) {
	now = e.tick(now)
	e.tidy(now)
	r := e.newRecord()
	r.prepared = p
	return e.decide(now, r, retry, deadline)
}

// ReserveRequest is Reserve for a request that was not prepared. The error is also that of Prepare.
func (e *Engine) ReserveRequest(now int64, q *Request, retry bool, deadline int64) (t Ticket, granted bool, err error) {
	now = e.tick(now)
	e.tidy(now)
	r := e.newRecord()
	r.request = *q
	if err := e.resolve(now, &r.request, &r.own, r.room[:0]); err != nil {
		e.freeRecord(r)
		return 0, false, err
	}
	r.prepared = &r.own
	t, granted, refused := e.decide(now, r, retry, deadline)
	if refused != nil {
		return 0, false, refused
	}
	return t, granted, nil
}

// decide decides about a record that has just come.
func (e *Engine) decide(now int64, r *record, retry bool, deadline int64) (Ticket, bool, *RefusedError) {
	r.arrived, r.deadline, r.retry, r.allowed = now, deadline, retry, true
	p := r.prepared
	cl := classOf(p.priority, retry)
	if !e.full(p.account) && p.breakersClosed() && p.fits(now, cl) {
		e.grant(now, r, cl)
		return r.ticket(), true, nil
	}
	e.freshen(now, p)
	if refused := e.refusal(now, r, cl); refused != nil {
		e.refuse(r, refused)
		return 0, false, refused
	}
	if refused := e.lateTokens(now, p, deadline); refused != nil {
		e.refuse(r, refused)
		return 0, false, refused
	}
	if !e.full(p.account) && e.lacking(now, p) == 0 && !e.blocked(now, r) {
		e.countShadows(now, p, cl)
		e.grant(now, r, cl)
		return r.ticket(), true, nil
	}
	e.wait(now, r)
	return r.ticket(), false, nil
}

// full tells whether so many requests are in flight, of all or of an account, that no other may go.
func (e *Engine) full(a *account) bool {
	return e.maxFlying > 0 && e.flying >= e.maxFlying || e.maxFlyingEach > 0 && a.flying >= e.maxFlyingEach
}

// fits is the short way: it tells that a request may go, without a look at anything but its scopes. false means: look closer.
func (p *Prepared) fits(now int64, cl class) bool {
	for i := range p.entries {
		en := &p.entries[i]
		s := en.scope
		if s.state&^(flagDipped|flagRefusals) != en.state {
			return false
		}
		l := en.limit
		switch l.kind {
		case kindRate:
			s.refill(now, l.rate)
			if !s.hasTokens(now, l.burst, l.tokensFor(en.cost), l.rate) {
				return false
			}
		case kindConcurrency:
			if now >= s.until || s.used >= s.normalCap {
				return false
			}
		default:
			if now >= s.until || s.used+en.cost > s.cap(cl) {
				return false
			}
		}
	}
	return true
}

// freshen brings everything that a request meets to the present.
func (e *Engine) freshen(now int64, p *Prepared) {
	for i := range p.entries {
		if en := &p.entries[i]; en.scope.state>>flagBits != en.state>>flagBits {
			// The key was dropped. It was found by the request's words before, so they resolve again.
			_ = e.resolve(now, p.request, p, nil)
			break
		}
	}
	for i := range p.entries {
		en := &p.entries[i]
		switch en.limit.kind {
		case kindRate:
			en.scope.refill(now, en.ratio())
		case kindConcurrency, kindQuota:
			e.current(now, en)
		}
		if en.scope.has(flagPenalized) && !en.penalized(now) {
			en.scope.clear(flagPenalized)
		}
	}
}

// refusal is the reason to refuse a request at once, apart from late tokens; nil where there is none.
func (e *Engine) refusal(now int64, r *record, cl class) *RefusedError {
	p := r.prepared
	if b, until := p.openBreaker(now); b != nil {
		return &RefusedError{
			Reason: CircuitOpen, Provider: p.account.provider.name, Key: b.key, RetryAtNanos: until, RetryKnown: until != 0,
		}
	}
	for i := range p.entries {
		if en := &p.entries[i]; !en.limit.shadow && en.penalized(now) && en.cold.penalty.end > r.deadline {
			return e.refusedBy(Penalized, en, en.cold.penalty.end)
		}
	}
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.kind != kindQuota || en.limit.shadow {
			continue
		}
		e.current(now, en)
		if en.scope.used+en.cost > en.scope.cap(cl) {
			return e.refusedBy(QuotaExhausted, en, e.retryAt(now, en, cl))
		}
	}
	return nil
}

// lateTokens refuses a request whose next token comes after its deadline.
func (e *Engine) lateTokens(now int64, p *Prepared, deadline int64) *RefusedError {
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.kind != kindRate || en.limit.shadow {
			continue
		}
		if next := en.nextTokens(now); next > deadline && next > now {
			return e.refusedBy(DeadlineExceeded, en, next)
		}
	}
	return nil
}

func (e *Engine) refusedBy(reason Reason, en *entry, at int64) *RefusedError {
	return &RefusedError{
		Reason: reason, Provider: en.limit.provider.name, Limit: en.limit.name, Key: e.key(en.cold),
		RetryAtNanos: at, RetryKnown: at != 0,
	}
}

// refuse ends a request that was not granted.
func (e *Engine) refuse(r *record, refused *RefusedError) {
	e.countRefusal(r.prepared, refused)
	if e.observer != nil {
		e.observer.Refused(r.prepared.request, refused)
	}
	e.freeRecord(r)
}

// nextTokens is the instant at which a bucket has what a request needs.
func (en *entry) nextTokens(now int64) int64 {
	burst := en.limit.burst
	ratio := en.ratio()
	en.scope.refill(now, ratio)
	return en.scope.nextTokens(now, burst, en.limit.tokensFor(en.cost), ratio)
}

func (c *coldScope) ratio() ratio {
	if c.rate != nil {
		return c.rate.ratio
	}
	return c.limit.rate
}

// ratio is that of the entry's key, without a look at the key where all of the limit have the same.
func (en *entry) ratio() ratio {
	if en.limit.adaptive == nil {
		return en.limit.rate
	}
	return en.cold.ratio()
}

// penalized tells whether the key's penalty is not over.
func (en *entry) penalized(now int64) bool {
	return en.cold.penalty != nil && en.cold.penalty.end > now
}

// What a request can lack for the moment.
const (
	lackTokens = 1 << iota
	lackSlot
	lackPeace // a penalty that is not over
)

// lack is what a request lacks of one limit. The entry must be fresh.
func (en *entry) lack(now int64) (what uint8) {
	if en.limit.shadow {
		return 0
	}
	if en.penalized(now) {
		what = lackPeace
	}
	switch en.limit.kind {
	case kindRate:
		if en.nextTokens(now) > now {
			what |= lackTokens
		}
	case kindConcurrency:
		if en.scope.used >= en.scope.normalCap {
			what |= lackSlot
		}
	}
	return what
}

// lacking is what a request lacks of all its limits. They must be fresh.
func (e *Engine) lacking(now int64, p *Prepared) (what uint8) {
	for i := range p.entries {
		what |= p.entries[i].lack(now)
	}
	return what
}

// grant takes of every limit, whether or not it fits.
func (e *Engine) grant(now int64, r *record, cl class) {
	r.becomeFlying()
	r.granted = now
	p := r.prepared
	e.flying++
	p.account.flying++
	for i := range p.entries {
		en := &p.entries[i]
		s := en.scope
		s.pins++
		switch en.limit.kind {
		case kindRate:
			if !en.limit.shadow || s.hasTokens(now, en.limit.burst, en.limit.tokensFor(en.cost), en.ratio()) {
				s.used += en.cost
			}
		case kindConcurrency:
			s.used++
			s.since = now
		case kindQuota:
			e.takeUnits(now, r, en, cl)
		}
	}
	p.probe(r)
	if e.observer != nil {
		e.observer.Granted(p.request, now-r.arrived)
	}
}

// takeUnits counts a grant against a quota.
func (e *Engine) takeUnits(now int64, r *record, en *entry, cl class) {
	s := en.scope
	if e.serverSide {
		e.takeServed(now, en)
		return
	}
	if cl == classCritical && !r.retry && s.used+en.cost > s.normalCap {
		if usable, reserve := en.cold.usable(now, en.variant); s.used+en.cost > usable-reserve {
			s.set(flagDipped)
		}
	}
	s.used += en.cost
	s.flying += en.cost
	if en.limit.rolling {
		s.since = now
	}
	if s.minute == 0 {
		e.active = append(e.active, en.id)
	}
	s.minute += en.cost
	e.remember(now, en.id, en.cost)
	if en.limit.special || s.has(flagFresh) || e.onWindow != nil {
		e.noteGrant(now, r, en)
	}
}

// noteGrant does what a grant needs beyond counting: for the first of a window, and for limits that watch each one.
func (e *Engine) noteGrant(now int64, r *record, en *entry) {
	s, q := en.scope, en.cold.quota
	s.clear(flagFresh)
	if e.onWindow != nil {
		e.tallies[en.id].units += int64(clampUnits(en.cost))
	}
	q.touched = true
	q.firstGrant = min(q.firstGrant, now)
	if en.limit.anchored {
		e.openShown(now, s, en.cold)
		q.shown += en.cost
	}
	if en.limit.watched {
		e.depart(q, now, en.cost, r.id)
	}
}
