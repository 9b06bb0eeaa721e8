// Package window says when a quota window starts and ends.
//
// A Spec is a window as people declare it; Compile checks it, loads its time
// zone once and returns a Schedule, which maps every instant to the Window
// that holds it. Windows are half open, [start, end), so that the instant of a
// turn belongs to the new window and to no other.
//
// The package reads no clock: instants come in as arguments, and what comes
// out is in UTC. It reads time zones through time.LoadLocation, from the
// system's database or, where a program imports time/tzdata for its side
// effect, from the copy in the binary. Programs should import it; this package
// leaves the choice to them.
package window

import (
	"math"
	"time"
)

const (
	// MinNanos bounds, with MaxNanos, the instants for which a Schedule computes
	// windows: 1700-01-01 up to, but not including, 2250-01-01, in nanoseconds
	// since the Unix epoch. An instant outside counts as the nearest one
	// inside, so nothing overflows; Window.Contains then says that the window
	// does not hold it. An int64 of nanoseconds reaches from 1677 to 2262: the
	// years between are room for a window of MaxLength at either end.
	MinNanos int64 = -8520336000 * nanosPerSecond
	// MaxNanos is the first instant after those; see MinNanos.
	MaxNanos int64 = 8835955200 * nanosPerSecond

	nanosPerSecond = int64(time.Second)
)

// Window is a quota window, the half-open interval [Start, End). Both are in
// UTC. It costs nothing to keep: a caller with many instants in order asks
// Contains first, and the Schedule only when the answer is no.
type Window struct {
	Start time.Time
	End   time.Time
}

// Contains reports whether the window holds t: not before Start, before End.
func (w Window) Contains(t time.Time) bool {
	return w.Span().Contains(saturatedNanos(t))
}

// Length is the time from Start to End. For a day it may be 23 hours, or 25.
func (w Window) Length() time.Duration { return w.End.Sub(w.Start) }

// Span is the same window in nanoseconds. An end before 1678 or after 2262,
// which no Schedule returns, becomes the smallest or the largest int64.
func (w Window) Span() Span {
	return Span{StartNanos: saturatedNanos(w.Start), EndNanos: saturatedNanos(w.End)}
}

// Span is a window in nanoseconds since the Unix epoch, half open like Window
// and a third of its size: for programs that hold many or ask often.
type Span struct {
	StartNanos int64
	EndNanos   int64
}

// Contains reports whether the span holds the instant. It is the one place
// that decides to which side a boundary belongs.
func (s Span) Contains(nanos int64) bool {
	return s.StartNanos <= nanos && nanos < s.EndNanos
}

// Window is the same span as times in UTC.
func (s Span) Window() Window {
	return Window{Start: time.Unix(0, s.StartNanos).UTC(), End: time.Unix(0, s.EndNanos).UTC()}
}

// saturatedNanos is t.UnixNano where that is defined, and the nearest int64
// elsewhere (UnixNano itself wraps around).
func saturatedNanos(t time.Time) int64 {
	const lastWholeSecond = math.MaxInt64/nanosPerSecond - 1
	switch sec := t.Unix(); {
	case sec < -lastWholeSecond:
		return math.MinInt64
	case sec > lastWholeSecond:
		return math.MaxInt64
	default:
		return sec*nanosPerSecond + int64(t.Nanosecond())
	}
}

// floorDiv rounds toward minus infinity, where Go's / rounds toward zero:
// instants before 1970 and walls west of Greenwich are negative. d is positive.
func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}
