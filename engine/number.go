package engine

import (
	"math"
	"math/bits"
	"strings"
)

// decimal is a number that a vendor wrote: mantissa / 10^scale. What an int64 cannot hold is the nearest that it can, so nothing
// that is computed from one overflows.
type decimal struct {
	mantissa int64
	scale    uint8 // at most maxScale
}

const maxScale = 18

var pow10 = [...]int64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}

// parseDecimal reads digits with or without decimals and a minus sign. Everything else is no number: a plus sign, an exponent,
// words, nothing. Digits beyond the eighteenth decimal are rounded up, so that a wait is never cut short.
func parseDecimal(text string) (d decimal, ok bool) {
	if len(text) <= 18 && allDigits(text) { // nearly always
		for i := range len(text) {
			d.mantissa = d.mantissa*10 + int64(text[i]-'0')
		}
		return d, true
	}
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	if !allDigits(whole) || dotted && !allDigits(fraction) {
		return decimal{}, false
	}
	for i := range len(whole) {
		d.mantissa = appendDigit(d.mantissa, whole[i])
	}
	for i := range len(fraction) {
		if d.scale == maxScale || d.mantissa > math.MaxInt64/10-10 {
			if strings.Trim(fraction[i:], "0") != "" && d.mantissa < math.MaxInt64 {
				d.mantissa++
			}
			break
		}
		d.mantissa = appendDigit(d.mantissa, fraction[i])
		d.scale++
	}
	if len(digits) < len(text) {
		d.mantissa = -d.mantissa
	}
	return d, true
}

func appendDigit(n int64, digit byte) int64 {
	if n > math.MaxInt64/10-10 {
		return math.MaxInt64
	}
	return n*10 + int64(digit-'0')
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// floor is the largest whole number not above d.
func (d decimal) floor() int64 {
	q := d.mantissa / pow10[d.scale]
	if d.mantissa%pow10[d.scale] < 0 {
		q--
	}
	return q
}

// ceil is the smallest whole number not below d.
func (d decimal) ceil() int64 {
	q := d.mantissa / pow10[d.scale]
	if d.mantissa%pow10[d.scale] > 0 {
		q++
	}
	return q
}

// negative tells whether the number is below 0.
func (d decimal) negative() bool { return d.mantissa < 0 }

// timesCeil is d * factor, rounded up; d must not be negative. What does not fit is the largest that does.
func (d decimal) timesCeil(factor int64) int64 {
	hi, lo := bits.Mul64(uint64(d.mantissa), uint64(factor))
	lo, carry := bits.Add64(lo, uint64(pow10[d.scale]-1), 0)
	return quotient(hi+carry, lo, uint64(pow10[d.scale]))
}

// percentOf is floor(m * d / 100); neither may be negative.
func (d decimal) percentOf(m int64) int64 {
	if d.scale > maxScale-2 { // more digits than a percentage of any count can show
		d = decimal{d.mantissa / 100, d.scale - 2}
	}
	hi, lo := bits.Mul64(uint64(m), uint64(d.mantissa))
	return quotient(hi, lo, uint64(pow10[d.scale+2]))
}

// quotient is (hi, lo) / divisor, rounded down, held to int64.
func quotient(hi, lo, divisor uint64) int64 {
	if hi >= divisor {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, divisor)
	return int64(min(q, math.MaxInt64))
}

// less orders two numbers that are not negative.
func (d decimal) less(o decimal) bool {
	dHi, dLo := bits.Mul64(uint64(d.mantissa), uint64(pow10[o.scale]))
	oHi, oLo := bits.Mul64(uint64(o.mantissa), uint64(pow10[d.scale]))
	return dHi < oHi || dHi == oHi && dLo < oLo
}
