package smartflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func mustNew(t testing.TB, c Config) *Limiter {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func orgState(t testing.TB, l *Limiter, org string) BucketState {
	t.Helper()
	for _, s := range l.Snapshot().Orgs {
		if s.Org == org {
			return s
		}
	}
	t.Fatalf("no bucket of %s", org)
	return BucketState{}
}

func near9(got, want float64) bool { return math.Abs(got-want) <= 1e-9 }

func TestConfigErrors(t *testing.T) {
	for field, c := range map[string]Config{
		"OrgRatePerSecond":    {OrgRatePerSecond: -1},
		"GlobalRatePerSecond": {GlobalRatePerSecond: math.NaN()},
		"OrgBurst":            {OrgBurst: -1},
		"GlobalBurst":         {GlobalBurst: -1},
		"DecreaseHold":        {DecreaseHold: -1},
		"FlushEvery":          {FlushEvery: -1},
	} {
		_, err := New(c)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != field || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := New(Config{OrgRatePerSecond: math.Inf(1)}); err == nil {
		t.Error("an infinite rate was accepted")
	}
	l := mustNew(t, Config{})
	if l.orgRate != 10 || l.orgCapacity != 10 || l.globalRate != 100 || l.globalCapacity != 100 || l.flushEvery != 50 || l.ttl.length != 7*24*time.Hour {
		t.Errorf("the defaults are not the published ones: %+v", l.settings)
	}
	l = mustNew(t, Config{OrgRatePerSecond: 0.3, GlobalRatePerSecond: 90.5, OrgBurst: 3})
	if l.orgCapacity != 3 || l.globalCapacity != 90 {
		t.Errorf("bursts %v and %v, want 3 and 90", l.orgCapacity, l.globalCapacity)
	}
	l = mustNew(t, Config{OrgRatePerSecond: 0.3, GlobalBurst: 7})
	if l.orgCapacity != 1 || l.globalCapacity != 7 {
		t.Errorf("bursts %v and %v, want 1 and 7", l.orgCapacity, l.globalCapacity)
	}
}

// A configured rate below the floor is not raised by a refusal.
func TestRefusalNeverRaises(t *testing.T) {
	l := mustNew(t, Config{OrgRatePerSecond: 0.25, GlobalRatePerSecond: 0.4})
	l.RegisterOrg("O_1")
	l.RateLimited("/organizations/O_1", 0)
	l.RateLimited("/administered", 0)
	if got := orgState(t, l, "O_1").RatePerSecond; got != 0.25 {
		t.Errorf("organization: %v, want 0.25", got)
	}
	if got := l.Snapshot().Global.RatePerSecond; got != 0.4 {
		t.Errorf("global: %v, want 0.4", got)
	}
}

func TestAcquirePaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{OrgRatePerSecond: 10, OrgBurst: 3})
		start := time.Now()
		for i := range 8 {
			if err := l.Acquire(t.Context(), "/organizations/O_1/x"); err != nil {
				t.Fatal(err)
			}
			want := time.Duration(max(0, i-2)) * 100 * time.Millisecond
			if got := time.Since(start); got < want || got > want+time.Microsecond {
				t.Errorf("request %d went at %v, want %v", i, got, want)
			}
		}
	})
}

// One goroutine cannot hold up another: the waits of one moment overlap.
func TestWaitsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{OrgRatePerSecond: 10, OrgBurst: 1})
		start := time.Now()
		var wg sync.WaitGroup
		for range 11 {
			wg.Go(func() {
				if err := l.Acquire(t.Context(), "/organizations/O_1/x"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := time.Since(start); got < time.Second || got > time.Second+time.Microsecond {
			t.Errorf("eleven requests at 10 a second took %v, want 1s", got)
		}
	})
}

func TestAcquireAllocatesNothing(t *testing.T) {
	l := mustNew(t, Config{OrgRatePerSecond: noWait, GlobalRatePerSecond: noWait})
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		if err := l.Acquire(ctx, "https://api.meraki.com/api/v1/organizations/1/x?a=b"); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A cancelled Acquire gives back both reservations, wherever it waited. The twin
// limiter never sees it.
func TestCancelledAcquireLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		globalFirst := rapid.Bool().Draw(rt, "the global bucket is the narrow one")
		before := rapid.IntRange(3, 12).Draw(rt, "before")
		cancelAfter := time.Duration(rapid.IntRange(0, 300).Draw(rt, "ms")) * time.Millisecond
		after := rapid.IntRange(0, 3).Draw(rt, "after")
		synctest.Test(t, func(t *testing.T) {
			c := Config{OrgRatePerSecond: 3, OrgBurst: 2, GlobalRatePerSecond: 90}
			if globalFirst {
				c = Config{OrgRatePerSecond: 50, GlobalRatePerSecond: 2}
			}
			l, twin := mustNew(t, c), mustNew(t, c)
			const url = "/organizations/O_1/x"
			var wg sync.WaitGroup
			both := func() {
				for _, l := range []*Limiter{l, twin} {
					wg.Go(func() {
						if err := l.Acquire(context.Background(), url); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
			}
			for range before {
				both()
			}
			ctx, cancel := context.WithTimeout(context.Background(), cancelAfter)
			defer cancel()
			err := l.Acquire(ctx, url)
			if err == nil {
				wg.Wait()
				return // its turn came first
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			for range after {
				both()
			}
			wg.Wait()
			got, want := l.Snapshot(), twin.Snapshot()
			if !near9(got.Global.Tokens, want.Global.Tokens) || len(got.Orgs) != len(want.Orgs) {
				t.Errorf("got %+v, want %+v", got, want)
				return
			}
			for i := range got.Orgs {
				if !near9(got.Orgs[i].Tokens, want.Orgs[i].Tokens) {
					t.Errorf("got %+v, want %+v", got.Orgs[i], want.Orgs[i])
				}
			}
		})
	})
}

func TestCancelledBeforehandChargesNothing(t *testing.T) {
	l := mustNew(t, Config{Clock: &steppedClock{}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Acquire(ctx, "/organizations/O_1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if s := l.Snapshot(); s.Global.Tokens != 100 || len(s.Orgs) != 0 {
		t.Errorf("something was charged: %+v", s)
	}
}

func TestPauseHoldsWaitersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{OrgRatePerSecond: 10, OrgBurst: 1})
		const url = "/organizations/O_1/x"
		start := time.Now()
		var went []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := l.Acquire(context.Background(), url); err != nil {
					t.Error(err)
				}
				mu.Lock()
				went = append(went, time.Since(start).Round(time.Millisecond))
				mu.Unlock()
			})
		}
		time.Sleep(50 * time.Millisecond)
		l.RateLimited(url, 2*time.Second)
		if s := orgState(t, l, "O_1"); !near9(s.PausedSeconds, 2) || !near9(s.RatePerSecond, 7) {
			t.Errorf("got %+v, want a pause of 2 s and 7 a second", s)
		}
		wg.Wait()
		// The first had gone; the others, due at 100, 200 and 300 ms, moved by 2 s, and
		// queue up at the rate of 7 a second that holds then.
		if got, want := fmt.Sprint(went), "[0s 2.1s 2.243s 2.386s]"; got != want {
			t.Errorf("they went at %s, want %s", got, want)
		}
	})
}

// When the pauses of many organizations end together, their requests go at the global
// rate, though all of them have paid it before; and each organization's at its own.
func TestEndOfPausesIsNoStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const orgs, each = 20, 5
		l := mustNew(t, Config{OrgRatePerSecond: 9, OrgBurst: 1, GlobalRatePerSecond: 50, GlobalBurst: 2})
		url := func(org int) string { return fmt.Sprintf("/organizations/O_%d/x", org) }
		var mu sync.Mutex
		var all []time.Duration
		went := make([][]time.Duration, orgs)
		start := time.Now()
		var wg sync.WaitGroup
		for org := range orgs {
			l.RegisterOrg(fmt.Sprintf("O_%d", org))
			for range each {
				wg.Go(func() {
					if err := l.Acquire(context.Background(), url(org)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					now := time.Since(start)
					all, went[org] = append(all, now), append(went[org], now)
				})
			}
		}
		time.Sleep(300 * time.Millisecond)
		for org := range orgs {
			l.RateLimited(url(org), time.Second)
		}
		wg.Wait()
		spaced := func(what string, at []time.Duration, burst int, rate float64) {
			for i := burst; i < len(at); i++ {
				if got, want := at[i]-at[i-burst], time.Duration(float64(time.Second)/rate); at[i-burst] >= time.Second && got < want-time.Microsecond {
					t.Errorf("%s: one went at %v and one at %v", what, at[i-burst], at[i])
				}
			}
		}
		slices.Sort(all)
		// Two go at once and the third after one interval, so three take one interval.
		spaced("all", all, 2, 50)
		for org, at := range went {
			slices.Sort(at)
			spaced(fmt.Sprint("organization ", org), at, 1, 9)
		}
		if last := all[len(all)-1]; len(all) != orgs*each || last > 6*time.Second {
			t.Errorf("%d went, the last at %v", len(all), last)
		}
	})
}

// A request that is cancelled wherever it waits after a pause gives back what it holds.
func TestCancelledAfterAPause(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 1010 * time.Millisecond, 1300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := mustNew(t, Config{OrgRatePerSecond: 5, OrgBurst: 1, GlobalRatePerSecond: 1, GlobalBurst: 1})
			l.RegisterOrg("O_1")
			l.RegisterOrg("O_2")
			l.RateLimited("/organizations/O_1", time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(1005 * time.Millisecond) // takes the global token
				if err := l.Acquire(context.Background(), "/organizations/O_2"); err != nil {
					t.Error(err)
				}
			})
			if err := l.Acquire(ctx, "/organizations/O_1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v", after, err)
			}
			wg.Wait()
			time.Sleep(10 * time.Second)
			if s := l.Snapshot(); s.Global.Tokens != 1 || orgState(t, l, "O_1").Tokens != 1 {
				t.Errorf("after %v: %+v", after, s)
			}
			start := time.Now()
			if err := l.Acquire(context.Background(), "/organizations/O_1"); err != nil || time.Since(start) != 0 {
				t.Errorf("the next waited %v (%v)", time.Since(start), err)
			}
		})
	}
}

func TestRateLimitedHitsWhom(t *testing.T) {
	l := mustNew(t, Config{})
	l.RegisterOrg("O_1")
	l.RegisterNetwork("N_1", "O_1")
	l.RegisterNetwork("N_2", "O_2") // which has no bucket
	for _, c := range []struct {
		url         string
		org, global float64
	}{
		{"/organizations/O_1/x", 7, 100},
		{"/networks/N_1/x", 4.9, 100},
		{"/networks/N_2/x", 4.9, 100},   // known, without a bucket: nothing
		{"/networks/N_9/x", 4.9, 100},   // one in particular, but unknown: nothing
		{"/organizations/O_9", 4.9, 70}, // explicit, without a bucket: all
		{"/administered", 4.9, 49},
	} {
		l.RateLimited(c.url, 0)
		s := l.Snapshot()
		if !near9(s.Orgs[0].RatePerSecond, c.org) || !near9(s.Global.RatePerSecond, c.global) {
			t.Errorf("after %s: %v and %v, want %v and %v", c.url, s.Orgs[0].RatePerSecond, s.Global.RatePerSecond, c.org, c.global)
		}
	}
	l.Success("/administered")
	if got := l.Snapshot().Global.RatePerSecond; !near9(got, 49.5) {
		t.Errorf("global %v after a success, want 49.5", got)
	}
}

func TestLearn(t *testing.T) {
	l := mustNew(t, Config{})
	for _, c := range []struct {
		url, body string
		dirty     int64
	}{
		{"/organizations/O_1/networks/N_1", `{}`, 1},
		{"/organizations/O_1/networks/N_1", `null`, 1},
		{"/organizations/O_1/devices/statuses", `[]`, 1}, // an endpoint, no device
		{"/organizations/O_1/devices/Q2AA-BBBB-CCCC?perPage=3", `[]`, 2},
		{"/networks/N_2", `{"organizationId":"O_2","networkId":"N_3","network":{"id":"N_4"},"serial":"Q2AA"}`, 6},
		{"/networks/N_5", `{"organizationId":"","organization":{"id":"O_2"}}`, 6},
		{"/networks/N_5", `{"organizationId":null,"organization":{"id":"O_2"}}`, 6},
		{"/networks/N_5", `{"organizationId":7}`, 6},
		{"/networks/N_5", `{"organization":{"id":"O_2"},"networkId":7,"serial":"","network":{"id":null}}`, 7},
		{"/organizations/O_1/x?a=/networks/N_6", `[{"networkId":"N_7"}]`, 7},
		{"/organizations/O_1/x", `{"networkId":"N_4"}`, 8}, // moved
	} {
		l.Learn(c.url, decode[any](t, json.RawMessage(c.body)))
		if got := l.Snapshot().Dirty; got != c.dirty {
			t.Errorf("after %s %s: dirty %d, want %d", c.url, c.body, got, c.dirty)
		}
	}
	for url, want := range map[string]string{"/networks/N_4": "O_1", "/networks/N_3": "O_2", "/devices/Q2AA/x": "O_2"} {
		if org, _ := l.Resolve(url); org != want {
			t.Errorf("%s is of %q, want %q", url, org, want)
		}
	}
	l.RegisterNetwork("", "O_1")
	l.RegisterDevice("Q", "")
	l.RegisterOrg("")
	if s := l.Snapshot(); s.Networks != 5 || s.Devices != 2 || len(s.Orgs) != 2 {
		t.Errorf("empty identifiers were registered: %+v", s)
	}
}
