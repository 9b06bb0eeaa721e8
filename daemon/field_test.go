package daemon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/golden"
)

// Cases that went wrong for people elsewhere: testdata/cases/field.json, by their numbers.

const oauth = `  auth: { type: oauth2_client_credentials, tokenURL: /token, clientId: key, clientSecret: key }`

// one is a job of one request whose items count.
func one(name, more string) string {
	return job(name, `  interval: 1h
  request: { endpoint: /`+name+` }
  metrics: [{ name: `+name+`_items, value: size(response) }]
`+more)
}

// HT-08: a token that is refused is renewed once; a key is not asked twice.
func TestHT08Endless401(t *testing.T) {
	var input struct{ Retry struct{ Max int } }
	var expected struct{ APIRequests, RefreshCalls int }
	golden.Case(t, "HT-08", &input, &expected)
	for auth, want := range map[string][2]int{
		oauth: {expected.APIRequests, 1 + expected.RefreshCalls}, // one token to begin with, and the refresh
		"  auth: { type: bearer, credential: key }": {1, 0},
	} {
		var calls, tokens atomic.Int64
		r := newRig(t, provider(auth)+one("x", ""), func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/token") {
				reply(w, map[string]any{"access_token": fmt.Sprintf("T-%07d", tokens.Add(1)), "token_type": "bearer"})
				return
			}
			calls.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		})
		err := r.once()
		var failed *daemon.FailedRunsError
		if !errors.As(err, &failed) || !strings.Contains(failed.First.Error, "status 401") {
			t.Errorf("%s: %v, want an auth error", auth, err)
		}
		if got := [2]int{int(calls.Load()), int(tokens.Load())}; got != want {
			t.Errorf("%s: %d calls and %d token requests, want %v", auth, got[0], got[1], want)
		}
		if s := r.daemon.Snapshot(); s.Accounts[0].Health != daemon.HealthFailing || len(s.Accounts[0].Reasons) == 0 {
			t.Errorf("%s: the account is %+v", auth, s.Accounts[0])
		}
	}
}

// HT-11 and HT-12: attempts are counted in one place, each takes of the quota, and the end is an error, not an empty success.
func TestHT11HT12AttemptsAreNotMultiplied(t *testing.T) {
	var input struct{ Retry struct{ Attempts int } }
	var expected struct{ Requests, QuotaCharged int64 }
	golden.Case(t, "HT-12", &input, &expected)
	var exhausted struct{ Requests int }
	golden.Case(t, "HT-11", new(any), &exhausted)
	for auth, more := range map[string]int64{oauth: 1, "  auth: { type: bearer, credential: key }": 0} {
		r := newRig(t, provider(auth+`
  errors: { rateLimited: { defaultPenalty: 1ms } }
  pagination: { type: page, pageParam: page }
  limits: [{ name: day, kind: quota, max: 1000, window: { period: day }, scope: { by: [account] }, appliesTo: { authRequests: exclude } }]`)+
			one("x", ""), func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/token") {
				reply(w, map[string]any{"access_token": "T-1234567", "token_type": "bearer"})
				return
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprint(w, "[]")
		})
		err := r.once()
		var failed *daemon.FailedRunsError
		if !errors.As(err, &failed) || !strings.Contains(failed.First.Error, "status 429 after 4 attempts") {
			t.Errorf("%v, want an error with the status", err)
		}
		if n := int64(len(r.seen())) - more; n != expected.Requests || int(n) != exhausted.Requests || n != int64(input.Retry.Attempts) {
			t.Errorf("%d requests, want %d", n, expected.Requests)
		}
		s := r.daemon.Snapshot()
		if len(s.Scopes) != 1 || s.Scopes[0].Used != expected.QuotaCharged {
			t.Errorf("the quota was charged %+v, want %d", s.Scopes, expected.QuotaCharged)
		}
		if got := metrics(t, r.daemon); len(got) != 0 {
			t.Errorf("a failed run published %q", got)
		}
		if s.Jobs[0].Retries != 3 || s.Jobs[0].Requests != 4 {
			t.Errorf("the job counts %+v", s.Jobs[0])
		}
	}
}

// RA-07: Retry-After 0, or a date that is over, is no invitation to come back at once.
func TestRA07RetryAfterZeroGivesNoHotLoop(t *testing.T) {
	var input struct {
		HeadersEach []map[string]string `json:"headers_each"`
	}
	var expected struct{ MinSpacingSeconds []float64 }
	golden.Case(t, "RA-07", &input, &expected)
	// The case's seconds are 20 ms here.
	const second = 20 * time.Millisecond
	attempts := len(expected.MinSpacingSeconds) + 1
	for _, headers := range input.HeadersEach {
		documents := strings.Replace(provider("  errors: { rateLimited: { defaultPenalty: 1ms } }"),
			"retry: { initial: 1ms, max: 5ms, maxAttempts: 4, jitter: 0 }",
			fmt.Sprintf("retry: { initial: 20ms, max: 10s, maxAttempts: %d, jitter: 0, multiplier: 2 }", attempts), 1)
		r := newRig(t, documents+one("x", ""), func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range headers {
				w.Header().Set(name, value)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		})
		if err := r.once(); err == nil {
			t.Error("no error")
		}
		hits := r.seen()
		if len(hits) != attempts {
			t.Fatalf("%v: %d requests, want %d", headers, len(hits), attempts)
		}
		for i, seconds := range expected.MinSpacingSeconds {
			want := time.Duration(seconds * float64(second))
			if got := hits[i+1].at.Sub(hits[i].at); got < want-time.Millisecond {
				t.Errorf("%v: attempt %d came after %v, want %v at least", headers, i+2, got, want)
			}
		}
	}
}

// HT-03 and HT-04 in a run: pages are followed as the header says, and a next page that cannot be followed fails the run.
func TestHT04LinksAreFollowedOrTheRunFails(t *testing.T) {
	var input struct{ Each []string }
	var expected struct{ Next []string }
	golden.Case(t, "HT-04", &input, &expected)
	for i, header := range input.Each {
		var r *rig
		r = newRig(t, provider("  pagination: { type: link_header }")+one("c", ""), func(w http.ResponseWriter, q *http.Request) {
			if q.URL.RawQuery == "" {
				w.Header().Set("Link", strings.ReplaceAll(header, "https://h/c", r.server.URL+"/v1/c"))
			}
			reply(w, []int{1})
		})
		err := r.once()
		hits := r.seen()
		switch want := expected.Next[i]; {
		case strings.HasPrefix(want, "error"):
			if err == nil || len(hits) != 1 {
				t.Errorf("%s: %v after %d requests, want an error", header, err, len(hits))
			}
		case want == "none":
			if err != nil || len(hits) != 1 {
				t.Errorf("%s: %v, %d requests, want one", header, err, len(hits))
			}
		default:
			if err != nil || len(hits) != 2 || hits[1].query["page"] != "2" {
				t.Errorf("%s: %v, then %+v; want %s", header, err, hits, want)
			}
		}
	}
}

// LG-10: after a kill and a restart on the same day the counts go on, neither from nothing nor doubled. A small quota has no lease.
func TestLG10RestartNeitherForgetsNorDoubles(t *testing.T) {
	var input struct{ Quota, Used, ThenCalls int }
	var expected struct {
		Allowed             int
		Denied, LedgerTotal int64
	}
	golden.Case(t, "LG-10", &input, &expected)
	documents := provider(fmt.Sprintf(`  limits: [{ name: day, kind: quota, max: %d, window: { period: day }, scope: { by: [account] } }]`, input.Quota)) + `---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { budget: { retryReserve: 0 }, state: { path: "@DIR/tapyr.db", flushInterval: 1h } }
`
	jobs := func(n int) (text string) {
		for i := range n {
			text += strings.Replace(one(fmt.Sprintf("j%02d", i), ""), "interval: 1h", "interval: 1h\n  deadline: 100ms", 1)
		}
		return text
	}
	for _, kill := range []bool{false, true} {
		r := newRig(t, documents+jobs(input.Used), func(w http.ResponseWriter, _ *http.Request) { reply(w, []int{}) })
		if kill {
			r.killAfter(input.Used)
		} else if err := r.once(); err != nil {
			t.Fatal(err)
		}
		before := len(r.seen())
		r.set(documents + jobs(input.ThenCalls))
		r.daemon = r.make(daemon.Options{})
		_ = r.once() // some are refused
		allowed := len(r.seen()) - before
		if before != input.Used || allowed != expected.Allowed {
			t.Errorf("kill %v: %d calls, then %d allowed; want %d", kill, before, allowed, expected.Allowed)
		}
		s := r.daemon.Snapshot()
		if len(s.Scopes) != 1 || s.Scopes[0].Used != expected.LedgerTotal {
			t.Errorf("kill %v: the count is %+v, want %d", kill, s.Scopes, expected.LedgerTotal)
		}
		if refused := s.Totals.Refused["quota_exhausted"]; refused != expected.Denied {
			t.Errorf("kill %v: %d were refused, want %d", kill, refused, expected.Denied)
		}
	}
}

// The status JSON has the names that scripts rely on, and no null lists.
func TestSnapshotJSON(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), func(w http.ResponseWriter, _ *http.Request) { reply(w, []int{1, 2}) })
	if err := r.once(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r.daemon.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"jobs":[{"job":"x"`, `"scopes":[]`, `"waiting":[]`, `"refusals":[]`, `"health":"ok"`, `"spend":null`, `"planFeasible":true`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	var back daemon.Snapshot
	if err := json.Unmarshal(text, &back); err != nil || back.Jobs[0].Runs["ok"] != 1 {
		t.Errorf("it does not read back: %v", err)
	}
}
