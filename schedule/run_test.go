package schedule_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// play sends a run's requests through an engine to a vendor who always answers the same, and tells when each was sent.
func play(t *testing.T, config *validate.Config, job string, answer engine.Response, limited bool) (sent []int64, last schedule.Step, used int64) {
	t.Helper()
	j := config.Job(job)
	e := engine.New(config, engine.Options{})
	loop := e.Loop()
	run := schedule.Begin(noon, &schedule.Instance{Name: job, Job: j})
	p, err := e.Prepare(noon, &engine.Request{Request: match.Request{Provider: "vendor", Account: "acme", Method: j.Method, Endpoint: j.Endpoint.Path}})
	if err != nil {
		t.Fatal(err)
	}
	step, at := schedule.Send, noon
	for step == schedule.Send && len(sent) < 1000 {
		granted := int64(-1)
		loop.Arrive(at, &engine.Call{Prepared: p, Retry: run.Retry(), DeadlineNanos: run.DeadlineNanos(), Done: func(now int64, _ engine.Ticket, refused *engine.RefusedError) (*engine.Response, int64) {
			if refused != nil {
				t.Fatalf("refused: %v", refused)
			}
			granted = now
			return &answer, int64(time.Millisecond)
		}})
		for granted < 0 {
			next, ok := loop.Next()
			if !ok {
				t.Fatal("a request waits for ever")
			}
			loop.RunTo(next)
		}
		sent = append(sent, granted)
		now := granted + int64(time.Millisecond)
		loop.RunTo(now)
		step, at = run.Answered(now, schedule.OutcomeOf(j.Account.Provider, answer.Status, limited), false, 0.5)
	}
	e.Projections(at, func(p *engine.Projection) { used += p.Used })
	return sent, step, used
}

// RA-07: neither Retry-After: 0 nor a date in the past makes a hot loop; the own backoff is the floor, the number of attempts holds.
func TestFieldRA07(t *testing.T) {
	var in struct {
		Status  int
		Headers []map[string]string `json:"headers_each"`
	}
	var want struct {
		TotalRequests     int
		MinSpacingSeconds []float64
	}
	golden.Case(t, "RA-07", &in, &want)
	config := validatetest.Config(t, documents("retry: { maxAttempts: 6, initial: 1s, multiplier: 2, jitter: 0 }, errors: { rateLimited: { defaultPenalty: 1s } }, limits: [{ name: pace, kind: rate, rate: 100/s }]", "vars: {}",
		"poll interval: 10m, request: { endpoint: /poll }"))
	for _, headers := range in.Headers {
		answer := engine.Response{Status: in.Status}
		for name, value := range headers {
			answer.Fields = append(answer.Fields, engine.Field{Name: name, Value: value})
		}
		sent, step, _ := play(t, config, "poll", answer, true)
		if len(sent) != want.TotalRequests || step != schedule.Failed {
			t.Fatalf("%v: %d requests, then %s; want %d and a failure", headers, len(sent), step, want.TotalRequests)
		}
		for i, least := range want.MinSpacingSeconds {
			if gap := float64(sent[i+1]-sent[i]) / 1e9; gap < least {
				t.Errorf("%v: request %d came %v s after the one before, want at least %v", headers, i+2, gap, least)
			}
		}
	}
}

// HT-11: when the attempts are used up the run has failed, and says so; there is no empty result.
func TestFieldHT11(t *testing.T) {
	var in struct{ Retry struct{ Max int } }
	var want struct{ Requests int }
	golden.Case(t, "HT-11", &in, &want)
	config := validatetest.Config(t, documents("retry: { maxAttempts: 4, initial: 1s, jitter: 0 }", "vars: {}", "poll interval: 10m, request: { endpoint: /poll }"))
	sent, step, _ := play(t, config, "poll", engine.Response{Status: 429}, true)
	if len(sent) != want.Requests || step != schedule.Failed {
		t.Errorf("%d requests, then %s; want %d and a failure", len(sent), step, want.Requests)
	}
}

// HT-12: there is one place that retries, and each attempt takes of the quota.
func TestFieldHT12(t *testing.T) {
	var in struct{ Retry struct{ Attempts int } }
	var want struct{ Requests, QuotaCharged int }
	golden.Case(t, "HT-12", &in, &want)
	config := validatetest.Config(t, documents("retry: { maxAttempts: 4, initial: 1s, jitter: 0 }, limits: [{ name: day, kind: quota, max: 1000, window: { period: day } }]", "vars: {}",
		"poll interval: 10m, request: { endpoint: /poll }"))
	if got := schedule.BackoffOf(config.Providers[0]).MaxAttempts; got != in.Retry.Attempts {
		t.Fatalf("%d attempts are declared, want %d", got, in.Retry.Attempts)
	}
	sent, _, used := play(t, config, "poll", engine.Response{Status: 429}, true)
	if len(sent) != want.Requests || used != int64(want.QuotaCharged) {
		t.Errorf("%d requests and %d units, want %d and %d", len(sent), used, want.Requests, want.QuotaCharged)
	}
}

func TestBackoff(t *testing.T) {
	b := schedule.Backoff{MaxAttempts: 10, Initial: time.Second, Max: time.Minute, Multiplier: 3, Jitter: 0.2}
	for _, c := range []struct {
		attempts int
		draw     float64
		want     time.Duration
	}{{1, 0.5, time.Second}, {2, 0.5, 3 * time.Second}, {3, 0.5, 9 * time.Second}, {5, 0.5, time.Minute}, {90, 0.5, time.Minute}, {1, 0, 800 * time.Millisecond}, {5, 1, 72 * time.Second}} {
		if got := b.Wait(c.attempts, c.draw); got < c.want-time.Microsecond || got > c.want+time.Microsecond {
			t.Errorf("after %d attempts with %v: %s, want %s", c.attempts, c.draw, got, c.want)
		}
	}
	if got := schedule.BackoffOf(&validate.Provider{Spec: validatetest.Config(t, documents("limits: []", "vars: {}", "a interval: 1m, request: { endpoint: /a }")).Providers[0].Spec}); got != (schedule.Backoff{MaxAttempts: 4, Initial: time.Second, Max: time.Minute, Multiplier: 2, Jitter: 0.2}) {
		t.Errorf("defaults %+v", got)
	}
}

// TestWhatIsRepeated: methods that may be repeated, after failures that may pass; a POST only after 429, or where the job says so.
func TestWhatIsRepeated(t *testing.T) {
	config := validatetest.Config(t, documents("retry: { maxAttempts: 3 }, errors: { transient: { status: [503, 599] } }", "vars: {}",
		"get interval: 1m, request: { endpoint: /a }", "post interval: 1m, request: { method: POST, endpoint: /a }",
		"safe interval: 1m, idempotent: true, request: { method: POST, endpoint: /a }"))
	for _, c := range []struct {
		job     string
		status  int
		limited bool
		want    schedule.Step
	}{
		{"get", 503, false, schedule.Send},
		{"get", 599, false, schedule.Send},
		{"get", 500, false, schedule.Failed},
		{"get", 404, false, schedule.Failed},
		{"get", 0, false, schedule.Send},
		{"get", 200, false, schedule.Done},
		{"get", http.StatusForbidden, true, schedule.Send},
		{"post", 503, false, schedule.Failed},
		{"post", 0, false, schedule.Failed},
		{"post", 429, true, schedule.Send},
		{"safe", 503, false, schedule.Send},
		{"safe", 0, false, schedule.Send},
	} {
		j := config.Job(c.job)
		run := schedule.Begin(noon, &schedule.Instance{Name: c.job, Job: j})
		outcome := schedule.OutcomeOf(j.Account.Provider, c.status, c.limited)
		step, at := run.Answered(noon, outcome, false, 0.5)
		if step != c.want || step == schedule.Send && at <= noon {
			t.Errorf("%s after %d (%s): %s at +%s, want %s", c.job, c.status, outcome, step, time.Duration(at-noon), c.want)
		}
	}
}

// TestPagesAndAttempts: attempts count anew for each page.
func TestPagesAndAttempts(t *testing.T) {
	config := validatetest.Config(t, documents("retry: { maxAttempts: 2 }", "vars: {}", "get interval: 1m, request: { endpoint: /a }"))
	run := schedule.Begin(noon, &schedule.Instance{Name: "get", Job: config.Job("get")})
	want := func(o schedule.Outcome, more bool, step schedule.Step, page int, retry bool) {
		t.Helper()
		if got, _ := run.Answered(noon, o, more, 0.5); got != step || run.Page != page || run.Retry() != retry && got == schedule.Send {
			t.Fatalf("%s: %s, page %d, retry %v; want %s, %d, %v", o, got, run.Page, run.Retry(), step, page, retry)
		}
	}
	want(schedule.Transient, false, schedule.Send, 1, true)
	want(schedule.Succeeded, true, schedule.Send, 2, false)
	want(schedule.Transient, false, schedule.Send, 2, true)
	want(schedule.Succeeded, true, schedule.Send, 3, false)
	want(schedule.Succeeded, false, schedule.Done, 3, false)
	if run.Requests != 5 || run.Retries != 2 {
		t.Errorf("%d requests, %d retries; want 5 and 2", run.Requests, run.Retries)
	}
	history := schedule.NewHistory()
	for range 30 {
		history.Add(&run, 500*int64(time.Millisecond))
	}
	if got := history.Plan()["get"]; got.PagesPerRun != 3 || got.RetryRatio != 2.0/3 || got.LatencySeconds != 0.1 {
		t.Errorf("history %+v", got)
	}
}

// TestRefusals: a request waits for an instant that its deadline allows, else the run fails.
func TestRefusals(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "get interval: 10m, deadline: 1m, request: { endpoint: /a }"))
	for _, c := range []struct {
		refused engine.RefusedError
		want    schedule.Step
	}{
		{engine.RefusedError{Reason: engine.QuotaExhausted, RetryAtNanos: noon + 30*second, RetryKnown: true}, schedule.Send},
		{engine.RefusedError{Reason: engine.QuotaExhausted, RetryAtNanos: noon + 61*second, RetryKnown: true}, schedule.Failed},
		{engine.RefusedError{Reason: engine.CircuitOpen, RetryAtNanos: noon + 30*second, RetryKnown: true}, schedule.Send},
		{engine.RefusedError{Reason: engine.CircuitOpen}, schedule.Failed},
		{engine.RefusedError{Reason: engine.DeadlineExceeded, RetryAtNanos: noon + second, RetryKnown: true}, schedule.Failed},
	} {
		run := schedule.Begin(noon, &schedule.Instance{Name: "get", Job: config.Job("get")})
		step, at := run.Refused(noon, &c.refused)
		if step != c.want || step == schedule.Send && at != c.refused.RetryAtNanos {
			t.Errorf("%v: %s at +%s, want %s", &c.refused, step, time.Duration(at-noon), c.want)
		}
	}
}
