package journal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/window"
)

const minNanos, maxNanos = window.MinNanos, window.MaxNanos

// TimeError is an instant that could not be read.
type TimeError struct {
	// Text is what stood there.
	Text string
}

func (e *TimeError) Error() string {
	return fmt.Sprintf("%q is not an instant: write RFC 3339 (2026-11-01T00:00:07.25Z), the same with a space, with another or no offset, "+
		"a web server's 01/Nov/2026:00:00:07 +0000, or seconds or milliseconds since 1970", e.Text)
}

// instant is a time as read: nanoseconds since the epoch, or, where the text had no offset, what a clock on the wall showed
// (as if it had been in UTC).
type instant struct {
	nanos int64
	naive bool
}

// ParseTime reads an instant in any of the forms that files have; without an offset it is in UTC. Errors are *TimeError.
func ParseTime(text string) (time.Time, error) {
	in, err := parseInstant(text)
	return time.Unix(0, in.nanos).UTC(), err
}

// parseInstant reads a time in any of the forms that logs have. Numbers are epochs: below 1e11 seconds, below 1e14
// milliseconds, below 1e17 microseconds, else nanoseconds; the first three bounds lie beyond the year 5000 in their own unit
// and before 1974 in the next smaller one.
func parseInstant(text string) (instant, error) {
	s := strings.TrimSpace(text)
	if len(s) >= 2 && s[0] == '[' && s[len(s)-1] == ']' { // web servers put theirs in brackets
		s = strings.TrimSpace(s[1 : len(s)-1])
	}
	in, ok := parseISO(s)
	if !ok {
		in, ok = parseEpoch(s)
	}
	if !ok {
		in, ok = parseNamed(s)
	}
	if !ok || in.nanos < minNanos || in.nanos >= maxNanos {
		return instant{}, &TimeError{Text: text}
	}
	return in, nil
}

// parseISO reads RFC 3339 (section 5.6) and what people write instead: a space for the T, a comma for the point, no seconds,
// offsets as +02, +0200 or +02:00 with or without a space before, UTC or GMT for Z, or no offset at all. A leap second is the
// first of the next minute.
func parseISO(s string) (instant, bool) {
	if len(s) < 16 || s[4] != '-' || s[7] != '-' || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') || s[13] != ':' {
		return instant{}, false
	}
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	hour, ok4 := digits(s[11:13])
	minute, ok5 := digits(s[14:16])
	if !(ok1 && ok2 && ok3 && ok4 && ok5) || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 {
		return instant{}, false
	}
	sec, nanos, rest := int64(0), int64(0), s[16:]
	if len(rest) >= 3 && rest[0] == ':' {
		var ok bool
		if sec, ok = digits(rest[1:3]); !ok || sec > 60 {
			return instant{}, false
		}
		if nanos, rest, ok = fraction(rest[3:]); !ok {
			return instant{}, false
		}
	}
	offset, naive, ok := parseOffset(rest)
	if !ok {
		return instant{}, false
	}
	total := daysSinceEpoch(year, month, day)*86400 + hour*3600 + minute*60 + sec - offset
	if total < window.MinNanos/1e9-1 || total > window.MaxNanos/1e9 {
		return instant{}, false
	}
	return instant{nanos: total*1e9 + nanos, naive: naive}, true
}

// fraction reads an optional decimal fraction of a second; digits beyond the ninth are cut.
func fraction(s string) (nanos int64, rest string, ok bool) {
	if s == "" || (s[0] != '.' && s[0] != ',') {
		return 0, s, true
	}
	n := 1
	for scale := int64(1e8); n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		nanos += int64(s[n]-'0') * scale
		scale /= 10
	}
	return nanos, s[n:], n > 1
}

// parseOffset reads what follows a wall time; nothing means that it has no offset.
func parseOffset(s string) (seconds int64, naive, ok bool) {
	s = strings.TrimPrefix(s, " ")
	switch s {
	case "":
		return 0, true, true
	case "Z", "z", "UTC", "GMT":
		return 0, false, true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, false, false
	}
	h, m := s[1:], "00"
	switch {
	case len(s) == 6 && s[3] == ':':
		h, m = s[1:3], s[4:6]
	case len(s) == 5:
		h, m = s[1:3], s[3:5]
	case len(s) != 3:
		return 0, false, false
	}
	hours, ok1 := digits(h)
	minutes, ok2 := digits(m)
	seconds = hours*3600 + minutes*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, false, ok1 && ok2 && hours < 24 && minutes < 60
}

// parseEpoch reads a number of seconds (with decimals), milliseconds, microseconds or nanoseconds since 1970.
func parseEpoch(s string) (instant, bool) {
	if strings.ContainsAny(s, "eE") { // a spreadsheet's 1.7934E+09
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || strings.ContainsAny(s, "xX_nN") || math.Abs(f) >= 1e11 {
			return instant{}, false
		}
		return instant{nanos: saturate(f * 1e9)}, true
	}
	whole, frac, hasFrac := strings.Cut(s, ".")
	negative := strings.HasPrefix(whole, "-")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || whole[0] == '+' || n == math.MinInt64 {
		return instant{}, false
	}
	unit := int64(1)
	switch size := max(n, -n); {
	case size < 1e11:
		unit = 1e9
	case size < 1e14:
		unit = 1e6
	case size < 1e17:
		unit = 1e3
	}
	if max(n, -n) > math.MaxInt64/unit {
		return instant{}, false
	}
	nanos := n * unit
	if hasFrac {
		part, rest, ok := fraction("." + frac)
		if !ok || rest != "" {
			return instant{}, false
		}
		part = part * unit / 1e9 // both factors are at most 1e9
		if negative {
			part = -part
		}
		nanos += part
	}
	return instant{nanos: nanos}, true
}

func saturate(f float64) int64 {
	if f >= math.MaxInt64 || f <= math.MinInt64 || f != f {
		return math.MaxInt64
	}
	return int64(f)
}

// namedLayouts are the forms with a month's name: web servers' logs (Apache's %t, nginx's $time_local) and HTTP and mail dates.
var namedLayouts = []string{
	"02/Jan/2006:15:04:05 -0700", time.RFC1123Z, time.RFC1123, time.RFC850, time.RFC822Z, "02 Jan 2006 15:04:05 -0700",
}

// naiveLayouts are forms without an offset.
var naiveLayouts = []string{time.ANSIC, "02/Jan/2006:15:04:05", "02 Jan 2006 15:04:05"}

func parseNamed(s string) (instant, bool) {
	if len(s) < 15 || len(s) > 40 {
		return instant{}, false
	}
	for _, layout := range namedLayouts {
		// A zone's abbreviation that Go does not know would silently count as UTC; only UTC and GMT are certain.
		t, err := time.Parse(layout, s)
		if err == nil && (strings.HasSuffix(layout, "-0700") || strings.HasSuffix(s, "GMT") || strings.HasSuffix(s, "UTC")) {
			return instant{nanos: clampNanos(t)}, true
		}
	}
	for _, layout := range naiveLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return instant{nanos: clampNanos(t), naive: true}, true
		}
	}
	return instant{}, false
}

// clampNanos is UnixNano, or for instants beyond an int64 a value that is out of range too.
func clampNanos(t time.Time) int64 {
	if sec := t.Unix(); sec < window.MinNanos/1e9 || sec > window.MaxNanos/1e9 {
		return math.MaxInt64
	}
	return t.UnixNano()
}

func digits(s string) (n int64, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// daysSinceEpoch counts days from 1970-01-01 in the proleptic Gregorian calendar. Years are taken to begin in March, so that
// the leap day is the last; the middle term is the number of days before a month in such a year.
func daysSinceEpoch(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return year*365 + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}
