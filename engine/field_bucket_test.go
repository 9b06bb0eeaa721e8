package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// serve runs a server's side of a bucket: the cases that presume no guard token.
type served struct {
	*Enforcer
	t testing.TB
}

func newServed(t testing.TB, documents string) *served {
	t.Helper()
	return &served{NewEnforcer(validatetest.Config(t, documents)), t}
}

func (s *served) allow(now int64) (allowed bool, retryAfter int64) {
	s.t.Helper()
	ticket, retryAfter, err := s.Allow(now, &plainRequest().Request)
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		s.t.Fatal(err)
	}
	if err == nil {
		s.Done(now, ticket, 200)
	}
	return err == nil, retryAfter
}

func TestFieldCostAboveBurst(t *testing.T) { // TB-01
	var in struct {
		Rate    string
		Burst   int64
		Request struct{ Cost int64 }
	}
	var want struct {
		Result      string
		TokensAfter int64
	}
	golden.Case(t, "TB-01", &in, &want)
	config := validatetest.Config(t, oneLimit(fmt.Sprintf("kind: rate, rate: %s, burst: %d, cost: %d", in.Rate, in.Request.Cost, in.Request.Cost), ""))
	config.Providers[0].Limits[0].Burst = in.Burst // documents that say so are an error already
	e := New(config, Options{})
	_, err := e.Prepare(0, plainRequest())
	var bad *RequestError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "cost 11 is above burst 10") || bad.Burst != want.TokensAfter {
		t.Errorf("%v, want %s", err, want.Result)
	}
	if e.Keys() != 0 {
		t.Error("the bucket was opened, or charged")
	}
}

func TestFieldFractionsAreKept(t *testing.T) { // TB-04
	var in struct{ Rate string }
	var want struct{ Allowed int }
	golden.Case(t, "TB-04", &in, &want)
	s, d := newServed(t, oneLimit("kind: rate, burst: 1, rate: "+in.Rate, "")), newDesk(t, oneLimit("kind: rate, burst: 1, rate: "+in.Rate, ""))
	served, granted := 0, 0
	for ms := int64(0); ms <= 10_000; ms += 250 {
		if ok, _ := s.allow(ms * 1e6); ok {
			served++
		}
		if _, refused := d.try(ms * 1e6); refused == nil {
			granted++
		}
	}
	if served != want.Allowed || granted != want.Allowed {
		t.Errorf("the server allows %d, the engine %d, want %d", served, granted, want.Allowed)
	}
}

func TestFieldClockBackAndForth(t *testing.T) { // TB-06
	var in struct {
		Rate  string
		Burst int
	}
	var want struct{ Allowed int }
	golden.Case(t, "TB-06", &in, &want)
	s := newServed(t, oneLimit(fmt.Sprintf("kind: rate, burst: %d, rate: %s", in.Burst, in.Rate), ""))
	for range in.Burst {
		s.allow(0)
	}
	allowed := 0
	for i := range int64(100) {
		if ok, _ := s.allow((i + 1) % 2 * 1e9); ok {
			allowed++
		}
	}
	if allowed != want.Allowed {
		t.Errorf("%d allowed, want %d", allowed, want.Allowed)
	}
}

func TestFieldBucketIsNoWindow(t *testing.T) { // TB-08
	var in struct {
		A struct {
			Rate  string
			Burst int
		}
		B struct {
			Quota  int
			Window string
		}
	}
	var want struct{ A, B, AThrough60s int }
	golden.Case(t, "TB-08", &in, &want)
	rate := strings.TrimSuffix(in.A.Rate, "in") // 15/min
	count := func(documents string, until int64) (n int) {
		s := newServed(t, documents)
		for ms := int64(0); ms < until; ms += 100 {
			for ok := true; ok; {
				if ok, _ = s.allow(ms * 1e6); ok {
					n++
				}
			}
		}
		return n
	}
	a := oneLimit(fmt.Sprintf("kind: rate, burst: %d, rate: %s", in.A.Burst, rate), "")
	b := oneLimit(fmt.Sprintf("kind: quota, max: %d, window: { rolling: %s }", in.B.Quota, in.B.Window), "")
	if got := count(a, 60_000); got != want.A {
		t.Errorf("the bucket lets %d through, want %d", got, want.A)
	}
	if got := count(a, 60_001); got != want.AThrough60s {
		t.Errorf("the bucket lets %d through including 60 s, want %d", got, want.AThrough60s)
	}
	if got := count(b, 60_000); got != want.B {
		t.Errorf("the rolling window lets %d through, want %d", got, want.B)
	}
}

func TestFieldBoundaryDoubling(t *testing.T) { // TB-10
	var in struct {
		Calls []time.Time
		B     struct{ Window string }
	}
	var want struct{ A, B []string }
	golden.Case(t, "TB-10", &in, &want)
	run := func(limit string) (words []string) {
		d := newDesk(t, oneLimit(limit, ""))
		for _, at := range in.Calls {
			ticket, refused := d.try(at.UnixNano())
			if refused != nil {
				retry := time.Unix(0, refused.RetryAtNanos).UTC()
				words = append(words, fmt.Sprintf("deny, retry in %.3f s (%s)", retry.Sub(at).Seconds(), retry.Format("15:04:05.000Z")))
				continue
			}
			words = append(words, "allow")
			d.Settle(at.UnixNano(), ticket, &Response{Status: 200})
			d.Release(at.UnixNano(), ticket)
		}
		return words
	}
	if got := run("kind: quota, max: 1, window: { period: minute }"); fmt.Sprint(got) != fmt.Sprint(want.A) {
		t.Errorf("calendar: %v, want %v", got, want.A)
	}
	if got := run("kind: quota, max: 1, window: { rolling: " + in.B.Window + " }"); fmt.Sprint(got) != fmt.Sprint(want.B) {
		t.Errorf("rolling: %v, want %v", got, want.B)
	}
}

func TestFieldCancelledWaiter(t *testing.T) { // TB-13
	var in struct {
		Rate string
		B    struct{ CtxTimeout string }
	}
	var want struct{ A, C float64 }
	golden.Case(t, "TB-13", &in, &want)
	synctest.Test(t, func(t *testing.T) {
		e := New(validatetest.Config(t, oneLimit("kind: rate, burst: 1, rate: "+in.Rate, "")), Options{})
		g := e.Gate()
		defer g.Close()
		start := time.Now()
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Acquire(dead, plainRequest(), false, time.Time{}); !errors.Is(err, context.Canceled) { // D
			t.Errorf("a dead context: %v", err)
		}
		if _, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{}); err != nil || time.Since(start).Seconds() != want.A {
			t.Fatalf("A at %v: %v", time.Since(start), err)
		}
		timeout, _ := time.ParseDuration(in.B.CtxTimeout)
		b, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var refused *RefusedError
		if _, err := g.Acquire(b, plainRequest(), false, time.Time{}); !errors.As(err, &refused) || time.Since(start) > 0 {
			t.Errorf("B at %v: %v, want a refusal at once", time.Since(start), err)
		}
		manual, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(timeout); cancel() }() // and one that is cancelled while it waits
		if _, err := g.Acquire(manual, plainRequest(), false, time.Time{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that is cancelled: %v", err)
		}
		time.Sleep(2*time.Second - time.Since(start))
		if _, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{}); err != nil || time.Since(start).Seconds() != want.C {
			t.Errorf("C at %v (%v), want %v s", time.Since(start), err, want.C)
		}
	})
}

func TestFieldBigWaiterDoesNotStarve(t *testing.T) { // TB-15
	var in struct {
		Rate    string
		Burst   int64
		Waiters []struct{ Cost int64 }
	}
	var want struct {
		Big        string
		SmallFirst float64
	}
	golden.Case(t, "TB-15", &in, &want)
	d := newDesk(t, oneLimit(fmt.Sprintf("kind: rate, rate: %s, burst: %d, costs: [{ endpoints: [/big], cost: %d }]", in.Rate, in.Burst, in.Waiters[0].Cost), ""))
	for range in.Burst - 1 { // the guard token stays
		d.send(0, 0, 200)
	}
	d.slab.hot(1).used++ // take it too: the case begins with an empty bucket
	big := *plainRequest()
	big.Endpoint = "/big"
	bigTicket, _, _ := d.ReserveRequest(0, &big, false, forever)
	got := map[Ticket]float64{}
	var small []Ticket
	for ms := int64(100); ms < 9000; ms += 100 {
		now := ms * 1e6
		d.Advance(now, func(t Ticket, _ *RefusedError) { got[t] = float64(now) / 1e9 })
		if ms%1000 == 100 {
			ticket, granted, _ := d.Reserve(now, d.p, false, forever)
			if granted {
				t.Fatalf("a small request overtakes at %v s", float64(now)/1e9)
			}
			small = append(small, ticket)
		}
	}
	if fmt.Sprintf("granted at t=%v (FIFO)", got[bigTicket]) != want.Big {
		t.Errorf("big at %v, want %s", got[bigTicket], want.Big)
	}
	// One token stays behind, which the case does not know: the first small one goes a second later.
	if got[small[0]] != want.SmallFirst+1 {
		t.Errorf("the first small one at %v, want %v", got[small[0]], want.SmallFirst+1)
	}
}

func TestFieldNoDeadlock(t *testing.T) { // TB-16
	var in struct {
		Jobs []struct {
			Needs []string
			Run   string
		}
	}
	var want struct{ BothDoneBySeconds float64 }
	golden.Case(t, "TB-16", &in, &want)
	first := "scope: { by: [account] }, kind: concurrency, max: 1 }\n    - { name: b, kind: concurrency, max: 1, scope: { by: [provider] }"
	run, _ := time.ParseDuration(in.Jobs[0].Run)
	synctest.Test(t, func(t *testing.T) {
		g := New(validatetest.Config(t, oneLimit(first, "")), Options{}).Gate()
		defer g.Close()
		for range 1000 {
			start, done := time.Now(), make(chan error)
			for range in.Jobs {
				go func() {
					r, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{})
					if err == nil {
						time.Sleep(run)
						r.Release()
					}
					done <- err
				}()
			}
			for range in.Jobs {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(start).Seconds(); took > want.BothDoneBySeconds {
				t.Fatalf("both are done after %v s, want %v", took, want.BothDoneBySeconds)
			}
		}
	})
}

func TestFieldLongWait(t *testing.T) { // TB-18
	var in struct{ Rate string }
	var want struct{ SecondWaitSeconds float64 }
	golden.Case(t, "TB-18", &in, &want)
	synctest.Test(t, func(t *testing.T) {
		g := New(validatetest.Config(t, oneLimit("kind: rate, burst: 1, rate: "+in.Rate, "")), Options{}).Gate()
		defer g.Close()
		start := time.Now()
		for range 2 {
			if _, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start).Seconds(); got != want.SecondWaitSeconds {
			t.Errorf("the second waits %v s, want %v", got, want.SecondWaitSeconds)
		}
	})
}

// ears is an observer that remembers.
type ears struct {
	granted, refused, limited, unexpected, disagreed int
	parked                                           string
	ignored                                          []string
	waits                                            []int64
}

func (o *ears) Granted(_ *Request, wait int64)  { o.granted++; o.waits = append(o.waits, wait) }
func (o *ears) Refused(*Request, *RefusedError) { o.refused++ }
func (o *ears) RateLimited(_ *Request, _, _ string, unexpected bool, parked string) {
	o.limited++
	if unexpected {
		o.unexpected++
	}
	o.parked = parked
}
func (o *ears) Disagrees(_, _, _ string, _, _ int64) { o.disagreed++ }
func (o *ears) Ignored(_, limit, _, header, _ string) {
	o.ignored = append(o.ignored, limit+" "+header)
}
