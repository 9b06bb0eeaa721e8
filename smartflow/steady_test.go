package smartflow

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// vendor is the server's side of the limits: what the dashboard enforces, with the
// means that vendors use. It has its own arithmetic, so that a fault of the limiter's
// is not repeated here.
type vendor struct {
	mu     sync.Mutex // guards what follows
	orgs   map[string]*meter
	global meter
	limit  float64 // requests a second of each organization
	// refusals counts 429s by organization and second; closest is the shortest time
	// between two of one organization.
	refusals map[string]int
	refused  map[string]time.Time
	closest  time.Duration
	served   map[string]int // by organization
	start    time.Time
}

// meter is a leaky bucket or, with fixed set, a count for each calendar second.
type meter struct {
	level float64
	last  time.Time
	fixed bool
}

// admits tells whether one more request stays within limit a second.
func (m *meter) admits(now time.Time, limit float64) bool {
	if m.fixed {
		if now.Unix() != m.last.Unix() {
			m.level = 0
		}
	} else {
		m.level = max(0, m.level-now.Sub(m.last).Seconds()*limit)
	}
	m.last = now
	if m.level+1 > limit+1e-6 {
		return false
	}
	m.level++
	return true
}

func newVendor(fixed bool) *vendor {
	v := &vendor{orgs: map[string]*meter{}, limit: 10, refusals: map[string]int{}, refused: map[string]time.Time{}, served: map[string]int{}, start: time.Now(), closest: time.Hour}
	v.global.fixed = fixed
	for i := range organizations {
		v.orgs[fmt.Sprintf("O_%d", i)] = &meter{fixed: fixed}
	}
	return v
}

// serve answers one request and returns 200 or 429.
func (v *vendor) serve(org string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if !v.orgs[org].admits(now, v.limit) || !v.global.admits(now, 100) {
		v.refusals[fmt.Sprintf("%s@%d", org, now.Sub(v.start)/time.Second)]++
		v.closest = min(v.closest, now.Sub(v.refused[org]))
		v.refused[org] = now
		return http.StatusTooManyRequests
	}
	v.served[org]++
	return http.StatusOK
}

func (v *vendor) setLimit(limit float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.limit = limit
}

// take returns the counts so far and starts new ones.
func (v *vendor) take() (refusals map[string]int, served int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	refusals = v.refusals
	for _, n := range v.served {
		served += n
	}
	v.refusals, v.served = map[string]int{}, map[string]int{}
	return refusals, served
}

const (
	organizations = 16
	clients       = 64
)

// vendorURL names the organization of a client now directly, now by its network.
func vendorURL(base string, client, request int) string {
	org := client % organizations
	if request%2 == 0 {
		return fmt.Sprintf("%s/organizations/O_%d/x", base, org)
	}
	return fmt.Sprintf("%s/networks/N_%d/x", base, org)
}

func orgOfPath(path string) string {
	var kind, id, rest string
	if _, err := fmt.Sscanf(path, "/organizations/O_%s", &id); err == nil {
		kind, rest = "O_", id
	} else if _, err := fmt.Sscanf(path, "/networks/N_%s", &id); err == nil {
		kind, rest = "O_", id
	}
	for i := range rest {
		if rest[i] == '/' {
			return kind + rest[:i]
		}
	}
	return kind + rest
}

// load runs the clients until ctx is done.
func load(ctx context.Context, t *testing.T, tr http.RoundTripper, base string) *sync.WaitGroup {
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for request := 0; ctx.Err() == nil; request++ {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, vendorURL(base, client, request), nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	return &wg
}

func steadyLimiter(t *testing.T, orgBurst, globalBurst int64) *Limiter {
	return mustNew(t, Config{
		OrgRatePerSecond: 9, OrgBurst: orgBurst, GlobalRatePerSecond: 90, GlobalBurst: globalBurst,
		Resolver: func(_ context.Context, key Key) (string, error) { return "O_" + key.ID[2:], nil },
	})
}

// worst is the largest count.
func worst(refusals map[string]int) (n int, where string) {
	for at, c := range refusals {
		if c > n {
			n, where = c, at
		}
	}
	return n, where
}

// TestSteadyState is the bar of the specification's users: 64 clients over 16
// organizations, against a server that enforces 10 a second each and 100 in all. In
// virtual time: minutes pass in a moment.
func TestSteadyState(t *testing.T) {
	t.Run("leaky bucket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// With a burst, several of an organization may be in flight when the first of
			// them is refused.
			v, l := newVendor(false), steadyLimiter(t, 1, 0)
			defer virtualLoad(t, v, l)()
			steady(t, v)
			cutAndRecovery(t, v, l)
			steady(t, v)
		})
	})
	// A server that counts by calendar seconds does not forgive a burst on top of a
	// second's rate, so it takes smaller ones.
	t.Run("calendar seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			v := newVendor(true)
			defer virtualLoad(t, v, steadyLimiter(t, 1, 5))()
			steady(t, v)
		})
	})
}

// virtualLoad starts the clients, with answers that take 10 to 40 ms, and returns what
// stops them.
func virtualLoad(t *testing.T, v *vendor, l *Limiter) (stop func()) {
	rng := rand.New(rand.NewPCG(7, 7))
	var mu sync.Mutex // guards rng
	transit := func() {
		mu.Lock()
		d := time.Duration(5+rng.IntN(15)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
	}
	tr := &Transport{Limiter: l, Base: roundTripper(func(rt *roundTrip) (int, map[string]string, string) {
		transit()
		status := v.serve(orgOfPath(rt.URL.Path))
		transit()
		return status, map[string]string{"Retry-After": "1"}, ""
	})}
	ctx, cancel := context.WithCancel(context.Background())
	wg := load(ctx, t, tr, "https://api.meraki.com")
	return func() {
		cancel()
		wg.Wait()
	}
}

// steady lets two minutes pass without any refusal, at the full rate.
func steady(t *testing.T, v *vendor) {
	t.Helper()
	time.Sleep(2 * time.Minute)
	refusals, served := v.take()
	if len(refusals) > 0 {
		t.Errorf("refusals in the steady state: %v", refusals)
	}
	if rate := float64(served) / 120; rate < 89 {
		t.Errorf("only %.1f requests a second of 90", rate)
	}
}

// cutAndRecovery lets the server halve its limit for two minutes.
func cutAndRecovery(t *testing.T, v *vendor, l *Limiter) {
	v.setLimit(5)
	time.Sleep(2 * time.Minute)
	refusals, served := v.take()
	if n, where := worst(refusals); n > 1 {
		t.Errorf("%d refusals in one second: %s", n, where)
	}
	if len(refusals) == 0 {
		t.Error("the cut limit was never felt: this test tests nothing")
	}
	t.Logf("limit 5: %.1f requests a second of 80, %d refusals in 120 s, %v apart at least", float64(served)/120, len(refusals), v.closest)
	if v.closest < time.Second {
		t.Errorf("two refusals of one organization are only %v apart", v.closest)
	}
	if rate := float64(served) / 120; rate < 60 {
		t.Errorf("only %.1f requests a second of 80", rate)
	}

	v.setLimit(10)
	back := time.Now()
	for recovered := false; !recovered; time.Sleep(time.Second) {
		recovered = true
		for _, s := range l.Snapshot().Orgs {
			recovered = recovered && s.RatePerSecond == 9
		}
		if time.Since(back) > 60*time.Second {
			t.Fatalf("not recovered after a minute: %+v", l.Snapshot().Orgs)
		}
	}
	t.Logf("recovered in %v", time.Since(back))
	// The queues of the slow time are worked off meanwhile.
	time.Sleep(time.Until(back.Add(60 * time.Second)))
	v.take()
}

// TestAcquireUnderRace hammers one limiter with everything at once; the race detector
// is the judge, and no token may be lost.
func TestAcquireUnderRace(t *testing.T) {
	file := &countingFile{}
	l := mustNew(t, Config{
		OrgRatePerSecond: noWait, GlobalRatePerSecond: noWait, Cache: file, FlushEvery: 10,
		Resolver: func(_ context.Context, key Key) (string, error) { return "O_" + key.ID[2:], nil },
		Hydrator: func(context.Context, string) error { return nil },
	})
	var calls atomic.Int64
	var wg sync.WaitGroup
	for g := range clients {
		wg.Go(func() {
			for i := range 300 {
				url := vendorURL("", g, i)
				if err := l.Acquire(context.Background(), url); err != nil {
					t.Error(err)
				}
				calls.Add(1)
				switch i % 6 {
				case 0:
					l.RateLimited(url, 0)
				case 1:
					l.Success(url)
				case 2:
					l.Learn(url, map[string]any{"networkId": fmt.Sprintf("N_%d_%d", g, i)})
				case 3:
					l.Snapshot()
				case 4:
					l.RegisterDevice(fmt.Sprintf("Q2AA-%04d", i), "O_1")
				}
			}
		})
	}
	wg.Wait()
	if s := l.Snapshot(); len(s.Orgs) != organizations || calls.Load() != clients*300 {
		t.Errorf("%d organizations after %d calls", len(s.Orgs), calls.Load())
	}
}
