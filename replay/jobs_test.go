package replay

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// Pages of one run follow each other; a first attempt half an interval later begins the next run. Retries are no pages.
func TestPagesPerRun(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] } }"))
	var lines []string
	for run, pages := range []int{3, 3, 1, 7, 3} {
		for page := range pages {
			at := secondsIn(run*600 + page)
			lines = append(lines, rowAt(at, ""))
			if page == 1 {
				lines = append(lines, rowAt(at, `"retry":true`))
			}
		}
	}
	j := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0].Jobs[0]
	if j.PagesPerRun != 3 || j.Requests != 21 || j.Retries != 4 || math.Abs(j.RetryRatio-4.0/17) > 1e-12 {
		t.Errorf("%+v", j)
	}
}

// Instances are told apart by their variables, whether they stand in the row or in its path.
func TestRunsOfInstances(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	row := func(at int, endpoint, vars string) string {
		return fmt.Sprintf(`{"ts":%q,"provider":"vendor","account":"acme","method":"get","endpoint":%q,"job":"devices","status":200,"latencyMs":20%s}`, secondsIn(at), endpoint, vars)
	}
	lines := []string{
		row(0, "/orgs/{organizationId}/devices", `,"vars":{"organizationId":"1"}`), row(1, "/orgs/1/devices/", ""), row(2, "/orgs/2/devices?page=2", ""), row(3, "//orgs/2/devices", ""),
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0]
	if j := report.Jobs[0]; j.PagesPerRun != 2 || j.Requests != 4 {
		t.Errorf("%+v", j)
	}
	var keys []string
	for _, s := range report.Scopes {
		if s.Limit == "hourly" {
			keys = append(keys, fmt.Sprintf("%s %d", s.Key, s.Windows[0].Used))
		}
	}
	if want := []string{"acme/organizationId=1 2", "acme/organizationId=2 2"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}

// The histogram's quantiles are those of the plain list, to 3%.
func TestLatencyQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, int64(30*24*time.Hour)), 1, 50).Draw(t, "latencies")
		var l latencies
		for _, n := range list {
			l.add(n)
			if c := cellOf(n); n < lowest(c) || n >= lowest(c+1) {
				t.Fatalf("%d is in cell %d, which is [%d, %d)", n, c, lowest(c), lowest(c+1))
			}
		}
		slices.Sort(list)
		for _, p := range []float64{0.5, 0.95} {
			rank := int(math.Ceil(p*float64(len(list)))) - 1
			want := float64(list[rank]) / 1e9
			if got := l.quantile(p); math.Abs(got-want) > 0.032*want+1e-9 {
				t.Fatalf("the %v quantile is %v, want %v", p, got, want)
			}
		}
	})
	if (&latencies{}).quantile(0.5) != 0 {
		t.Error("no latencies have a quantile")
	}
}

// Curves have bounded points, in order of time, rise within a window, and end at the present.
func TestCurves(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] } }"))
	lines := repeat(20*24, func(i int) string { return rowAt(secondsIn(i*3600+7), "") })
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, CurvePoints: 100})[0]
	s := report.Scopes[0]
	if len(s.Curve) < 40 || len(s.Curve) > 150 {
		t.Fatalf("%d points", len(s.Curve))
	}
	for i, p := range s.Curve[1:] {
		before := s.Curve[i]
		if p.At.Before(before.At) || p.Start.Equal(before.Start) && p.Used < before.Used || p.Usable != 1000 {
			t.Fatalf("%+v after %+v", p, before)
		}
	}
	if last := s.Curve[len(s.Curve)-1]; !last.At.Equal(report.At) || last.Used != s.Windows[len(s.Windows)-1].Used {
		t.Errorf("the last point is %+v, the last window %+v", last, s.Windows[len(s.Windows)-1])
	}
}

// Windows of minutes over months stay bounded, and those with something to tell stay longest.
func TestWindowsAreBounded(t *testing.T) {
	s := &scopeWindows{}
	for i := range 3 * mostWindows {
		s.windows = append(s.windows, Window{Start: start.Add(time.Duration(i) * time.Minute), Remaining: int64(i % 1000)})
		if len(s.windows) > mostWindows {
			s.thin()
		}
	}
	if len(s.windows) > mostWindows || !s.windows[0].Exhausted() {
		t.Errorf("%d windows, the first is %+v", len(s.windows), s.windows[0])
	}
	for i := range s.windows[1:] {
		if !s.windows[i].Start.Before(s.windows[i+1].Start) {
			t.Fatalf("window %d is out of order", i)
		}
	}
}
