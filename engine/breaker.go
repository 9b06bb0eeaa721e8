package engine

import (
	"time"

	"github.com/tapyr/tapyr/schema"
)

// breakerState is where a circuit breaker stands.
type breakerState uint8

const (
	// breakerClosed: requests go. From half open by the probe's success.
	breakerClosed breakerState = iota
	// breakerOpen: nothing goes until openUntil. From closed by the last of so many failures in a row, from half open by the
	// probe's failure.
	breakerOpen
	// breakerHalfOpen: one request at a time goes, the probe. From open by time.
	breakerHalfOpen
)

// breakerRules are a provider's.
type breakerRules struct {
	failures     int
	openForNanos int64
}

// The defaults, which also hold for a provider that says nothing.
const (
	defaultFailures = 5
	defaultOpenFor  = time.Minute
	// longestOpenFor bounds the doubling, unless the declared value is longer.
	longestOpenFor = 10 * time.Minute
)

func compileBreaker(c *schema.CircuitBreaker) breakerRules {
	rules := breakerRules{failures: defaultFailures, openForNanos: int64(defaultOpenFor)}
	if c != nil {
		rules.openForNanos = int64(c.OpenFor.Or(defaultOpenFor))
		if c.Failures != nil {
			rules.failures = *c.Failures
		}
	}
	return rules
}

// breaker stops the requests of an account or target that keeps failing.
type breaker struct {
	key   string
	state breakerState
	// failures in a row, while closed.
	failures int
	// openUntil and openFor: since it was opened last.
	openUntil, openFor int64
	// probing: the probe is in flight.
	probing bool
}

// becomeOpen opens the breaker for a time.
func (b *breaker) becomeOpen(now, openFor int64) {
	if b.state == breakerOpen {
		panic("engine: an open circuit breaker opens")
	}
	b.state, b.openFor, b.openUntil, b.failures, b.probing = breakerOpen, openFor, saturatedAdd(now, openFor), 0, false
}

// becomeHalfOpen lets the next request be the probe.
func (b *breaker) becomeHalfOpen() {
	if b.state != breakerOpen {
		panic("engine: a circuit breaker that is not open becomes half open")
	}
	b.state = breakerHalfOpen
}

// becomeClosed forgets the past.
func (b *breaker) becomeClosed() { *b = breaker{key: b.key} }

// refuses tells whether nothing may go now; until is when the next may, 0 while the probe is in flight.
func (b *breaker) refuses(now int64) (until int64, refused bool) {
	if b.state == breakerOpen && now >= b.openUntil {
		b.becomeHalfOpen()
	}
	switch b.state {
	case breakerOpen:
		return b.openUntil, true
	case breakerHalfOpen:
		return 0, b.probing
	}
	return 0, false
}

// breakersClosed is the short way to know that no breaker refuses.
func (p *Prepared) breakersClosed() bool {
	return p.account.breaker.state == breakerClosed && (p.target == nil || p.target.state == breakerClosed)
}

// openBreaker is the breaker that refuses the request, the account's first; nil where none does.
func (p *Prepared) openBreaker(now int64) (b *breaker, until int64) {
	if until, refused := p.account.breaker.refuses(now); refused {
		return &p.account.breaker, until
	}
	if p.target != nil {
		if until, refused := p.target.refuses(now); refused {
			return p.target, until
		}
	}
	return nil, 0
}

// probe makes a request that is granted the probe of the breakers that are half open.
func (p *Prepared) probe(r *record) {
	if b := &p.account.breaker; b.state == breakerHalfOpen && !b.probing {
		b.probing, r.probes = true, r.probes|probeAccount
	}
	if b := p.target; b != nil && b.state == breakerHalfOpen && !b.probing {
		b.probing, r.probes = true, r.probes|probeTarget
	}
}

// outcome is what a response means for a breaker.
type outcome uint8

const (
	// outcomeSuccess: neither rate limited nor transient.
	outcomeSuccess outcome = iota
	// outcomeTransient: a failure that may pass, or no answer at all.
	outcomeTransient
	// outcomeLimited: rate limited; it says nothing about the vendor's health.
	outcomeLimited
)

// tell the breakers of a request how it ended.
func (p *Prepared) tell(now int64, r *record, o outcome) {
	rules := &p.account.provider.breaker
	p.account.breaker.hear(now, o, r.probes&probeAccount != 0, rules)
	if p.target != nil {
		p.target.hear(now, o, r.probes&probeTarget != 0, rules)
	}
	r.probes = 0
}

// hear counts an answer. While open or half open only the probe's counts.
func (b *breaker) hear(now int64, o outcome, probe bool, rules *breakerRules) {
	switch {
	case probe && b.state == breakerHalfOpen:
		switch o {
		case outcomeSuccess:
			b.becomeClosed()
		case outcomeTransient:
			longest := max(int64(longestOpenFor), rules.openForNanos)
			b.becomeOpen(now, min(saturatedAdd(b.openFor, b.openFor), longest))
		default:
			b.probing = false
		}
	case b.state != breakerClosed || o == outcomeLimited:
	case o == outcomeSuccess:
		b.failures = 0
	default:
		b.failures++
		if b.failures >= rules.failures {
			b.becomeOpen(now, rules.openForNanos)
		}
	}
}

// abandon lets another request be the probe, where r was and ended without an answer.
func (p *Prepared) abandon(r *record) {
	if r.probes&probeAccount != 0 {
		p.account.breaker.probing = false
	}
	if r.probes&probeTarget != 0 && p.target != nil {
		p.target.probing = false
	}
	r.probes = 0
}
