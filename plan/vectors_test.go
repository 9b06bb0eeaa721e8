package plan_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// vectorFile is testdata/vectors/plan.json; see its comment.
type vectorFile struct {
	Cases []struct {
		Name      string
		At        time.Time
		Fanout    map[string]int64
		Documents []json.RawMessage
		Counters  *string
		Expect    struct {
			Feasible  bool
			Scopes    []map[string]any
			Jobs      []map[string]any
			Reclaimed map[string]float64
		}
	}
}

func TestVectors(t *testing.T) {
	var file vectorFile
	golden.Vectors(t, "plan", 150, &file)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			in := plan.Input{Config: validatetest.Config(t, c.Documents...), At: c.At, Fanout: c.Fanout, NoReclaim: true}
			if c.Counters != nil {
				in.State = &plan.State{Counters: countersOf(t, *c.Counters)}
			}
			p := plan.Make(in)
			if p.Feasible != c.Expect.Feasible {
				t.Errorf("feasible is %v, want %v", p.Feasible, c.Expect.Feasible)
			}
			if len(p.Scopes) != len(c.Expect.Scopes) || len(p.Jobs) != len(c.Expect.Jobs) {
				t.Fatalf("%d scopes and %d jobs, want %d and %d", len(p.Scopes), len(p.Jobs), len(c.Expect.Scopes), len(c.Expect.Jobs))
			}
			for i := range p.Scopes {
				checkScope(t, &p.Scopes[i], c.Expect.Scopes[i])
			}
			for i := range p.Jobs {
				checkJob(t, &p.Jobs[i], c.Expect.Jobs[i])
			}
			in.NoReclaim = false
			for _, j := range plan.Make(in).Jobs {
				if want := c.Expect.Reclaimed[j.Job]; j.EffectiveSeconds != want {
					t.Errorf("reclaimed: job %s every %v s, want %v", j.Job, j.EffectiveSeconds, want)
				}
			}
		})
	}
}

func checkScope(t *testing.T, s *plan.Scope, want map[string]any) {
	t.Helper()
	exact := map[string]any{"limit": s.Limit, "key": s.Key, "keys": float64(s.Keys), "kind": s.Kind, "feasible": s.Feasible}
	near := map[string]float64{"demand": s.Demand, "projected": s.Projected, "budget": s.Budget}
	if !s.WindowStart.IsZero() {
		exact["windowStart"], exact["windowEnd"] = s.WindowStart.UTC().Format(time.RFC3339), s.WindowEnd.UTC().Format(time.RFC3339)
	}
	if q := s.Quota; q != nil {
		for name, units := range map[string]int64{"max": q.Max, "usable": q.Usable, "reserve": q.Reserve, "used": q.Used, "external": q.External, "remaining": q.Remaining} {
			exact[name] = float64(units)
		}
	}
	if !s.ExhaustsAt.IsZero() {
		exact["exhaustsAtEpoch"] = float64(s.ExhaustsAt.UnixNano()) / 1e9
	}
	for name, value := range want {
		switch got := exact[name]; {
		case name == "exhaustsAtEpoch":
			if got == nil || math.Abs(got.(float64)-value.(float64)) > 1 {
				t.Errorf("%s %s: %s is %v, want %v", s.Limit, s.Key, name, got, value)
			}
		case exact[name] != nil:
			if got != value {
				t.Errorf("%s %s: %s is %v, want %v", s.Limit, s.Key, name, got, value)
			}
		default:
			if !close(near[name], value.(float64)) {
				t.Errorf("%s %s: %s is %v, want %v", s.Limit, s.Key, name, near[name], value)
			}
		}
	}
	if _, ok := want["exhaustsAtEpoch"]; !ok && !s.ExhaustsAt.IsZero() {
		t.Errorf("%s %s: exhausts at %v, want never", s.Limit, s.Key, s.ExhaustsAt)
	}
}

func checkJob(t *testing.T, j *plan.Job, want map[string]any) {
	t.Helper()
	if j.Job != want["job"] || j.DesiredSeconds != want["desiredSeconds"] || j.EffectiveSeconds != want["effectiveSeconds"] || float64(j.Instances) != want["instances"] {
		t.Errorf("job %+v, want %v", *j, want)
	}
	if !close(j.CallsPerRun, want["callsPerRun"].(float64)) {
		t.Errorf("job %s: %v calls a run, want %v", j.Job, j.CallsPerRun, want["callsPerRun"])
	}
}

// close is the vectors' tolerance.
func close(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9 || math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))
}

func countersOf(t testing.TB, text string) []plan.Counter {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	instant := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	units := func(s string) *int64 {
		if s == "" {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return &n
	}
	var out []plan.Counter
	for _, r := range records[1:] {
		out = append(out, plan.Counter{
			Provider: r[0], Limit: r[1], Key: r[2], Start: instant(r[3]), End: instant(r[4]), UsedUnits: *units(r[5]),
			ObservedRemaining: units(r[6]), ObservedMax: units(r[7]), ObservedUsed: units(r[8]),
		})
	}
	return out
}
