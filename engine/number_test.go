package engine

import (
	"math"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/validate/validatetest"
)

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		text        string
		ok          bool
		floor, ceil int64
	}{
		{"0", true, 0, 0},
		{"12", true, 12, 12},
		{"-1", true, -1, -1},
		{"1.5", true, 1, 2},
		{"-1.5", true, -2, -1},
		{"007", true, 7, 7},
		{"0.0000000000000000000000001", true, 0, 1},
		{"123456789012345678901234567890", true, math.MaxInt64, math.MaxInt64},
		{"", false, 0, 0},
		{"+3", false, 0, 0},
		{"1e3", false, 0, 0},
		{"1.", false, 0, 0},
		{".5", false, 0, 0},
		{"-", false, 0, 0},
		{"1 2", false, 0, 0},
		{"0x10", false, 0, 0},
		{"NaN", false, 0, 0},
		{"٣", false, 0, 0},
	} {
		d, ok := parseDecimal(c.text)
		if ok != c.ok || ok && (d.floor() != c.floor || d.ceil() != c.ceil) {
			t.Errorf("%q: %v %v, floor %d, ceil %d", c.text, d, ok, d.floor(), d.ceil())
		}
	}
}

// FuzzDecimal holds the numbers against exact ones: what does not fit is the nearest that does, and nothing wraps around.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1", "29.8", "9223372036854775807", "9223372036854775808.5", "0.000000000000000000001", "99999999999999999999999", "9010000000000010.1"} {
		f.Add(s, int64(50))
	}
	f.Fuzz(func(t *testing.T, text string, m int64) {
		d, ok := parseDecimal(text)
		if !ok {
			return
		}
		exact, valid := new(big.Rat).SetString(text)
		if !valid {
			t.Fatalf("%q is read as %v, but is no number", text, d)
		}
		if d.negative() != (exact.Sign() < 0) && exact.Sign() != 0 {
			t.Fatalf("%q: sign of %v", text, d)
		}
		if d.floor() > d.ceil() || uint64(d.ceil())-uint64(d.floor()) > 1 {
			t.Fatalf("%q: floor %d, ceil %d", text, d.floor(), d.ceil())
		}
		if d.negative() {
			return
		}
		want := new(big.Rat).Mul(exact, new(big.Rat).SetInt64(int64(time.Second)))
		if limit := new(big.Rat).SetInt64(math.MaxInt64); want.Cmp(limit) > 0 {
			want = limit
		}
		if got := new(big.Rat).SetInt64(d.timesCeil(int64(time.Second))); got.Cmp(want) < 0 {
			t.Fatalf("%q seconds are cut to %v", text, got)
		} else if len(text) < 18 && got.Sub(got, want).Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("%q seconds are prolonged by %v", text, got)
		}
		if m &= math.MaxInt64; d.percentOf(m) < 0 {
			t.Fatalf("%q%% of %d is %d", text, m, d.percentOf(m))
		}
	})
}

func TestHTTPDates(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()
	for _, c := range []struct {
		text string
		want string // "" where it is no date
	}{
		{"Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"},
		{"Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"},
		{"Tuesday, 01-Dec-26 03:05:03 GMT", "2026-12-01T03:05:03Z"},
		{"Monday, 30-Nov-76 00:00:00 GMT", "2076-11-30T00:00:00Z"}, // 50 years ahead, not more
		{"Monday, 30-Nov-76 00:00:01 GMT", "1976-11-30T00:00:01Z"},
		{"Tuesday, 29-Feb-00 00:00:00 GMT", "2000-02-29T00:00:00Z"},
		{"Friday, 01-Jan-99 00:00:00 GMT", "1999-01-01T00:00:00Z"},
		{"Sun, 06 Nov 1994 08:49:37 UTC", ""},
		{"06 Nov 1994 08:49:37 GMT", ""},
		{"Someday, 06-Nov-94 08:49:37 GMT", ""},
		{"Sun, 31 Feb 2026 08:49:37 GMT", ""},
		{"", ""},
		{"Sunday, 06-Nov-9x 08:49:37 GMT", ""},
		{"1994-11-06T08:49:37Z", ""},
	} {
		at, ok := parseHTTPDate(c.text, now)
		got := ""
		if ok {
			got = time.Unix(0, at).UTC().Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// FuzzHTTPDate agrees with net/http on years of four digits.
func FuzzHTTPDate(f *testing.F) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 9999 08:49:37 GMT", "Sun Nov  6 08:49:37 0001"} {
		f.Add(s, int64(1795996800e9))
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		at, ok := parseHTTPDate(text, now)
		theirs, err := http.ParseTime(text)
		twoDigits := strings.Count(text, "-") == 2
		if !twoDigits && ok != (err == nil) && !strings.HasSuffix(text, "GMT") {
			t.Fatalf("%q: %v, net/http says %v", text, ok, err)
		}
		if ok && err == nil && !twoDigits && at != instantNanos(theirs) {
			t.Fatalf("%q: %d, net/http says %v", text, at, theirs)
		}
		if ok && twoDigits && saturatedSub(at, now) > int64(51*366*24*time.Hour) && now > -5e18 {
			t.Fatalf("%q is %d, more than 50 years after %d", text, at, now)
		}
	})
}

func TestResets(t *testing.T) {
	const now = int64(1795996800e9)
	for _, c := range []struct {
		text, format string
		want         int64 // -1 for nonsense
	}{
		{"0", "", now},
		{"10", "", now + 10e9},
		{"1.5", "", now + 15e8},
		{"1000000000", "", now + 1e18},
		{"1795996837", "", 1795996837e9},
		{"1795996754000", "", 1795996754e9},
		{"-3", "", -1},
		{"soon", "", -1},
		{"1h2m", "", now + 3720e9},
		{"-1s", "", -1},
		{"Mon, 30 Nov 2026 00:01:00 GMT", "", 1795996860e9},
		{"2026-11-30T00:01:00Z", "", 1795996860e9},
		{"10", formatEpoch, 10e9},
		{"10", formatEpochMs, 10e6},
		{"1795996837", formatDelta, now + 1795996837e9},
		{"3", formatMinutes, now + 180e9},
		{"10", formatGoDuration, -1},
		{"10s", formatDelta, -1},
		{"10", formatRFC3339, -1},
		{"10", formatHTTPDate, -1},
		{"7, 7", "", now + 7e9},
		{"7, 9", "", now + 9e9},
		{"99999999999999999999", "", math.MaxInt64},
		{"9e9", "", -1},
	} {
		got, ok := parseReset(c.text, c.format, now)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%q as %q: %d, want %d", c.text, c.format, got, c.want)
		}
	}
}

// FuzzReset: whatever a header says, the instant fits, and a delay does not lie in the past.
func FuzzReset(f *testing.F) {
	formats := []string{"", formatEpoch, formatEpochMs, formatDelta, formatGoDuration, formatRFC3339, formatHTTPDate, formatMinutes}
	for i, s := range []string{"10", "1795996837", "1e30", "99999999999999999999999", "23h47m36.648s", "2026-11-30T00:01:00+14:00", "Sun Nov  6 08:49:37 1994", "9223372036854775807"} {
		f.Add(s, uint8(i), int64(1795996800e9))
	}
	f.Fuzz(func(t *testing.T, text string, format uint8, now int64) {
		form := formats[int(format)%len(formats)]
		at, ok := parseReset(text, form, now)
		if delay := form == formatDelta || form == formatMinutes || form == formatGoDuration; ok && delay && at < now {
			t.Fatalf("%q as %s at %d is %d", text, form, now, at)
		}
		if d, err := time.ParseDuration(text); ok && form == formatGoDuration && (err != nil || saturatedAdd(now, int64(d)) != at) {
			t.Fatalf("%q: %d", text, at)
		}
	})
}

// FuzzWait: a wait that is believed is above 0, and a number asks for at least that many seconds unless it is an instant.
func FuzzWait(f *testing.F) {
	for _, s := range []string{"0", "120", "0.3", "1634810400", "-5", "Wed, 18 Sep 2019 05:34:00 GMT", "123456789012345678901234567890", "3, 7"} {
		f.Add(s, "Wed, 18 Sep 2019 05:33:23 GMT", int64(1568784803e9), int64(24*time.Hour))
	}
	f.Fuzz(func(t *testing.T, text, date string, now, most int64) {
		wait, ok := parseWait(text, date, now, most)
		if ok && wait <= 0 {
			t.Fatalf("%q with Date %q at %d: wait %d", text, date, now, wait)
		}
		if d, isNumber := parseDecimal(text); ok && isNumber && wait != d.timesCeil(1e9) && (wait > most || d.floor() < 1e6 && now > 1e18) {
			t.Fatalf("%q at %d: wait %d", text, now, wait)
		}
	})
}

func TestListNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"100": 100, "100, 100;w=60": 100, "9, 5;w=1, 9;w=60": 9, "8, 6": 6, "7;w=60, 5;w=1": 5, "9,9": 9,
		`160, 160;w=1;name="a|b,c", 1620;w=60;name="m"`: 160, "5, x": -1, "": -1, ",": -1, "1;w=1, 2": 2, "4, -1": -1,
	} {
		d, ok := listNumber(text, smallest)
		got := d.floor()
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if d, _ := listNumber("3, 8, 5", largest); d.floor() != 8 {
		t.Errorf("the largest of 3, 8, 5 is %d", d.floor())
	}
}

// FuzzList: whatever a list holds, the careful member is one of them.
func FuzzList(f *testing.F) {
	for _, s := range []string{"100, 100;w=60", `160;name="a,b\",c", 5`, ",,,", "1;", `"`, "-1, 5", "3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, part := range splitList(text) {
			if strings.Trim(part, " \t") != part {
				t.Fatalf("%q is not trimmed", part)
			}
		}
		least, ok := listNumber(text, smallest)
		most, alsoOK := listNumber(text, largest)
		if ok != alsoOK || ok && !least.negative() && !most.negative() && most.less(least) {
			t.Fatalf("%q: smallest %v %v, largest %v %v", text, least, ok, most, alsoOK)
		}
	})
}

func TestPolicyItems(t *testing.T) {
	list := []Field{
		{"ratelimit", `"burst";r=4, "day";r=50;t=30`},
		{"RateLimit-Policy", `"day";q=100;w=86400, burst;q=5`},
		{"Broken", `"day";r=3, "burst`},
		{"Odd", `"day";r=-1, ("day");r=9, "x";r=1.5`},
		{"Twice", `"day";r=9`},
		{"twice", `"day";r=7`},
	}
	for _, c := range []struct {
		field, item, param string
		value              int64
		found, ok          bool
	}{
		{"RateLimit", "day", "r", 50, true, true},
		{"RateLimit", "day", "t", 30, true, true},
		{"RateLimit", "month", "r", 0, false, false},
		{"RateLimit-Policy", "burst", "q", 5, true, true},
		{"RateLimit-Policy", "day", "x", 0, false, false},
		{"Missing", "day", "r", 0, false, false},
		{"Broken", "day", "r", 0, true, false},
		{"Odd", "day", "r", 0, true, false},
		{"Odd", "x", "r", 0, true, false},
		{"Twice", "day", "r", 7, true, true},
	} {
		value, found, ok := policyItem(list, c.field, c.item, c.param)
		if value != c.value || found != c.found || ok != c.ok {
			t.Errorf("%s %s %s: %d %v %v, want %d %v %v", c.field, c.item, c.param, value, found, ok, c.value, c.found, c.ok)
		}
	}
}

// FuzzPolicy: what is read from the IETF fields is at least 0, and comes only from a field that is there.
func FuzzPolicy(f *testing.F) {
	for _, s := range []string{`"day";r=50;t=30`, `day;r=999999999999999`, `"day";r=50, "day";r=3`, `("day");r=1`, `"day";r=?1`, `"day"`} {
		f.Add(s, "day")
	}
	f.Fuzz(func(t *testing.T, text, item string) {
		value, found, ok := policyItem([]Field{{"RateLimit", text}}, "RateLimit", item, "r")
		if ok && (!found || value < 0) || !ok && value != 0 {
			t.Fatalf("%q: %d %v %v", text, value, found, ok)
		}
	})
}

// FuzzHeaders: no response, however odd, makes the engine panic, forget what it counts, or let a request go after a refusal.
func FuzzHeaders(f *testing.F) {
	config := validatetest.Config(f, oneLimit("kind: quota, max: 100, window: { period: hour }, costFrom: { header: A }, sync: { limitHeader: A, remainingHeader: B, "+
		"usedHeader: C, remainingPercentHeader: D, resetHeader: E, policy: day }", "  errors: { rateLimited: { retryAfter: { pattern: 'in ([0-9.]+)' } } }"))
	f.Add(429, "100", "99", "1", "50.5", "30", "-1", `"day";r=5;t=9`, "again in 5")
	f.Add(200, "1e9", "-5", "99999999999999999999", "101", "Sun Nov  6 08:49:37 1994", "18446744073709551616", `"day"`, "")
	f.Fuzz(func(t *testing.T, status int, a, b, c, d, e, retryAfter, policy, body string) {
		engine := New(config, Options{})
		now := int64(1795996800e9)
		for i := range int64(3) {
			now += i * 60e9
			ticket, granted, err := engine.ReserveRequest(now, plainRequest(), false, now)
			if err != nil {
				return
			}
			if !granted {
				t.Fatal("a quota makes nobody wait")
			}
			engine.Settle(now+1, ticket, &Response{Status: status, Body: body, Fields: []Field{
				{"A", a}, {"B", b}, {"C", c}, {"D", d}, {"E", e}, {"Retry-After", retryAfter}, {"RateLimit", policy}, {"RateLimit-Policy", policy},
			}})
			engine.Release(now+1, ticket)
			engine.Projections(now+2, func(p *Projection) {
				if p.Max < 0 || p.External < 0 || p.EndNanos <= p.StartNanos || math.IsNaN(p.ProjectedTotal) || math.IsInf(p.ProjectedTotal, 0) {
					t.Fatalf("%+v", p)
				}
			})
		}
	})
}
