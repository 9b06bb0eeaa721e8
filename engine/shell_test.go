package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// 64 goroutines, overlapping scopes, cancellations, settles and releases in any order, twice and at once: no limit is exceeded,
// nobody hangs, and in the end nothing is held.
func TestGateUnderLoad(t *testing.T) {
	e := New(validatetest.Config(t, mixedDocuments), Options{})
	g := e.Gate()
	defer g.Close()
	var inUse [4]atomic.Int64 // slots of acme, of bolt, and of the two endpoints
	limits := [4]int64{3, 3, 2, 2}
	var wg sync.WaitGroup
	var granted, refused, cancelled atomic.Int64
	for worker := range 64 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 60 {
				account, endpoint := random.IntN(2), random.IntN(2)
				q := &Request{Priority: []string{"critical", "high", "normal", "low"}[random.IntN(4)], Request: match.Request{
					Account: []string{"acme", "bolt"}[account], Method: "GET", Endpoint: []string{"/o/{org}/a", "/o/{org}/b"}[endpoint],
					Vars: map[string]string{"org": fmt.Sprint(random.IntN(3))},
				}}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(20))*time.Millisecond)
				r, err := g.Acquire(ctx, q, i%5 == 0, time.Now().Add(time.Duration(random.IntN(30))*time.Millisecond))
				cancel()
				var no *RefusedError
				switch {
				case err == nil:
					granted.Add(1)
				case errors.As(err, &no):
					refused.Add(1)
					continue
				case errors.Is(err, context.DeadlineExceeded):
					cancelled.Add(1)
					continue
				default:
					t.Error(err)
					return
				}
				for _, slot := range []int{account, 2 + endpoint} {
					if n := inUse[slot].Add(1); n > limits[slot] {
						t.Errorf("%d slots of %d are in use", n, limits[slot])
					}
				}
				time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
				for _, slot := range []int{account, 2 + endpoint} {
					inUse[slot].Add(-1)
				}
				r.Settle(&Response{Status: []int{200, 200, 200, 403, 500}[random.IntN(5)]})
				r.Release()
				r.Release()
			}
		})
	}
	wg.Wait()
	g.Do(func(e *Engine, _ int64) {
		if left := e.sums(); len(left) > 0 || e.Waiting() != 0 || len(g.waits) != 0 {
			t.Errorf("%v is still held, %d wait", left, e.Waiting())
		}
	})
	if granted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d granted, %d refused, %d cancelled", granted.Load(), refused.Load(), cancelled.Load())
	}
}

// A slot that a panic leaves behind is free again, because Release is deferred; the next request gets it at once.
func TestGateReleasesOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(validatetest.Config(t, oneLimit("kind: concurrency, max: 1", "")), Options{}).Gate()
		defer g.Close()
		func() {
			defer func() { _ = recover() }()
			r, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			panic("the handler")
		}()
		start := time.Now()
		if _, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{}); err != nil || time.Since(start) > 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A waiter is woken by a release, by its token, and by the end of a penalty; at its deadline it is refused.
func TestGateWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(validatetest.Config(t, oneLimit("kind: concurrency, max: 1, penalty: 3s", "")), Options{}).Gate()
		defer g.Close()
		start := time.Now()
		r, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			r.Settle(&Response{Status: 429})
			r.Release()
		}()
		var refused *RefusedError
		if _, err := g.Acquire(t.Context(), plainRequest(), false, start.Add(500*time.Millisecond)); !errors.As(err, &refused) ||
			refused.Reason != DeadlineExceeded || time.Since(start) != 500*time.Millisecond {
			t.Errorf("at its deadline, after %v: %v", time.Since(start), err)
		}
		p := (*Prepared)(nil)
		g.Do(func(e *Engine, now int64) { p, err = e.Prepare(now, plainRequest()) })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.AcquirePrepared(t.Context(), p, false, time.Time{}); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("granted after %v (%v), want 1 s to the answer and 3 s of penalty", time.Since(start), err)
		}
	})
}

func TestGateClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(validatetest.Config(t, oneLimit("kind: concurrency, max: 1", "")), Options{}).Gate()
		r, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{})
			failed <- err
		}()
		synctest.Wait()
		g.Close()
		g.Close()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter hears %v", err)
		}
		if _, err := g.Acquire(t.Context(), plainRequest(), false, time.Time{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a request after Close hears %v", err)
		}
		if !r.Settle(&Response{Status: 200}) {
			t.Error("what was granted cannot be settled any more")
		}
		r.Release()
		if left := g.engine.sums(); len(left) > 0 {
			t.Errorf("%v is held", left)
		}
	})
}

// A clock that is set back or forward does not move the gate's time.
func TestGateTimeIsMonotonic(t *testing.T) {
	g := New(validatetest.Config(t, oneLimit("kind: concurrency, max: 1", "")), Options{}).Gate()
	defer g.Close()
	before := g.Now()
	g.start = g.start.Add(0) // keeps its monotonic reading, as time.Now gave it
	if after := g.Now(); after < before || after-before > int64(time.Minute) {
		t.Errorf("the gate's time goes from %d to %d", before, after)
	}
	e := newDesk(t, oneLimit("kind: quota, max: 1, window: { period: day }", ""))
	e.send(goldenStart, goldenStart, 200)
	for _, jump := range []int64{-86400e9, 0, 3600e9} { // the engine itself: a day back gives nothing
		if e.blockedFor(goldenStart+jump) == 0 {
			t.Errorf("a clock that jumps by %d s frees a day's quota", jump/1e9)
		}
	}
}
