package engine

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/schema"
)

// However the time is cut into steps, and whatever is taken on the way, a bucket holds what the closed form says, to the token.
func TestBucketDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"10/s", "1/90s", "27.4/m", "0.3333333333333333/s", "1000000000000/d", "3/7s", "123456.789/h", "0.00000000001/7ms"}).Draw(t, "rate")
		rate, err := schema.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		r := ratioOf(rate)
		exact := new(big.Rat).Quo(rate.Count.Rat(), new(big.Rat).SetInt64(int64(rate.Per)))
		burst := rapid.Int64Range(1, 1000).Draw(t, "burst")
		s := &scope{}
		level, now := new(big.Rat).SetInt64(burst), int64(0)
		full := new(big.Rat).SetInt64(burst)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			step := rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e14)).Draw(t, "step")
			now += step
			if level.Add(level, new(big.Rat).Mul(exact, new(big.Rat).SetInt64(step))); level.Cmp(full) > 0 {
				level.Set(full)
			}
			s.refill(now, r)
			cost := rapid.Int64Range(-2, burst).Draw(t, "cost")
			has := s.hasTokens(now, burst, cost, r)
			slack := new(big.Rat).Sub(level, new(big.Rat).SetInt64(cost))
			if off, _ := slack.Float64(); has != (slack.Sign() >= 0) && math.Abs(off) > 1e-9 {
				t.Fatalf("%s: at %d the bucket has %d tokens: %v, but it holds %s", text, now, cost, has, level.FloatString(12))
			}
			if next := s.nextTokens(now, burst, cost, r); next > now {
				if next != never && (!s.hasTokens(next, burst, cost, r) || s.hasTokens(next-1, burst, cost, r)) {
					t.Fatalf("%s: the next token is not at %d, %d after now", text, next, next-now)
				}
			} else if !has {
				t.Fatalf("%s: the next token is now, but it is not there", text)
			}
			if has {
				s.used += cost
				level.Sub(level, new(big.Rat).SetInt64(cost))
			}
		}
	})
}

// A rate that does not fit is rounded down, and hardly.
func TestRatioIsNeverAboveTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{0,8}(\.[0-9]{1,20})?`).Draw(t, "count")
		rate, err := schema.ParseRate(digits + "/" + rapid.SampledFrom([]string{"s", "d", "7ms", "90s"}).Draw(t, "per"))
		if err != nil {
			t.Skip(err)
		}
		r := ratioOf(rate)
		got := new(big.Rat).SetFrac(new(big.Int).SetUint64(r.num), new(big.Int).SetUint64(r.den))
		want := new(big.Rat).Quo(rate.Count.Rat(), new(big.Rat).SetInt64(int64(rate.Per)))
		cut := new(big.Rat).Quo(new(big.Rat).Sub(want, got), want)
		if off, _ := cut.Float64(); cut.Sign() < 0 || off > 1e-15 {
			t.Fatalf("%s: off by %v", rate, off)
		}
	})
}

// Adapting a rate never gives tokens, and loses less than one nanosecond's.
func TestRebaseKeepsTheLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := []string{"10/s", "1/s", "0.5/s", "7.3/s", "1/90s"}
		drawn := func(name string) ratio {
			rate, _ := schema.ParseRate(rapid.SampledFrom(rates).Draw(t, name))
			return ratioOf(rate)
		}
		old, next := drawn("old"), drawn("next")
		s := &scope{used: rapid.Int64Range(-3, 50).Draw(t, "used")}
		now := rapid.Int64Range(0, 60e9).Draw(t, "now")
		level := func(r ratio) *big.Rat {
			gain := new(big.Rat).SetFrac(new(big.Int).SetUint64(r.num), new(big.Int).SetUint64(r.den))
			gain.Mul(gain, new(big.Rat).SetInt64(now-s.since))
			return gain.Sub(gain, new(big.Rat).SetInt64(s.used))
		}
		s.refill(now, old)
		before := level(old)
		s.rebase(now, old, next)
		lost, _ := new(big.Rat).Sub(before, level(next)).Float64()
		if lost < 0 || lost > float64(next.num)/float64(next.den)+float64(old.num)/float64(old.den) {
			t.Fatalf("%v tokens are lost", lost)
		}
	})
}
