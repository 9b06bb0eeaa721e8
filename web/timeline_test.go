package web

import (
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/daemon"
)

var t0 = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// The clever sum and the dumb one agree.
func TestConsumption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var slots []daemon.Slot
		at := t0
		for _, gap := range rapid.SliceOfN(rapid.IntRange(1, 5), 0, 20).Draw(t, "gaps") {
			at = at.Add(time.Duration(gap) * time.Minute)
			slots = append(slots, daemon.Slot{At: at, Units: int64(rapid.IntRange(0, 9).Draw(t, "units"))})
		}
		from := t0.Add(time.Duration(rapid.IntRange(-5, 110).Draw(t, "from")) * time.Minute)
		to := from.Add(time.Duration(rapid.IntRange(0, 110).Draw(t, "for")) * time.Minute)
		var want int64
		for _, slot := range slots {
			if !slot.At.Before(from) && slot.At.Before(to) {
				want += slot.Units
			}
		}
		if got := consumptionOf(slots).between(from, to); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

// numbers are all coordinates of a path.
var numbers = regexp.MustCompile(`-?\d+(\.\d+)?|NaN|Inf`)

// Whatever a provider claims, a drawing stays in its box and has no number that is none.
func TestTimelineStaysInItsBox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScope(t)
		now := t0.Add(time.Duration(rapid.IntRange(-60, 60*50).Draw(t, "now")) * time.Minute)
		drawn := drawTimeline(s, now, rapid.IntRange(1, 100).Draw(t, "steps"))
		if drawn == nil {
			return
		}
		for _, path := range []string{drawn.Used, drawn.All, drawn.Projected, drawn.Band} {
			for _, number := range numbers.FindAllString(path, -1) {
				if n, err := strconv.Atoi(number); err != nil || n < 0 || n > boxSize {
					t.Fatalf("%q in %q", number, path)
				}
			}
		}
		for name, part := range map[string]float64{
			"limit": drawn.LimitY, "usable": drawn.UsableY, "reset": drawn.ResetX, "now": drawn.NowX, "exhausts": drawn.ExhaustsX, "on the line": drawn.ExhaustsY,
		} {
			if math.IsNaN(part) || part > 100 || part < 0 && part != -1 {
				t.Fatalf("%s is at %v%%", name, part)
			}
		}
		view := quotaViewOf(s, "id", now, 10)
		if view.Words == "" || len(view.Figures) < 4 {
			t.Fatalf("%+v", view)
		}
	})
}

func anyScope(t *rapid.T) *daemon.ScopeState {
	count := rapid.OneOf(rapid.Int64Range(0, 100_000), rapid.SampledFrom([]int64{0, 1, math.MaxInt64, -5}))
	rate := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.SampledFrom([]float64{0, math.Inf(1), math.NaN(), math.MaxFloat64, -1}))
	s := &daemon.ScopeState{
		WindowStart: t0, WindowEnd: t0.Add(time.Duration(rapid.IntRange(-1, 48).Draw(t, "hours")) * time.Hour),
		Max: count.Draw(t, "max"), Usable: count.Draw(t, "usable"), Used: count.Draw(t, "used"), External: count.Draw(t, "external"),
		Remaining: count.Draw(t, "remaining"), RecentPerHour: rate.Draw(t, "recent"), OwnPerHour: rate.Draw(t, "own"),
		ExternalPerHour: rate.Draw(t, "others"), ProjectedTotal: rate.Draw(t, "total"), SlotSeconds: 900,
	}
	for i := range rapid.IntRange(0, 200).Draw(t, "slots") {
		s.Timeline = append(s.Timeline, daemon.Slot{At: t0.Add(time.Duration(i-60) * 15 * time.Minute), Units: count.Draw(t, "units")})
	}
	if rapid.Bool().Draw(t, "exhausts") {
		at := t0.Add(time.Duration(rapid.IntRange(-10, 100).Draw(t, "at")) * time.Hour)
		s.ExhaustsAt = &at
	}
	return s
}

// A drawing by hand: half a day, 100 units an hour of 2,000, then a projection to 2,400.
func TestTimelineByHand(t *testing.T) {
	s := &daemon.ScopeState{
		WindowStart: t0, WindowEnd: t0.Add(24 * time.Hour), Max: 2000, Usable: 2000, Used: 1200, RecentPerHour: 100, OwnPerHour: 100, ProjectedTotal: 2400,
	}
	for i := range 12 {
		s.Timeline = append(s.Timeline, daemon.Slot{At: t0.Add(time.Duration(i) * time.Hour), Units: 100})
	}
	exhausted := t0.Add(20 * time.Hour)
	s.ExhaustsAt = &exhausted
	got := drawTimeline(s, t0.Add(12*time.Hour), 4)
	// The box shows 28.8 hours, of which 4.8 are before the reset, and 0 to 2,520 units (5% above the projection).
	want := timeline{
		Used: "M0 1000H0V1000H438V683H583V524Z", Projected: "M583 524L1000 48", Band: "M583 524L1000 48L1000 48Z",
		LimitY: 100 * (1 - 2000.0/2520), UsableY: -1, ResetX: 100 * 4.8 / 28.8, NowX: 100 * 16.8 / 28.8, ExhaustsX: 100 * 24.8 / 28.8, ExhaustsY: 100 * (1 - 2000.0/2520),
	}
	if got.Projected != want.Projected || got.Band != want.Band || got.All != "" || got.UsableY != -1 {
		t.Errorf("%+v", got)
	}
	for name, pair := range map[string][2]float64{
		"limit": {got.LimitY, want.LimitY}, "reset": {got.ResetX, want.ResetX}, "now": {got.NowX, want.NowX}, "exhausts": {got.ExhaustsX, want.ExhaustsX},
		"exhausts on the line": {got.ExhaustsY, want.ExhaustsY},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s at %v, want %v", name, pair[0], pair[1])
		}
	}
	// Steps are 4.2 hours from 4.8 before the reset: at 3.6 hours 4 slots have begun, at 7.8 hours 8, and now 12.
	if want := "M0 1000H0V1000H292V841H438V683H583V524V1000Z"; got.Used != want {
		t.Errorf("%s, want %s", got.Used, want)
	}
	if !got.NowLabel {
		t.Error("there is room for a label")
	}
}

// A rolling window: what left it is not in it any more.
func TestTimelineOfARollingWindow(t *testing.T) {
	now := t0.Add(10 * time.Hour)
	s := &daemon.ScopeState{WindowStart: now.Add(-time.Hour), WindowEnd: now, Max: 100, Usable: 100, Used: 10, SlotSeconds: 60}
	for i := range 120 { // 80 units two hours ago, 10 lately
		units := int64(0)
		if i == 10 {
			units = 80
		}
		if i == 100 {
			units = 10
		}
		s.Timeline = append(s.Timeline, daemon.Slot{At: now.Add(time.Duration(i-120) * time.Minute), Units: units})
	}
	got := drawTimeline(s, now, 6)
	if !got.Rolling || got.ResetX != -1 || got.Projected != "" || got.NowX != 100 {
		t.Errorf("%+v", got)
	}
	// At 0 and 10 minutes the 80 are in the hour before, then they are not; the 10 come after 40.
	if want := "M0 1000H0V304H333V1000H833V913H1000V913V1000Z"; got.Used != want {
		t.Errorf("%s, want %s", got.Used, want)
	}
}

func TestWordsForFigures(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0s", 0.04: "0.1s", 1.25: "1.3s", 45: "45s", 60: "1m", 200: "3m 20s", 2232: "37m 12s", 7500: "2h 5m", 3600: "1h", 3601: "1h", 360_000: "4d 4h", -90: "-1m 30s",
		math.NaN(): "–", math.Inf(1): "–", 1e300: "–",
	} {
		if got := duration(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
	for part, want := range map[float64]string{0: "0%", 0.004: "<1%", 0.5: "50%", 0.996: ">99%", 1: "100%", 1.31: "131%", -0.31: "-31%", math.NaN(): "–"} {
		if got := percent(part); got != want {
			t.Errorf("%v: %q, want %q", part, got, want)
		}
	}
	now := t0.Add(12 * time.Hour)
	for at, want := range map[time.Time]string{
		t0: "00:00", t0.Add(30 * time.Hour): "Tue 06:00", t0.Add(-24 * time.Hour): "Sun 00:00", t0.AddDate(0, 0, 20): "20 Dec 00:00", t0.AddDate(1, 0, 0): "30 Nov 2027", {}: "–",
	} {
		if got := clock(at, now); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}

// The urgent come first, whatever the order they came in.
func TestQuotaStates(t *testing.T) {
	day := daemon.ScopeState{WindowStart: t0, WindowEnd: t0.Add(24 * time.Hour), Max: 100, Usable: 100, Used: 40, Remaining: 60}
	now := t0.Add(12 * time.Hour)
	soon, late := now.Add(time.Hour), now.Add(6*time.Hour)
	for _, test := range []struct {
		name   string
		change func(*daemon.ScopeState)
		level  level
		words  string
	}{
		{"fine", func(*daemon.ScopeState) {}, good, "lasts to the reset"},
		{"used up", func(s *daemon.ScopeState) { s.Remaining = 0 }, bad, "used up"},
		{"overrun", func(s *daemon.ScopeState) { s.Remaining = -3 }, bad, "used up"},
		{"soon", func(s *daemon.ScopeState) { s.ExhaustsAt = &soon }, bad, "runs out in 1h, 11h before the reset"},
		{"later", func(s *daemon.ScopeState) { s.ExhaustsAt = &late }, bad, "runs out in 6h, 6h before the reset"},
		{"at the reset", func(s *daemon.ScopeState) { s.ExhaustsAt = &s.WindowEnd }, good, "lasts to the reset"},
		{"fast", func(s *daemon.ScopeState) { s.Used, s.Remaining = 80, 20 }, warn, "used faster than the window passes"},
		{"only watched", func(s *daemon.ScopeState) { s.Remaining, s.Shadow = 0, true }, warn, "used up"},
		{"unknown", func(s *daemon.ScopeState) { s.Max, s.Usable = 0, 0 }, none, "no maximum known yet"},
		{"rolling", func(s *daemon.ScopeState) { s.WindowEnd = now }, good, "has room"},
		{"rolling, soon", func(s *daemon.ScopeState) { s.WindowEnd, s.ExhaustsAt = now, &soon }, bad, "runs out in 1h"},
	} {
		s := day
		test.change(&s)
		if l, words := quotaLevel(&s, now); l != test.level || words != test.words {
			t.Errorf("%s: %s %q, want %s %q", test.name, l, words, test.level, test.words)
		}
	}
}
