package engine

import (
	"math/big"

	"github.com/tapyr/tapyr/schema"
)

// adaptive is how a rate follows the answers: down by a factor after a refusal, up by a step after a success, between a floor and
// the declared rate. Rates here are whole millionths of a request a second.
type adaptive struct {
	decrease        schema.Decimal
	increase, floor int64
	declared        int64
}

// The defaults of adaptive.
var (
	defaultDecrease = schema.DecimalOf(0.7)
	defaultIncrease = schema.DecimalOf(0.2)
	defaultFloor    = schema.DecimalOf(0.5)
)

const micro = 1_000_000

func compileAdaptive(spec *schema.Limit) *adaptive {
	a := spec.Adaptive
	if a == nil || spec.Rate == nil {
		return nil
	}
	perSecond := spec.Rate.Count.Rat()
	perSecond.Mul(perSecond, big.NewRat(1e9*micro, int64(spec.Rate.Per)))
	declared := new(big.Int).Quo(perSecond.Num(), perSecond.Denom()).Int64()
	out := &adaptive{
		decrease: a.Decrease.Or(defaultDecrease), increase: a.Increase.Or(defaultIncrease).MulFloor(micro),
		floor: a.Floor.Or(defaultFloor).MulFloor(micro), declared: max(1, declared),
	}
	out.floor = min(max(1, out.floor), out.declared)
	return out
}

// adaptiveRate is a key's present rate.
type adaptiveRate struct {
	micros int64
	ratio  ratio
}

// adapt moves a key's rate by what an answer means. A refusal that names another limit says nothing about this one.
func (en *entry) adapt(now int64, o outcome, named string) {
	a := en.limit.adaptive
	micros := a.declared
	if en.cold.rate != nil {
		micros = en.cold.rate.micros
	}
	next := micros
	switch {
	case o == outcomeLimited && (named == "" || named == en.limit.name):
		next = max(a.floor, a.decrease.MulFloor(micros))
	case o == outcomeSuccess:
		next = min(a.declared, saturatedAdd(micros, a.increase))
	}
	if next == micros {
		return
	}
	old := en.cold.ratio()
	en.scope.refill(now, old)
	en.cold.restoreRate(next)
	en.scope.rebase(now, old, en.cold.ratio())
}

// rebase goes on with another rate from the present level. What is lost is less than the new rate's tokens of a nanosecond, and
// never gained.
func (s *scope) rebase(now int64, old, next ratio) {
	tokens, since := old.tokensIn(now - s.since)
	if tokens >= s.used && s.used >= 0 {
		s.since, s.used = now, 0
		return
	}
	// The part of a token that has come counts as the time that it takes at the new rate.
	part := big.NewRat(since, 1)
	part.Mul(part, big.NewRat(int64(old.num), int64(old.den)))
	part.Mul(part, big.NewRat(int64(next.den), int64(next.num)))
	s.used -= tokens
	s.since = now - new(big.Int).Quo(part.Num(), part.Denom()).Int64()
}

// restoreRate sets a key's rate; 0 or the declared one is none of its own.
func (c *coldScope) restoreRate(micros int64) {
	c.rate = nil
	if a := c.limit.adaptive; a != nil && micros > 0 && micros < a.declared {
		c.rate = &adaptiveRate{micros: micros, ratio: ratioOfRat(big.NewRat(micros, 1e9*micro))}
	}
}
