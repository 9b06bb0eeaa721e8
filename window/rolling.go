package window

import (
	"math"
	"math/bits"
	"time"
)

const (
	// bucketsPerWindow divides the windows shorter than an hour.
	bucketsPerWindow = 60
	bucketNanos      = int64(time.Minute)
)

// Buckets divides time, for a rolling window of length W, into the buckets in
// which its units are counted: a sixtieth of W, but at most one minute. They
// are aligned to the Unix epoch and numbered from it. A sixtieth of W need not
// be a whole number of nanoseconds, and a length cut to one would drift by a
// bucket a day: numbers and starts are computed in 128 bits instead.
type Buckets struct {
	lengthNanos int64 // of the window
}

// Number is the bucket that holds the instant: floor(60*t/W) for a window
// shorter than an hour, and floor(t / 1 min) for others. Any instant will do;
// those before 1970 have negative numbers.
func (b Buckets) Number(nanos int64) int64 {
	if b.lengthNanos >= bucketsPerWindow*bucketNanos {
		return floorDiv(nanos, bucketNanos)
	}
	// W >= MinLength: the quotient always fits.
	return mulDivFloor(nanos, bucketsPerWindow, b.lengthNanos)
}

// StartNanos is the first instant of a bucket, rounded up to a nanosecond: the
// smallest t with Number(t) == number. A bucket ends where the next one
// starts. A start that an int64 cannot hold is the nearest one that it can.
func (b Buckets) StartNanos(number int64) int64 {
	numerator, denominator := b.lengthNanos, int64(bucketsPerWindow)
	if b.lengthNanos >= bucketsPerWindow*bucketNanos {
		numerator, denominator = bucketNanos, 1
	}
	if number == math.MinInt64 { // has no negative
		return math.MinInt64
	}
	// ceil(x) = -floor(-x)
	return -mulDivFloor(-number, numerator, denominator)
}

// mulDivFloor is floor(a*m/d), exact for m >= 0 and d > 0, and held within
// -MaxInt64..MaxInt64.
func mulDivFloor(a, m, d int64) int64 {
	negative := a < 0
	magnitude := uint64(a)
	if negative {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, uint64(m))
	if hi >= uint64(d) { // the quotient has more than 64 bits
		return saturated(negative)
	}
	quotient, remainder := bits.Div64(hi, lo, uint64(d))
	if negative && remainder > 0 {
		quotient++
	}
	switch {
	case quotient > math.MaxInt64:
		return saturated(negative)
	case negative:
		return -int64(quotient)
	default:
		return int64(quotient)
	}
}

func saturated(negative bool) int64 {
	if negative {
		return -math.MaxInt64
	}
	return math.MaxInt64
}
