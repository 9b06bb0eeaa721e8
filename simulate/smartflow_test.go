package simulate_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/smartflow"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// These tests send the requests of smartflow over real connections to the handler that "tapyr simulate serve" serves: two packages
// that share no code, so that neither repeats a mistake of the other.

// stage is the time of both sides.
type stage interface {
	smartflow.Clock
	Go(f func()) // runs one of those who wait for this time
	Wait()       // until all have returned
}

// virtualStage is a time that stands still while anybody works, and jumps to the next moment at which somebody goes on once all of
// them wait. So a minute passes in a moment, and a busy machine changes nothing of what happens when: nothing can be late. A client
// whose request is with the server is one that works, or one that waits where the server does; it is never both.
type virtualStage struct {
	done sync.WaitGroup

	mu       sync.Mutex // guards what follows
	now      time.Duration
	working  int
	sleepers []*sleeper
}

type sleeper struct {
	until time.Duration
	woken chan struct{}
}

// grain is what the time is made of: a sleep ends at its next multiple, as a timer's does, and those who go on together are really
// at work at once.
const grain = time.Millisecond

func (s *virtualStage) Monotonic() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *virtualStage) Wall() time.Time { return noon.Add(s.Monotonic()) }

func (s *virtualStage) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	until := s.now + d
	if rest := until % grain; rest > 0 {
		until += grain - rest
	}
	me := &sleeper{until: until, woken: make(chan struct{})}
	s.sleepers = append(s.sleepers, me)
	s.rest()
	s.mu.Unlock()
	<-me.woken
	return ctx.Err()
}

// rest takes one off those who work. It requires mu.
func (s *virtualStage) rest() {
	s.working--
	if s.working > 0 || len(s.sleepers) == 0 {
		return
	}
	next := s.sleepers[0].until
	for _, one := range s.sleepers {
		next = min(next, one.until)
	}
	s.now = next
	var later []*sleeper
	for _, one := range s.sleepers {
		if one.until > next {
			later = append(later, one)
			continue
		}
		s.working++
		close(one.woken)
	}
	s.sleepers = later
}

func (s *virtualStage) Go(f func()) {
	s.mu.Lock()
	s.working++
	s.mu.Unlock()
	s.done.Go(func() {
		defer func() {
			s.mu.Lock()
			s.rest()
			s.mu.Unlock()
		}()
		f()
	})
}

func (s *virtualStage) Wait() { s.done.Wait() }

// realStage is the time of this machine.
type realStage struct {
	done  sync.WaitGroup
	start time.Time
}

func (s *realStage) Monotonic() time.Duration { return time.Since(s.start) }
func (s *realStage) Wall() time.Time          { return time.Now() }
func (s *realStage) Go(f func())              { s.done.Go(f) }
func (s *realStage) Wait()                    { s.done.Wait() }

func (s *realStage) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	organizations = 16
	clients       = 64
)

// phases are the parts of a run: the server's limit is 10 a second for each organization, then 5, then 10 again. The last one
// begins when a recovery must be over.
type phases struct{ steady, cut, after time.Duration }

// patience is how long a recovery may take.
const patience = time.Minute

func (p phases) cutAt() time.Duration  { return p.steady }
func (p phases) backAt() time.Duration { return p.steady + p.cut }
func (p phases) wellAt() time.Duration { return p.backAt() + patience }

// end is when a run is over.
func (p phases) end(recovers bool) time.Duration {
	if !recovers {
		return p.backAt()
	}
	return p.wellAt() + p.after
}

// seen is one answer of the server.
type seen struct {
	at     time.Duration
	org    string
	status int
}

// witness writes down what a server answers, and when the requests arrived.
type witness struct {
	server http.Handler
	stage  stage

	mu   sync.Mutex // guards seen
	seen []seen
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var org string
	if _, err := fmt.Sscanf(r.URL.Path, "/api/v1/organizations/O_%2s", &org); err != nil {
		org = r.URL.Path // no test sends such a request
	}
	at, status := w.stage.Monotonic(), &statusWriter{rw, http.StatusOK}
	w.server.ServeHTTP(status, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, seen{at, org, status.status})
}

// between returns how many requests were served in a span, and when each organization was refused.
func (w *witness) between(from, to time.Duration) (served int, refused map[string][]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	refused = make(map[string][]time.Duration)
	for _, one := range w.seen {
		switch {
		case one.at < from || one.at >= to:
		case one.status == http.StatusTooManyRequests:
			refused[one.org] = append(refused[one.org], one.at)
		case one.status == http.StatusOK:
			served++
		}
	}
	return served, refused
}

// vendorOf is a provider with two limits, as the Meraki API has them.
func vendorOf(org, all string) string {
	return head + `Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com/api/v1
  limits:
    - { name: org, ` + org + `, scope: { by: [account, "var:organizationId"] } }
    - { name: all, ` + all + `, scope: { by: [instance] } }
  errors: { rateLimited: { status: [429] } }
---
` + head + `Account
metadata: { name: acme }
spec: { provider: vendor, credentials: { key: { env: KEY } } }
` + jobDocument("organizations", "request: { endpoint: /organizations }, inventory: { items: response, vars: { organizationId: item.id } }") +
		jobDocument("networks", "forEach: organizations, request: { endpoint: '/organizations/{organizationId}/networks' }") +
		jobDocument("devices", "forEach: organizations, request: { endpoint: '/organizations/{organizationId}/devices' }")
}

// transit is the way to the server, which takes 0 to 20 ms: requests that go in step arrive out of step.
type transit struct {
	stage stage
	base  http.RoundTripper

	mu     sync.Mutex // guards chance
	chance *rand.Rand
}

func (t *transit) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	d := time.Duration(t.chance.Int64N(int64(20 * time.Millisecond)))
	t.mu.Unlock()
	if err := t.stage.Sleep(r.Context(), d); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// server is a form in which a vendor counts, and the limiter for it.
type server struct {
	name, documents, changes string
	config                   smartflow.Config
	// least is how many requests a second of 80 must be served while the limit is cut.
	least float64
	// recovers: everything is as before a minute after the limit is back. One that counts by the second, strictly, refuses many
	// organizations at once when all of them recover together, because of the limit of all, and that may start again for a while.
	recovers bool
	// together is the time in which requests cannot know of each other's refusal, where the limiter lets several go at once.
	together time.Duration
}

// play sends requests of 64 clients to a server until the end of all phases, and holds what it has seen against the bars.
func play(t *testing.T, s stage, p phases, one server) {
	t.Helper()
	faults, err := simulate.ParseFaults("latency=20ms±15ms,"+one.changes, noon)
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{stage: s, server: newServer(t, validatetest.Config(t, one.documents), "vendor", simulate.ServerOptions{
		Seed: 1, Faults: faults, Now: s.Wall, Sleep: s.Sleep,
	})}
	listener := httptest.NewServer(w)
	defer listener.Close()
	base := &http.Transport{MaxIdleConnsPerHost: clients}
	defer base.CloseIdleConnections()
	one.config.Clock = s
	limiter, err := smartflow.New(one.config)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &smartflow.Transport{
		Limiter: limiter, Base: &transit{stage: s, base: base, chance: rand.New(rand.NewPCG(1, 1))},
	}}
	var over atomic.Bool
	s.Go(func() { // first, so that nobody moves the time on before all clients are there
		for number := range clients {
			s.Go(func() { visit(t, client, listener.URL, number, &over) })
		}
		if one.recovers {
			recovery(t, s, p, limiter)
		}
		if err := s.Sleep(context.Background(), p.end(one.recovers)-s.Monotonic()); err != nil {
			t.Error(err)
		}
		over.Store(true)
	})
	s.Wait()
	wantPhases(t, w, p, one)
}

// recovery waits until all rates of a limiter are what they were.
func recovery(t *testing.T, s stage, p phases, l *smartflow.Limiter) {
	for wait := p.backAt(); ; wait = time.Second {
		if err := s.Sleep(context.Background(), wait); err != nil {
			t.Error(err)
		}
		since, state := s.Monotonic()-p.backAt(), l.Snapshot()
		recovered := state.Global.RatePerSecond == 90
		for _, org := range state.Orgs {
			recovered = recovered && org.RatePerSecond == 9
		}
		if recovered {
			if len(state.Orgs) != organizations {
				t.Errorf("%d organizations, want %d", len(state.Orgs), organizations)
			}
			t.Logf("recovered after %v", since)
			return
		}
		if since > patience {
			t.Errorf("not recovered after %v: %+v, %+v", since, state.Global, state.Orgs)
			return
		}
	}
}

// visit is one client: it sends a request as soon as it has the answer to the last one.
func visit(t *testing.T, client *http.Client, base string, number int, over *atomic.Bool) {
	for request := 0; !over.Load(); request++ {
		endpoint := []string{"networks", "devices"}[request%2]
		resp, err := client.Get(fmt.Sprintf("%s/api/v1/organizations/O_%02d/%s", base, number%organizations, endpoint))
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("client %d got %s", number, resp.Status)
		}
	}
}

// wantPhases holds what a server has seen against the bars.
func wantPhases(t *testing.T, w *witness, p phases, one server) {
	t.Helper()
	rate := func(served int, d time.Duration) float64 { return float64(served) / d.Seconds() }
	wantSteady := func(name string, from, to time.Duration) {
		served, refused := w.between(from, to)
		if len(refused) > 0 {
			t.Errorf("%s: refused at %v", name, refused)
		}
		if got := rate(served, to-from); got < 85 {
			t.Errorf("%s: only %.1f requests a second of 90", name, got)
		}
		t.Logf("%s: %.1f requests a second", name, rate(served, to-from))
	}
	wantSteady("at first", 0, p.cutAt())

	served, refused := w.between(p.cutAt(), p.backAt())
	count, closest := 0, p.cut
	for org, at := range refused {
		slices.Sort(at) // they were written down as they were answered
		count += len(at)
		for i := 1; i < len(at); i++ {
			gap := at[i] - at[i-1]
			if gap < one.together {
				continue
			}
			closest = min(closest, gap)
			if gap < time.Second {
				t.Errorf("organization %s was refused at %v and again at %v", org, at[i-1], at[i])
			}
		}
	}
	if len(refused) < organizations {
		t.Errorf("only %d organizations felt the cut: this test tests nothing", len(refused))
	}
	if got := rate(served, p.cut); got < one.least {
		t.Errorf("only %.1f requests a second while the limit was cut, want %v", got, one.least)
	}
	t.Logf("limit 5: %.1f requests a second, %d refusals, %v apart at least", rate(served, p.cut), count, closest)
	if one.recovers {
		wantSteady("recovered", p.wellAt(), p.end(true))
	}
}

// servers are the forms in which a server counts.
func servers(p phases) []server {
	at := func(d time.Duration, change string) string {
		return fmt.Sprintf("%s:provider.vendor.limits.org.%s", d, change)
	}
	rates := at(p.cutAt(), "rate=5/s") + "," + at(p.backAt(), "rate=10/s")
	maxima := at(p.cutAt(), "max=5") + "," + at(p.backAt(), "max=10")
	bursts := smartflow.Config{OrgRatePerSecond: 9, GlobalRatePerSecond: 90}
	spaced := smartflow.Config{OrgRatePerSecond: 9, OrgBurst: 1, GlobalRatePerSecond: 90, GlobalBurst: 5}
	buckets := vendorOf("kind: rate, rate: 10/s, burst: 10", "kind: rate, rate: 100/s, burst: 100")
	return []server{
		{"buckets", buckets, rates, bursts, 70, true, 60 * time.Millisecond},
		{"buckets, spaced", buckets, rates, spaced, 70, true, 0},
		{"calendar seconds", vendorOf("kind: quota, max: 10, window: { every: 1s }", "kind: quota, max: 100, window: { every: 1s }"), maxima, spaced, 35, false, 0},
		{"rolling seconds", vendorOf("kind: quota, max: 10, window: { rolling: 1s }", "kind: quota, max: 100, window: { rolling: 1s }"), maxima, spaced, 35, false, 0},
	}
}

// TestSmartFlowAgainstServer is the bar of smartflow: no refusal in the steady state, at most one for each organization and second
// while the server allows half, and everything as before within a minute after that.
func TestSmartFlowAgainstServer(t *testing.T) {
	p := phases{steady: 10 * time.Second, cut: 30 * time.Second, after: 10 * time.Second}
	if soak() {
		p = phases{steady: 10 * time.Minute, cut: 10 * time.Minute, after: 10 * time.Minute}
	}
	for _, one := range servers(p) {
		t.Run(one.name, func(t *testing.T) { play(t, &virtualStage{}, p, one) })
	}
}

// TestSmartFlowAgainstServerInRealTime is the same without any stage.
func TestSmartFlowAgainstServerInRealTime(t *testing.T) {
	if !soak() {
		t.Skip("takes minutes, and a machine that answers in time: set TAPYR_SOAK")
	}
	p := phases{steady: 20 * time.Second, cut: 30 * time.Second, after: 20 * time.Second}
	one := servers(p)[1]
	one.together = 250 * time.Millisecond // a round trip on a busy machine, in which no client hears of a refusal
	play(t, &realStage{start: time.Now()}, p, one)
}
