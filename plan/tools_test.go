package plan_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// dayPlan plans jobs under one daily quota.
func dayPlan(t testing.TB, units int64, jobs ...string) *plan.Plan {
	t.Helper()
	return plan.Make(plan.Input{Config: validatetest.Config(t, append([]string{quotaDocuments(units, "day", "1")}, jobs...)...), At: monday})
}

func TestCompare(t *testing.T) {
	base := dayPlan(t, 1440, jobDocument("a", "interval: 1m"))
	for name, c := range map[string]struct {
		head           *plan.Plan
		changed, worse bool
		bad            bool
		before, after  float64
	}{
		"the same":             {dayPlan(t, 1440, jobDocument("a", "interval: 1m")), false, false, false, 60, 60},
		"slower on purpose":    {dayPlan(t, 1440, jobDocument("a", "interval: 2m")), true, false, false, 60, 120},
		"a smaller quota":      {dayPlan(t, 720, jobDocument("a", "interval: 1m")), true, true, false, 60, 120},
		"infeasible":           {dayPlan(t, 1440, jobDocument("a", "interval: 30s, priority: critical")), true, true, true, 60, 30},
		"a promise is broken":  {dayPlan(t, 720, jobDocument("a", "interval: 1m, maxInterval: 90s")), true, true, true, 60, 120},
		"another job, in room": {dayPlan(t, 2880, jobDocument("a", "interval: 1m"), jobDocument("b", "interval: 1h")), true, false, false, 60, 60},
	} {
		d := plan.Compare(base, c.head)
		if d.Changed() != c.changed || d.Worse != c.worse || d.Bad() != c.bad {
			t.Errorf("%s: changed %v, worse %v, bad %v; want %v, %v, %v", name, d.Changed(), d.Worse, d.Bad(), c.changed, c.worse, c.bad)
		}
		if j := d.Jobs[0]; j.BaseEffectiveSeconds != c.before || j.HeadEffectiveSeconds != c.after {
			t.Errorf("%s: from %v to %v s, want %v to %v", name, j.BaseEffectiveSeconds, j.HeadEffectiveSeconds, c.before, c.after)
		}
	}
	gone := plan.Compare(base, dayPlan(t, 1440, jobDocument("b", "interval: 1m")))
	if len(gone.Jobs) != 2 || !math.IsNaN(gone.Jobs[0].BaseStretch) || gone.Jobs[1].Job != "a" || !math.IsNaN(gone.Jobs[1].HeadStretch) {
		t.Errorf("a job that went and one that came: %+v", gone.Jobs)
	}
	// A base that was infeasible already does not make the head bad, unless it gets worse.
	poor := dayPlan(t, 1000, jobDocument("a", "interval: 1m, priority: critical"))
	if d := plan.Compare(poor, poor); d.Bad() || d.Holds {
		t.Errorf("an infeasible plan against itself: bad %v, holds %v", d.Bad(), d.Holds)
	}
}

func TestAdopt(t *testing.T) {
	now := monday.Add(time.Hour)
	p := dayPlan(t, 1440, jobDocument("a", "interval: 1m")) // fits exactly every 60 s
	held := func(interval time.Duration, ago time.Duration) map[string]plan.Held {
		return map[string]plan.Held{"a": {Interval: interval, ChangedAt: now.Add(-ago)}}
	}
	for name, c := range map[string]struct {
		held map[string]plan.Held
		want time.Duration
	}{
		"a new job":                       {nil, time.Minute},
		"a tenth shorter":                 {held(67*time.Second, time.Hour), time.Minute},
		"less than a tenth shorter":       {held(66*time.Second, time.Hour), 66 * time.Second},
		"the old no longer fits":          {held(59*time.Second, time.Hour), time.Minute},
		"changed a moment ago":            {held(10*time.Minute, time.Minute), 10 * time.Minute},
		"changed a moment ago, too short": {held(30*time.Second, time.Minute), 30 * time.Second},
		"the same":                        {held(time.Minute, time.Hour), time.Minute},
	} {
		got := p.Adopt(c.held, now, 5*time.Minute)["a"]
		if got.Interval != c.want {
			t.Errorf("%s: %v, want %v", name, got.Interval, c.want)
		}
		if kept := c.held != nil && got.Interval == c.held["a"].Interval; kept != (c.held != nil && got.ChangedAt.Equal(c.held["a"].ChangedAt)) {
			t.Errorf("%s: changed at %v", name, got.ChangedAt)
		}
	}
	// A longer interval that the old would have fitted as well is not worth a change: nothing is over budget.
	roomy := dayPlan(t, 100000, jobDocument("a", "interval: 2m"))
	if got := roomy.Adopt(held(time.Minute, time.Hour), now, 5*time.Minute)["a"].Interval; got != time.Minute {
		t.Errorf("the old interval fits, and became %v", got)
	}
}

func TestParseSweep(t *testing.T) {
	for text, want := range map[string]string{
		"fanout.orgs=1..9":                    "fanout.orgs 1 9 true",
		"provider.v.limits.l.max=0..100":      "provider.v.limits.l.max 0 100 false",
		"account.a.budget.share=0.1..1":       "account.a.budget.share 0.1 1 false",
		"job.a.interval=1m..1h30m":            "job.a.interval 60 5400 false",
		"fanout.orgs=9..1":                    "error",
		"fanout.orgs=-1..1":                   "error",
		"account.a.budget.share=0..1":         "error",
		"account.a.budget.share=0.5..1.5":     "error",
		"job.a.interval=0s..1m":               "error",
		"job.a.priority=1..2":                 "error",
		"fanout.orgs":                         "error",
		"fanout.orgs=1":                       "error",
		"provider.v.limits.l.burst=1..2":      "error",
		"account.a.budget.share=NaN..1":       "error",
		"fanout.orgs=1..99999999999999999999": "error",
	} {
		v, from, to, err := plan.ParseSweep(text)
		got := fmt.Sprint(v.Path, " ", from, " ", to, " ", v.MoreIsWorse)
		if err != nil {
			got = "error"
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
				t.Errorf("%s: the message does not quote it: %v", text, err)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, err)
		}
	}
}

func FuzzParseSweep(f *testing.F) {
	f.Add("fanout.orgs=1..9")
	f.Add("job.a.interval=1m..1h30m")
	f.Fuzz(func(t *testing.T, text string) {
		v, from, to, err := plan.ParseSweep(text)
		if err == nil && (to < from || math.IsNaN(from) || math.IsNaN(to) || v.Path == "") {
			t.Errorf("%q: %v from %v to %v", text, v.Path, from, to)
		}
	})
}

// TestSweepFindsTheEdge: the value that fits does, and the next does not, for figures of both directions.
func TestSweepFindsTheEdge(t *testing.T) {
	critical := strings.Replace(perOrg, "interval: 1m", "interval: 1m, priority: critical", 1)
	documents := []string{quotaDocuments(14_400, "day", "1"), orgs, critical}
	in := plan.Input{Config: validatetest.Config(t, documents...), At: monday, Fanout: map[string]int64{"orgs": 7}}
	for text, want := range map[string]float64{
		"fanout.orgs=1..500":                        10,
		"provider.vendor.limits.quota.max=1..20000": 7 * 1440,
		"account.acme.budget.share=0.01..1":         0.7,
		"job.poll.interval=1s..1h":                  42,
		"fanout.orgs=11..500":                       math.NaN(),
	} {
		v, from, to, err := plan.ParseSweep(text)
		if err != nil {
			t.Fatal(err)
		}
		s := v.Run(in, from, to, 5, nil)
		if s.Fits != want && !(math.IsNaN(want) && math.IsNaN(s.Fits)) {
			t.Errorf("%s: fits up to %v, want %v", text, s.Fits, want)
		}
		if len(s.Points) != 5 || s.Points[0].Value != from || s.Points[4].Value != to {
			t.Errorf("%s: points %+v", text, s.Points)
		}
	}
}

func TestExplainAddsUp(t *testing.T) {
	in := plan.Input{Config: validatetest.Config(t, quotaDocuments(1000, "day", "0.9"), jobDocument("a", "interval: 1m, priority: low"), jobDocument("b", "interval: 5m, priority: high")), At: monday}
	lines, ok := plan.Explain(in, "a")
	if !ok {
		t.Fatal("there is no job a")
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"a (low) asks for a run every 1m and gets one every 2m22s: stretch 2.367.",
		"Usable U = floor(1,000 × 0.9) = 900, reserve for retries R = floor(900 × 0) = 0.",
		"1 × 1 × 1 × 86,400 s / 60 s = 1,440 of 1,728 by 2 jobs",
		"low: 1 job asked for 1,440, got 612.",
		"high: 1 job asked for 288, got 288.",
		"What decides is vendor/quota on acme (quota).",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the explanation lacks %q:\n%s", want, text)
		}
	}
	if _, ok := plan.Explain(in, "nobody"); ok {
		t.Error("there is a job nobody")
	}
}

func TestExplainWithState(t *testing.T) {
	left := int64(400)
	state := &plan.State{Counters: []plan.Counter{{Provider: "vendor", Limit: "quota", Key: "acme", Start: monday, End: monday.Add(24 * time.Hour), UsedUnits: 300, ObservedRemaining: &left}}}
	in := plan.Input{Config: validatetest.Config(t, quotaDocuments(1000, "day", "1"), jobDocument("a", "interval: 1m")), At: monday.Add(12 * time.Hour), State: state}
	lines, _ := plan.Explain(in, "a")
	// Others took 1000 - 400 - 300 = 300 in half a day and will take 300 more: 100 are left for 12 hours.
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "Used so far 300, by other clients 300, remaining min(U - used, vendor's remaining) = 400.") ||
		!strings.Contains(text, "gets one every 7m12s") {
		t.Errorf("%s", text)
	}
}

func TestFigure(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1: "1", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", 0.041567: "0.04157", 1234.56: "1,234.6", 2.5: "2.5", 1e15: "1e+15"} {
		if got := plan.Figure(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}

// TestPhasesStayInTheirInterval: phases lie inside the interval, and those of one interval are evenly spaced.
func TestPhasesStayInTheirInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		intervals := make(map[string]time.Duration)
		for i := range rapid.IntRange(1, 40).Draw(t, "n") {
			intervals[fmt.Sprintf("i-%d", i)] = time.Duration(rapid.SampledFrom([]int{1, 7, 60, 3600}).Draw(t, "s")) * time.Second
		}
		for name, phase := range plan.Phases(intervals) {
			if phase < 0 || phase >= intervals[name] {
				t.Fatalf("%s starts at %v of %v", name, phase, intervals[name])
			}
		}
	})
}

func TestStartsAreInOrderAndOneIntervalApart(t *testing.T) {
	p := dayPlan(t, 1_000_000, jobDocument("a", "interval: 1m"), jobDocument("b", "interval: 7m"))
	from := monday.Add(3*time.Hour + 11*time.Second)
	starts, more := p.Starts(from, from.Add(time.Hour), 1000)
	if more || len(starts) < 60+8 || len(starts) > 60+9 {
		t.Fatalf("%d starts in an hour, more %v", len(starts), more)
	}
	last := make(map[string]time.Time)
	for i, s := range starts {
		if s.At.Before(from) || !s.At.Before(from.Add(time.Hour)) || i > 0 && s.At.Before(starts[i-1].At) {
			t.Fatalf("start %d is at %v", i, s.At)
		}
		want := map[string]time.Duration{"a": time.Minute, "b": 7 * time.Minute}[s.Job]
		if before, ok := last[s.Instance]; ok && s.At.Sub(before) != want {
			t.Fatalf("%s starts %v apart, want %v", s.Instance, s.At.Sub(before), want)
		}
		last[s.Instance] = s.At
	}
	if few, more := p.Starts(from, from.Add(time.Hour), 5); len(few) != 5 || !more || few[4] != starts[4] {
		t.Errorf("of five starts %v, more %v", few, more)
	}
}
