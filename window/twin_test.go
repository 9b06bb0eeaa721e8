package window

import (
	"slices"
	"time"
)

// The twin: the rules of calendar windows as one would explain them, with no
// table, no arithmetic on slots and no fast path. It asks time.Location only
// for the offset at an instant, and is a few hundred times slower.

// twinAt returns the window that holds sec, in seconds.
func twinAt(s Spec, loc *time.Location, sec int64) (start, end int64) {
	s = s.withDefaults()
	switch {
	case s.Period == Minute:
		return twinTruncated(int64(s.Count)*60, loc, sec)
	case s.Period == Hour && s.Count == 1:
		return twinTruncated(3600, loc, sec)
	}
	start, end = -forever, forever
	for _, wall := range twinWalls(s, loc, sec) {
		if turn := twinResolve(wall, loc); turn <= sec {
			start = max(start, turn)
		} else {
			end = min(end, turn)
		}
	}
	return start, end
}

// twinTruncated walks second by second until the clock shows another window,
// or runs under another offset.
func twinTruncated(length int64, loc *time.Location, sec int64) (start, end int64) {
	label := func(t int64) [2]int64 {
		offset := twinOffset(t, loc)
		return [2]int64{offset, floorDiv(t+offset, length)}
	}
	here := label(sec)
	for start = sec; label(start-1) == here; {
		start--
	}
	for end = sec + 1; label(end) == here; {
		end++
	}
	return start, end
}

// twinWalls lists the wall times of all turns around an instant, as seconds.
func twinWalls(s Spec, loc *time.Location, sec int64) []int64 {
	days := map[Period]int{Hour: 4, Day: 5, Week: 12, Month: 40}[s.Period]
	reset, _ := time.Parse("15:04", s.ResetAt)
	var walls []int64
	local := time.Unix(sec+twinOffset(sec, loc), 0).UTC()
	for d := -days; d <= days; d++ {
		// UTC stands for the clock on the wall: it has no gaps.
		day := time.Date(local.Year(), local.Month(), local.Day()+d, 0, 0, 0, 0, time.UTC)
		lastOfMonth := day.AddDate(0, 0, 1).Day() == 1
		turns := s.Period == Hour || s.Period == Day ||
			s.Period == Week && slices.Index(weekdays, s.WeekStart) == int(day.Weekday()) ||
			s.Period == Month && (day.Day() == s.MonthDay || lastOfMonth && day.Day() < s.MonthDay)
		switch {
		case !turns:
		case s.Period == Hour:
			for h := 0; h < 24; h += s.Count {
				walls = append(walls, day.Unix()+int64(h)*3600)
			}
		default:
			walls = append(walls, day.Unix()+int64(reset.Hour())*3600+int64(reset.Minute())*60)
		}
	}
	return walls
}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// twinResolve tries every offset that the zone has within a day and a half.
func twinResolve(wall int64, loc *time.Location) int64 {
	const reach, step = 36 * 3600, 15 * 60
	var before []int64 // sampled instants
	first := forever
	for t := wall - reach; t <= wall+reach; t += step {
		before = append(before, t)
		if guess := wall - twinOffset(t, loc); guess+twinOffset(guess, loc) == wall {
			first = min(first, guess)
		}
	}
	if first != forever {
		return first
	}
	// The clock never shows it: find the instant at which it jumps over it.
	for i, t := range before[1:] {
		if t+twinOffset(t, loc) <= wall {
			continue
		}
		low, high := before[i], t // on the wall: low is not after it, high is
		for high-low > 1 {
			if mid := (low + high) / 2; mid+twinOffset(mid, loc) <= wall {
				low = mid
			} else {
				high = mid
			}
		}
		return wall - twinOffset(low, loc) // forward by the gap
	}
	panic("no clock passes this wall time")
}

func twinOffset(sec int64, loc *time.Location) int64 {
	_, offset := time.Unix(sec, 0).In(loc).Zone()
	return int64(offset)
}
