package plan_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

var monday = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func providerDocument(limits string) string {
	return head + "kind: Provider\nmetadata: { name: vendor }\nspec:\n  baseURL: https://api.example.com\n  limits:\n" + limits
}

const (
	account  = head + "kind: Account\nmetadata: { name: acme }\nspec: { provider: vendor }\n"
	settings = head + "kind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: 0, retryOverhead: 0 } }\n"
	orgs     = head + "kind: Job\nmetadata: { name: orgs }\nspec: { account: acme, interval: 52w, estimate: { pagesPerRun: 0 }, request: { endpoint: /orgs }, inventory: { items: response, vars: { org: item.id } } }\n"
	perOrg   = head + "kind: Job\nmetadata: { name: poll }\nspec: { account: acme, interval: 1m, forEach: orgs, request: { endpoint: '/orgs/{org}' } }\n"
)

func job(t *testing.T, p *plan.Plan, name string) plan.Job {
	t.Helper()
	for _, j := range p.Jobs {
		if j.Job == name {
			return j
		}
	}
	t.Fatalf("the plan has no job %s", name)
	return plan.Job{}
}

func scope(t *testing.T, p *plan.Plan, limit string) plan.Scope {
	t.Helper()
	for _, s := range p.Scopes {
		if s.Limit == limit {
			return s
		}
	}
	t.Fatalf("the plan has no scope of %s", limit)
	return plan.Scope{}
}

func TestShadowAndCountsLimitsNeverStretch(t *testing.T) {
	limits := `    - { name: watched, kind: quota, mode: shadow, max: 1, window: { period: day }, scope: { by: [account] } }
    - { name: invalid, kind: quota, max: 1, window: { period: day }, scope: { by: [account] }, counts: { status: [401] } }
`
	p := plan.Make(plan.Input{Config: validatetest.Config(t, providerDocument(limits), account, settings, jobDocument("a", "interval: 1m")), At: monday})
	if len(p.Scopes) != 0 || p.Jobs[0].Stretch != 1 || !p.Feasible {
		t.Errorf("scopes %v, stretch %v, feasible %v; want none, 1, true", p.Scopes, p.Jobs[0].Stretch, p.Feasible)
	}
}

func TestConcurrencySetsAFloorOnlyWithAKnownLatency(t *testing.T) {
	limits := "    - { name: slots, kind: concurrency, max: 2, scope: { by: [account] } }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, orgs, perOrg)
	in := plan.Input{Config: c, At: monday, Fanout: map[string]int64{"orgs": 100}}
	if p := plan.Make(in); job(t, p, "poll").Stretch != 1 || len(p.Scopes) != 0 {
		t.Errorf("without a latency: %+v", p)
	}
	in.State = &plan.State{History: map[string]plan.History{"poll": {LatencySeconds: 3, RetryRatio: -1}}}
	p := plan.Make(in) // 100 requests of 3 s, two at a time: 150 s
	j := job(t, p, "poll")
	if j.EffectiveSeconds != 150 || j.LimitedBy == nil || j.LimitedBy.Reason != "concurrency" || j.LimitedBy.Limit != "slots" {
		t.Errorf("every %v s by %v, want 150 s by slots", j.EffectiveSeconds, j.LimitedBy)
	}
	if s := scope(t, p, "slots"); !s.Feasible || !close(s.Projected, 2) || s.Budget != 2 {
		t.Errorf("slots: %v of %v in flight, want 2 of 2", s.Projected, s.Budget)
	}
}

func TestInventorySaysWhichKeysAreFull(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 1440, window: { period: day }, scope: { by: [account, \"var:org\"] } }\n"
	poll := head + "kind: Job\nmetadata: { name: poll }\nspec: { account: acme, interval: 1m, forEach: nets, request: { endpoint: '/nets/{net}' } }\n"
	nets := head + "kind: Job\nmetadata: { name: nets }\nspec: { account: acme, interval: 52w, forEach: orgs, estimate: { pagesPerRun: 0 }, request: { endpoint: '/orgs/{org}/nets' }, inventory: { items: response, vars: { net: item.id } } }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, orgs, nets, poll)
	var items []map[string]string
	for i := range 4 { // three networks in one organization, one in another
		items = append(items, map[string]string{"net": fmt.Sprint(i), "org": fmt.Sprint(i / 3)})
	}
	in := plan.Input{Config: c, At: monday, State: &plan.State{Inventories: map[string][]map[string]string{
		"nets": items, "orgs": {{"org": "0"}, {"org": "1"}},
	}}}
	p := plan.Make(in)
	if j := job(t, p, "poll"); j.EffectiveSeconds != 180 || j.Instances != 4 {
		t.Errorf("with the inventory: %d instances every %v s, want 4 every 180 s (three on the fullest key)", j.Instances, j.EffectiveSeconds)
	}
	if s := scope(t, p, "daily"); s.Keys != 2 || s.Key != "acme/org=*" || s.Projected != 1440 {
		t.Errorf("the row is %s with %d keys and %v units, want acme/org=* with 2 and 1440", s.Key, s.Keys, s.Projected)
	}
	in.Fanout = map[string]int64{"nets": 4, "orgs": 2}
	if j := job(t, plan.Make(in), "poll"); j.EffectiveSeconds != 120 {
		t.Errorf("with sizes alone: every %v s, want 120 s (two on each of two keys)", j.EffectiveSeconds)
	}
}

func TestOfAPatternsKeysTheOneWithLeastDecides(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 2880, window: { period: day }, scope: { by: [account, \"var:org\"] } }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, orgs, perOrg)
	counter := func(org string, used int64) plan.Counter {
		return plan.Counter{Provider: "vendor", Limit: "daily", Key: "acme/org=" + org, Start: monday, End: monday.Add(24 * time.Hour), UsedUnits: used}
	}
	in := plan.Input{Config: c, At: monday.Add(12 * time.Hour), Fanout: map[string]int64{"orgs": 3}}
	in.State = &plan.State{Counters: []plan.Counter{counter("a", 10), counter("b", 2700), counter("c", 20)}}
	s := scope(t, plan.Make(in), "daily")
	if s.Quota.Used != 2700 || s.Budget != 180 || !s.Quota.FromState {
		t.Errorf("used %d, budget %v; want the key with 2700 used and 180 left", s.Quota.Used, s.Budget)
	}
	if got := job(t, plan.Make(in), "poll").EffectiveSeconds; got != 240 {
		t.Errorf("every %v s, want 240 s", got)
	}
	// A window that is over is no state.
	in.At = monday.Add(36 * time.Hour)
	if s := scope(t, plan.Make(in), "daily"); s.Quota.FromState || s.Budget != 2880 {
		t.Errorf("yesterday's counters: %+v", s)
	}
}

func TestTargetsMultiplyRunsAndKeepKeysApart(t *testing.T) {
	limits := "    - { name: device, kind: quota, max: 1440, window: { period: day }, scope: { by: [target] } }\n    - { name: all, kind: quota, max: 100000, window: { period: day }, scope: { by: [account] } }\n"
	targets := head + "kind: Account\nmetadata: { name: acme }\nspec: { provider: vendor, targets: [{ name: r1, baseURL: 'https://10.0.0.1' }, { name: r2, baseURL: 'https://10.0.0.2' }] }\n"
	p := plan.Make(plan.Input{Config: validatetest.Config(t, providerDocument(limits), targets, settings, jobDocument("a", "interval: 1m")), At: monday})
	if j := p.Jobs[0]; j.Instances != 2 || j.Stretch != 1 {
		t.Errorf("%d instances stretched %v times, want 2 and 1", j.Instances, j.Stretch)
	}
	if s := scope(t, p, "device"); s.Keys != 2 || s.Projected != 1440 {
		t.Errorf("device: %d keys with %v units, want 2 with 1440", s.Keys, s.Projected)
	}
	if s := scope(t, p, "all"); s.Projected != 2880 {
		t.Errorf("all: %v units, want 2880", s.Projected)
	}
}

func TestNothingToDoIsAnAnswer(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 0, window: { period: day }, scope: { by: [account] } }\n    - { name: org, kind: quota, max: 10, window: { period: day }, scope: { by: [\"var:org\"] } }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, orgs, perOrg)
	p := plan.Make(plan.Input{Config: c, At: monday, Fanout: map[string]int64{"orgs": 0}})
	if !p.Feasible || len(p.Scopes) != 1 || p.Scopes[0].Limit != "daily" || p.Scopes[0].Demand != 0 {
		t.Errorf("a fan-out of 0: %+v", p)
	}
	p = plan.Make(plan.Input{Config: c, At: monday, Fanout: map[string]int64{"orgs": 1}})
	if p.Feasible || p.Scopes[0].Budget != 0 || !p.Scopes[0].ExhaustsAt.Equal(monday) {
		t.Errorf("a quota of 0: %+v", p)
	}
	for _, s := range p.Scopes {
		if math.IsNaN(s.Headroom()) || math.IsInf(s.Headroom(), 0) {
			t.Errorf("%s: headroom is %v", s.Limit, s.Headroom())
		}
	}
}

func TestUnknownSizesAreSaid(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 10, window: { period: day }, scope: { by: [account] } }\n"
	p := plan.Make(plan.Input{Config: validatetest.Config(t, providerDocument(limits), account, settings, orgs, perOrg), At: monday})
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "fanout-unknown" || p.Warnings[0].Job != "orgs" {
		t.Errorf("warnings %v, want one fanout-unknown of orgs", p.Warnings)
	}
}

func TestHistoryBeatsEstimates(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 100000, window: { period: day }, scope: { by: [account] }, costFrom: { header: X-Cost } }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, jobDocument("a", "interval: 1m, estimate: { pagesPerRun: 9 }"))
	in := plan.Input{Config: c, At: monday, State: &plan.State{History: map[string]plan.History{"a": {PagesPerRun: 2, RetryRatio: 0.5, Costs: map[string]float64{"daily": 7}}}}}
	p := plan.Make(in)
	if got := p.Jobs[0].CallsPerRun; got != 3 {
		t.Errorf("%v calls a run, want 2 pages × 1.5", got)
	}
	if got := scope(t, p, "daily").Demand; got != 3*7*1440 {
		t.Errorf("demand %v, want 3 × 7 × 1440", got)
	}
}

func TestOverridesOfTheDocumentsHold(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 1440, window: { period: day }, scope: { by: [account] }, overrides: [{ from: '2026-11-30T00:00:00Z', to: '2026-12-01T00:00:00Z', max: 720 }] }\n"
	c := validatetest.Config(t, providerDocument(limits), account, settings, jobDocument("a", "interval: 1m"))
	if got := plan.Make(plan.Input{Config: c, At: monday}).Jobs[0].EffectiveSeconds; got != 120 {
		t.Errorf("on the day of the override: every %v s, want 120", got)
	}
	if got := plan.Make(plan.Input{Config: c, At: monday.AddDate(0, 0, 1)}).Jobs[0].EffectiveSeconds; got != 60 {
		t.Errorf("a day later: every %v s, want 60", got)
	}
}

func TestWorstWindowIsTheLongest(t *testing.T) {
	for period, days := range map[string]float64{"month": 31, "day": 25.0 / 24} {
		limits := fmt.Sprintf("    - { name: q, kind: quota, max: 1000, window: { period: %s, timezone: Europe/Paris }, scope: { by: [account] } }\n", period)
		c := validatetest.Config(t, providerDocument(limits), account, settings, jobDocument("a", "interval: 1m"))
		p := plan.Make(plan.Input{Config: c, At: time.Date(2027, 2, 10, 0, 0, 0, 0, time.UTC), WorstWindow: true})
		got := scope(t, p, "q").HorizonSeconds / 86400
		if period == "month" {
			got = math.Round(got) // a month with a change of the clock is an hour longer or shorter
		}
		if got != days {
			t.Errorf("%s: %v days, want %v", period, got, days)
		}
	}
}

func TestPromises(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 1440, window: { period: day }, scope: { by: [account] } }\n"
	assert := head + "kind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: 0, retryOverhead: 0 }, assert: [{ limit: vendor/daily, headroom: 0.25 }] }\n"
	for interval, holds := range map[string]bool{"1m": false, "80s": true, "79s": false} {
		p := plan.Make(plan.Input{Config: validatetest.Config(t, providerDocument(limits), account, assert, jobDocument("a", "interval: "+interval)), At: monday})
		if p.Holds() != holds || !p.Feasible || len(p.Assertions) != 1 {
			t.Errorf("every %s: holds %v, %+v; want %v", interval, p.Holds(), p.Assertions, holds)
		}
	}
}

func TestRemediesAreMinimal(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] } }\n"
	half := head + "kind: Account\nmetadata: { name: acme }\nspec: { provider: vendor, budget: { share: 0.5 } }\n"
	critical := strings.Replace(perOrg, "interval: 1m", "interval: 1m, priority: critical", 1)
	in := plan.Input{Config: validatetest.Config(t, providerDocument(limits), half, settings, orgs, critical), At: monday, Fanout: map[string]int64{"orgs": 2}}
	p := plan.Make(in)
	planned := 0
	got := make(map[string]string)
	for _, r := range plan.Remedies(in, p, func() { planned++ }) {
		got[r.Kind] = r.Flag
		if !r.Feasible {
			t.Errorf("%s: does not make the plan feasible", r.Flag)
		}
	}
	// 2 × 86400/i <= 500; 2 × 1440 <= floor(M/2); no share and no fan-out of at least 1 is enough.
	want := map[string]string{"interval": "--set job.poll.interval=5m46s", "max": "--set provider.vendor.limits.daily.max=5760"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("remedies %v, want %v", got, want)
	}
	if planned == 0 || planned > 300 {
		t.Errorf("planned %d times", planned)
	}
}

func TestRemediesOfShareFanoutAndRate(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 10000, window: { period: day }, scope: { by: [account] } }\n"
	half := head + "kind: Account\nmetadata: { name: acme }\nspec: { provider: vendor, budget: { share: 0.5 } }\n"
	critical := strings.Replace(perOrg, "interval: 1m", "interval: 1m, priority: critical", 1)
	in := plan.Input{Config: validatetest.Config(t, providerDocument(limits), half, settings, orgs, critical), At: monday, Fanout: map[string]int64{"orgs": 6}}
	flags := make(map[string]string)
	for _, r := range plan.Remedies(in, plan.Make(in), nil) {
		flags[r.Kind] = r.Flag
	}
	if flags["share"] != "--set account.acme.budget.share=0.87" || flags["fanout"] != "--fanout orgs=3" { // 8640 of 10000; 3 × 1440 <= 5000
		t.Errorf("remedies %v", flags)
	}
	// Two critical jobs each fit a rate alone, but not together.
	rate := "    - { name: pace, kind: rate, rate: 1/s, burst: 1, scope: { by: [account] } }\n"
	in = plan.Input{Config: validatetest.Config(t, providerDocument(rate), account, settings,
		jobDocument("a", "interval: 10s, priority: critical, estimate: { pagesPerRun: 8 }"), jobDocument("b", "interval: 10s, priority: critical, estimate: { pagesPerRun: 8 }")), At: monday}
	flags = make(map[string]string)
	for _, r := range plan.Remedies(in, plan.Make(in), nil) {
		flags[r.Kind] = r.Flag
	}
	if flags["rate"] != "--set provider.vendor.limits.pace.rate=1.6/s" || flags["interval"] != "--set job.a.interval=40s" {
		t.Errorf("remedies %v", flags)
	}
}

// TestMakeKeepsBudgets: in random configurations, no key is over its budget unless the plan says so, critical jobs stand at
// their floor, and the same input gives the same plan.
func TestMakeKeepsBudgets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var limits strings.Builder
		for i := range rapid.IntRange(1, 4).Draw(rt, "limits") {
			by := rapid.SampledFrom([]string{"[account]", "[instance]", "[provider]", `[account, "var:org"]`}).Draw(rt, "by")
			if rapid.Bool().Draw(rt, "rate") {
				fmt.Fprintf(&limits, "    - { name: l-%d, kind: rate, rate: %d/m, burst: 1, scope: { by: %s } }\n", i, rapid.IntRange(1, 600).Draw(rt, "n"), by)
				continue
			}
			window := rapid.SampledFrom([]string{"{ period: day }", "{ period: hour }", "{ rolling: 6h }", "{ every: 15m }"}).Draw(rt, "window")
			fmt.Fprintf(&limits, "    - { name: l-%d, kind: quota, max: %d, window: %s, scope: { by: %s } }\n", i, rapid.IntRange(1, 20000).Draw(rt, "max"), window, by)
		}
		documents := []string{providerDocument(limits.String()), account, orgs}
		for i := range rapid.IntRange(1, 6).Draw(rt, "jobs") {
			spec := fmt.Sprintf("interval: %ds, priority: %s, estimate: { pagesPerRun: %d }", rapid.IntRange(1, 7200).Draw(rt, "interval"),
				rapid.SampledFrom([]string{"critical", "high", "normal", "low"}).Draw(rt, "priority"), rapid.IntRange(0, 9).Draw(rt, "pages"))
			if rapid.Bool().Draw(rt, "fanout") {
				spec += ", forEach: orgs"
			}
			documents = append(documents, jobDocument(fmt.Sprintf("j-%d", i), spec))
		}
		in := plan.Input{Config: validatetest.Config(t, documents...), At: monday.Add(time.Duration(rapid.IntRange(0, 86399).Draw(rt, "at")) * time.Second)}
		in.Fanout = map[string]int64{"orgs": int64(rapid.IntRange(0, 20).Draw(rt, "orgs"))}
		p := plan.Make(in)
		load := make(map[string]float64)
		for _, j := range p.Jobs {
			if j.EffectiveSeconds < j.DesiredSeconds || math.IsNaN(j.EffectiveSeconds) {
				rt.Fatalf("job %s asks for %v s and gets %v s", j.Job, j.DesiredSeconds, j.EffectiveSeconds)
			}
			if (j.LimitedBy == nil) != (j.Stretch == 1) {
				rt.Fatalf("job %s: stretch %v, limited by %v", j.Job, j.Stretch, j.LimitedBy)
			}
			for _, u := range j.Scopes {
				load[u.Limit+" "+u.Key] += u.CallsPerWindow
			}
		}
		feasible := true
		for _, s := range p.Scopes {
			if !close(load[s.Limit+" "+s.Key], s.Projected) {
				rt.Fatalf("%s %s: projected %v, the jobs add up to %v", s.Limit, s.Key, s.Projected, load[s.Limit+" "+s.Key])
			}
			feasible = feasible && s.Projected <= s.Budget*(1+1e-6)
		}
		if feasible != p.Feasible {
			rt.Fatalf("feasible is %v, the budgets say %v", p.Feasible, feasible)
		}
		if again := plan.Make(in); !reflect.DeepEqual(again, p) {
			rt.Fatal("the same input gave another plan")
		}
	})
}
