package engine

import (
	"math"
	"strings"
	"time"
)

// The forms of an instant in a header.
const (
	formatAuto       = "auto"
	formatEpoch      = "epoch"
	formatEpochMs    = "epochMs"
	formatDelta      = "delta"
	formatGoDuration = "goDuration"
	formatRFC3339    = "rfc3339"
	formatHTTPDate   = "httpDate"
	formatMinutes    = "minutes"
)

// The bounds by which auto tells an instant from a delay: above the one a number is seconds since the Unix epoch, above the
// other milliseconds.
var (
	epochSeconds = decimal{mantissa: 1e9}
	epochMillis  = decimal{mantissa: 1e12}
)

// parseReset reads when a window ends, in the declared format, heard at now. ok is false for nonsense: no number, no date, a
// negative number. An instant that an int64 of nanoseconds cannot hold is the last one that it can.
func parseReset(text, format string, now int64) (instant int64, ok bool) {
	switch format {
	case "", formatAuto:
		return parseAuto(text, now)
	case formatGoDuration:
		return parseGoDuration(text, now)
	case formatRFC3339:
		return parseRFC3339(text)
	case formatHTTPDate:
		return parseHTTPDate(text, now)
	}
	d, ok := listNumber(text, largest)
	if !ok || d.negative() {
		return 0, false
	}
	switch format {
	case formatEpoch:
		return d.timesCeil(int64(time.Second)), true
	case formatEpochMs:
		return d.timesCeil(int64(time.Millisecond)), true
	case formatMinutes:
		return saturatedAdd(now, d.timesCeil(int64(time.Minute))), true
	}
	return saturatedAdd(now, d.timesCeil(int64(time.Second))), true // delta
}

func parseAuto(text string, now int64) (int64, bool) {
	if d, ok := listNumber(text, largest); ok {
		switch {
		case d.negative():
			return 0, false
		case epochMillis.less(d):
			return d.timesCeil(int64(time.Millisecond)), true
		case epochSeconds.less(d):
			return d.timesCeil(int64(time.Second)), true
		}
		return saturatedAdd(now, d.timesCeil(int64(time.Second))), true
	}
	if instant, ok := parseGoDuration(text, now); ok {
		return instant, true
	}
	if instant, ok := parseRFC3339(text); ok {
		return instant, true
	}
	return parseHTTPDate(text, now)
}

func parseGoDuration(text string, now int64) (int64, bool) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, false
	}
	return saturatedAdd(now, int64(d)), true
}

func parseRFC3339(text string) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, false
	}
	return instantNanos(t), true
}

// instantNanos is t.UnixNano where that is defined, and the nearest int64 elsewhere.
func instantNanos(t time.Time) int64 {
	const lastSecond = math.MaxInt64/int64(time.Second) - 1
	switch sec := t.Unix(); {
	case sec > lastSecond:
		return math.MaxInt64
	case sec < -lastSecond:
		return math.MinInt64
	default:
		return t.UnixNano()
	}
}

// parseHTTPDate reads the three forms of RFC 9110, section 5.6.7. A year of two digits that seems to be more than 50 years in
// the future, seen from now, is the latest in the past with those digits; time.Parse knows another rule.
func parseHTTPDate(text string, now int64) (int64, bool) {
	if t, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", text); err == nil {
		return instantNanos(t), true
	}
	if t, err := time.Parse(time.ANSIC, text); err == nil {
		return instantNanos(t), true
	}
	_, rest, ok := strings.Cut(text, ", ") // a long name of a day
	if !ok || len(rest) < len("02-Jan-06") {
		return 0, false
	}
	day, year, clock := rest[:len("02-Jan-")], rest[len("02-Jan-"):len("02-Jan-06")], rest[len("02-Jan-06"):]
	if !allDigits(year) {
		return 0, false
	}
	present := time.Unix(0, now).UTC()
	digits := int(year[0]-'0')*10 + int(year[1]-'0')
	// Leap days exist only in some centuries, so each candidate is parsed by itself, the latest first.
	for century := present.Year()/100*100 + 100; century >= present.Year()/100*100-100; century -= 100 {
		t, err := time.Parse("02-Jan-2006 15:04:05 GMT", day+fourDigits(century+digits)+clock)
		if err == nil && !t.After(present.AddDate(50, 0, 0)) {
			return instantNanos(t), dayNamed(text)
		}
	}
	return 0, false
}

// dayNamed tells whether the text begins with a long day's name; which day does not matter, as dates win over day names.
func dayNamed(text string) bool {
	name, _, _ := strings.Cut(text, ",")
	for d := range time.Saturday + 1 {
		if d.String() == name {
			return true
		}
	}
	return false
}

func fourDigits(year int) string {
	return string([]byte{byte('0' + year/1000%10), byte('0' + year/100%10), byte('0' + year/10%10), byte('0' + year%10)})
}

// parseWait reads how long to wait from a Retry-After header: a delay in seconds, decimals too, or an HTTP date, measured against
// the response's own Date where it has one. ok is false for 0, the past and nonsense. A delay above most that reads as an
// instant within it is taken as the instant.
func parseWait(text, date string, now, most int64) (wait int64, ok bool) {
	reference := now
	if at, ok := parseHTTPDate(date, now); ok {
		reference = at
	}
	if d, isNumber := listNumber(text, largest); isNumber {
		if d.negative() {
			return 0, false
		}
		wait = d.timesCeil(int64(time.Second))
		if wait > most {
			unit := int64(time.Second)
			if epochMillis.less(d) {
				unit = int64(time.Millisecond)
			}
			if span := saturatedSub(d.timesCeil(unit), reference); span > 0 && span <= most {
				return span, true
			}
		}
		return wait, wait > 0
	}
	at, isDate := parseHTTPDate(text, now)
	if !isDate {
		return 0, false
	}
	wait = saturatedSub(at, reference)
	return wait, wait > 0
}

// saturatedSub is a - b, or the nearest that fits.
func saturatedSub(a, b int64) int64 {
	if b == math.MinInt64 {
		return saturatedAdd(saturatedAdd(a, math.MaxInt64), 1)
	}
	return saturatedAdd(a, -b)
}
