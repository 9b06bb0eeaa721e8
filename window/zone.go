package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	secondsPerHour = 60 * 60
	secondsPerDay  = 24 * secondsPerHour

	// maxOffset bounds every UTC offset, in seconds. RFC 9636, section 3.2,
	// allows just under 26 hours; the largest on record is 15 h 13 m (Alaska
	// until 1867).
	maxOffset = 26 * secondsPerHour

	// forever is an instant, in seconds, that lies beyond every other and may
	// be added to an offset without overflow.
	forever = int64(1) << 62
)

// zone is a time zone as the list of its offsets, first to last, without a
// gap. time.Location answers the same questions, but beyond its table it
// parses a rule at each call, and it does not say which of two instants a wall
// time means.
//
// Invariants: segments[0].start == -forever, segments[n-1].end == forever,
// segments[i].end == segments[i+1].start, neighbouring offsets differ.
type zone struct {
	segments []segment
	// spread is the largest offset less the smallest, in seconds.
	spread int64
}

// segment is a stretch of time with one UTC offset. All in seconds.
type segment struct {
	start, end int64
	offset     int64
	// slack is the largest less the smallest offset from two days of maxOffset
	// before start to start: a wall time at least this long after start is
	// told by no earlier segment, nor pushed here by a gap.
	slack int64
}

// loadLocation is time.LoadLocation without the names that mean something else
// on every machine ("Local") or count leap seconds ("right/").
func loadLocation(name string) (*time.Location, error) {
	switch {
	case name == "Local", name == "localtime", name == "posixrules", strings.HasPrefix(name, "right/"):
		return nil, fmt.Errorf("%q differs from machine to machine", name)
	default:
		return time.LoadLocation(name)
	}
}

// newZone lists the offsets of loc over the range of instants of this package.
func newZone(loc *time.Location) (*zone, error) {
	z := &zone{}
	low, high := int64(maxOffset), int64(-maxOffset)
	// A window that holds the first or last instant reaches past it.
	first := time.Unix(0, MinNanos).Add(-MaxLength)
	last := time.Unix(0, MaxNanos).Add(MaxLength)
	for t := first; t.Before(last); t = endOfOffset(t, loc) {
		_, seconds := t.In(loc).Zone()
		offset := int64(seconds)
		if offset <= -maxOffset || offset >= maxOffset {
			return nil, fmt.Errorf("zone %s has a UTC offset of %d seconds, beyond 26 hours", loc, offset)
		}
		// A change of name or of the daylight saving flag alone is no change.
		if n := len(z.segments); n > 0 && z.segments[n-1].offset == offset {
			continue
		}
		z.segments = append(z.segments, segment{start: t.Unix(), offset: offset})
		low, high = min(low, offset), max(high, offset)
	}
	z.spread = high - low
	z.segments[0].start = -forever
	for i := range z.segments {
		z.segments[i].end = forever
		if i+1 < len(z.segments) {
			z.segments[i].end = z.segments[i+1].start
		}
		z.segments[i].slack = z.slackOf(i)
	}
	z.segments = slices.Clip(z.segments)
	return z, nil
}

// endOfOffset returns an instant after t up to which the offset stays the same.
func endOfOffset(t time.Time, loc *time.Location) time.Time {
	_, end := t.In(loc).ZoneBounds()
	switch {
	case end.IsZero(): // the last offset of all
		return time.Unix(forever, 0)
	case end.After(t):
		return end
	default:
		// Beyond the zone's table ZoneBounds takes each year to have 365 days,
		// and on 31 December of a leap year names an end that is already past
		// (Go 1.26, time.tzset). The offset holds for the rest of that day, UTC.
		return t.Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
}

func (z *zone) slackOf(i int) int64 {
	low, high := z.segments[i].offset, z.segments[i].offset
	for j := i - 1; j >= 0 && z.segments[j+1].start > z.segments[i].start-2*maxOffset; j-- {
		low, high = min(low, z.segments[j].offset), max(high, z.segments[j].offset)
	}
	return high - low
}

// index finds the segment that holds the instant.
func (z *zone) index(sec int64) int {
	lo, hi := 0, len(z.segments)
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) / 2); z.segments[mid].start <= sec {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// resolve returns the instant that a wall time means. A wall time is given as
// the seconds since the epoch that a clock with this reading would have in
// UTC. One that occurs twice is the first of the two; one that does not exist
// moves forward by the length of the gap, that is, it is read with the offset
// before the gap. (time.Date promises neither, and goes backwards out of a gap
// where the offset is negative.)
func (z *zone) resolve(wall int64) int64 {
	gap := forever
	// Segments before this one end, on the wall, at or before the wall time.
	for i := z.index(wall - maxOffset); i < len(z.segments); i++ {
		s := &z.segments[i]
		switch {
		case wall >= s.end+s.offset: // not yet
		case wall >= s.start+s.offset:
			return wall - s.offset
		case s.start > wall+maxOffset: // no later clock can show it
			return gap
		case gap == forever && wall >= s.start+z.segments[i-1].offset:
			// The clock jumps over it here. Go on nevertheless: a clock put
			// back soon after could still show it.
			gap = wall - z.segments[i-1].offset
		}
	}
	return gap
}
