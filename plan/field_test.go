package plan_test

import (
	"fmt"
	"math"
	"sort"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const head = "apiVersion: tapyr/v1alpha1\n"

// quotaDocuments are a provider with one quota, an account, and settings without reserve and retries, so that the figures are
// those of the reports.
func quotaDocuments(units int64, period, share string) string {
	return fmt.Sprintf(head+`kind: Provider
metadata: { name: vendor }
spec: { limits: [{ name: quota, kind: quota, max: %d, window: { period: %s }, scope: { by: [account] } }] }
---
`+head+`kind: Account
metadata: { name: acme }
spec: { provider: vendor, budget: { share: %s } }
---
`+head+`kind: Settings
metadata: { name: default }
spec: { budget: { retryReserve: 0, retryOverhead: 0, maxStretch: 100000 } }
`, units, period, share)
}

func jobDocument(name, spec string) string {
	return fmt.Sprintf(head+"kind: Job\nmetadata: { name: %s }\nspec: { account: acme, request: { endpoint: /%s }, %s }\n", name, name, spec)
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// PL-01: the interval that fits a month is longer than the one promised; the plan says so instead of clamping.
func TestFieldPL01(t *testing.T) {
	var in struct {
		Quota int64
		Jobs  struct{ Count int }
	}
	var want struct{ WholeSeconds map[string]float64 }
	golden.Case(t, "PL-01", &in, &want)
	months := map[string]string{"28d": "2027-02-01T00:00:00Z", "30d": "2027-04-01T00:00:00Z", "31d": "2027-05-01T00:00:00Z"}
	for month, at := range months {
		documents := []string{quotaDocuments(in.Quota, "month", "1")}
		for i := range in.Jobs.Count {
			documents = append(documents, jobDocument(fmt.Sprintf("device-%d", i), "interval: 1m, maxInterval: 1800s"))
		}
		p := plan.Make(plan.Input{Config: validatetest.Config(t, documents...), At: instant(t, at)})
		for _, j := range p.Jobs {
			if j.EffectiveSeconds != want.WholeSeconds[month] {
				t.Fatalf("%s: %v s, want %v", month, j.EffectiveSeconds, want.WholeSeconds[month])
			}
		}
		if holds := month == "28d"; p.Holds() != holds {
			t.Errorf("%s: the promise of 1800 s holds: %v, want %v", month, p.Holds(), holds)
		}
	}
}

// PL-03: calls that are made anyway leave the rest for a periodic job.
func TestFieldPL03(t *testing.T) {
	var in struct {
		Quota, FixedCalls int64
		Intervals         []string `json:"intervals_each"`
	}
	var want struct {
		Calls           []float64
		Feasible        []bool
		MinWholeSeconds float64
	}
	golden.Case(t, "PL-03", &in, &want)
	fixed := jobDocument("fixed", fmt.Sprintf("interval: 1d, priority: critical, estimate: { pagesPerRun: %d }", in.FixedCalls))
	for i, interval := range in.Intervals {
		// Both critical: nothing is stretched, and the plan tells what whole runs add up to.
		documents := validatetest.Config(t, quotaDocuments(in.Quota, "day", "1"), fixed, jobDocument("periodic", "priority: critical, interval: "+interval))
		p := plan.Make(plan.Input{Config: documents, At: instant(t, "2026-11-30T00:00:00Z")})
		if got := p.Scopes[0].Peak; got != want.Calls[i] {
			t.Errorf("every %s: %v calls, want %v", interval, got, want.Calls[i])
		}
		if p.Feasible != want.Feasible[i] {
			t.Errorf("every %s: feasible is %v, want %v", interval, p.Feasible, want.Feasible[i])
		}
	}
	p := plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(in.Quota, "day", "1"), fixed, jobDocument("periodic", "interval: 1s")), At: instant(t, "2026-11-30T00:00:00Z")})
	if got := p.Jobs[1].EffectiveSeconds; got != want.MinWholeSeconds {
		t.Errorf("the shortest interval is %v s, want %v", got, want.MinWholeSeconds)
	}
}

// PL-05: what is left counts, not the whole quota nor the average so far.
func TestFieldPL05(t *testing.T) {
	var in struct {
		A struct{ Quota int64 }
		B struct{ Remaining int64 }
	}
	var want struct {
		A, B struct{ IntervalSeconds float64 }
	}
	golden.Case(t, "PL-05", &in, &want)
	job := jobDocument("poll", "interval: 1s")
	p := plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(in.A.Quota, "day", "0.8"), job), At: instant(t, "2026-11-30T00:00:00Z")})
	if got := p.Jobs[0].EffectiveSeconds; got != want.A.IntervalSeconds {
		t.Errorf("a: %v s, want %v", got, want.A.IntervalSeconds)
	}
	start := instant(t, "2026-11-30T00:00:00Z")
	state := &plan.State{Counters: []plan.Counter{{Provider: "vendor", Limit: "quota", Key: "acme", Start: start, End: start.Add(24 * time.Hour), UsedUnits: 100 - in.B.Remaining}}}
	p = plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(100, "day", "1"), job), At: start.Add(12 * time.Hour), State: state})
	if got := p.Jobs[0].EffectiveSeconds; got != want.B.IntervalSeconds {
		t.Errorf("b: %v s, want %v", got, want.B.IntervalSeconds)
	}
}

// PL-06: how many devices fit into a day.
func TestFieldPL06(t *testing.T) {
	var in struct {
		Quota   int64
		Devices []int64 `json:"devices_each"`
	}
	var want struct {
		Calls             []float64
		Feasible          []bool
		SevenNeedsSeconds float64
	}
	golden.Case(t, "PL-06", &in, &want)
	lister := jobDocument("devices", "interval: 52w, estimate: { pagesPerRun: 0 }, inventory: { items: response, vars: { serial: item.serial } }")
	poll := func(priority string) string {
		return head + "kind: Job\nmetadata: { name: poll }\nspec: { account: acme, interval: 60s, priority: " + priority + ", forEach: devices, request: { endpoint: '/devices/{serial}' } }\n"
	}
	for i, n := range in.Devices {
		p := plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(in.Quota, "day", "1"), lister, poll("critical")), At: instant(t, "2026-11-30T00:00:00Z"), Fanout: map[string]int64{"devices": n}})
		if p.Feasible != want.Feasible[i] || p.Scopes[0].Demand != want.Calls[i] {
			t.Errorf("%d devices: %v calls, feasible %v; want %v, %v", n, p.Scopes[0].Demand, p.Feasible, want.Calls[i], want.Feasible[i])
		}
	}
	p := plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(in.Quota, "day", "1"), lister, poll("normal")), At: instant(t, "2026-11-30T00:00:00Z"), Fanout: map[string]int64{"devices": 7}})
	if got := p.Jobs[1].EffectiveSeconds; got != want.SevenNeedsSeconds {
		t.Errorf("seven devices need %v s, want %v", got, want.SevenNeedsSeconds)
	}
}

// PL-09: an interval is elapsed time, not a pattern of minutes; a day must be planned for the larger number of runs.
func TestFieldPL09(t *testing.T) {
	var in struct{ Job struct{ Every string } }
	var want struct{ RunsPerDayMax, RunsPerDayMin float64 }
	golden.Case(t, "PL-09", &in, &want)
	p := plan.Make(plan.Input{Config: validatetest.Config(t, quotaDocuments(1000, "day", "1"), jobDocument("poll", "interval: "+in.Job.Every)), At: instant(t, "2026-03-02T00:00:00Z")})
	if got := p.Scopes[0].Peak; got != want.RunsPerDayMax {
		t.Errorf("a day is planned for %v runs, want %v", got, want.RunsPerDayMax)
	}
	for day := range 30 {
		from := instant(t, "2026-03-02T00:00:00Z").AddDate(0, 0, day)
		starts, _ := p.Starts(from, from.AddDate(0, 0, 1), 1000)
		if n := float64(len(starts)); n > want.RunsPerDayMax || n < want.RunsPerDayMin {
			t.Errorf("%s: %v runs, want %v to %v", from, n, want.RunsPerDayMin, want.RunsPerDayMax)
		}
		for i := 1; i < len(starts); i++ {
			if gap := starts[i].At.Sub(starts[i-1].At); gap != 13*time.Minute {
				t.Fatalf("two runs are %v apart, want 13m", gap)
			}
		}
	}
}

// PL-10: jobs of one interval are spread over it, the same in every process.
func TestFieldPL10(t *testing.T) {
	var in struct {
		Jobs  int
		Every string
	}
	var want struct {
		MaxStartsInAnySecond int
		MeanSpacingSeconds   float64
	}
	golden.Case(t, "PL-10", &in, &want)
	every, err := time.ParseDuration(in.Every)
	if err != nil {
		t.Fatal(err)
	}
	intervals := make(map[string]time.Duration)
	for i := range in.Jobs {
		intervals[fmt.Sprintf("job-%d", i)] = every
	}
	phases := plan.Phases(intervals)
	var at []float64
	for name, phase := range phases {
		if again := plan.Phases(intervals)[name]; again != phase {
			t.Fatalf("%s starts at %v and at %v", name, phase, again)
		}
		if phase < 0 || phase >= every {
			t.Fatalf("%s starts at %v, outside its interval", name, phase)
		}
		at = append(at, phase.Seconds(), phase.Seconds()+every.Seconds())
	}
	sort.Float64s(at)
	for i := range at {
		n := sort.SearchFloat64s(at, at[i]+1) - i
		if n > want.MaxStartsInAnySecond {
			t.Errorf("%d starts in one second, want at most %d", n, want.MaxStartsInAnySecond)
		}
	}
	if mean := (at[len(at)-1] - at[0]) / float64(len(at)-1); math.Abs(mean-want.MeanSpacingSeconds) > 0.01 {
		t.Errorf("starts are %v s apart, want %v", mean, want.MeanSpacingSeconds)
	}
}

// PL-13: two keys have a quota each, two jobs on one key share it.
func TestFieldPL13(t *testing.T) {
	var in struct {
		A struct {
			Keys                           int
			QuotaPerKey, CallsPerDayPerKey int64
		}
		B struct {
			Quota, CallsPerDayEach int64
			Jobs                   int
		}
	}
	var want struct {
		A, B struct {
			Feasible    bool
			Total, Over float64
		}
	}
	golden.Case(t, "PL-13", &in, &want)
	at := instant(t, "2026-11-30T00:00:00Z")
	two := quotaDocuments(in.A.QuotaPerKey, "day", "1") + "---\n" + head + "kind: Account\nmetadata: { name: globex }\nspec: { provider: vendor }\n"
	calls := fmt.Sprintf("interval: 1d, priority: critical, estimate: { pagesPerRun: %d }", in.A.CallsPerDayPerKey)
	p := plan.Make(plan.Input{Config: validatetest.Config(t, two, jobDocument("one", calls), head+"kind: Job\nmetadata: { name: other }\nspec: { account: globex, request: { endpoint: /x }, "+calls+" }\n"), At: at})
	if total := p.Scopes[0].Projected + p.Scopes[1].Projected; p.Feasible != want.A.Feasible || total != want.A.Total {
		t.Errorf("a: %v calls, feasible %v; want %v, %v", total, p.Feasible, want.A.Total, want.A.Feasible)
	}
	documents := []string{quotaDocuments(in.B.Quota, "day", "1")}
	for i := range in.B.Jobs {
		documents = append(documents, jobDocument(fmt.Sprintf("job-%d", i), fmt.Sprintf("interval: 1d, priority: critical, estimate: { pagesPerRun: %d }", in.B.CallsPerDayEach)))
	}
	p = plan.Make(plan.Input{Config: validatetest.Config(t, documents...), At: at})
	if s := p.Scopes[0]; p.Feasible != want.B.Feasible || s.Projected != want.B.Total || s.Projected-s.Budget != want.B.Over {
		t.Errorf("b: %v calls, %v over, feasible %v; want %+v", s.Projected, s.Projected-s.Budget, p.Feasible, want.B)
	}
}
