package book

import (
	"fmt"

	"github.com/cockroachdb/apd/v3"
)

// Units is an exact amount of a policy's unit: money, or whatever a vendor counts in. It is never rounded, and it keeps the
// number of decimals that it was written with: a sum has as many as the longest of its parts. The zero value is 0. Units are
// values; no method changes one.
type Units struct{ d apd.Decimal }

// exact traps everything that would change an amount. 400 digits are more than any sum of amounts that ParseUnits accepts
// can have, so the traps are a proof, not a case to handle.
var exact = apd.Context{
	Precision:   400,
	MaxExponent: 4000,
	MinExponent: -4000,
	Traps: apd.SystemOverflow | apd.SystemUnderflow | apd.Overflow | apd.Underflow | apd.Inexact | apd.Subnormal |
		apd.InvalidOperation,
}

// maxUnitsDigits and maxUnitsExponent bound what ParseUnits accepts.
const (
	maxUnitsDigits   = 60
	maxUnitsExponent = 60
)

// UnitsError is an amount that cannot be spent.
type UnitsError struct {
	// Text is the amount as it was given.
	Text string
	// Reason says what is wrong with it.
	Reason string
}

// Error quotes the amount and says what is allowed.
func (e *UnitsError) Error() string {
	return fmt.Sprintf("amount %q %s; want a decimal number that is not negative, such as \"12.50\"", e.Text, e.Reason)
}

// ParseUnits reads an amount: digits with or without decimals and exponent. Negative amounts (-0 too), infinities, not-a-number
// and amounts with more than 60 digits or an exponent beyond 60 are a *UnitsError: a negative amount would refill a budget, and
// a comparison with not-a-number never says no.
func ParseUnits(text string) (Units, error) {
	if len(text) > 4*maxUnitsDigits {
		return Units{}, &UnitsError{text[:maxUnitsDigits] + "...", "is too long"}
	}
	var u Units
	if _, _, err := u.d.SetString(text); err != nil {
		return Units{}, &UnitsError{text, "is not a number"}
	}
	return checkUnits(text, u)
}

// UnitsOf is the amount of a decimal, within the bounds of ParseUnits.
func UnitsOf(d *apd.Decimal) (Units, error) {
	var u Units
	u.d.Set(d)
	return checkUnits(d.String(), u)
}

func checkUnits(text string, u Units) (Units, error) {
	switch {
	case u.d.Form != apd.Finite:
		return Units{}, &UnitsError{text, "is not finite"}
	case u.d.Negative:
		return Units{}, &UnitsError{text, "is negative"}
	case u.d.NumDigits() > maxUnitsDigits:
		return Units{}, &UnitsError{text, "has more than 60 digits"}
	case u.d.Exponent > maxUnitsExponent || u.d.Exponent < -maxUnitsExponent:
		return Units{}, &UnitsError{text, "has an exponent beyond 60"}
	}
	return u, nil
}

// RestoreUnits reads what String wrote; sums and differences, which may be longer than ParseUnits accepts or negative, too.
func RestoreUnits(text string) (Units, error) {
	var u Units
	if _, _, err := u.d.SetString(text); err != nil || u.d.Form != apd.Finite {
		return Units{}, &UnitsError{text, "is not a number"}
	}
	return u, nil
}

// Add is u + v.
func (u Units) Add(v Units) Units {
	if u.d.Negative || v.d.Negative {
		return must(exact.Add, u, v)
	}
	var w Units
	x, y, ok := aligned(&u, &v, &w.d)
	if !ok {
		return must(exact.Add, u, v)
	}
	w.d.Coeff.Add(x, y)
	return w
}

// Sub is u - v. It may be negative.
func (u Units) Sub(v Units) Units {
	if u.d.Negative || v.d.Negative {
		return must(exact.Sub, u, v)
	}
	var w Units
	x, y, ok := aligned(&u, &v, &w.d)
	if !ok || x.Cmp(y) < 0 {
		return must(exact.Sub, u, v)
	}
	w.d.Coeff.Sub(x, y)
	return w
}

// aligned are the coefficients of two amounts for the smaller of their exponents, which it puts into w: what a sum of amounts that
// are not negative needs, without the contexts and the traps of general arithmetic. ok is false where the exponents are far apart.
func aligned(u, v *Units, w *apd.Decimal) (x, y *apd.BigInt, ok bool) {
	x, y, w.Exponent = &u.d.Coeff, &v.d.Coeff, u.d.Exponent
	switch apart := u.d.Exponent - v.d.Exponent; {
	case apart == 0:
	case apart > 0 && apart < int32(len(tens)):
		x, w.Exponent = new(apd.BigInt).Mul(x, tens[apart]), v.d.Exponent
	case apart < 0 && -apart < int32(len(tens)):
		y = new(apd.BigInt).Mul(y, tens[-apart])
	default:
		return nil, nil, false
	}
	return x, y, true
}

// tens are the powers of ten that an int64 holds.
var tens = func() (powers [19]*apd.BigInt) {
	n := int64(1)
	for i := range powers {
		powers[i] = apd.NewBigInt(n)
		n *= 10 // beyond the last it would overflow, and is not used
	}
	return powers
}()

// Mul is u * v.
func (u Units) Mul(v Units) Units { return must(exact.Mul, u, v) }

func must(op func(d, x, y *apd.Decimal) (apd.Condition, error), u, v Units) Units {
	var w Units
	if _, err := op(&w.d, &u.d, &v.d); err != nil {
		panic(fmt.Sprintf("amounts %s and %s: %v", u, v, err)) // see exact: no amount in a book is that large
	}
	return w
}

// Cmp is -1, 0 or 1: u less than, equal to or greater than v. 2.50 equals 2.5.
func (u Units) Cmp(v Units) int { return u.d.Cmp(&v.d) }

// Sign is -1, 0 or 1.
func (u Units) Sign() int { return u.d.Sign() }

// Decimal is a copy for arithmetic outside.
func (u Units) Decimal() *apd.Decimal { return new(apd.Decimal).Set(&u.d) }

// String writes the amount as Python's decimal module does: 3.50, 0.0000001 as 1E-7, and 1E+1 where it was written so.
func (u Units) String() string {
	if e := u.d.Exponent; u.d.IsZero() && (e < -6 || e > 0) {
		return fmt.Sprintf("0E%+d", e) // apd writes such a zero with all its decimals
	}
	return u.d.Text('G')
}

// MarshalText is String.
func (u Units) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText is RestoreUnits.
func (u *Units) UnmarshalText(text []byte) error {
	v, err := RestoreUnits(string(text))
	*u = v
	return err
}
