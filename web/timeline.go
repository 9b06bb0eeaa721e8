package web

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// A timeline is drawn into a box of 1000 by 1000 that the page stretches to whatever width there is, with its texts beside it in
// percent, so that they keep their size on a phone. It shows the window, and before a fixed one the end of the last, so that the
// reset is seen.

// boxSize is the width and the height of the box.
const boxSize = 1000

// lookBack is the part of a fixed window's length that is shown before its start.
const lookBack = 0.2

// timeline is a drawing. Paths are in the box, X in percent of the width, Y of the height from the top; those below 0 are not shown.
type timeline struct {
	// Used is the area of tapyr's own use. All is that of everybody's, to be drawn behind it; the course of others' use since the
	// reset is drawn even, for responses tell only where it stands. Projected is the line of everybody's use from now on, Band the
	// area between the slowest and the fastest of the paces seen.
	Used, All, Projected, Band string
	LimitY, UsableY            float64
	ResetX, NowX               float64
	// Exhausts is the place on the line where nothing is left.
	ExhaustsX, ExhaustsY float64
	// Start, Reset, End are the instants of the left edge, the window's start and the right edge.
	Start, Reset, End time.Time
	// NowLabel tells that there is room for a label at the present.
	NowLabel bool
	Rolling  bool
}

// scale maps instants and units into the box.
type scale struct {
	from, to time.Time
	top      float64
}

func (s scale) x(t time.Time) float64 {
	return clamp(float64(t.Sub(s.from))/float64(s.to.Sub(s.from))) * boxSize
}

func (s scale) y(units float64) float64 { return (1 - clamp(units/s.top)) * boxSize }

// clamp keeps a part within 0 and 1; what is not a number is 0.
func clamp(part float64) float64 {
	if !(part > 0) {
		return 0
	}
	return min(part, 1)
}

// isRolling: the window of a rolling quota ends at the present.
func isRolling(s *daemon.ScopeState, now time.Time) bool { return !s.WindowEnd.After(now) }

// bandOf is how far the use can be at the window's end, by the paces seen: that of the last 15 minutes and that since the start.
func bandOf(s *daemon.ScopeState, now time.Time) (low, high float64) {
	hours := max(0, s.WindowEnd.Sub(now).Hours())
	at := float64(s.Used + s.External)
	low = at + (min(s.RecentPerHour, s.OwnPerHour)+s.ExternalPerHour)*hours
	high = at + (max(s.RecentPerHour, s.OwnPerHour)+s.ExternalPerHour)*hours
	return min(low, s.ProjectedTotal), max(high, s.ProjectedTotal)
}

// drawTimeline draws a quota's key with at most so many steps; nil where there is no window to draw.
func drawTimeline(s *daemon.ScopeState, now time.Time, steps int) *timeline {
	span := s.WindowEnd.Sub(s.WindowStart)
	if span <= 0 || s.Max <= 0 && s.Usable <= 0 {
		return nil
	}
	t := &timeline{
		Start: s.WindowStart, Reset: s.WindowStart, End: s.WindowEnd, Rolling: isRolling(s, now), ResetX: -1, ExhaustsX: -1, UsableY: -1,
	}
	low, high := bandOf(s, now)
	limit := float64(max(s.Max, s.Usable))
	if !t.Rolling {
		t.Start = s.WindowStart.Add(-time.Duration(float64(span) * lookBack))
	}
	// Room above the limit for what runs over it, but not so much that the limit shrinks to the ground.
	top := max(limit*1.15, min(max(high, float64(s.Used+s.External))*1.05, limit*1.6))
	in := scale{t.Start, t.End, top}
	t.LimitY = in.y(limit) / 10
	if s.Usable != s.Max && s.Usable > 0 {
		t.UsableY = in.y(float64(s.Usable)) / 10
	}
	t.NowX = in.x(now) / 10
	t.NowLabel = t.NowX > 30 && t.NowX < 72
	course := courseOf(s, in, now, steps, t.Rolling)
	t.Used = stepArea(in, course)
	if t.Rolling {
		return t
	}
	t.ResetX = in.x(s.WindowStart) / 10
	if s.External > 0 {
		t.All = stepArea(in, withOthers(s, course, now))
	}
	all, left := float64(s.Used+s.External), s.WindowEnd.Sub(now)
	t.Projected = polyline(in, point{now, all}, point{s.WindowEnd, s.ProjectedTotal})
	t.Band = polyline(in, point{now, all}, point{s.WindowEnd, high}, point{s.WindowEnd, low}) + "Z"
	if s.ExhaustsAt != nil && s.ExhaustsAt.Before(s.WindowEnd) {
		part := clamp(float64(s.ExhaustsAt.Sub(now)) / float64(left))
		t.ExhaustsX, t.ExhaustsY = in.x(*s.ExhaustsAt)/10, in.y(all+(s.ProjectedTotal-all)*part)/10
	}
	return t
}

// point is a place in a timeline.
type point struct {
	at    time.Time
	units float64
}

func polyline(in scale, points ...point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteByte("ML"[min(i, 1)])
		writePair(&b, in.x(p.at), in.y(p.units))
	}
	return b.String()
}

func writePair(b *strings.Builder, x, y float64) {
	b.WriteString(strconv.Itoa(int(math.Round(x))))
	b.WriteByte(' ')
	b.WriteString(strconv.Itoa(int(math.Round(y))))
}

// courseOf is tapyr's own use in so many steps up to now. In a fixed window use adds up from its start, in a rolling one it is what
// the last span holds. Steps that change nothing are left out.
func courseOf(s *daemon.ScopeState, in scale, now time.Time, steps int, rolling bool) []point {
	width := now.Sub(in.from) / time.Duration(steps)
	span := s.WindowEnd.Sub(s.WindowStart)
	known := consumptionOf(s.Timeline)
	var course []point
	for i := range steps {
		at := in.from.Add(time.Duration(i) * width)
		from := s.WindowStart
		switch {
		case rolling:
			from = at.Add(-span)
		case at.Before(s.WindowStart):
			from = time.Time{} // all that is known of the window before
		}
		used := float64(known.between(from, at))
		if n := len(course); n == 0 || in.y(used) != in.y(course[n-1].units) {
			course = append(course, point{at, used})
		}
	}
	// What counts is the counter: slots that are not kept any more are missing from the course.
	return append(course, point{now, float64(s.Used)})
}

// withOthers adds the even course of others' use since the window's start.
func withOthers(s *daemon.ScopeState, course []point, now time.Time) []point {
	all := []point{{s.WindowStart, 0}}
	elapsed := float64(now.Sub(s.WindowStart))
	for _, p := range course {
		if p.at.After(s.WindowStart) && elapsed > 0 {
			all = append(all, point{p.at, p.units + float64(s.External)*float64(p.at.Sub(s.WindowStart))/elapsed})
		}
	}
	return all
}

// stepArea is the area under a course that stays where it is until the next step.
func stepArea(in scale, course []point) string {
	var b strings.Builder
	bottom := in.y(0)
	b.WriteByte('M')
	writePair(&b, in.x(course[0].at), bottom)
	for _, p := range course {
		b.WriteString("H" + strconv.Itoa(int(math.Round(in.x(p.at)))))
		b.WriteString("V" + strconv.Itoa(int(math.Round(in.y(p.units)))))
	}
	b.WriteString("V" + strconv.Itoa(int(math.Round(bottom))) + "Z")
	return b.String()
}

// consumption answers how much was used between two instants, from the slots of a timeline, which are in order.
type consumption struct {
	slots []daemon.Slot
	sums  []int64 // sums[i] is that of slots[:i]
}

func consumptionOf(slots []daemon.Slot) consumption {
	sums := make([]int64, len(slots)+1)
	for i, slot := range slots {
		sums[i+1] = sums[i] + slot.Units
	}
	return consumption{slots, sums}
}

// before is the sum of the slots that begin before an instant.
func (c consumption) before(t time.Time) int64 {
	n, _ := slices.BinarySearchFunc(c.slots, t, func(slot daemon.Slot, t time.Time) int { return slot.At.Compare(t) })
	return c.sums[n]
}

// between sums the slots that begin within [from, to).
func (c consumption) between(from, to time.Time) int64 { return max(0, c.before(to)-c.before(from)) }
