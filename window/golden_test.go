package window

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
)

// readJSON decodes a file of the golden data that all packages share.
func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestGoldenWindows(t *testing.T) {
	var file struct {
		Cases []struct {
			Window         Spec // its fields decode by name, without regard to case
			At, Start, End time.Time
		}
	}
	readJSON(t, "../testdata/vectors/windows.json", &file)
	if len(file.Cases) < 500 {
		t.Fatalf("%d cases, want at least 500", len(file.Cases))
	}
	for i, c := range file.Cases {
		got := mustCompile(t, c.Window).At(c.At)
		if want := (Window{c.Start, c.End}); got != want {
			t.Errorf("case %d: %+v at %s:\n got %v\nwant %v", i, c.Window, c.At, got, want)
		}
		if !got.Contains(c.At) {
			t.Errorf("case %d: %v does not contain %s", i, got, c.At)
		}
		compareWithTwinOnce(t, c.Window, c.At)
	}
}

// compareWithTwinOnce shows that the twin is right too.
func compareWithTwinOnce(t *testing.T, spec Spec, at time.Time) {
	t.Helper()
	schedule := mustCompile(t, spec)
	start, end := twinAt(spec, schedule.Location(), at.Unix())
	if got := schedule.At(at); got.Start.Unix() != start || got.End.Unix() != end {
		t.Errorf("%+v at %s: %v, but the twin says %d to %d", spec, at, got, start, end)
	}
}

// fieldLimit is how the cases from the field declare a limit.
type fieldLimit struct {
	Kind, Per, Timezone, ResetAt, WeekStart, Window string
	MonthDay                                        int
	At                                              time.Time
}

func (l fieldLimit) schedule(t *testing.T) *Schedule {
	t.Helper()
	spec := Spec{
		Period: Period(l.Per), Timezone: l.Timezone, ResetAt: l.ResetAt,
		WeekStart: l.WeekStart, MonthDay: l.MonthDay,
	}
	if l.Kind == "rolling" {
		length, err := time.ParseDuration(l.Window)
		if err != nil {
			t.Fatal(err)
		}
		spec = Spec{Rolling: length}
	}
	return mustCompile(t, spec)
}

type fieldInput struct {
	Limit    fieldLimit
	Limits   []fieldLimit
	At, Then time.Time
	AtEach   []time.Time `json:"at_each"`
	Events   []struct {
		T     time.Time
		Calls int
	}
	Call   time.Time
	Second fieldLimit
}

// fieldCase reads one case from the field.
func fieldCase(t *testing.T, id string, expected any) (input fieldInput) {
	t.Helper()
	golden.Case(t, id, &input, expected)
	return input
}

// pair is a window as [start, end].
type pair [2]time.Time

func (p pair) check(t *testing.T, schedule *Schedule, at time.Time) {
	t.Helper()
	if at.IsZero() || p[0].IsZero() {
		t.Fatal("the case lacks an instant or a window")
	}
	if got, want := schedule.At(at), (Window{p[0], p[1]}); got != want {
		t.Errorf("at %s:\n got %v\nwant %v", at, got, want)
	}
}

// One limit, several instants, the window at each and perhaps its length.
func TestFieldCasesWindowAtEach(t *testing.T) {
	for _, id := range []string{"CAL-01", "CAL-05", "CAL-12", "CAL-14"} {
		t.Run(id, func(t *testing.T) {
			var want struct {
				Windows     []pair
				LengthHours []float64
			}
			input := fieldCase(t, id, &want)
			if len(want.Windows) == 0 || len(want.Windows) != len(input.AtEach) {
				t.Fatalf("%d instants, %d windows", len(input.AtEach), len(want.Windows))
			}
			schedule := input.Limit.schedule(t)
			for i, at := range input.AtEach {
				want.Windows[i].check(t, schedule, at)
			}
			for i, hours := range want.LengthHours {
				if got := schedule.At(input.AtEach[i]).Length().Hours(); got != hours {
					t.Errorf("window %d lasts %v hours, want %v", i, got, hours)
				}
			}
		})
	}
}

func TestFieldCaseCairo(t *testing.T) { // CAL-03
	var want struct {
		WindowAt, WindowThen pair
		LengthHours          [2]float64
	}
	input := fieldCase(t, "CAL-03", &want)
	schedule := input.Limit.schedule(t)
	want.WindowAt.check(t, schedule, input.At)
	want.WindowThen.check(t, schedule, input.Then)
	first := schedule.At(input.At)
	if next := schedule.Next(first); next != schedule.At(input.Then) {
		t.Errorf("the next window is %v", next)
	}
	for i, at := range []time.Time{input.At, input.Then} {
		if got := schedule.At(at).Length().Hours(); got != want.LengthHours[i] {
			t.Errorf("window %d lasts %v hours, want %v", i, got, want.LengthHours[i])
		}
	}
}

// Midnight comes twice, the counter is cleared once. Which calls are allowed
// is the engine's part; here, which of them share a window.
func TestFieldCaseHavana(t *testing.T) { // CAL-06
	var want struct {
		Window      pair
		LengthHours float64
	}
	input := fieldCase(t, "CAL-06", &want)
	schedule := input.Limit.schedule(t)
	if len(input.Events) != 3 {
		t.Fatalf("%d events, want 3", len(input.Events))
	}
	for i, e := range input.Events {
		w := schedule.At(e.T)
		if i == 0 {
			if got := schedule.Next(w); got != (Window{want.Window[0], want.Window[1]}) {
				t.Errorf("after the first event's window comes %v", got)
			}
			continue
		}
		want.Window.check(t, schedule, e.T)
		if got := w.Length().Hours(); got != want.LengthHours {
			t.Errorf("the window lasts %v hours, want %v", got, want.LengthHours)
		}
	}
}

func TestFieldCaseSamoa(t *testing.T) { // CAL-10
	var want struct {
		Windows    []pair
		LocalDates []string
		LengthDays []float64
	}
	input := fieldCase(t, "CAL-10", &want)
	if len(input.Limits) == 0 || len(input.Limits) != len(want.Windows) {
		t.Fatalf("%d limits, %d windows", len(input.Limits), len(want.Windows))
	}
	for i, limit := range input.Limits {
		schedule := limit.schedule(t)
		want.Windows[i].check(t, schedule, limit.At)
		w := schedule.At(limit.At)
		local := w.Start.In(schedule.Location()).Format(time.DateOnly)
		if date := want.LocalDates[i]; local[:len(date)] != date {
			t.Errorf("window %d starts on %s, want %s", i, local, date)
		}
		if got := w.Length().Hours() / 24; got != want.LengthDays[i] {
			t.Errorf("window %d lasts %v days, want %v", i, got, want.LengthDays[i])
		}
	}
}

// Five hours that have passed, not five hours on the clock.
func TestFieldCaseRollingAcrossFallBack(t *testing.T) { // CAL-16
	var want struct{ NextAllowed time.Time }
	input := fieldCase(t, "CAL-16", &want)
	schedule := input.Limit.schedule(t)
	if schedule.Kind() != Rolling {
		t.Fatalf("kind is %q", schedule.Kind())
	}
	if schedule.At(want.NextAllowed).Contains(input.Call) {
		t.Errorf("the call still counts at %s", want.NextAllowed)
	}
	if before := want.NextAllowed.Add(-1); !schedule.At(before).Contains(input.Call) {
		t.Errorf("the call no longer counts at %s", before)
	}
}

func TestFieldCaseResetInGapAndOverlap(t *testing.T) { // CAL-17
	var want struct {
		WindowStartAny []time.Time `json:"windowStart_any"`
		Second         struct {
			Resets int
			At     string // an instant and a remark
		}
	}
	input := fieldCase(t, "CAL-17", &want)
	schedule := input.Limit.schedule(t)
	start := schedule.At(input.At).Start
	// Of the answers that the case allows, ours is the shifted one.
	if len(want.WindowStartAny) != 2 || !start.Equal(want.WindowStartAny[1]) {
		t.Errorf("the window starts at %s, want the second of %v", start, want.WindowStartAny)
	}

	input.Limit.ResetAt = input.Second.ResetAt
	schedule = input.Limit.schedule(t)
	first, err := time.Parse(time.RFC3339, want.Second.At[:len("2026-11-01T05:30:00Z")])
	if err != nil {
		t.Fatal(err)
	}
	resets := 0
	noon := input.Second.At
	for w := schedule.At(noon.Add(-24 * time.Hour)); w.End.Before(noon); w = schedule.Next(w) {
		if w.End.After(noon.Add(-12 * time.Hour)) {
			resets++
		}
	}
	if got := schedule.At(noon).Start; resets != want.Second.Resets || !got.Equal(first) {
		t.Errorf("%d resets, the last at %s; want %d at %s", resets, got, want.Second.Resets, first)
	}
}
