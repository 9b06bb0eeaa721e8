package smartflow

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fieldCases reads the cases of one area from the shared collection.
func fieldCases(t *testing.T, area string) map[string]struct{ Input, Expected json.RawMessage } {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "cases", "field.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Area        string
			Input, Expected json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	found := map[string]struct{ Input, Expected json.RawMessage }{}
	for _, c := range file.Cases {
		if c.Area == area {
			found[c.ID] = struct{ Input, Expected json.RawMessage }{c.Input, c.Expected}
		}
	}
	return found
}

func decode[T any](t *testing.T, text json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFieldCases runs what went wrong elsewhere. A case that this test does not know
// makes it fail.
func TestFieldCases(t *testing.T) {
	run := map[string]func(t *testing.T, input, expected json.RawMessage){
		"SF-01": refusalWithoutRetryAfter, "SF-03": burstOfRefusals, "SF-04": recovery, "SF-06": queryStrings,
	}
	cases := fieldCases(t, "smart-flow")
	if len(cases) < len(run) {
		t.Errorf("%d cases, want at least %d", len(cases), len(run))
	}
	for id, c := range cases {
		t.Run(id, func(t *testing.T) {
			f, ok := run[id]
			if !ok {
				t.Fatal("nobody knows how to run this case")
			}
			f(t, c.Input, c.Expected)
		})
	}
}

func refusalWithoutRetryAfter(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct {
		Status  int
		Headers map[string]string
		Path    string
	}](t, input)
	want := decode[struct{ Wait, GlobalRate string }](t, expected)
	if !strings.Contains(want.Wait, "> 0") || !strings.Contains(want.GlobalRate, "unchanged") {
		t.Fatalf("the expectation has changed: %+v", want)
	}
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{})
		start, attempts := time.Now(), 0
		tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
			if attempts++; attempts == 1 {
				return in.Status, in.Headers, ""
			}
			return 204, nil, ""
		})}
		resp := get(t, tr, "https://api.meraki.com/api/v1"+in.Path)
		resp.Body.Close()
		if resp.StatusCode != 204 || time.Since(start) <= 0 {
			t.Errorf("status %d after %v: want a second attempt after a wait", resp.StatusCode, time.Since(start))
		}
		if rate := l.Snapshot().Global.RatePerSecond; rate != 100 {
			t.Errorf("the global rate is %v, want 100", rate)
		}
	})
}

func burstOfRefusals(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct{ OrgRate, Factor, Floor float64 }](t, input)
	want := decode[struct {
		SpecLiteral, OncePerWindow float64
		SequenceLiteral            []float64
	}](t, expected)
	if in.Factor != orgAIMD.Decrease || in.Floor != orgAIMD.Floor {
		t.Fatalf("factor %v and floor %v are not the published ones", in.Factor, in.Floor)
	}
	const url = "/organizations/O_1/devices"
	literal := mustNew(t, Config{OrgRatePerSecond: in.OrgRate})
	once := mustNew(t, Config{OrgRatePerSecond: in.OrgRate, DecreaseHold: time.Hour})
	literal.RegisterOrg("O_1")
	once.RegisterOrg("O_1")
	for i, rate := range want.SequenceLiteral {
		literal.RateLimited(url, 0)
		once.RateLimited(url, 0)
		// The case writes the rates with six digits.
		if got := orgState(t, literal, "O_1").RatePerSecond; math.Abs(got-rate) > 1e-6 {
			t.Errorf("rate %v after %d refusals, want %v", got, i+1, rate)
		}
	}
	if got := orgState(t, literal, "O_1").RatePerSecond; got != want.SpecLiteral {
		t.Errorf("rate %v in the end, want %v", got, want.SpecLiteral)
	}
	if got := orgState(t, once, "O_1").RatePerSecond; !near9(got, want.OncePerWindow) {
		t.Errorf("rate %v with a hold, want %v", got, want.OncePerWindow)
	}
}

func recovery(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct {
		OrgRate, Configured, Step float64
		Successes                 []int `json:"successes_each"`
	}](t, input)
	want := decode[struct{ Rate []float64 }](t, expected)
	if in.Step != orgAIMD.Increase {
		t.Fatalf("step %v is not the published one", in.Step)
	}
	for i, successes := range in.Successes {
		l := mustNew(t, Config{OrgRatePerSecond: in.Configured})
		l.RegisterOrg("O_1")
		l.bucketOf(l.orgOf("O_1"), 0).rate = in.OrgRate
		for range successes {
			l.Success("/organizations/O_1")
		}
		if got := orgState(t, l, "O_1").RatePerSecond; !near9(got, want.Rate[i]) {
			t.Errorf("rate %v after %d successes, want %v", got, successes, want.Rate[i])
		}
	}
}

func queryStrings(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct{ URLs []string }](t, input)
	want := decode[struct{ Org []string }](t, expected)
	l := mustNew(t, Config{})
	for i, url := range in.URLs {
		org, ok := l.Resolve(url)
		if strings.HasPrefix(want.Org[i], "map(N_1)") {
			if ok {
				t.Errorf("%s is of %q before its network is known", url, org)
			}
			l.RegisterNetwork("N_1", "O_of_N_1")
			if org, _ = l.Resolve(url); org != "O_of_N_1" {
				t.Errorf("%s is of %q, want that of the network", url, org)
			}
		} else if org != want.Org[i] {
			t.Errorf("%s is of %q, want %q", url, org, want.Org[i])
		}
	}
}
