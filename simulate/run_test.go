package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// undersized is a day's quota for half of what four classes of jobs want; maxInterval makes nothing of it, the plan decides.
func undersized(window, extra string) string {
	text := `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - name: daily
      kind: quota
      max: 6000
      window: ` + window + `
      scope: { by: [account] }
      ` + extra + `
    - { name: pace, kind: rate, rate: 5/s, burst: 5, scope: { by: [account] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
`
	for _, priority := range []string{"critical", "high", "normal", "low"} {
		text += `---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: ` + priority + ` }
spec: { account: acme, interval: 30s, priority: ` + priority + `, request: { endpoint: /` + priority + ` } }
`
	}
	return text
}

const readHeaders = "sync: { limitHeader: X-Limit, remainingHeader: X-Remaining }"

// byName finds a job's report.
func byName(t *testing.T, r *simulate.Report, name string) simulate.JobReport {
	t.Helper()
	for _, j := range r.Jobs {
		if j.Job == name {
			return j
		}
	}
	t.Fatalf("the report has no job %s", name)
	return simulate.JobReport{}
}

// holds checks what an undersized quota must not change: the critical job keeps its interval, lower classes give way in order, and the
// vendor refuses nothing because of a quota.
func holds(t *testing.T, r *simulate.Report) {
	t.Helper()
	if r.Broken > 0 {
		t.Errorf("%d violations, the first %+v", r.Broken, r.Violations[0])
	}
	for _, l := range r.RateLimited {
		if l.Limit == "daily" {
			t.Errorf("%d answers said rate limited by the quota, because of %s", l.Answers, l.Cause)
		}
	}
	critical := byName(t, r, "critical")
	if critical.MeanSeconds != 30 || critical.LongestSeconds != 30 || critical.Failed > 0 {
		t.Errorf("the critical job ran every %v s, at most %v s, and failed %d times; want every 30 s", critical.MeanSeconds, critical.LongestSeconds, critical.Failed)
	}
	high, normal, low := byName(t, r, "high").MeanSeconds, byName(t, r, "normal").MeanSeconds, byName(t, r, "low").MeanSeconds
	if !(high <= normal+0.5 && normal <= low+0.5) || low < 60 {
		t.Errorf("the classes ran every %v, %v, %v s: the lower one must give way first", high, normal, low)
	}
	for _, q := range r.Quotas {
		for _, p := range q.Points {
			if p.UsedUnits > p.MaxUnits {
				t.Errorf("%s: %d of %d units used at %s", q.Limit, p.UsedUnits, p.MaxUnits, p.At)
			}
		}
	}
}

func TestUndersizedDay(t *testing.T) {
	r := simulate.Run(simulate.Scenario{
		Config: validatetest.Config(t, undersized("{ period: day }", "")), Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 24 * time.Hour, Seed: 1,
		Faults: simulate.Faults{Latency: 100 * time.Millisecond, Jitter: 50 * time.Millisecond},
	})
	holds(t, r)
	// Nine tenths of the quota are for first attempts; a plan that leaves much of that unused would be no art.
	if r.Requests < 5200 || r.Requests > 5700 {
		t.Errorf("%d requests of 6000: want nearly all that the reserve leaves", r.Requests)
	}
	if len(r.RateLimited) > 0 {
		t.Errorf("rate limited: %+v", r.RateLimited)
	}
}

// TestExternalClient: somebody else takes 30 percent of the quota, and tapyr sees it in the headers.
func TestExternalClient(t *testing.T) {
	r := simulate.Run(simulate.Scenario{
		Config: validatetest.Config(t, undersized("{ period: day }", readHeaders)), Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 24 * time.Hour, Seed: 1,
		Faults: simulate.Faults{Latency: 100 * time.Millisecond, External: 0.3 * 6000 / 86400},
	})
	holds(t, r)
	if r.ExternalRequests < 1500 || r.ExternalRequests > 2100 {
		t.Fatalf("the other client sent %d requests, want about 1800", r.ExternalRequests)
	}
	if r.ExternalRefused > 0 {
		t.Errorf("%d requests of the other client were refused: tapyr took its share", r.ExternalRefused)
	}
	if sum := r.Requests + r.ExternalRequests; sum > 6000 || sum < 5000 {
		t.Errorf("%d requests of both, want at most 6000 and not much less", sum)
	}
}

// TestDaylightSaving: days of 23 and 25 hours in three zones.
func TestDaylightSaving(t *testing.T) {
	for zone, days := range map[string][]string{
		"Europe/Paris":        {"2026-03-28T23:00:00Z", "2026-10-24T22:00:00Z"},
		"America/New_York":    {"2026-03-08T05:00:00Z", "2026-11-01T04:00:00Z"},
		"Australia/Lord_Howe": {"2026-10-03T13:30:00Z", "2026-04-04T13:00:00Z"},
	} {
		for _, start := range days {
			t.Run(zone+" "+start, func(t *testing.T) {
				r := simulate.Run(simulate.Scenario{
					Config: validatetest.Config(t, undersized("{ period: day, timezone: "+zone+" }", "")), Start: instant(t, start), Duration: 50 * time.Hour, Seed: 1,
					Faults: simulate.Faults{Latency: 100 * time.Millisecond, Jitter: 90 * time.Millisecond, Errors: 0.01},
				})
				if len(r.RateLimited) > 0 {
					t.Errorf("rate limited: %+v", r.RateLimited)
				}
				high, low := byName(t, r, "high"), byName(t, r, "low")
				if critical := byName(t, r, "critical"); critical.MeanSeconds != 30 || r.Broken > 0 || high.MeanSeconds > low.MeanSeconds {
					t.Errorf("critical every %v s, high %v s, low %v s; violations %v", critical.MeanSeconds, high.MeanSeconds, low.MeanSeconds, r.Violations)
				}
			})
		}
	}
}

// TestHalvedAtNoon: the vendor halves its limit, and tells it in a header only. What is left after noon must do.
func TestHalvedAtNoon(t *testing.T) {
	// The critical job alone takes 2880 of the day; 8000 and 4000 leave it its interval, and the others what is left.
	text := strings.Replace(undersized("{ period: day }", readHeaders), "max: 6000", "max: 12000", 1)
	r := simulate.Run(simulate.Scenario{
		Config: validatetest.Config(t, text), Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 24 * time.Hour, Seed: 1,
		Faults: simulate.Faults{
			Latency: 100 * time.Millisecond,
			Changes: []simulate.LimitChange{{After: 12 * time.Hour, Provider: "vendor", Limit: "daily", Max: 8000}},
		},
	})
	if len(r.RateLimited) > 0 || r.Broken > 0 {
		t.Errorf("rate limited: %+v, violations %v", r.RateLimited, r.Violations)
	}
	if critical := byName(t, r, "critical"); critical.MeanSeconds != 30 || critical.Failed > 0 {
		t.Errorf("the critical job ran every %v s and failed %d times", critical.MeanSeconds, critical.Failed)
	}
	learned := false
	for _, q := range r.Quotas {
		for _, p := range q.Points {
			learned = learned || p.MaxUnits == 8000 && p.At.Hour() == 12
		}
	}
	if !learned {
		t.Error("the new maximum was not learned within the hour")
	}
	stretched := false
	for _, c := range r.Changes {
		stretched = stretched || c.Job == "low" && c.At.Hour() == 12 && c.To > c.From
	}
	if !stretched {
		t.Errorf("the low job was not stretched after noon: %v", r.Changes)
	}
	if r.Requests > 8000 {
		t.Errorf("%d requests, more than the vendor's new limit", r.Requests)
	}
}

// TestSameSeedSameBytes: a report is a function of its scenario.
func TestSameSeedSameBytes(t *testing.T) {
	config := validatetest.Folder(t, "../examples/"+"meraki")
	report := func(seed uint64) string {
		r := simulate.Run(simulate.Scenario{
			Config: config, Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 3 * time.Hour, Seed: seed,
			Fanout: map[string]int64{"meraki-organizations": 4},
			Faults: simulate.Faults{Latency: 300 * time.Millisecond, Jitter: 200 * time.Millisecond, Errors: 0.05, Spurious: 0.02, External: 0.5},
		})
		return fmt.Sprintf("%+v %+v %+v %+v %+v %d", r.Jobs, r.Waits, r.Refusals, r.RateLimited, r.Quotas, r.Requests)
	}
	first := report(7)
	for range 3 {
		if again := report(7); again != first {
			t.Fatalf("the same seed gave\n%s\nand\n%s", first, again)
		}
	}
	if report(8) == first {
		t.Error("another seed gave the same report: nothing is random")
	}
}

// TestFanout: items of nested inventories become instances, as many as asked for.
func TestFanout(t *testing.T) {
	r := simulate.Run(simulate.Scenario{
		Config: validatetest.Folder(t, "../examples/"+"meraki"), Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 2 * time.Hour, Seed: 1,
		Fanout: map[string]int64{"meraki-organizations": 3, "meraki-networks": 31},
	})
	for job, want := range map[string]int64{"meraki-organizations": 1, "meraki-devices": 3, "meraki-networks": 3, "meraki-clients": 31} {
		if got := byName(t, r, job); got.Instances != want || got.Runs < want {
			t.Errorf("%s has %d instances and %d runs, want %d instances", job, got.Instances, got.Runs, want)
		}
	}
}

// TestLogins: an account with tokens asks for one when it needs it, once for all who wait, and again when it has lived its time. The
// limits see it as an auth request.
func TestLogins(t *testing.T) {
	config := validatetest.Config(t, vendorDocument(`  auth: { type: oauth2_client_credentials, tokenURL: /oauth/token, clientId: key, clientSecret: secret, ttl: 20m }
  limits:
    - { name: logins, kind: quota, max: 100, window: { period: day }, appliesTo: { authRequests: only } }
    - { name: calls, kind: quota, max: 1000, window: { period: day }, appliesTo: { authRequests: exclude } }
`)+jobDocument("a", "request: { endpoint: /a }")+jobDocument("b", "priority: critical, request: { endpoint: /b }"))
	s := simulate.Scenario{Config: config, Start: instant(t, "2026-11-30T00:00:00Z"), Duration: 4 * time.Hour, Seed: 1, Faults: simulate.Faults{Latency: time.Second}}
	r := simulate.Run(s)
	used := make(map[string]int64)
	for _, q := range r.Quotas {
		used[q.Limit] = q.Points[len(q.Points)-1].UsedUnits
	}
	// Runs come at two phases of five minutes: a token of 20 minutes is renewed by the first run that finds it old.
	if used["logins"] < 10 || used["logins"] > 12 || used["calls"] != 96 || r.Requests != used["logins"]+96 {
		t.Errorf("%d requests, %v; want a token every 20 minutes, and 2 x 48 calls", r.Requests, used)
	}
	if r.Broken > 0 || byName(t, r, "a").Runs != 48 || byName(t, r, "a").Failed > 0 {
		t.Errorf("violations %v, job %+v", r.Violations, byName(t, r, "a"))
	}
	// Without tokens nothing is sent, and the runs end.
	s.Faults.Errors = 1
	if r := simulate.Run(s); r.Broken > 0 || r.Answers[200] > 0 || byName(t, r, "a").Requests > 0 || byName(t, r, "a").Failed == 0 {
		t.Errorf("violations %v, answers %v, job %+v", r.Violations, r.Answers, byName(t, r, "a"))
	}
}
