package window

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckNamesTheFieldAndTheWayOut(t *testing.T) {
	day := Spec{Period: Day}
	with := func(s Spec, change func(*Spec)) Spec { change(&s); return s }
	for _, c := range []struct {
		name string
		spec Spec
		want []string // field, then what the whole message contains
	}{
		{"nothing", Spec{}, []string{"window", "has no length", "period, every and rolling"}},
		{"only a zone", Spec{Timezone: "UTC"}, []string{"window", "has no length"}},
		{"two forms", Spec{Period: Day, Rolling: time.Hour}, []string{"window", "has period and rolling"}},
		{"three forms", Spec{Period: Day, Every: 1, Rolling: 1}, []string{"window", "has period and every and rolling"}},
		{"period", Spec{Period: "days"}, []string{"period", `"days"`, "minute, hour, day, week or month"}},
		{"period in capitals", Spec{Period: "Day"}, []string{"period", `"Day"`}},
		{"count 7 minutes", Spec{Period: Minute, Count: 7}, []string{"count", `"7"`, "divide 60"}},
		{"count 120 minutes", Spec{Period: Minute, Count: 120}, []string{"count", `"120"`, "divide 60"}},
		{"count 5 hours", Spec{Period: Hour, Count: 5}, []string{"count", `"5"`, "divide 24"}},
		{"count -1", Spec{Period: Hour, Count: -1}, []string{"count", `"-1"`, "below 1"}},
		{"count of days", Spec{Period: Day, Count: 2}, []string{"count", `"2"`, "minute and hour only"}},
		{"count of every", Spec{Every: time.Minute, Count: 2}, []string{"count", `"2"`, "multiply the length"}},
		{"resetAt of hours", Spec{Period: Hour, ResetAt: "00:00"}, []string{"resetAt", `"00:00"`, "day, week and month only"}},
		{"resetAt of rolling", Spec{Rolling: time.Hour, ResetAt: "00:00"}, []string{"resetAt", "day, week and month only"}},
		{"resetAt", with(day, func(s *Spec) { s.ResetAt = "24:00" }), []string{"resetAt", `"24:00"`, `midnight is "00:00"`}},
		{"resetAt of YAML 1.1", with(day, func(s *Spec) { s.ResetAt = "600" }), []string{"resetAt", `"600"`, "HH:MM"}},
		{"timezone", with(day, func(s *Spec) { s.Timezone = "Europe/Pariss" }), []string{"timezone", `"Europe/Pariss"`, "IANA"}},
		{"offset as timezone", with(day, func(s *Spec) { s.Timezone = "UTC+2" }), []string{"timezone", `"UTC+2"`, "Etc/GMT-2"}},
		{"this machine's zone", with(day, func(s *Spec) { s.Timezone = "Local" }), []string{"timezone", `"Local"`, "machine"}},
		{"leap seconds", with(day, func(s *Spec) { s.Timezone = "right/UTC" }), []string{"timezone", `"right/UTC"`}},
		{"outside the database", with(day, func(s *Spec) { s.Timezone = "../passwd" }), []string{"timezone", `"../passwd"`}},
		{"timezone of every", Spec{Every: time.Hour, Timezone: "UTC"}, []string{"timezone", "period only"}},
		{"weekStart of days", with(day, func(s *Spec) { s.WeekStart = "monday" }), []string{"weekStart", "week only"}},
		{"weekStart", Spec{Period: Week, WeekStart: "Mon"}, []string{"weekStart", `"Mon"`, "monday to sunday"}},
		{"weekStart in capitals", Spec{Period: Week, WeekStart: "Monday"}, []string{"weekStart", `"Monday"`, "lower case"}},
		{"monthDay of weeks", Spec{Period: Week, MonthDay: 1}, []string{"monthDay", `"1"`, "month only"}},
		{"monthDay 32", Spec{Period: Month, MonthDay: 32}, []string{"monthDay", `"32"`, "1 to 31"}},
		{"monthDay -1", Spec{Period: Month, MonthDay: -1}, []string{"monthDay", `"-1"`, "last day"}},
		{"every below", Spec{Every: time.Millisecond - 1}, []string{"every", "out of range", "1ms"}},
		{"every negative", Spec{Every: -time.Hour}, []string{"every", `"-1h0m0s"`, "1ms"}},
		{"every above", Spec{Every: MaxLength + 1}, []string{"every", "ten years"}},
		{"phase of periods", with(day, func(s *Spec) { s.Phase = time.Hour }), []string{"phase", "every only"}},
		{"phase and anchor", Spec{Every: time.Hour, Anchor: AnchorFirstRequest, Phase: 1}, []string{"phase", "no effect"}},
		{"anchor", Spec{Every: time.Hour, Anchor: "firstrequest"}, []string{"anchor", `"firstrequest"`, "use firstRequest"}},
		{"anchor of rolling", Spec{Rolling: time.Hour, Anchor: AnchorFirstRequest}, []string{"anchor", "every only"}},
		{"rolling below", Spec{Rolling: 59}, []string{"rolling", `"59ns"`, "1ms"}},
		{"rolling negative", Spec{Rolling: -1}, []string{"rolling", "1ms"}},
		{"rolling above", Spec{Rolling: 1<<63 - 1}, []string{"rolling", "87840h"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			schedule, err := Compile(c.spec)
			var problem *SpecError
			if !errors.As(err, &problem) || schedule != nil {
				t.Fatalf("%v, %v: want no schedule and a SpecError", schedule, err)
			}
			if problem.Field != c.want[0] {
				t.Errorf("field %q, want %q", problem.Field, c.want[0])
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if err.Error()[0] < 'a' || err.Error()[0] > 'z' {
				t.Errorf("%q does not begin in lower case", err)
			}
		})
	}
}

// One look shows all mistakes, each once.
func TestCheckReportsEverything(t *testing.T) {
	spec := Spec{Period: Minute, Count: 9, ResetAt: "25:00", WeekStart: "x", MonthDay: 40, Phase: 1, Timezone: "Mars/Olympus"}
	want := []string{"count", "resetAt", "weekStart", "weekStart", "monthDay", "monthDay", "phase", "resetAt", "timezone"}
	var got []string
	for _, p := range spec.Check() {
		got = append(got, p.Field)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	_, err := Compile(spec)
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(want) {
		t.Errorf("%d lines, want %d:\n%v", lines, len(want), err)
	}
}

func TestCheckAcceptsEveryForm(t *testing.T) {
	for _, spec := range []Spec{
		{Period: Minute},
		{Period: Minute, Count: 60},
		{Period: Hour, Count: 24, Timezone: "Asia/Tokyo"},
		{Period: Day, Count: 1, ResetAt: "23:59", Timezone: "Etc/GMT-2"},
		{Period: Week, WeekStart: "sunday", ResetAt: "00:01"},
		{Period: Month, MonthDay: 31, Timezone: "America/Argentina/Buenos_Aires"},
		{Every: MinLength},
		{Every: MaxLength, Phase: -5},
		{Every: time.Minute, Phase: time.Hour},
		{Every: time.Minute, Anchor: AnchorFirstRequest},
		{Rolling: MinLength},
		{Rolling: MaxLength},
	} {
		if problems := spec.Check(); len(problems) > 0 {
			t.Errorf("%+v: %v", spec, problems)
		}
	}
}

// A zone file with an absurd offset is refused, not computed with.
func TestCheckRefusesAbsurdOffsets(t *testing.T) {
	absurd := time.FixedZone("Absurd", maxOffset)
	_, problems := compile(Spec{Period: Day}, func(string) (*time.Location, error) { return absurd, nil })
	if len(problems) != 1 || problems[0].Field != "timezone" || !strings.Contains(problems[0].Reason, "26 hours") {
		t.Errorf("%v", problems)
	}
}

func TestParseTimeOfDay(t *testing.T) {
	for text, want := range map[string]TimeOfDay{"00:00": 0, "00:59": 59, "09:05": 545, "23:59": 1439} {
		got, err := ParseTimeOfDay(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %d (%s), %v", text, got, got, err)
		}
	}
	for _, text := range []string{
		"", "24:00", "600", "0:00", "7:00", "07:0", "07:60", "29:00", "-1:00", "+1:00",
		"07:00:00", "07.00", "07:00 ", " 07:00", "0700", "7am", "٠٧:٠٠", "0x:00", "00:0:",
	} {
		got, err := ParseTimeOfDay(text)
		var problem *SpecError
		if !errors.As(err, &problem) || got != 0 {
			t.Errorf("%q: %v, %v, want a SpecError", text, got, err)
			continue
		}
		if problem.Value != text || problem.Field != "" || !strings.Contains(err.Error(), `"23:59"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseTimeOfDay: what it accepts is exactly what it writes.
func FuzzParseTimeOfDay(f *testing.F) {
	for _, seed := range []string{"00:00", "23:59", "24:00", "600", "1:23", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTimeOfDay(text)
		parsed, twinErr := time.Parse("15:04", text)
		twin := twinErr == nil && len(text) == len("15:04")
		if (err == nil) != twin {
			t.Fatalf("%q: %v, but time.Parse says %v", text, err, twinErr)
		}
		if err == nil && (got.String() != text || int(got) != parsed.Hour()*60+parsed.Minute()) {
			t.Fatalf("%q is read as %s", text, got)
		}
	})
}
