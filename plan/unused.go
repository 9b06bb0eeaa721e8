package plan

import (
	"math"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// unused says what a key's budget could do that it does not.
func (p *problem) unused(k *keyLoad, s Scope) Unused {
	out := Unused{}
	if s.Quota != nil {
		out.QuotaForNoStretch = p.quotaFor(k, s)
	}
	byClass := make(map[string]float64)
	for _, m := range k.members {
		byClass[m.job.job.Priority] += m.perRun * k.figures.horizonSeconds / m.job.effectiveSeconds() * p.weight(k, m.job)
	}
	for priority, used := range byClass {
		if free := s.Budget - s.Projected + used; used > 0 && free > 0 {
			if out.Faster == nil {
				out.Faster = make(map[string]float64)
			}
			out.Faster[priority] = free / used
		}
	}
	return out
}

// quotaFor is the smallest maximum whose budget holds the demand at the desired intervals, everything else as it is.
func (p *problem) quotaFor(k *keyLoad, s Scope) int64 {
	q := s.Quota
	if q.Share <= 0 {
		return 0
	}
	share, reserve := p.share(k.limit, k.account), p.in.Config.Settings.RetryReserve
	taken := float64(q.Usable-q.Reserve) - s.Budget // by own use, other clients and their pace
	need := s.Demand*(1-overBudget) + taken
	fits := func(maximum int64) bool {
		usable := share.MulFloor(maximum)
		return float64(usable-reserve.MulFloor(usable)) >= need
	}
	// Without the floors it would be this; with them it is at most a few units more.
	guess := need / (q.Share * (1 - reserve.Float64()))
	if guess > 1e15 {
		return 0
	}
	low := max(-1, int64(guess)-1)
	high := low + 2
	for !fits(high) {
		high += high - low
	}
	return smallest(low, high, fits)
}

// smallest is the smallest n in (low, high] for which fits holds; fits(high) holds, and what fits stays fit above.
func smallest(low, high int64, fits func(int64) bool) int64 {
	for high-low > 1 {
		mid := low + (high-low)/2
		if fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// Figure writes a figure for people: whole numbers with their thousands apart, others with as many digits as say something.
func Figure(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return thousands(strconv.FormatFloat(f, 'f', 0, 64))
	}
	if math.Abs(f) >= 100 && math.Abs(f) < 1e15 {
		return thousands(strconv.FormatFloat(f, 'f', 1, 64))
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

func thousands(s string) string {
	whole, fraction, found := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		return sign + whole + "." + fraction
	}
	return sign + whole
}

// duration writes seconds as people write intervals.
func duration(seconds float64) string {
	return schema.DurationOf(seconds).String()
}
