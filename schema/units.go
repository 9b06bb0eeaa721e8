package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// Duration is a span of elapsed time. A day is 24 hours, a week 7 days and a year 365, whatever the calendar says.
type Duration time.Duration

// durationUnits are tried in this order: "ms" before "m".
var durationUnits = []struct {
	name string
	span time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"y", 365 * 24 * time.Hour},
}

const durationForm = "a number with a unit: ms, s, m, h, d, w or y, such as 90s or 1h30m"

// ParseDuration reads a duration such as 10m, 1h30m, 1.5h or 7d. The error says what is allowed. Spans of more than 100 years,
// negative ones and ones without a unit are errors.
func ParseDuration(text string) (Duration, error) {
	rest, total := text, new(big.Rat)
	if rest == "" {
		return 0, fmt.Errorf("duration is empty, want %s", durationForm)
	}
	for rest != "" {
		digits := leadingNumber(rest)
		if digits == "" {
			return 0, fmt.Errorf("duration %q: want %s", text, durationForm)
		}
		rest = rest[len(digits):]
		span, width := durationUnit(rest)
		if width == 0 {
			return 0, fmt.Errorf("duration %q has no known unit after %s, want %s", text, digits, durationForm)
		}
		rest = rest[width:]
		value, ok := new(big.Rat).SetString(digits)
		if !ok {
			return 0, fmt.Errorf("duration %q: want %s", text, durationForm)
		}
		total.Add(total, value.Mul(value, new(big.Rat).SetInt64(int64(span))))
	}
	if total.Cmp(big.NewRat(int64(100*365*24*time.Hour), 1)) > 0 {
		return 0, fmt.Errorf("duration %q is longer than 100 years", text)
	}
	nanos := new(big.Int).Quo(total.Num(), total.Denom())
	return Duration(nanos.Int64()), nil
}

// leadingNumber is the longest prefix of the form N or N.N, at most 20 characters long.
func leadingNumber(s string) string {
	i := countDigits(s)
	if i == 0 {
		return ""
	}
	if i+1 < len(s) && s[i] == '.' {
		if n := countDigits(s[i+1:]); n > 0 {
			i += 1 + n
		}
	}
	if i > 20 {
		return ""
	}
	return s[:i]
}

func countDigits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func durationUnit(s string) (span time.Duration, width int) {
	for _, u := range durationUnits {
		if strings.HasPrefix(s, u.name) {
			return u.span, len(u.name)
		}
	}
	return 0, 0
}

// String writes the duration with the largest units that divide it, such as 1h30m; 0 is 0s.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	if d == math.MinInt64 {
		d++ // its negative does not fit; a nanosecond is not shown at this size
	}
	if d < 0 {
		return "-" + (-d).String()
	}
	var b strings.Builder
	rest := time.Duration(d)
	for i := len(durationUnits) - 3; i >= 2; i-- { // d, h, m; weeks and years read worse than days
		if n := int64(rest / durationUnits[i].span); n > 0 {
			fmt.Fprintf(&b, "%d%s", n, durationUnits[i].name)
			rest %= durationUnits[i].span
		}
	}
	if rest > 0 {
		// Not by way of a float: 1.122 s must not become 1.1219999999999999s.
		seconds := fmt.Sprintf("%d.%09d", rest/time.Second, rest%time.Second)
		b.WriteString(strings.TrimRight(strings.TrimRight(seconds, "0"), ".") + "s")
	}
	return b.String()
}

// DurationOf is the duration of so many seconds, to the nanosecond; the longest there is where they are more.
func DurationOf(seconds float64) Duration {
	nanos := math.Round(seconds * float64(time.Second))
	switch {
	case math.IsNaN(nanos):
		return 0
	case nanos >= math.MaxInt64:
		return math.MaxInt64
	case nanos <= -math.MaxInt64:
		return -math.MaxInt64
	}
	return Duration(nanos)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	*d = v
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Or is the duration, or what holds where none was written.
func (d *Duration) Or(fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return time.Duration(*d)
}

// Rate is a number of requests in a span: Count in every Per.
type Rate struct {
	// Count is exact and above 0.
	Count Decimal
	// Per is above 0.
	Per time.Duration
	// text is as written.
	text string
}

const rateForm = "N/s, N/m, N/h, N/d or N/DURATION, such as 10/s or 1/90s"

// slowest is the lowest rate, in requests a second: one in 100 years, the longest duration.
const slowest = 1.0 / (100 * 365 * 86400)

// ParseRate reads a rate such as 10/s, 27.4/m or 1/90s. A count of 0 is an error: a limit that lets nothing through is better
// not called.
func ParseRate(text string) (Rate, error) {
	count, per, found := strings.Cut(text, "/")
	if !found {
		return Rate{}, fmt.Errorf("rate %q: want %s", text, rateForm)
	}
	spanText := per
	if countDigits(per) == 0 {
		spanText = "1" + per
	}
	span, err := ParseDuration(spanText)
	if err != nil {
		return Rate{}, fmt.Errorf("rate %q: %q is not a span, want %s", text, per, rateForm)
	}
	n, err := ParseDecimal(count)
	if err != nil || leadingNumber(count) != count {
		return Rate{}, fmt.Errorf("rate %q: %q is not a count, want %s", text, count, rateForm)
	}
	if n.Sign() <= 0 || span <= 0 {
		return Rate{}, fmt.Errorf("rate %q lets nothing through; want %s with a count and a span above 0", text, rateForm)
	}
	if n.Float64()/time.Duration(span).Seconds() < slowest {
		return Rate{}, fmt.Errorf("rate %q is less than one request in 100 years", text)
	}
	if n.Float64() > 1e12 {
		return Rate{}, fmt.Errorf("rate %q is above 1000000000000", text)
	}
	return Rate{Count: n, Per: time.Duration(span), text: text}, nil
}

// PerSecond is the rate in requests a second.
func (r Rate) PerSecond() float64 { return r.Count.Float64() / r.Per.Seconds() }

// WholePerSecond is the whole number of requests that one second lets through, exactly.
func (r Rate) WholePerSecond() int64 {
	v := r.Count.Rat()
	v.Mul(v, big.NewRat(int64(time.Second), int64(r.Per)))
	return new(big.Int).Quo(v.Num(), v.Denom()).Int64()
}

// String is the rate as it was written.
func (r Rate) String() string {
	if r.text != "" {
		return r.text
	}
	return r.Count.String() + "/" + Duration(r.Per).String()
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := ParseRate(string(text))
	*r = v
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Decimal is an exact decimal number. The zero value is 0.
type Decimal struct{ v apd.Decimal }

// ParseDecimal reads a decimal number such as 0.29. Infinities, not-a-number, more than 30 digits before the point or in all, and
// more than 30 decimals are errors.
func ParseDecimal(text string) (Decimal, error) {
	var d Decimal
	_, _, err := d.v.SetString(text)
	if err != nil || d.v.Form != apd.Finite {
		return Decimal{}, fmt.Errorf("%q is not a decimal number", text)
	}
	const most = 30
	if d.v.NumDigits()+int64(max(d.v.Exponent, 0)) > most || d.v.Exponent < -most {
		return Decimal{}, fmt.Errorf("%q has more than 30 digits", text)
	}
	return d, nil
}

// DecimalOf is the decimal with this value; whole numbers and short fractions are exact.
func DecimalOf(f float64) Decimal {
	d, err := ParseDecimal(strconv.FormatFloat(f, 'f', -1, 64))
	if err != nil {
		panic(err) // the callers' constants are finite
	}
	return d
}

// Rat is the exact value.
func (d Decimal) Rat() *big.Rat {
	r, ok := new(big.Rat).SetString(d.v.Text('E'))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// MulFloor is floor(m * d), exactly: 100 * 0.29 is 29, where binary floating point says 28.
func (d Decimal) MulFloor(m int64) int64 {
	if scale := -d.v.Exponent; m >= 0 && scale >= 0 && scale <= 18 && d.v.Sign() >= 0 && d.v.Coeff.IsUint64() {
		high, low := bits.Mul64(uint64(m), d.v.Coeff.Uint64())
		if divisor := powersOfTen[scale]; high < divisor {
			if q, _ := bits.Div64(high, low, divisor); q <= math.MaxInt64 {
				return int64(q)
			}
		}
	}
	r := d.Rat()
	r.Mul(r, new(big.Rat).SetInt64(m))
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rem.Sign() < 0 {
		q.Sub(q, big.NewInt(1))
	}
	return q.Int64()
}

// powersOfTen are those that fit 64 bits.
var powersOfTen = func() (powers [19]uint64) {
	powers[0] = 1
	for i := 1; i < len(powers); i++ {
		powers[i] = powers[i-1] * 10
	}
	return powers
}()

// Float64 is the nearest binary number.
func (d Decimal) Float64() float64 {
	// Both sides are exact in binary, so that the quotient is the nearest number (W. D. Clinger, How to read floating point
	// numbers accurately, 1990).
	if scale := -d.v.Exponent; scale >= 0 && scale < int32(len(powersOfTen)) && d.v.Coeff.IsUint64() && d.v.Coeff.Uint64() < 1<<53 {
		f := float64(d.v.Coeff.Uint64()) / float64(powersOfTen[scale])
		if d.v.Negative {
			return -f
		}
		return f
	}
	f, _ := d.Rat().Float64()
	return f
}

// Sign is -1, 0 or 1.
func (d Decimal) Sign() int { return d.v.Sign() }

// Cmp is -1, 0 or 1.
func (d Decimal) Cmp(o Decimal) int { return d.v.Cmp(&o.v) }

// String writes the number without an exponent.
func (d Decimal) String() string { return d.v.Text('f') }

// Or is the decimal, or what holds where none was written.
func (d *Decimal) Or(fallback Decimal) Decimal {
	if d == nil {
		return fallback
	}
	return *d
}

// UnmarshalJSON reads a number, or a text that holds one.
func (d *Decimal) UnmarshalJSON(data []byte) error {
	v, err := ParseDecimal(strings.Trim(string(data), `"`))
	*d = v
	return err
}

// MarshalJSON writes a number.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// Amount is an exact amount of money or of a vendor's units, written as a text so that no reader rounds it. It keeps the number
// of decimals that it was written with.
type Amount struct{ apd.Decimal }

// ParseAmount reads an amount: digits with or without decimals, finite and not negative.
func ParseAmount(text string) (Amount, error) {
	if leadingAmount := len(text) > 0 && len(text) <= 60 && strings.Trim(text, "0123456789.") == ""; !leadingAmount {
		return Amount{}, fmt.Errorf("amount %q: want digits with or without decimals, such as \"12.50\"", text)
	}
	var a Amount
	if _, _, err := a.SetString(text); err != nil {
		return Amount{}, fmt.Errorf("amount %q: want digits with or without decimals, such as \"12.50\"", text)
	}
	return a, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) error {
	v, err := ParseAmount(string(text))
	*a = v
	return err
}

// Max is the maximum of a quota or of requests in flight: a number, auto, or a number by a variable of the account.
type Max struct {
	// Auto means that the vendor tells it in a header.
	Auto bool
	// Number is the maximum where it is a number.
	Number int64
	// ByVar is the account's variable that decides.
	ByVar string
	// Values are the maxima by the variable's value.
	Values map[string]int64
}

// maxByVar is the third form of Max.
type maxByVar struct {
	ByVar  string           `json:"byVar"`
	Values map[string]int64 `json:"values"`
}

// UnmarshalJSON reads any of the three forms.
func (m *Max) UnmarshalJSON(data []byte) error {
	*m = Max{}
	var form maxByVar
	switch {
	case string(data) == `"auto"`:
		m.Auto = true
	case json.Unmarshal(data, &m.Number) == nil:
	case json.Unmarshal(data, &form) == nil:
		m.ByVar, m.Values = form.ByVar, form.Values
	default:
		return fmt.Errorf("max %s: want a whole number, auto, or byVar with values", data)
	}
	return nil
}

// MarshalJSON writes the form that the maximum was declared in.
func (m Max) MarshalJSON() ([]byte, error) {
	switch {
	case m.Auto:
		return []byte(`"auto"`), nil
	case m.ByVar != "":
		return json.Marshal(maxByVar{m.ByVar, m.Values})
	}
	return json.Marshal(m.Number)
}

// Header says where in a response's headers a value stands, and how to read it. A name alone is the short form.
type Header struct {
	// Name is the header's name, in any case.
	Name string `json:"name"`
	// Index picks one of several values that are separated by commas, from 0.
	Index *int `json:"index,omitempty"`
	// Pattern is a regular expression (RE2) with one group that captures the value.
	Pattern string `json:"pattern,omitempty"`
	// Format says how a reset is written.
	Format string `json:"format,omitempty"`
}

// headerLong is Header without its methods.
type headerLong Header

// UnmarshalJSON reads a name or the long form.
func (h *Header) UnmarshalJSON(data []byte) error {
	*h = Header{}
	if json.Unmarshal(data, &h.Name) == nil {
		return nil
	}
	return json.Unmarshal(data, (*headerLong)(h))
}

// MarshalJSON writes the short form where it says all.
func (h Header) MarshalJSON() ([]byte, error) {
	if h.Index == nil && h.Pattern == "" && h.Format == "" {
		return json.Marshal(h.Name)
	}
	return json.Marshal(headerLong(h))
}
