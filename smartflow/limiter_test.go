package smartflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// fieldCases reads the cases of one area from the shared collection.
func fieldCases(t *testing.T, area string) map[string]struct{ Input, Expected json.RawMessage } {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "cases", "field.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Area        string
			Input, Expected json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	found := map[string]struct{ Input, Expected json.RawMessage }{}
	for _, c := range file.Cases {
		if c.Area == area {
			found[c.ID] = struct{ Input, Expected json.RawMessage }{c.Input, c.Expected}
		}
	}
	return found
}

func decode[T any](t *testing.T, text json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFieldCases runs what went wrong elsewhere. A case that this test does not know
// makes it fail.
func TestFieldCases(t *testing.T) {
	run := map[string]func(t *testing.T, input, expected json.RawMessage){
		"SF-01": refusalWithoutRetryAfter, "SF-03": burstOfRefusals, "SF-04": recovery, "SF-06": queryStrings,
	}
	cases := fieldCases(t, "smart-flow")
	if len(cases) < len(run) {
		t.Errorf("%d cases, want at least %d", len(cases), len(run))
	}
	for id, c := range cases {
		t.Run(id, func(t *testing.T) {
			f, ok := run[id]
			if !ok {
				t.Fatal("nobody knows how to run this case")
			}
			f(t, c.Input, c.Expected)
		})
	}
}

func refusalWithoutRetryAfter(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct {
		Status  int
		Headers map[string]string
		Path    string
	}](t, input)
	want := decode[struct{ Wait, GlobalRate string }](t, expected)
	if !strings.Contains(want.Wait, "> 0") || !strings.Contains(want.GlobalRate, "unchanged") {
		t.Fatalf("the expectation has changed: %+v", want)
	}
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{})
		start, attempts := time.Now(), 0
		tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
			if attempts++; attempts == 1 {
				return in.Status, in.Headers, ""
			}
			return 204, nil, ""
		})}
		resp := get(t, tr, "https://api.meraki.com/api/v1"+in.Path)
		resp.Body.Close()
		if resp.StatusCode != 204 || time.Since(start) <= 0 {
			t.Errorf("status %d after %v: want a second attempt after a wait", resp.StatusCode, time.Since(start))
		}
		if rate := l.Snapshot().Global.RatePerSecond; rate != 100 {
			t.Errorf("the global rate is %v, want 100", rate)
		}
	})
}

func burstOfRefusals(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct{ OrgRate, Factor, Floor float64 }](t, input)
	want := decode[struct {
		SpecLiteral, OncePerWindow float64
		SequenceLiteral            []float64
	}](t, expected)
	if in.Factor != orgAIMD.Decrease || in.Floor != orgAIMD.Floor {
		t.Fatalf("factor %v and floor %v are not the published ones", in.Factor, in.Floor)
	}
	const url = "/organizations/O_1/devices"
	literal := mustNew(t, Config{OrgRatePerSecond: in.OrgRate})
	once := mustNew(t, Config{OrgRatePerSecond: in.OrgRate, DecreaseHold: time.Hour})
	literal.RegisterOrg("O_1")
	once.RegisterOrg("O_1")
	for i, rate := range want.SequenceLiteral {
		literal.RateLimited(url, 0)
		once.RateLimited(url, 0)
		// The case writes the rates with six digits.
		if got := orgState(t, literal, "O_1").RatePerSecond; math.Abs(got-rate) > 1e-6 {
			t.Errorf("rate %v after %d refusals, want %v", got, i+1, rate)
		}
	}
	if got := orgState(t, literal, "O_1").RatePerSecond; got != want.SpecLiteral {
		t.Errorf("rate %v in the end, want %v", got, want.SpecLiteral)
	}
	if got := orgState(t, once, "O_1").RatePerSecond; !near9(got, want.OncePerWindow) {
		t.Errorf("rate %v with a hold, want %v", got, want.OncePerWindow)
	}
}

func recovery(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct {
		OrgRate, Configured, Step float64
		Successes                 []int `json:"successes_each"`
	}](t, input)
	want := decode[struct{ Rate []float64 }](t, expected)
	if in.Step != orgAIMD.Increase {
		t.Fatalf("step %v is not the published one", in.Step)
	}
	for i, successes := range in.Successes {
		l := mustNew(t, Config{OrgRatePerSecond: in.Configured})
		l.RegisterOrg("O_1")
		l.bucketOf("O_1", 0).rate = in.OrgRate
		for range successes {
			l.Success("/organizations/O_1")
		}
		if got := orgState(t, l, "O_1").RatePerSecond; !near9(got, want.Rate[i]) {
			t.Errorf("rate %v after %d successes, want %v", got, successes, want.Rate[i])
		}
	}
}

func queryStrings(t *testing.T, input, expected json.RawMessage) {
	in := decode[struct{ URLs []string }](t, input)
	want := decode[struct{ Org []string }](t, expected)
	l := mustNew(t, Config{})
	for i, url := range in.URLs {
		org, ok := l.Resolve(url)
		if strings.HasPrefix(want.Org[i], "map(N_1)") {
			if ok {
				t.Errorf("%s is of %q before its network is known", url, org)
			}
			l.RegisterNetwork("N_1", "O_of_N_1")
			if org, _ = l.Resolve(url); org != "O_of_N_1" {
				t.Errorf("%s is of %q, want that of the network", url, org)
			}
		} else if org != want.Org[i] {
			t.Errorf("%s is of %q, want %q", url, org, want.Org[i])
		}
	}
}

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
		// The first had gone; the others, due at 100, 200 and 300 ms, moved by 2 s.
		if got, want := fmt.Sprint(went), "[0s 2.1s 2.2s 2.3s]"; got != want {
			t.Errorf("they went at %s, want %s", got, want)
		}
	})
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
