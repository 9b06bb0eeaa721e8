package engine

import (
	"errors"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// Enforcer is the other side: it lets through what a server with the same limits would. Buckets have their full burst, quotas
// their whole maximum, nobody waits, and every unit counts at its arrival. Maxima that vendors name in headers are the initial
// ones. It is not safe for use by several goroutines at once.
type Enforcer struct{ engine *Engine }

// NewEnforcer is a server's limits, untouched.
func NewEnforcer(config *validate.Config) *Enforcer {
	return &Enforcer{newEngine(config, Options{}, true)}
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
