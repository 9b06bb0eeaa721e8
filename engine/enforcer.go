package engine

import (
	"errors"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Enforcer is the other side: it lets through what a server with the same limits would. Buckets have their full burst, quotas
// their whole maximum, nobody waits, and every unit counts at its arrival. Maxima that vendors name in headers are the initial
// ones. It is not safe for use by several goroutines at once.
type Enforcer struct{ engine *Engine }

// NewEnforcer is a server's limits, untouched.
func NewEnforcer(config *validate.Config) *Enforcer {
	return &Enforcer{engine: newEngine(config, Options{}, true)}
}

// Allow decides about a request that arrives now. Its Account is the presented credential, which stands for account, target and
// credential; its Endpoint is the route, its Vars those of the route. A request that is allowed ends with Done. The error is a
// *RefusedError where it is not, and retryAfterSeconds then what the server tells the client: whole seconds, rounded up, at least
// 1; or a *RequestError.
func (f *Enforcer) Allow(now int64, r *match.Request) (t Ticket, retryAfterSeconds int64, err error) {
	q := Request{Request: *r}
	q.Target, q.Credential = r.Account, r.Account
	e := f.engine
	t, granted, err := e.ReserveRequest(now, &q, false, now)
	if err == nil && !granted {
		refused := e.tooLate(e.now, e.find(t))
		e.Cancel(t)
		t, err = 0, refused
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		retryAfterSeconds = wholeSeconds(refused, e.now)
	}
	return t, retryAfterSeconds, err
}

// Prepare resolves a request, as Engine.Prepare does.
func (f *Enforcer) Prepare(now int64, r *match.Request) (*Prepared, error) {
	q := Request{Request: *r}
	q.Target, q.Credential = r.Account, r.Account
	return f.engine.Prepare(now, &q)
}

// AllowPrepared is Allow for a prepared request.
func (f *Enforcer) AllowPrepared(now int64, p *Prepared) (t Ticket, retryAfterSeconds int64, refused *RefusedError) {
	e := f.engine
	t, granted, refused := e.Reserve(now, p, false, now)
	if refused == nil && !granted {
		refused = e.tooLate(e.now, e.find(t))
		e.Cancel(t)
		t = 0
	}
	if refused != nil {
		retryAfterSeconds = wholeSeconds(refused, e.now)
	}
	return t, retryAfterSeconds, refused
}

// wholeSeconds is the time until a retry, as a Retry-After header says it.
func wholeSeconds(refused *RefusedError, now int64) int64 {
	if !refused.RetryKnown {
		return 1
	}
	wait := saturatedSub(refused.RetryAtNanos, now)
	seconds := wait / int64(time.Second)
	if wait%int64(time.Second) > 0 {
		seconds++
	}
	return max(1, seconds)
}

// Done ends a request that was allowed, with the status that the server answers.
func (f *Enforcer) Done(now int64, t Ticket, status int) {
	f.engine.Settle(now, t, &Response{Status: status})
	f.engine.Release(now, t)
}

// takeServed counts a grant as a server does: at its arrival, or at the answer where that decides whether it counts.
func (e *Engine) takeServed(now int64, en *entry) {
	if en.limit.counts == nil {
		e.countServed(now, en)
	}
}

func (e *Engine) countServed(now int64, en *entry) {
	s, c := en.scope, en.cold
	s.used += en.cost
	if c.limit.rolling {
		e.arrive(now, en.cost, c)
		s.until = min(s.until, saturatedAdd(now, c.limit.length))
	}
}

// Tally is one key of a limit as the server counts it.
type Tally struct {
	// Limit is the limit.
	Limit *validate.Limit
	// CostUnits is what the request takes of it.
	CostUnits int64
	// MaxUnits and UsedUnits are a quota's maximum and the units of its window, a bucket's burst and the tokens that it lacks
	// (rounded up), or the slots and those in use.
	MaxUnits, UsedUnits int64
	// ResetNanos is when the window ends, the oldest unit of a rolling window leaves, or the bucket is full, in nanoseconds since
	// the Unix epoch; now, where nothing is used.
	ResetNanos int64
}

// Tally calls each with every limit that a request meets, in declared order, as it stands at now: what a server tells in the
// headers of its answer. It changes nothing, except that a window that begins with a request begins.
func (f *Enforcer) Tally(now int64, p *Prepared, each func(*Tally)) {
	e := f.engine
	now = e.tick(now)
	e.freshen(now, p)
	var t Tally
	for i := range p.entries {
		en := &p.entries[i]
		s, l := en.scope, en.limit
		t = Tally{Limit: l.source, CostUnits: en.cost, MaxUnits: en.cold.maximum(now, en.variant), UsedUnits: s.used, ResetNanos: now}
		switch l.kind {
		case kindNone:
			continue
		case kindRate:
			flown, _ := l.rate.tokensIn(now - s.since)
			t.MaxUnits, t.UsedUnits = l.burst, max(0, s.used-flown)
			t.ResetNanos = max(now, saturatedAdd(s.since, l.rate.nanosFor(s.used)))
		case kindQuota:
			t.ResetNanos = en.cold.quota.end
			if l.rolling {
				t.ResetNanos = now
				if en.cold.quota.cells.len() > 0 {
					t.ResetNanos = en.cold.quota.cells.nextLeave(l.length)
				}
			}
		}
		each(&t)
	}
}

// SetMax replaces the maximum of a quota, or of requests in flight, from now on, as a vendor does. It is false where the provider
// has no such limit, or one of tokens.
func (f *Enforcer) SetMax(now int64, provider, limitName string, maximum int64) bool {
	e := f.engine
	now = e.tick(now)
	l := e.limitNamed(provider, limitName)
	if l == nil || l.kind == kindRate {
		return false
	}
	l.overrides = append([]override{{now, never, maximum}}, l.overrides...)
	e.keysOf(l, func(s *scope) { s.until = -never }) // its caps are computed at the next use
	return true
}

// SetRate replaces the rate of a bucket from now on, as a vendor does. The burst stays, and so does what is in the buckets. It is
// false where the provider has no such limit, or one without tokens.
func (f *Enforcer) SetRate(now int64, provider, limitName string, rate schema.Rate) bool {
	e := f.engine
	now = e.tick(now)
	l := e.limitNamed(provider, limitName)
	if l == nil || l.kind != kindRate {
		return false
	}
	old := l.rate
	l.rate = ratioOf(rate)
	e.keysOf(l, func(s *scope) { s.rebase(now, old, l.rate) })
	return true
}

// limitNamed is a limit of a provider, nil where there is none of that name.
func (e *Engine) limitNamed(provider, name string) *limit {
	p := e.providers[provider]
	if p == nil {
		return nil
	}
	for _, l := range p.limits {
		if l.name == name {
			return l
		}
	}
	return nil
}

// keysOf tells every key of a limit.
func (e *Engine) keysOf(l *limit, each func(*scope)) {
	for id := uint32(1); id <= e.slab.next; id++ {
		if e.slab.cold(id).limit == l {
			each(e.slab.hot(id))
		}
	}
}
