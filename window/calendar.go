package window

import "time"

// calendar computes windows from the wall clock of a zone, in seconds. It is
// one of three: truncated minutes and hours, turns at equal steps of the wall
// clock (hours, days, weeks), and turns of months.
type calendar struct {
	zone *zone
	// truncate: windows are cut from the wall clock under the offset in force.
	truncate bool
	// months: the turns are months; stepSeconds and originSeconds are then not
	// used by wall and slot.
	months bool
	// stepSeconds is the longest distance between two turns on the wall clock.
	stepSeconds int64
	// originSeconds is the wall time of turn number zero.
	originSeconds int64
	monthDay      int
	resetSeconds  int64
}

// newCalendar turns a checked spec into arithmetic.
func newCalendar(s Spec, reset TimeOfDay, z *zone) calendar {
	c := calendar{zone: z, resetSeconds: int64(reset) * 60, monthDay: s.MonthDay}
	count := int64(s.Count)
	switch s.Period {
	case Minute:
		c.truncate, c.stepSeconds = true, count*60
	case Hour:
		// A single hour is cut; several start at local 00:00, N:00, 2N:00...
		c.truncate, c.stepSeconds = s.Count == 1, count*secondsPerHour
	case Day:
		c.stepSeconds, c.originSeconds = secondsPerDay, c.resetSeconds
	case Week:
		weekday, _ := weekdayByName(s.WeekStart)
		// Day 0, 1970-01-01, was a Thursday.
		firstDay := int64(weekday-time.Thursday+7) % 7
		c.stepSeconds, c.originSeconds = 7*secondsPerDay, firstDay*secondsPerDay+c.resetSeconds
	case Month:
		c.months, c.stepSeconds = true, 31*secondsPerDay
	}
	return c
}

// at returns the window that holds the instant, all in seconds.
func (c *calendar) at(sec int64) (start, end int64) {
	seg := &c.zone.segments[c.zone.index(sec)]
	wall := sec + seg.offset
	if c.truncate {
		floor := floorDiv(wall, c.stepSeconds)*c.stepSeconds - seg.offset
		return max(floor, seg.start), min(floor+c.stepSeconds, seg.end)
	}
	slot := c.slot(wall)
	start, end = c.wall(slot)-seg.offset, c.wall(slot+1)-seg.offset
	// Most windows lie within one offset, far enough behind its start that no
	// earlier clock shows, or skips, their turns.
	if start >= seg.start+seg.slack && end < seg.end {
		return start, end
	}
	return c.search(sec, wall, slot)
}

// search finds the turns around an instant near a change of offset: the last
// one not after it, and the first one after it. Turns are a set: those that
// coincide are one, and a long gap can push a turn past its successor, so
// their instants need not be in the order of their numbers.
//
// An instant differs from its wall time, read with any offset of the zone, by
// at most the spread. So a turn with wall <= wall(sec) - spread is not after
// sec, one such turn lies less than a step further back, and only turns less
// than two spreads before that one can be later than it. The other side is the
// same.
func (c *calendar) search(sec, wall, slot int64) (start, end int64) {
	reach := c.stepSeconds + 3*c.zone.spread
	start, end = -forever, forever
	consider := func(w int64) {
		if t := c.zone.resolve(w); t <= sec {
			start = max(start, t)
		} else {
			end = min(end, t)
		}
	}
	for k := slot; ; k-- {
		w := c.wall(k)
		consider(w)
		if w < wall-reach {
			break
		}
	}
	for k := slot + 1; ; k++ {
		w := c.wall(k)
		consider(w)
		if w > wall+reach {
			break
		}
	}
	return start, end
}

// wall is the wall time of a turn, as seconds (see zone.resolve). Turns have
// consecutive numbers, and their wall times increase.
func (c *calendar) wall(slot int64) int64 {
	if !c.months {
		return c.originSeconds + slot*c.stepSeconds
	}
	year, month := int(floorDiv(slot, 12)), time.Month(slot-12*floorDiv(slot, 12)+1)
	return unixOfDate(year, month, turnDay(year, month, c.monthDay)) + c.resetSeconds
}

// slot is the number of the last turn whose wall time is not after this one.
func (c *calendar) slot(wall int64) int64 {
	if !c.months {
		return floorDiv(wall-c.originSeconds, c.stepSeconds)
	}
	year, month, day := time.Unix(wall-c.resetSeconds, 0).UTC().Date()
	slot := int64(year)*12 + int64(month) - 1
	if day < turnDay(year, month, c.monthDay) {
		slot--
	}
	return slot
}

// turnDay is the day of this month on which a month window turns: monthDay,
// or the month's last day if it is shorter.
func turnDay(year int, month time.Month, monthDay int) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return min(monthDay, 29)
		}
		return min(monthDay, 28)
	case time.April, time.June, time.September, time.November:
		return min(monthDay, 30)
	default:
		return monthDay
	}
}

// unixOfDate is midnight of a date read as UTC, the one zone in which
// time.Date has nothing to choose.
func unixOfDate(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
}
