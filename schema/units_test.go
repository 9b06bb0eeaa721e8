package schema

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
)

// CF-09: days and weeks, and what must never be read as something else.
func TestFieldDurations(t *testing.T) {
	var input struct {
		Each []string `json:"each"`
	}
	var expected struct {
		Seconds []any `json:"seconds"`
	}
	golden.Case(t, "CF-09", &input, &expected)
	if len(input.Each) == 0 || len(input.Each) != len(expected.Seconds) {
		t.Fatalf("%d inputs, %d results", len(input.Each), len(expected.Seconds))
	}
	for i, text := range input.Each {
		d, err := ParseDuration(text)
		want, isNumber := expected.Seconds[i].(float64)
		switch {
		case isNumber && (err != nil || time.Duration(d).Seconds() != want):
			t.Errorf("%q: %v, %v; want %v seconds", text, d, err, want)
		case !isNumber && err == nil:
			t.Errorf("%q gives %v; want %v", text, d, expected.Seconds[i])
		}
	}
}

func TestParseDuration(t *testing.T) {
	tests := map[string]time.Duration{
		"0s": 0, "1ms": time.Millisecond, "1m": time.Minute, "2w": 14 * 24 * time.Hour, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"0.0001s": 100 * time.Microsecond, "30m1h": 90 * time.Minute, "36500d": 36500 * 24 * time.Hour,
	}
	for text, want := range tests {
		if d, err := ParseDuration(text); err != nil || time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, d, err, want)
		}
	}
	for _, bad := range []string{
		"", " ", "s", "5", "-5s", "+5s", "5S", "5 s", "5s ", "1e3s", "0x1s", ".5s", "5.s", "1.5", "1mo", "1us", "1µs", "36501d", "99999999999w",
		"1s1", strings.Repeat("9", 30) + "s", "٣s",
	} {
		if d, err := ParseDuration(bad); err == nil {
			t.Errorf("%q gives %v", bad, d)
		} else if msg := err.Error(); len(msg) > 500 || !strings.Contains(msg, "duration") {
			t.Errorf("%q: unclear message %q", bad, msg)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		millis := rapid.Int64Range(0, 50*365*24*3600*1000).Draw(t, "millis")
		if rapid.Bool().Draw(t, "whole") {
			millis -= millis % 60_000
		}
		d := Duration(millis) * Duration(time.Millisecond)
		again, err := ParseDuration(d.String())
		if err != nil || again != d {
			t.Fatalf("%d ms is written %q and read as %v, %v", millis, d, again, err)
		}
	})
}

func TestDurationString(t *testing.T) {
	tests := map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Minute: "1h30m", 24 * time.Hour: "1d", 7 * 24 * time.Hour: "7d", 1500 * time.Millisecond: "1.5s",
		25*time.Hour + time.Second: "1d1h1s", -time.Minute: "-1m", time.Millisecond: "0.001s",
	}
	for d, want := range tests {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

func TestParseRate(t *testing.T) {
	tests := map[string]struct {
		perSecond float64
		whole     int64
	}{
		"10/s": {10, 10}, "27.4/m": {27.4 / 60, 0}, "1/90s": {1.0 / 90, 0}, "3/1.5s": {2, 2}, "100/1m30s": {100.0 / 90, 1}, "1/d": {1.0 / 86400, 0},
		"0.5/s": {0.5, 0}, "5/ms": {5000, 5000}, "29/10s": {2.9, 2},
	}
	for text, want := range tests {
		r, err := ParseRate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := r.PerSecond(); got < want.perSecond*(1-1e-12) || got > want.perSecond*(1+1e-12) {
			t.Errorf("%q is %v a second, want %v", text, got, want.perSecond)
		}
		if r.WholePerSecond() != want.whole || r.String() != text {
			t.Errorf("%q: whole %d, written %q", text, r.WholePerSecond(), r)
		}
	}
	for _, bad := range []string{"", "10", "10/", "/s", "0/s", "10/0s", "-1/s", "10/sec", "10/S", "1e3/s", "10/s/s", "1/10", "nan/s", "2000000000000/s", "10 / s", "10/1 s", "0.0000000001/s", "1/101y"} {
		if r, err := ParseRate(bad); err == nil {
			t.Errorf("%q gives %v", bad, r)
		}
	}
}

func TestRateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{Count: DecimalOf(float64(rapid.Int64Range(1, 1e9).Draw(t, "count"))), Per: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "per")) * time.Millisecond}
		again, err := ParseRate(r.String())
		if err != nil || again.Count.Cmp(r.Count) != 0 || again.Per != r.Per {
			t.Fatalf("%q is read as %v in %v, %v", r, again.Count, again.Per, err)
		}
		// The twin: floor(count * second / per) over exact rationals.
		exact := new(big.Rat).Mul(r.Count.Rat(), big.NewRat(int64(time.Second), int64(r.Per)))
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		if r.WholePerSecond() != whole.Int64() {
			t.Fatalf("%q: whole %d, want %s", r, r.WholePerSecond(), whole)
		}
	})
}

// Binary floating point says floor(100 * 0.29) = 28.
func TestMulFloorIsExact(t *testing.T) {
	if got := DecimalOf(0.29).MulFloor(100); got != 29 {
		t.Errorf("floor(100 * 0.29) is %d", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		thousandths := rapid.Int64Range(-2000, 2000).Draw(t, "thousandths")
		m := rapid.Int64Range(0, 1e15).Draw(t, "m")
		d, err := ParseDecimal(big.NewRat(thousandths, 1000).FloatString(3))
		if err != nil {
			t.Fatal(err)
		}
		product := new(big.Int).Mul(big.NewInt(m), big.NewInt(thousandths))
		want := new(big.Int).Div(product, big.NewInt(1000)) // Euclidean: rounds down for a positive divisor
		if got := d.MulFloor(m); got != want.Int64() {
			t.Fatalf("floor(%d * %s) is %d, want %s", m, d, got, want)
		}
	})
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]string{"0.29": "0.29", "1e3": "1000", "-0.5": "-0.5", "10": "10", "1E-3": "0.001"} {
		if d, err := ParseDecimal(text); err != nil || d.String() != want {
			t.Errorf("%q: %s, %v; want %s", text, d, err, want)
		}
	}
	for _, bad := range []string{"", "x", "NaN", "Infinity", "-Inf", "1e31", "1e-31", strings.Repeat("1", 31), "1e999999999"} {
		if d, err := ParseDecimal(bad); err == nil {
			t.Errorf("%q gives %s", clip(bad), d)
		}
	}
}

func TestAmountsKeepTheirDecimals(t *testing.T) {
	for _, text := range []string{"0", "12.50", "0.10", "20000", "0.000000000000000000000000001"} {
		a, err := ParseAmount(text)
		if err != nil || a.Text('f') != text {
			t.Errorf("%q: %s, %v", text, a.Text('f'), err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "1e3", "NaN", "1.2.3", ".", "1,000", " 1", strings.Repeat("1", 61)} {
		if a, err := ParseAmount(bad); err == nil {
			t.Errorf("%q gives %s", bad, a.Text('f'))
		}
	}
}

func TestMaxForms(t *testing.T) {
	tests := map[string]Max{
		`5000`:   {Number: 5000},
		`"auto"`: {Auto: true},
		`{"byVar":"plan","values":{"a":1,"b":2}}`: {ByVar: "plan", Values: map[string]int64{"a": 1, "b": 2}},
	}
	for text, want := range tests {
		var got Max
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Auto != want.Auto || got.Number != want.Number || got.ByVar != want.ByVar || len(got.Values) != len(want.Values) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != text {
			t.Errorf("%s is written %s, %v", text, again, err)
		}
	}
	var got Max
	if err := json.Unmarshal([]byte(`"lots"`), &got); err == nil {
		t.Errorf("a word gives %+v", got)
	}
}

func TestHeaderForms(t *testing.T) {
	for _, text := range []string{`"X-Remaining"`, `{"name":"X-Usage","index":0}`, `{"name":"X","pattern":"(\\d+)","format":"epoch"}`} {
		var h Header
		if err := json.Unmarshal([]byte(text), &h); err != nil || h.Name == "" {
			t.Errorf("%s: %+v, %v", text, h, err)
		}
		if again, err := json.Marshal(h); err != nil || string(again) != text {
			t.Errorf("%s is written %s, %v", text, again, err)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, seed := range []string{"1h30m", "10/s", "27.4/m", "0.29", "12.50", "1/90s", "-1", "9999999999w", "1e30", "/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil && (d < 0 || d > Duration(100*365*24*time.Hour)) {
			t.Errorf("duration %q is %d", text, d)
		}
		if r, err := ParseRate(text); err == nil && (r.PerSecond() <= 0 || r.Per <= 0 || r.WholePerSecond() < 0) {
			t.Errorf("rate %q is %v a second", text, r.PerSecond())
		}
		if d, err := ParseDecimal(text); err == nil {
			if again, err := ParseDecimal(d.String()); err != nil || again.Cmp(d) != 0 {
				t.Errorf("decimal %q is written %q: %v", text, d, err)
			}
		}
		if a, err := ParseAmount(text); err == nil && a.Sign() < 0 {
			t.Errorf("amount %q is %s", text, a.Text('f'))
		}
	})
}
