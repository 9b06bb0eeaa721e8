package engine

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/tapyr/tapyr/schema"
)

// ratio is a rate in tokens a nanosecond, num/den in lowest terms.
type ratio struct{ num, den uint64 }

// ratioOf is the rate, exactly where both its terms fit in 62 bits; else at most one part in 2^60 below it.
func ratioOf(r schema.Rate) ratio {
	v := r.Count.Rat()
	v.Quo(v, new(big.Rat).SetInt64(int64(r.Per)))
	return ratioOfRat(v)
}

func ratioOfRat(v *big.Rat) ratio {
	num, den := v.Num(), v.Denom()
	most := new(big.Int).Lsh(big.NewInt(1), 62)
	switch {
	case num.Cmp(most) <= 0 && den.Cmp(most) <= 0:
		return ratio{num.Uint64(), den.Uint64()}
	case num.Cmp(den) < 0: // the denominator is made 2^62, and the numerator follows, rounded so that the rate is not above
		n := new(big.Int).Mul(most, num)
		if n.Quo(n, den); n.Sign() == 0 {
			return ratio{1, most.Uint64()}
		}
		d := new(big.Int).Mul(n, den)
		d.Add(d, new(big.Int).Sub(num, big.NewInt(1)))
		return ratio{n.Uint64(), d.Quo(d, num).Uint64()}
	}
	d := new(big.Int).Mul(most, den)
	d.Quo(d, num)
	if d.Sign() == 0 {
		return ratio{most.Uint64(), 1}
	}
	n := new(big.Int).Mul(d, num)
	return ratio{n.Quo(n, den).Uint64(), d.Uint64()}
}

// atLeast tells whether num * nanos >= den * tokens, in 128 bits. nanos must not be negative; no tokens are always there.
func (r ratio) atLeast(nanos, tokens int64) bool {
	if tokens <= 0 {
		return true
	}
	haveHi, haveLo := bits.Mul64(r.num, uint64(nanos))
	wantHi, wantLo := bits.Mul64(r.den, uint64(tokens))
	return haveHi > wantHi || haveHi == wantHi && haveLo >= wantLo
}

// nanosFor is the shortest time in which so many tokens flow in, rounded up; never more than fits.
func (r ratio) nanosFor(tokens int64) int64 {
	if tokens <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(r.den, uint64(tokens))
	if hi >= r.num {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, lo, r.num)
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, math.MaxInt64))
}

// tokensIn is the number of whole tokens that flow in, and the nanoseconds since the last of them was whole, rounded down.
func (r ratio) tokensIn(nanos int64) (tokens, sinceNanos int64) {
	hi, lo := bits.Mul64(r.num, uint64(max(nanos, 0)))
	if hi >= r.den {
		return math.MaxInt64, 0
	}
	quotient, rest := bits.Div64(hi, lo, r.den)
	return int64(min(quotient, math.MaxInt64)), int64(rest / r.num)
}

// A bucket is kept in closed form, so that it cannot drift: it was full at the instant since, and used tokens were taken from it
// afterwards. Its level at now is burst - used + num*(now-since)/den, never computed, only compared. Both used and the level may
// be negative after a correction.

// refill moves since to now where the bucket is full.
func (s *scope) refill(now int64, r ratio) {
	if r.atLeast(now-s.since, s.used) {
		s.since, s.used = now, 0
	}
}

// hasTokens tells whether the bucket holds that many now. The bucket must be refilled.
func (s *scope) hasTokens(now, burst, tokens int64, r ratio) bool {
	return r.atLeast(now-s.since, saturatedAdd(tokens-burst, s.used))
}

// nextTokens is the instant at which the bucket holds that many, now where it does. The bucket must be refilled.
func (s *scope) nextTokens(now, burst, tokens int64, r ratio) int64 {
	return max(now, saturatedAdd(s.since, r.nanosFor(saturatedAdd(tokens-burst, s.used))))
}

// tokensFor is what a request of a cost must find in a bucket: one token more than it takes, which absorbs one interval of
// jitter, but no more than the bucket can hold. A server keeps no token back.
func (l *limit) tokensFor(cost int64) int64 { return min(cost+l.guard, l.burst) }

// saturatedAdd is a + b, or the nearest that fits.
func saturatedAdd(a, b int64) int64 {
	sum := a + b
	switch {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	}
	return sum
}
