package simulate_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

func TestParseFaults(t *testing.T) {
	half, err := schema.ParseRate("5/s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := simulate.ParseFaults("latency=50ms±20ms, errors=1%,resets=0.02,external=30/m,skew=-2s,pages=1.5,12h:provider.meraki.limits.daily.max=5000,2026-12-01T00:00:00Z:provider.p.limits.l.max=0,1m:provider.meraki.limits.org-rate.rate=5/s", noon)
	want := simulate.Faults{
		Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond, Errors: 0.01, Resets: 0.02, External: 0.5, Skew: -2 * time.Second, Pages: 1.5,
		Changes: []simulate.LimitChange{
			{After: 12 * time.Hour, Provider: "meraki", Limit: "daily", Max: 5000},
			{After: 12 * time.Hour, Provider: "p", Limit: "l"},
			{After: time.Minute, Provider: "meraki", Limit: "org-rate", Rate: &half},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for text, message := range map[string]string{
		"latency=50": "unit", "latency=1s±2s": "longer than the latency", "errors=2": "a part", "errors=-1%": "a part", "errors=NaN": "a part",
		"external=x": "external=x", "pages=0": "a factor", "pages=x": "pages=x", "latncy=1s": `did you mean "latency"`,
		"noon:provider.p.limits.l.max=1": "TIME:provider", "1h:provider.p.limits.l.rate=1": "want N/s", "1h:provider.p.limits.l.rate=0/s": "lets nothing through",
		"1h:provider.p.limits.l.burst=1": "TIME:provider", "1h:provider.p.limits.l.max=-1": "TIME:provider",
	} {
		if _, err := simulate.ParseFaults(text, noon); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v, want an error with %q", text, err, message)
		}
	}
}

// TestRandomFaultsReadBack: what a hunt prints can be typed in again.
func TestRandomFaultsReadBack(t *testing.T) {
	config := validatetest.Folder(t, "../examples/"+"meraki")
	different := make(map[string]bool)
	for seed := range uint64(300) {
		f := simulate.RandomFaults(config, 24*time.Hour, rand.New(rand.NewPCG(seed, 1)))
		text := f.String()
		different[text] = true
		back, err := simulate.ParseFaults(text, noon)
		if err != nil || back.String() != text {
			t.Fatalf("%q comes back as %q, %v", text, back.String(), err)
		}
		if f.Pages == 1 {
			f.Pages = 0
		}
		if !reflect.DeepEqual(f, back) {
			t.Fatalf("%q comes back as %+v, want %+v", text, back, f)
		}
		if err := f.Check(config); err != nil {
			t.Fatal(err)
		}
	}
	if len(different) < 250 {
		t.Errorf("only %d different faults in 300", len(different))
	}
}

// FuzzParseFaults: whatever is read is written so that it reads the same.
func FuzzParseFaults(f *testing.F) {
	for _, seed := range []string{"latency=50ms±20ms,errors=1%", "external=1/90s", "skew=-2s,pages=3", "1h30m:provider.a.limits.b.max=3", "1h:provider.a.limits.b.rate=1/90s", ",", "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := simulate.ParseFaults(text, noon)
		if err != nil {
			return
		}
		once := faults.String()
		again, err := simulate.ParseFaults(once, noon)
		if err != nil && !strings.Contains(once, "-") { // a change before the beginning cannot be written as a delay
			t.Fatalf("%q is written as %q: %v", text, once, err)
		}
		if err == nil && again.String() != once && faults.External == 0 {
			t.Fatalf("%q is written as %q, then as %q", text, once, again.String())
		}
	})
}
