package smartflow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Sixteen goroutines that need the same network ask once, and all of them then pay
// the organization.
func TestLookupIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, hydrated atomic.Int64
		var l *Limiter
		l = mustNew(t, Config{
			OrgBurst: 20,
			Resolver: func(ctx context.Context, key Key) (string, error) {
				asked.Add(1)
				time.Sleep(time.Second)
				return "O_1", nil
			},
			Hydrator: func(ctx context.Context, org string) error {
				hydrated.Add(1)
				l.RegisterNetwork("N_2", org)
				l.RegisterDevice("Q2AA-AAAA-AAAA", org)
				return nil
			},
		})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := l.Acquire(context.Background(), "/networks/N_1/clients"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, url := range []string{"/networks/N_2", "/devices/Q2AA-AAAA-AAAA/x"} {
			if org, _ := l.Resolve(url); org != "O_1" {
				t.Errorf("%s is of %q: the hydrator said O_1", url, org)
			}
		}
		if asked.Load() != 1 || hydrated.Load() != 1 {
			t.Errorf("asked %d times and hydrated %d times, want once", asked.Load(), hydrated.Load())
		}
		if got := orgState(t, l, "O_1").Tokens; got != 4 {
			t.Errorf("%v tokens left, want 4 of 20", got)
		}
		if got := l.Snapshot().Dirty; got != 1 {
			t.Errorf("dirty is %d: a look-up counts as one, what a hydrator registers not at all", got)
		}
	})
}

// When the request that runs a look-up is cancelled, another one takes over.
func TestLookupSurvivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var warned atomic.Int64
		l := mustNew(t, Config{
			Warn: func(error) { warned.Add(1) },
			Resolver: func(ctx context.Context, key Key) (string, error) {
				asked.Add(1)
				select {
				case <-time.After(time.Second):
					return "O_1", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			},
		})
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.Acquire(ctx, "/networks/N_1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the first got %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if err := l.Acquire(context.Background(), "/networks/N_1"); err != nil {
					t.Error(err)
				}
			})
		}
		// A caller that is cancelled while others look up gives its token back.
		short, cancelShort := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancelShort()
		wg.Go(func() {
			if err := l.Acquire(short, "/networks/N_1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the short one got %v", err)
			}
		})
		wg.Wait()
		if asked.Load() != 2 {
			t.Errorf("asked %d times, want 2", asked.Load())
		}
		if warned.Load() != 0 {
			t.Error("a cancelled caller is nothing to warn about")
		}
		if got := orgState(t, l, "O_1").Tokens; got != 7 {
			t.Errorf("%v tokens left, want 7", got)
		}
	})
}

// Failures of callbacks stop nothing: the request pays what it can.
func TestCallbacksMayFail(t *testing.T) {
	boom := errors.New("boom")
	var warnings []error
	asked, hydrated := 0, 0
	l := mustNew(t, Config{
		Warn: func(err error) { warnings = append(warnings, err) },
		Resolver: func(_ context.Context, key Key) (string, error) {
			if asked++; asked == 1 {
				return "", boom
			}
			if key.ID == "N_nobody" {
				return "", nil
			}
			return "O_1", nil
		},
		Hydrator: func(context.Context, string) error { hydrated++; return boom },
	})
	for _, url := range []string{"/networks/N_1", "/networks/N_1", "/devices/Q2AA-BBBB-CCCC", "/networks/N_nobody"} {
		if err := l.Acquire(context.Background(), url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if len(warnings) != 2 || !errors.Is(warnings[0], boom) || !errors.Is(warnings[1], boom) {
		t.Errorf("warnings: %v", warnings)
	}
	if asked != 4 || hydrated != 1 {
		t.Errorf("asked %d and hydrated %d times, want 4 and 1", asked, hydrated)
	}
	if org, _ := l.Resolve("/devices/Q2AA-BBBB-CCCC"); org != "O_1" {
		t.Errorf("the device is of %q after a failed hydration, want O_1", org)
	}
}

// A resolver that panics does not leave the look-up open for ever.
func TestResolverMayPanic(t *testing.T) {
	panics := true
	l := mustNew(t, Config{Resolver: func(context.Context, Key) (string, error) {
		if panics {
			panic("boom")
		}
		return "O_1", nil
	}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		l.Acquire(context.Background(), "/networks/N_1")
	}()
	panics = false
	if err := l.Acquire(context.Background(), "/networks/N_1"); err != nil {
		t.Error(err)
	}
	if org, _ := l.Resolve("/networks/N_1"); org != "O_1" {
		t.Errorf("got %q", org)
	}
}

// Resolvers that call the limiter about each other's networks do not wait for each
// other.
func TestResolversMayCallTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := map[string]string{"N_1": "/networks/N_2", "N_2": "/networks/N_1"}
		var l *Limiter
		l = mustNew(t, Config{Resolver: func(ctx context.Context, key Key) (string, error) {
			time.Sleep(time.Second)
			if err := l.Acquire(ctx, "/networks/"+key.ID); err != nil {
				return "", err
			}
			if err := l.Acquire(ctx, other[key.ID]); err != nil {
				return "", err
			}
			return "O_" + key.ID, nil
		}})
		var wg sync.WaitGroup
		for id := range other {
			wg.Go(func() {
				if err := l.Acquire(context.Background(), "/networks/"+id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for id := range other {
			if org, _ := l.Resolve("/networks/" + id); org != "O_"+id {
				t.Errorf("%s is of %q", id, org)
			}
		}
	})
}

// Whatever many clients do, a key is never asked about twice at once, an organization
// is hydrated once, and everybody pays in the end.
func TestLookupsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underway sync.Map // key to *atomic.Int64
		var hydrated sync.Map // organization to *atomic.Int64
		count := func(m *sync.Map, key any) *atomic.Int64 {
			n, _ := m.LoadOrStore(key, new(atomic.Int64))
			return n.(*atomic.Int64)
		}
		l := mustNew(t, Config{
			OrgRatePerSecond: 1000, GlobalRatePerSecond: 1000,
			Resolver: func(ctx context.Context, key Key) (string, error) {
				if count(&underway, key).Add(1) != 1 {
					t.Errorf("%v is asked about twice at once", key)
				}
				defer count(&underway, key).Add(-1)
				time.Sleep(time.Duration(len(key.ID)*7) * time.Millisecond)
				if key.ID[len(key.ID)-1] == '3' {
					return "", errors.New("no such thing")
				}
				return "O_" + key.ID[len(key.ID)-1:], nil
			},
			Hydrator: func(ctx context.Context, org string) error {
				time.Sleep(20 * time.Millisecond)
				if count(&hydrated, org).Add(1) != 1 {
					t.Errorf("%s is hydrated twice", org)
				}
				return nil
			},
		})
		var wg sync.WaitGroup
		for g := range 24 {
			wg.Go(func() {
				for i := range 30 {
					url := fmt.Sprintf("/networks/N_%d/x", (g*7+i)%10)
					if i%3 == 0 {
						url = fmt.Sprintf("/devices/Q2AA-BBBB-000%d/x", (g+i)%10)
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+i*3)*time.Millisecond)
					if err := l.Acquire(ctx, url); err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.flights) != 0 {
			t.Errorf("look-ups are left open: %v", l.flights)
		}
	})
}
