package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// oneLimit is a provider with one limit of an account, and further lines of its spec.
func oneLimit(limit, more string) string {
	if !strings.Contains(limit, "scope:") {
		limit = "scope: { by: [account] }, " + limit
	}
	return fmt.Sprintf(`
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: l, %s }
%s
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { budget: { retryReserve: 0 } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
`, limit, more)
}

func plainRequest() *Request {
	return &Request{Request: match.Request{Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/x"}}
}

// desk is an engine in a test, with the one request that everybody makes.
type desk struct {
	*Engine
	t testing.TB
	p *Prepared
}

func newDesk(t testing.TB, documents string) *desk {
	t.Helper()
	e := New(validatetest.Config(t, documents), Options{})
	p, err := e.Prepare(0, plainRequest())
	if err != nil {
		t.Fatal(err)
	}
	return &desk{e, t, p}
}

// try asks for a request that cannot wait.
func (d *desk) try(now int64) (Ticket, *RefusedError) {
	d.t.Helper()
	t, granted, refused := d.Reserve(now, d.p, false, now)
	if granted || refused != nil {
		return t, refused
	}
	var out *RefusedError
	d.Advance(now, func(_ Ticket, r *RefusedError) { out = r })
	if out == nil {
		d.t.Fatal("a request that cannot wait is neither granted nor refused")
	}
	return 0, out
}

// send grants a request and answers it.
func (d *desk) send(granted, answered int64, status int, fields ...Field) {
	d.t.Helper()
	ticket, refused := d.try(granted)
	if refused != nil {
		d.t.Fatalf("at %v: %v", time.Unix(0, granted).UTC(), refused)
	}
	d.Settle(answered, ticket, &Response{Status: status, Fields: fields})
	d.Release(answered, ticket)
}

// blockedFor is how long after now the next request may go, by the engine's own word.
func (d *desk) blockedFor(now int64) float64 {
	_, refused := d.try(now)
	if refused == nil {
		return 0
	}
	return float64(refused.RetryAtNanos-now) / 1e9
}

func fields(headers map[string]string) []Field {
	var out []Field
	for name, value := range headers {
		out = append(out, Field{name, value})
	}
	return out
}

func httpDate(t *testing.T, text string) int64 {
	t.Helper()
	at, ok := parseHTTPDate(text, 0)
	if !ok {
		t.Fatalf("%q is no date", text)
	}
	return at
}

const slots = "kind: concurrency, max: 100"

func TestFieldRetryAfterEpoch(t *testing.T) { // RA-01
	var in struct {
		Headers map[string]string
		Now     time.Time
		Status  int
	}
	var want struct {
		AcceptAny []string `json:"accept_any"`
	}
	golden.Case(t, "RA-01", &in, &want)
	d := newDesk(t, oneLimit(slots, ""))
	now := in.Now.UnixNano()
	d.send(now, now, in.Status, fields(in.Headers)...)
	if got := fmt.Sprintf("wait %v s", d.blockedFor(now)); !strings.HasPrefix(want.AcceptAny[0], got) {
		t.Errorf("%s, want %s", got, want.AcceptAny[0])
	}
}

func TestFieldDateIsMeasuredAgainstDate(t *testing.T) { // RA-03
	var in struct {
		Headers        map[string]string
		LocalClockEach []time.Time `json:"localClock_each"`
		Status         int
	}
	var want struct{ WaitSeconds []float64 }
	golden.Case(t, "RA-03", &in, &want)
	for i, clock := range in.LocalClockEach {
		d := newDesk(t, oneLimit(slots, ""))
		now := clock.UnixNano()
		d.send(now, now, in.Status, fields(in.Headers)...)
		if got := d.blockedFor(now); got != want.WaitSeconds[i] {
			t.Errorf("with the clock at %v: %v s, want %v", clock, got, want.WaitSeconds[i])
		}
	}
}

func TestFieldRetryAfterNonsense(t *testing.T) { // RA-05
	var in struct {
		HeadersEach []string `json:"headers_each"`
		Backoff     struct{ Base string }
	}
	var want struct{ WaitSeconds []any }
	golden.Case(t, "RA-05", &in, &want)
	for i, text := range in.HeadersEach {
		d := newDesk(t, oneLimit(slots, "  errors: { rateLimited: { defaultPenalty: "+in.Backoff.Base+" } }"))
		d.send(0, 0, 429, Field{"Retry-After", text})
		expected, ok := want.WaitSeconds[i].(float64)
		if !ok {
			expected = 2 // "+3": the strict reading
		}
		if got := d.blockedFor(0); got != expected {
			t.Errorf("Retry-After %q: %v s, want %v", text, got, want.WaitSeconds[i])
		}
	}
}

func TestFieldNoHotLoop(t *testing.T) { // RA-07
	var in struct {
		HeadersEach []map[string]string `json:"headers_each"`
		Retry       struct {
			Max  int
			Base string
		}
	}
	var want struct{ MinSpacingSeconds []float64 }
	golden.Case(t, "RA-07", &in, &want)
	for _, headers := range in.HeadersEach {
		d := newDesk(t, oneLimit(slots, "  errors: { rateLimited: { defaultPenalty: "+in.Retry.Base+" } }"))
		now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC).UnixNano()
		for _, spacing := range want.MinSpacingSeconds {
			d.send(now, now, 429, fields(headers)...)
			got := d.blockedFor(now)
			if got < spacing {
				t.Fatalf("%v: the next request after %v s, want at least %v", headers, got, spacing)
			}
			now += int64(got * 1e9)
		}
	}
}

func TestFieldWaitAboveMost(t *testing.T) { // RA-08
	var in struct {
		Headers map[string]string
		MaxWait string
		Status  int
	}
	var want struct{ Wait string }
	golden.Case(t, "RA-08", &in, &want)
	ears := &ears{}
	config := validatetest.Config(t, oneLimit(slots, "  errors: { rateLimited: { maxPenalty: "+in.MaxWait+" } }"))
	d := &desk{Engine: New(config, Options{Observer: ears}), t: t}
	d.p, _ = d.Prepare(0, plainRequest())
	d.send(0, 0, in.Status, fields(in.Headers)...)
	if got := d.blockedFor(0); got < 58 || got != 600 {
		t.Errorf("%v s, want the %s of maxPenalty (%s)", got, in.MaxWait, want.Wait)
	}
	if ears.parked != in.Headers["Retry-After"] {
		t.Errorf("reported %q, want the header's text", ears.parked)
	}
}

func TestFieldCooldownIsSharedAndOnlyGrows(t *testing.T) { // RA-10
	type event struct {
		T          int64
		Status     int
		RetryAfter int
	}
	var in struct{ Events, Second []event }
	var want struct {
		First  struct{ Worker2At float64 }
		Second struct{ NotBefore float64 }
	}
	golden.Case(t, "RA-10", &in, &want)
	run := func(events []event) float64 {
		d := newDesk(t, oneLimit(slots, ""))
		var tickets []Ticket
		for range events { // all of them are on their way before the first answer
			ticket, _ := d.try(0)
			tickets = append(tickets, ticket)
		}
		last := int64(0)
		for i, ev := range events {
			last = ev.T * 1e9
			if ev.Status != 0 {
				d.Settle(last, tickets[i], &Response{Status: ev.Status, Fields: []Field{{"Retry-After", fmt.Sprint(ev.RetryAfter)}}})
			}
			d.Release(last, tickets[i])
		}
		return float64(last)/1e9 + d.blockedFor(last)
	}
	if got := run(in.Events); got != want.First.Worker2At {
		t.Errorf("another worker may go at %v, want %v", got, want.First.Worker2At)
	}
	if got := run(in.Second); got < want.Second.NotBefore {
		t.Errorf("a later, shorter wait: may go at %v, want not before %v", got, want.Second.NotBefore)
	}
}

func TestFieldBackoffDoesNotOverflow(t *testing.T) { // RA-13
	var in struct{ Attempts []int }
	var want struct{ WaitMs []float64 }
	golden.Case(t, "RA-13", &in, &want)
	for i, attempt := range in.Attempts {
		got := min(grown(int64(50*time.Millisecond), attempt+1), int64(500*time.Millisecond)) // the case's own cap is maxPenalty
		if float64(got)/1e6 != want.WaitMs[i] {
			t.Errorf("attempt %d: %v, want %v ms", attempt, time.Duration(got), want.WaitMs[i])
		}
	}
	for _, base := range []int64{1, math.MaxInt64 / 2, math.MaxInt64} {
		if got := grown(base, 1_000_000); got < base {
			t.Errorf("a base of %d shrinks to %d", base, got)
		}
	}
}

// synced is a day's quota that reads the usual headers.
const synced = "kind: quota, max: %d, window: { period: %s }, " +
	"sync: { limitHeader: X-RateLimit-Limit, remainingHeader: X-RateLimit-Remaining, resetHeader: X-RateLimit-Reset }"

// reading is what the engine would read from headers.
func reading(t *testing.T, documents string, now int64, headers map[string]string) *Reading {
	t.Helper()
	r, err := New(validatetest.Config(t, documents), Options{}).Read(now, plainRequest(), &Response{Status: 200, Fields: fields(headers)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFieldLimitIsAList(t *testing.T) { // RH-01
	var in struct{ Headers map[string]string }
	var want struct{ Limit, Remaining int64 }
	golden.Case(t, "RH-01", &in, &want)
	r := reading(t, oneLimit(fmt.Sprintf(synced, 1000, "minute"), ""), 0, in.Headers)
	if len(r.Limits) != 1 || *r.Limits[0].Max != want.Limit || *r.Limits[0].Remaining != want.Remaining || len(r.Ignored) != 0 {
		t.Errorf("%+v, want limit %d, remaining %d", r, want.Limit, want.Remaining)
	}
}

func TestFieldResetIsADuration(t *testing.T) { // RH-03
	var in struct {
		HeadersEach []string `json:"headers_each"`
	}
	var want struct{ ResetInSeconds []float64 }
	golden.Case(t, "RH-03", &in, &want)
	for i, text := range in.HeadersEach {
		for _, format := range []string{formatAuto, formatGoDuration} {
			at, ok := parseReset(text, format, 1e18)
			if got := float64(at-1e18) / 1e9; !ok || math.Abs(got-want.ResetInSeconds[i]) > 1e-9 {
				t.Errorf("%q as %s: in %v s, want %v", text, format, got, want.ResetInSeconds[i])
			}
		}
	}
}

func TestFieldResetIsPast(t *testing.T) { // RH-05
	var in struct{ Headers map[string]string }
	var want struct{ WaitSeconds float64 }
	golden.Case(t, "RH-05", &in, &want)
	d := newDesk(t, oneLimit(fmt.Sprintf(synced, 10, "hour"), ""))
	now := httpDate(t, in.Headers["Date"])
	d.send(now-1, now, 200, fields(in.Headers)...)
	if got := d.blockedFor(now); got != want.WaitSeconds {
		t.Errorf("a stale 0 blocks for %v s, want %v", got, want.WaitSeconds)
	}
}

func TestFieldCachedAnswer(t *testing.T) { // RH-07
	var in struct {
		First, Then struct{ Headers map[string]string }
	}
	var want struct {
		Remaining, Limit int64
		Reset            time.Time
	}
	golden.Case(t, "RH-07", &in, &want)
	d := newDesk(t, oneLimit(fmt.Sprintf(synced, 5000, "hour"), ""))
	now := want.Reset.Add(-30 * time.Minute).UnixNano()
	d.send(now, now+1, 200, fields(in.First.Headers)...)
	second, _ := d.try(now + 2)
	d.Settle(now+3, second, &Response{Status: 200, Fields: fields(in.Then.Headers)})
	d.Projections(now+3, func(p *Projection) {
		if p.Max != want.Limit || p.Remaining != want.Remaining-1 || p.EndNanos != want.Reset.UnixNano() { // one more was sent
			t.Errorf("max %d, remaining %d, end %v, want %d, %d less one, %v", p.Max, p.Remaining, time.Unix(0, p.EndNanos).UTC(),
				want.Limit, want.Remaining, want.Reset)
		}
	})
}

func TestFieldRemainingBelowZero(t *testing.T) { // RH-08
	var in struct{ Headers map[string]string }
	var want struct{ Remaining string }
	golden.Case(t, "RH-08", &in, &want)
	r := reading(t, oneLimit(fmt.Sprintf(synced, 100, "minute"), ""), 0, in.Headers)
	if !strings.Contains(want.Remaining, "ignored") || r.Limits[0].Remaining != nil || len(r.Ignored) != 1 {
		t.Errorf("%+v: -1 must be ignored, and be said to be", r)
	}
}

func TestFieldDoubledHeader(t *testing.T) { // RH-11
	var in struct{ Headers map[string]string }
	var want struct{ ResetIn, Remaining float64 }
	golden.Case(t, "RH-11", &in, &want)
	r := reading(t, oneLimit(fmt.Sprintf(synced, 100, "minute"), ""), 0, in.Headers)
	if l := r.Limits[0]; float64(*l.Remaining) != want.Remaining || float64(l.ResetAt.UnixNano())/1e9 != want.ResetIn {
		t.Errorf("%+v, want remaining %v, reset in %v s", l, want.Remaining, want.ResetIn)
	}
}

func TestFieldLateAnswer(t *testing.T) { // RH-12
	type answer struct {
		SentAt, Arrives   int64
		Remaining, Status int
		RetryAfter        int
	}
	var in struct {
		ResponsesInArrivalOrder, Second []answer
	}
	var want struct {
		Remaining int64
		Second    string
	}
	golden.Case(t, "RH-12", &in, &want)
	const base = int64(600e9) // far from the window's start
	run := func(answers []answer) *desk {
		d := newDesk(t, oneLimit(fmt.Sprintf(synced, 30, "hour"), ""))
		tickets := map[int64]Ticket{}
		for at := range int64(3) {
			for _, a := range answers {
				if a.SentAt == at {
					tickets[a.SentAt], _ = d.try(base + at*1e9)
				}
			}
		}
		for _, a := range answers {
			r := &Response{Status: max(a.Status, 200), Fields: []Field{{"X-RateLimit-Remaining", fmt.Sprint(a.Remaining)}}}
			if a.RetryAfter > 0 {
				r = &Response{Status: a.Status, Fields: []Field{{"Retry-After", fmt.Sprint(a.RetryAfter)}}}
			}
			d.Settle(base+a.Arrives*1e9, tickets[a.SentAt], r)
		}
		return d
	}
	run(in.ResponsesInArrivalOrder).Projections(base+6e9, func(p *Projection) {
		if p.Remaining != want.Remaining {
			t.Errorf("remaining %d, want %d", p.Remaining, want.Remaining)
		}
	})
	if got := 4 + run(in.Second).blockedFor(base+4e9); fmt.Sprintf("still blocked until t=%v", got) != want.Second {
		t.Errorf("blocked until t=%v, want: %s", got, want.Second)
	}
}
