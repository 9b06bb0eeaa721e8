package window

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tilingSpecGen draws calendar and every windows: those that tile time.
func tilingSpecGen() *rapid.Generator[Spec] {
	return rapid.OneOf(
		calendarSpecGen(),
		rapid.Custom(func(t *rapid.T) Spec {
			return Spec{
				Every: time.Duration(rapid.Int64Range(int64(MinLength), int64(MaxLength)).Draw(t, "every")),
				Phase: time.Duration(rapid.Int64().Draw(t, "phase")),
			}
		}),
	)
}

// Windows tile time: each instant has one, whose last nanosecond is in it and
// whose end is in the next.
func TestWindowsTileTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := mustCompile(t, tilingSpecGen().Draw(t, "spec"))
		at := rapid.Int64Range(MinNanos, MaxNanos-1).Draw(t, "at")
		w := schedule.AtNanos(at)
		if !w.Contains(at) || w.Contains(w.EndNanos) || !w.Contains(w.StartNanos) {
			t.Fatalf("%v is not half open around %d", w, at)
		}
		for range 8 {
			for _, inside := range []int64{w.StartNanos, w.EndNanos - 1} {
				if inside >= MinNanos && inside < MaxNanos && schedule.AtNanos(inside) != w {
					t.Fatalf("at %d: %v, want %v", inside, schedule.AtNanos(inside), w)
				}
			}
			if w.EndNanos >= MaxNanos {
				return
			}
			next := schedule.AtNanos(w.EndNanos)
			if next.StartNanos != w.EndNanos || next.EndNanos <= next.StartNanos {
				t.Fatalf("%v is followed by %v", w, next)
			}
			if schedule.Next(w.Window()) != next.Window() {
				t.Fatalf("Next and At disagree after %v", w)
			}
			w = next
		}
	})
}

func TestStartsAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := mustCompile(t, tilingSpecGen().Draw(t, "spec"))
		a := rapid.Int64().Draw(t, "a")
		b := rapid.Int64Range(a, math.MaxInt64).Draw(t, "b")
		if x, y := schedule.AtNanos(a), schedule.AtNanos(b); x.StartNanos > y.StartNanos || x.EndNanos > y.EndNanos {
			t.Fatalf("%d has %v, the later %d has %v", a, x, b, y)
		}
	})
}

// At does not depend on the zone in which its argument is written.
func TestAtIsAboutInstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := mustCompile(t, tilingSpecGen().Draw(t, "spec"))
		at := time.Unix(0, rapid.Int64Range(MinNanos, MaxNanos-1).Draw(t, "at"))
		offset := rapid.IntRange(-86000, 86000).Draw(t, "offset")
		w := schedule.At(at.In(time.FixedZone("", offset)))
		if w != schedule.At(at.UTC()) || w.Start.Location() != time.UTC || !w.Contains(at.UTC()) {
			t.Fatalf("%v", w)
		}
	})
}

// Every windows, by the definition: starts are phase + n * every.
func TestEveryByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.Int64Range(int64(MinLength), int64(MaxLength)).Draw(t, "every")
		phase := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "phase")
		at := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "at")
		w := mustCompile(t, Spec{Every: time.Duration(every), Phase: time.Duration(phase)}).AtNanos(at)
		if w.EndNanos-w.StartNanos != every || (w.StartNanos-phase)%every != 0 || !w.Contains(at) {
			t.Fatalf("%v at %d", w, at)
		}
	})
}

func TestLongestAgreesWithTryingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := mustCompile(t, calendarSpecGen().Draw(t, "spec"))
		from := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "from"), 0)
		// Minutes are many; a few days have all their lengths.
		horizon := time.Duration(rapid.Int64Range(-1, int64(72*time.Hour)).Draw(t, "horizon"))
		want := schedule.At(from)
		for w := want; w.Start.Before(from.Add(horizon)); w = schedule.Next(w) {
			if w.Length() > want.Length() {
				want = w
			}
		}
		if got := schedule.Longest(from, horizon); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// FuzzAt: whatever spec compiles tiles time and never panics.
func FuzzAt(f *testing.F) {
	f.Add("day", 0, "02:30", "America/New_York", "", 0, int64(0), int64(0), int64(0), int64(1772971200e9))
	f.Add("week", 1, "", "Pacific/Apia", "monday", 0, int64(0), int64(0), int64(0), int64(1325239200e9))
	f.Add("month", 0, "23:59", "UTC", "", 31, int64(0), int64(0), int64(0), int64(math.MinInt64))
	f.Add("hour", 6, "", "Australia/Lord_Howe", "", 0, int64(0), int64(0), int64(0), int64(math.MaxInt64))
	f.Add("", 0, "", "", "", 0, int64(90e9), int64(-7), int64(0), int64(-1))
	f.Add("", 0, "", "", "", 0, int64(0), int64(0), int64(100e9), int64(5))
	f.Fuzz(func(t *testing.T, period string, count int, reset, zone, week string, day int, every, phase, rolling, at int64) {
		spec := Spec{
			Period: Period(period), Count: count, ResetAt: reset, Timezone: zone, WeekStart: week, MonthDay: day,
			Every: time.Duration(every), Phase: time.Duration(phase), Rolling: time.Duration(rolling),
		}
		schedule, err := Compile(spec)
		if problems := spec.Check(); (err != nil) != (len(problems) > 0) {
			t.Fatalf("Compile says %v, Check says %v", err, problems)
		}
		if err != nil {
			return
		}
		w := schedule.AtNanos(at)
		inRange := at >= MinNanos && at < MaxNanos
		if w.Contains(at) != inRange && (inRange || w.EndNanos <= MaxNanos && w.StartNanos >= MinNanos) {
			t.Fatalf("%+v at %d: %v", spec, at, w)
		}
		if w.EndNanos <= w.StartNanos {
			t.Fatalf("%+v at %d: %v is empty", spec, at, w)
		}
		if schedule.Kind() != Rolling && w.EndNanos < MaxNanos && schedule.AtNanos(w.EndNanos).StartNanos != w.EndNanos {
			t.Fatalf("%+v: nothing starts where %v ends", spec, w)
		}
		if buckets, ok := schedule.Buckets(); ok {
			n := buckets.Number(at)
			if inRange && (buckets.StartNanos(n) > at || buckets.StartNanos(n+1) <= at) {
				t.Fatalf("%+v: bucket %d does not hold %d", spec, n, at)
			}
		}
	})
}
