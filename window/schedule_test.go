package window

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
)

func instant(t fataler, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestContainsIsHalfOpen(t *testing.T) {
	w := Window{instant(t, "2026-03-01T00:00:00Z"), instant(t, "2026-03-02T00:00:00Z")}
	for _, c := range []struct {
		at   time.Time
		want bool
	}{
		{w.Start.Add(-1), false},
		{w.Start, true},
		{w.End.Add(-1), true},
		{w.End, false},
		{w.Start.In(time.FixedZone("", 3600)), true},
		{time.Time{}, false}, // year 1, outside an int64 of nanoseconds
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), false},
	} {
		if got := w.Contains(c.at); got != c.want {
			t.Errorf("contains %s: %v, want %v", c.at, got, c.want)
		}
	}
	if got := w.Span().Window(); got != w {
		t.Errorf("there and back again: %v", got)
	}
	if (Window{}).Contains(time.Time{}) {
		t.Error("the empty window contains something")
	}
}

// Beyond the range the nearest window comes back, and says that it does not
// hold the instant.
func TestInstantsOutsideTheRange(t *testing.T) {
	first, last := time.Unix(0, MinNanos).UTC(), time.Unix(0, MaxNanos).UTC()
	if got := first.Format(time.RFC3339); got != "1700-01-01T00:00:00Z" {
		t.Errorf("the range starts at %s", got)
	}
	if got := last.Format(time.RFC3339); got != "2250-01-01T00:00:00Z" {
		t.Errorf("the range ends at %s", got)
	}
	for _, spec := range []Spec{
		{Period: Minute},
		{Period: Hour, Count: 2, Timezone: "Asia/Tokyo"},
		{Period: Day},
		{Period: Week},
		{Period: Month, MonthDay: 31},
		{Every: MaxLength},
		{Every: time.Second},
	} {
		s := mustCompile(t, spec)
		for _, at := range []time.Time{{}, time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1<<62, 0)} {
			if w := s.At(at); w != s.At(first) || w.Contains(at) || w.Length() <= 0 {
				t.Errorf("%+v at %s: %v", spec, at, w)
			}
		}
		for _, at := range []time.Time{time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<62, 0)} {
			w := s.At(at)
			if w != s.At(last.Add(-1)) || w.Contains(at) || w.Length() <= 0 {
				t.Errorf("%+v at %s: %v", spec, at, w)
			}
			if s.Next(w) != w {
				t.Errorf("%+v: after the last window comes %v", spec, s.Next(w))
			}
			if got := s.Longest(at, math.MaxInt64); got != w {
				t.Errorf("%+v: the longest from %s is %v", spec, at, got)
			}
		}
	}
}

func TestLongestOfTheComingYear(t *testing.T) {
	const year = 365 * 24 * time.Hour
	from := instant(t, "2026-02-10T12:00:00Z")
	for _, c := range []struct {
		spec       Spec
		start, end string
	}{
		{Spec{Period: Month}, "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		// October has 31 days and, in Paris, one more hour.
		{Spec{Period: Month, Timezone: "Europe/Paris"}, "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"},
		{Spec{Period: Day, Timezone: "America/New_York"}, "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{Spec{Period: Day, Timezone: "Australia/Lord_Howe"}, "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{Spec{Period: Day}, "2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z"},
		{Spec{Period: Week, Timezone: "Europe/Paris"}, "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{Spec{Period: Hour, Count: 6, Timezone: "Europe/Paris"}, "2026-10-24T22:00:00Z", "2026-10-25T05:00:00Z"},
		{Spec{Period: Hour, Timezone: "Europe/Paris"}, "2026-02-10T12:00:00Z", "2026-02-10T13:00:00Z"},
		{Spec{Every: 15 * time.Minute}, "2026-02-10T12:00:00Z", "2026-02-10T12:15:00Z"},
	} {
		want := Window{instant(t, c.start), instant(t, c.end)}
		if got := mustCompile(t, c.spec).Longest(from, year); got != want {
			t.Errorf("%+v:\n got %v\nwant %v", c.spec, got, want)
		}
	}
	// A horizon of nothing leaves the present window.
	s := mustCompile(t, Spec{Period: Month})
	if got := s.Longest(from, 0); got != s.At(from) {
		t.Errorf("%v", got)
	}
}

// A cut hour is not the longest even where it is the present one.
func TestLongestLooksBeyondACutHour(t *testing.T) {
	s := mustCompile(t, Spec{Period: Hour, Timezone: "Australia/Lord_Howe"})
	from := instant(t, "2027-04-03T15:10:00Z")
	if got := s.At(from).Length(); got != 30*time.Minute {
		t.Fatalf("the present window lasts %v", got)
	}
	if got := s.Longest(from, 24*time.Hour); got.Length() != time.Hour || got.Start.Before(from) {
		t.Errorf("the longest is %v", got)
	}
}

func TestScheduleDescribesItself(t *testing.T) {
	s := mustCompile(t, Spec{Period: Week, Timezone: "Asia/Tokyo"})
	want := Spec{Period: Week, Count: 1, ResetAt: "00:00", Timezone: "Asia/Tokyo", WeekStart: "monday", MonthDay: 1}
	if s.Kind() != Calendar || s.Spec() != want || s.Location().String() != "Asia/Tokyo" || s.Length() != 0 {
		t.Errorf("%q %+v %s %v", s.Kind(), s.Spec(), s.Location(), s.Length())
	}
	every := Spec{Every: time.Minute, Phase: -time.Second}
	s = mustCompile(t, every)
	if s.Kind() != Every || s.Spec() != every || s.Location() != time.UTC || s.Length() != time.Minute {
		t.Errorf("%q %+v %s %v", s.Kind(), s.Spec(), s.Location(), s.Length())
	}
	if got := s.At(time.Unix(59, 0)).Start.Unix(); got != 59 {
		t.Errorf("a phase of -1s starts a minute at second %d", got)
	}
}

func TestAtAllocatesNothing(t *testing.T) {
	near := instant(t, "2026-03-08T07:10:00Z") // next to New York's change
	for _, spec := range []Spec{
		{Period: Minute, Timezone: "America/New_York"},
		{Period: Hour, Count: 6, Timezone: "America/New_York"},
		{Period: Day, Timezone: "America/New_York"},
		{Period: Month, MonthDay: 31, Timezone: "America/New_York"},
		{Every: time.Minute},
		{Rolling: time.Minute},
	} {
		s := mustCompile(t, spec)
		var held bool
		if n := testing.AllocsPerRun(100, func() { held = s.At(near).Contains(near) }); n != 0 || !held {
			t.Errorf("%+v: %v allocations, contains %v", spec, n, held)
		}
	}
}

// Run with -race: a schedule is shared by everything that has the limit.
func TestScheduleIsSafeForConcurrentUse(t *testing.T) {
	s := mustCompile(t, Spec{Period: Day, Timezone: "Europe/Paris"})
	want := s.Longest(time.Unix(0, 0), 1000*time.Hour)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := s.Longest(time.Unix(0, 0), 1000*time.Hour); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	group.Wait()
}

func ExampleSchedule_At() {
	daily, err := Compile(Spec{Period: Day, ResetAt: "02:30", Timezone: "America/New_York"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// On 8 March 2026 the clocks jump from 02:00 to 03:00: 02:30 becomes 03:30.
	w := daily.At(time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC))
	fmt.Println(w.Start.In(daily.Location()), w.Length())
	fmt.Println(w.Contains(w.Start), w.Contains(w.End))
	// Output:
	// 2026-03-08 03:30:00 -0400 EDT 23h0m0s
	// true false
}

func BenchmarkAtNanos(b *testing.B) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"minute", Spec{Period: Minute, Timezone: "America/New_York"}},
		{"hour", Spec{Period: Hour, Timezone: "America/New_York"}},
		{"6hours", Spec{Period: Hour, Count: 6, Timezone: "America/New_York"}},
		{"day", Spec{Period: Day, Timezone: "America/New_York"}},
		{"week", Spec{Period: Week, Timezone: "America/New_York"}},
		{"month", Spec{Period: Month, MonthDay: 31, Timezone: "America/New_York"}},
		{"dayUTC", Spec{Period: Day}},
		{"every", Spec{Every: 15 * time.Minute}},
	} {
		s := mustCompile(b, c.spec)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			at := instant(b, "2026-01-01T00:00:00Z").UnixNano()
			for i := 0; b.Loop(); i++ {
				// A minute a step, a year around: changes of offset included.
				s.AtNanos(at + int64(i%525600)*int64(time.Minute))
			}
		})
	}
}

func BenchmarkAtTime(b *testing.B) {
	s := mustCompile(b, Spec{Period: Day, Timezone: "America/New_York"})
	at := instant(b, "2026-06-01T00:00:00Z")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.At(at.Add(time.Duration(i%100000) * time.Minute))
	}
}

// The worst case: a change of offset is near, so turns are searched.
func BenchmarkAtNearChange(b *testing.B) {
	for _, zone := range []string{"America/New_York", "Pacific/Apia"} {
		for _, spec := range []Spec{{Period: Day, Timezone: zone}, {Period: Hour, Count: 2, Timezone: zone}} {
			s := mustCompile(b, spec)
			z := s.calendar.zone
			i := z.index(instant(b, "2011-12-31T00:00:00Z").Unix())
			b.Run(fmt.Sprintf("%s/%s", zone, spec.Period), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.AtNanos(z.segments[i].start * nanosPerSecond)
				}
			})
		}
	}
}

// A caller with instants in order keeps the window.
func BenchmarkContains(b *testing.B) {
	w := mustCompile(b, Spec{Period: Day}).AtNanos(0)
	for i := int64(0); b.Loop(); i++ {
		if !w.Contains(i % int64(time.Hour)) {
			b.Fatal("outside")
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		mustCompile(b, Spec{Period: Day, Timezone: "America/New_York"})
	}
}

// Every month of the range, 1900 and 2100 (no leap years) included.
func TestMonthTurnsOnItsLastDayAtTheLatest(t *testing.T) {
	for year := 1700; year < 2250; year++ {
		for month := time.January; month <= time.December; month++ {
			last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
			for day := 27; day <= 31; day++ {
				if got := turnDay(year, month, day); got != min(day, last) {
					t.Errorf("day %d of %s %d is %d, want %d", day, month, year, got, min(day, last))
				}
			}
		}
	}
}
