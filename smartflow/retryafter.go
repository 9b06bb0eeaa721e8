package smartflow

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// ParseRetryAfter reads the value of a Retry-After header (RFC 9110, section
// 10.2.3): seconds, for which vendors also send decimal fractions, or an HTTP date,
// which counts from now. ok is false when there is nothing to wait for: the value is
// empty, not of these forms, zero or in the past. A number that is too large is the
// longest duration there is.
func ParseRetryAfter(value string, now time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if value[0] >= '0' && value[0] <= '9' {
		s, ok := decimalSeconds(value)
		wait = duration(s)
		return wait, ok && wait > 0
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	wait = at.Sub(now)
	return max(wait, 0), wait > 0
}

// decimalSeconds reads digits with at most one decimal point, and nothing else that
// strconv would take: no exponents, signs, underscores or words.
func decimalSeconds(value string) (float64, bool) {
	whole, scale := 0.0, 0.0 // scale is 0 before the point
	for _, c := range value {
		switch {
		case c == '.' && scale == 0:
			scale = 1
		case c < '0' || c > '9':
			return 0, false
		case scale == 0:
			whole = whole*10 + float64(c-'0')
		default:
			scale /= 10
			whole += float64(c-'0') * scale
		}
	}
	if math.IsInf(whole, 1) {
		return math.MaxInt64, true
	}
	return whole, true
}
