package window

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests must not depend on the machine's zones

	"pgregory.net/rapid"
)

//go:embed testdata/zones.txt
var zoneList string

// zoneNames is every name of the IANA database of 2025, links included.
var zoneNames = strings.Fields(zoneList)

// troubled zones change often, by odd amounts, or at midnight.
var troubled = []string{
	"Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Havana",
	"America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/St_Johns",
	"Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Manila",
	"Asia/Pyongyang", "Asia/Tehran", "Australia/Lord_Howe", "Europe/Dublin", "Europe/London",
	"Europe/Lisbon", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Kwajalein",
}

func seconds(t *testing.T, year int) int64 {
	t.Helper()
	return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
}

func zoneNameGen() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(troubled), rapid.SampledFrom(zoneNames))
}

// calendarSpecGen draws calendar windows of every shape.
func calendarSpecGen() *rapid.Generator[Spec] {
	return rapid.Custom(func(t *rapid.T) Spec {
		s := Spec{Period: rapid.SampledFrom([]Period{Minute, Hour, Day, Week, Month}).Draw(t, "period")}
		s.Timezone = zoneNameGen().Draw(t, "zone")
		switch s.Period {
		case Minute:
			s.Count = rapid.SampledFrom([]int{0, 1, 5, 15, 20, 30, 60}).Draw(t, "count")
			return s
		case Hour:
			s.Count = rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 8, 12, 24}).Draw(t, "count")
			return s
		case Week:
			s.WeekStart = rapid.SampledFrom(weekdays).Draw(t, "weekStart")
		case Month:
			s.MonthDay = rapid.IntRange(0, 31).Draw(t, "monthDay")
		}
		// Resets shortly after midnight and in the small hours meet the changes.
		s.ResetAt = rapid.OneOf(
			rapid.SampledFrom([]string{"", "00:00", "00:01", "00:30", "01:00", "01:30", "02:00", "02:30", "03:00", "23:30"}),
			rapid.Custom(func(t *rapid.T) string {
				return TimeOfDay(rapid.IntRange(0, minutesPerDay-1).Draw(t, "minute")).String()
			}),
		).Draw(t, "resetAt")
		return s
	})
}

// instantGen draws instants, three in four within two days of a change.
func instantGen(z *zone, low, high int64) *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		at := rapid.Int64Range(low, high).Draw(t, "at")
		i := z.index(at)
		if i == 0 || rapid.IntRange(0, 3).Draw(t, "far") == 0 {
			return at
		}
		return z.segments[i].start + rapid.OneOf(
			rapid.Int64Range(-3, 3),
			rapid.Int64Range(-7200, 7200),
			rapid.Int64Range(-2*secondsPerDay, 2*secondsPerDay),
		).Draw(t, "beside")
	})
}

func compareWithTwin(t *rapid.T, schedule *Schedule, spec Spec, loc *time.Location, at int64) {
	got := schedule.AtNanos(at * nanosPerSecond)
	start, end := twinAt(spec, loc, at)
	want := Span{StartNanos: start * nanosPerSecond, EndNanos: end * nanosPerSecond}
	if got != want {
		t.Fatalf("%+v at %s:\n got %v\nwant %v", spec, time.Unix(at, 0).UTC(), got.Window(), want.Window())
	}
}

func TestAtAgreesWithTwinInAllZones(t *testing.T) {
	low, high := seconds(t, 1970), seconds(t, 2100)
	rapid.Check(t, func(t *rapid.T) {
		spec := calendarSpecGen().Draw(t, "spec")
		schedule := mustCompile(t, spec)
		for range 3 {
			at := instantGen(schedule.calendar.zone, low, high).Draw(t, "instant")
			compareWithTwin(t, schedule, spec, schedule.Location(), at)
		}
	})
}

// Before 1970 the offsets are local mean times with odd seconds, and some
// clocks jump by a day.
func TestAtAgreesWithTwinInHistory(t *testing.T) {
	low, high := seconds(t, 1840), seconds(t, 1970)
	rapid.Check(t, func(t *rapid.T) {
		spec := calendarSpecGen().Draw(t, "spec")
		schedule := mustCompile(t, spec)
		at := instantGen(schedule.calendar.zone, low, high).Draw(t, "instant")
		compareWithTwin(t, schedule, spec, schedule.Location(), at)
	})
}

// Zones that no country has thought of: changes hours apart, jumps of up to a
// day, gaps longer than the windows.
func TestAtAgreesWithTwinInInventedZones(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := inventedZone(t)
		spec := calendarSpecGen().Draw(t, "spec")
		spec.Timezone = "Invented/Zone"
		schedule, problems := compile(spec, func(string) (*time.Location, error) { return loc, nil })
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for range 3 {
			at := instantGen(schedule.calendar.zone, 0, 40*secondsPerDay).Draw(t, "instant")
			compareWithTwin(t, schedule, spec, loc, at)
		}
	})
}

// inventedZone draws a zone whose offsets are quarters of an hour, since the
// twin looks every quarter of an hour.
func inventedZone(t *rapid.T) *time.Location {
	const quarter = 900
	offsets := rapid.SliceOfN(rapid.Int32Range(-48, 56), 2, 6).Draw(t, "offsets")
	var whens []int64
	at := int64(10 * secondsPerDay)
	for range offsets[1:] {
		whens = append(whens, at)
		at += quarter * rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1, 400)).Draw(t, "apart")
	}
	var b bytes.Buffer
	block := func() {
		header := struct {
			Magic                               [5]byte
			Unused                              [15]byte
			UTCount, StdCount, LeapCount, Whens uint32
			Types, Chars                        uint32
		}{Magic: [5]byte([]byte("TZif2")), Whens: uint32(len(whens)), Types: uint32(len(offsets)), Chars: 4}
		mustWrite(&b, header)
	}
	body := func(wide bool) {
		for _, when := range whens {
			if wide {
				mustWrite(&b, when)
			} else {
				mustWrite(&b, int32(when))
			}
		}
		for i := range whens {
			mustWrite(&b, uint8(i+1))
		}
		for _, offset := range offsets {
			mustWrite(&b, struct {
				Offset      int32
				DST, Letter uint8
			}{Offset: offset * quarter})
		}
		b.WriteString("INV\x00")
	}
	block()
	body(false)
	block()
	body(true)
	b.WriteString("\n\n")
	loc, err := time.LoadLocationFromTZData("Invented/Zone", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func mustWrite(b *bytes.Buffer, v any) {
	if err := binary.Write(b, binary.BigEndian, v); err != nil {
		panic(err) // a bytes.Buffer does not fail, nor do values of fixed size
	}
}

// The table must say what time.Location says, in every zone: at each of its
// changes, one second before it, and at instants between.
func TestZoneTableAgreesWithLocation(t *testing.T) {
	for _, name := range zoneNames {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := newZone(loc)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := z.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		agree := func(sec int64) {
			if got, want := z.segments[z.index(sec)].offset, twinOffset(sec, loc); got != want {
				t.Errorf("%s: offset at %s is %d, want %d", name, time.Unix(sec, 0).UTC(), got, want)
			}
		}
		for _, s := range z.segments[1:] {
			agree(s.start)
			agree(s.start - 1)
		}
		// 17 days and a bit: over the years every hour of every date is met.
		for sec := MinNanos / nanosPerSecond; sec < MaxNanos/nanosPerSecond; sec += 17*secondsPerDay + 5431 {
			agree(sec)
		}
	}
}

// check verifies the invariants that are written beside the fields.
func (z *zone) check() error {
	n := len(z.segments)
	if z.segments[0].start != -forever || z.segments[n-1].end != forever {
		return fmt.Errorf("the segments do not cover all time")
	}
	offsets := make([]int64, n)
	for i, s := range z.segments {
		offsets[i] = s.offset
		if i > 0 && (s.start != z.segments[i-1].end || s.offset == z.segments[i-1].offset) {
			return fmt.Errorf("segment %d does not follow its predecessor", i)
		}
		if s.start >= s.end || s.slack < 0 || s.slack > z.spread {
			return fmt.Errorf("segment %d is malformed: %+v", i, s)
		}
	}
	if want := slices.Max(offsets) - slices.Min(offsets); z.spread != want {
		return fmt.Errorf("spread is %d, want %d", z.spread, want)
	}
	return nil
}

// Go's ZoneBounds names an end in the past on 31 December of a leap year
// beyond the table; an endless loop would follow from trusting it.
func TestZoneTableSurvivesLeapYears(t *testing.T) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for year := 2040; year < 2240; year += 4 {
		at := time.Date(year, 12, 31, 12, 0, 0, 0, time.UTC)
		if end := endOfOffset(at, loc); !end.After(at) || end.Sub(at) > 366*24*time.Hour {
			t.Errorf("the offset at %s ends at %s", at, end)
		}
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func mustCompile(t fataler, spec Spec) *Schedule {
	t.Helper()
	schedule, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}
