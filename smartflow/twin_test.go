package smartflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// twin is the limiter as one would write it from the specification in an hour: maps,
// regular expressions, no locks and no cleverness. It lives in a world in which no
// sleep takes time.
type twin struct {
	t                 interface{ Fatalf(string, ...any) }
	learner           *Learner
	orgRate, orgBurst float64
	global            *plainBucket
	globalRate        float64
	orgs              map[string]*plainBucket
	known             map[Key]string
	hydrated          map[string]bool
	dirty             int64
	now               float64
}

// answers of the resolver of both: the organization by the last digit; no answer for
// 8, an error for 9.
func twinAnswer(id string) (string, error) {
	switch last := id[len(id)-1]; last {
	case '8':
		return "", nil
	case '9':
		return "", errors.New("no such thing")
	default:
		return fmt.Sprintf("O_%d", int(last-'0')%3), nil
	}
}

// twinHydration is what the hydrator of both registers.
func twinHydration(org string) []Key {
	return []Key{{Network, "N_hydrated_" + org}, {Device, "Q2AA-AAAA-AAA" + org[2:]}}
}

func (w *twin) resolve(url string) (org string, key Key) {
	if v, ok := w.learner.Value(url); ok {
		return v, Key{organization, v}
	}
	if keys := w.learner.Keys(url); len(keys) > 0 {
		return w.known[keys[0]], keys[0] // the network, if there is one, hides the device
	}
	return "", Key{}
}

func (w *twin) bucket(org string) *plainBucket {
	if w.orgs[org] == nil {
		w.orgs[org] = &plainBucket{w.orgRate, w.orgBurst, w.orgBurst, w.now}
	}
	return w.orgs[org]
}

func (w *twin) acquire(url string) {
	w.global.acquire(w.now)
	org, key := w.resolve(url)
	if org == "" && key.Kind != "" {
		if answer, err := twinAnswer(key.ID); err == nil && answer != "" {
			w.known[key] = answer
			w.bucket(answer)
			w.dirty++
			if !w.hydrated[answer] {
				w.hydrated[answer] = true
				for _, k := range twinHydration(answer) {
					w.known[k] = answer
				}
			}
			org = answer
			w.flush()
		}
	}
	if org != "" {
		w.bucket(org).acquire(w.now)
	}
}

func (w *twin) flush() {
	if w.dirty >= 50 {
		w.dirty = 0
	}
}

func (w *twin) rateLimited(url string) {
	org, key := w.resolve(url)
	switch b := w.orgs[org]; {
	case b != nil:
		b.rate = max(0.5, b.rate*0.7)
	case key.Kind == Network || key.Kind == Device:
	default:
		w.global.rate = max(0.5, w.global.rate*0.7)
	}
}

func (w *twin) success(url string) {
	if org, _ := w.resolve(url); w.orgs[org] != nil {
		w.orgs[org].rate = min(w.orgRate, w.orgs[org].rate+0.2)
	}
	w.global.rate = min(w.globalRate, w.global.rate+0.5)
}

func (w *twin) learn(url string, body any) {
	lesson, ok := w.learner.Lesson(url, body)
	if !ok {
		return
	}
	w.bucket(lesson.Value)
	for _, key := range lesson.Keys {
		if w.known[key] != lesson.Value {
			w.known[key] = lesson.Value
			w.dirty++
		}
	}
	w.flush()
}

// compare looks at everything that a user of l could notice.
func (w *twin) compare(l *Limiter, did string) {
	same := func(what string, b *bucket, p *plainBucket) {
		rate, tokens, last := b.look()
		if math.Abs(rate-p.rate) > 1e-9 || math.Abs(tokens-p.tokens) > 1e-9 || seconds(last) != p.last {
			w.t.Fatalf("after %s: %s has %v, %v, %v; the twin %v, %v, %v", did, what, rate, tokens, seconds(last), p.rate, p.tokens, p.last)
		}
	}
	same("the global bucket", l.global, w.global)
	buckets := l.buckets()
	if len(buckets) != len(w.orgs) {
		w.t.Fatalf("after %s: the organizations are %v, the twin's %v", did, slices.Sorted(maps.Keys(buckets)), slices.Sorted(maps.Keys(w.orgs)))
	}
	for org, p := range w.orgs {
		same(org, buckets[org], p)
	}
	known := map[Key]string{}
	for id, org := range pairsOf(l.networks) {
		known[Key{Network, id}] = org
	}
	for id, org := range pairsOf(l.devices) {
		known[Key{Device, id}] = org
	}
	if !maps.Equal(known, w.known) || l.dirty.Load() != w.dirty {
		w.t.Fatalf("after %s: known %v, dirty %d; the twin %v, %d", did, known, l.dirty.Load(), w.known, w.dirty)
	}
}

// drawTwins makes both, with the same configuration.
func drawTwins(t *rapid.T, clock *steppedClock) (*twin, *Limiter) {
	learner, err := NewLearner(merakiSpec())
	if err != nil {
		t.Fatalf("%v", err)
	}
	c := Config{
		OrgRatePerSecond:    float64(rapid.IntRange(1, 20).Draw(t, "org rate")),
		OrgBurst:            int64(rapid.IntRange(1, 10).Draw(t, "org burst")),
		GlobalRatePerSecond: float64(rapid.IntRange(5, 100).Draw(t, "global rate")),
		Clock:               clock,
		Resolver:            func(_ context.Context, key Key) (string, error) { return twinAnswer(key.ID) },
	}
	var l *Limiter
	c.Hydrator = func(_ context.Context, org string) error {
		for _, key := range twinHydration(org) {
			l.registerID(l.mapOf(key.Kind), key.ID, org)
		}
		return nil
	}
	if l, err = New(c); err != nil {
		t.Fatalf("%v", err)
	}
	return &twin{
		t: t, learner: learner, orgRate: c.OrgRatePerSecond, orgBurst: float64(c.OrgBurst),
		global:     &plainBucket{c.GlobalRatePerSecond, c.GlobalRatePerSecond, c.GlobalRatePerSecond, 0},
		globalRate: c.GlobalRatePerSecond, orgs: map[string]*plainBucket{}, known: map[Key]string{}, hydrated: map[string]bool{},
	}, l
}

// A limiter and its twin see the same things and must agree on everything, step by
// step.
func TestLimiterIsItsTwin(t *testing.T) {
	urls := rapid.Custom(func(t *rapid.T) string {
		id := rapid.IntRange(0, 9).Draw(t, "id")
		return fmt.Sprintf(rapid.SampledFrom([]string{
			"/organizations/O_%d", "/api/v1/organizations/O_%d/networks?perPage=3", "/networks/N_%d", "https://api.meraki.com/api/v1/networks/N_%d/x",
			"/devices/Q2AA-BBBB-CCC%d/x", "/networks/N_1/devices/Q2AA-BBBB-CCC%d", "/organizations/O_1/networks/N_%d", "/administered/%d",
			"/administered/%d?next=/networks/N_1", "/networks//networks/N_%d",
		}).Draw(t, "form"), id)
	})
	bodies := rapid.Custom(func(t *rapid.T) any {
		body := map[string]any{}
		value := func(prefix string) any {
			return rapid.SampledFrom([]any{prefix + "1", prefix + "2", "", nil, 7.0, []any{}}).Draw(t, prefix)
		}
		for name, v := range map[string]any{
			"organizationId": value("O_"), "networkId": value("N_"), "serial": value("Q2AA-BBBB-DDD"),
			"organization": map[string]any{"id": value("O_")}, "network": map[string]any{"id": value("N_")},
		} {
			if rapid.Bool().Draw(t, name) {
				body[name] = v
			}
		}
		return rapid.SampledFrom([]any{body, body, []any{body}, nil, "text"}).Draw(t, "body")
	})
	rapid.Check(t, func(t *rapid.T) {
		clock := &steppedClock{}
		w, l := drawTwins(t, clock)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock.now += int64(rapid.IntRange(0, 300).Draw(t, "ticks")) * tick
			w.now = seconds(clock.now)
			url := urls.Draw(t, "url")
			op := rapid.SampledFrom([]string{"acquire", "acquire", "rateLimited", "success", "learn", "register"}).Draw(t, "op")
			switch op {
			case "acquire":
				if err := l.Acquire(context.Background(), url); err != nil {
					t.Fatalf("%v", err)
				}
				w.acquire(url)
			case "rateLimited":
				l.RateLimited(url, 0)
				w.rateLimited(url)
			case "success":
				l.Success(url)
				w.success(url)
			case "learn":
				body := bodies.Draw(t, "body")
				l.Learn(url, body)
				w.learn(url, body)
			case "register":
				org := rapid.SampledFrom([]string{"O_1", "O_7", ""}).Draw(t, "org")
				l.RegisterNetwork("N_1", org)
				if org != "" {
					w.known[Key{Network, "N_1"}] = org
				}
			}
			w.compare(l, op+" "+url)
		}
	})
}

func TestSystemClock(t *testing.T) {
	c := newSystemClock()
	before := c.Monotonic()
	if err := c.Sleep(t.Context(), 2*time.Millisecond); err != nil {
		t.Error(err)
	}
	if got := c.Monotonic() - before; got < 2*time.Millisecond {
		t.Errorf("slept for %v, want at least 2ms", got)
	}
	if d := time.Until(c.Wall()).Abs(); d > time.Minute {
		t.Errorf("the time of day is %v off", d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, d := range []time.Duration{0, -1, time.Hour} {
		if err := c.Sleep(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("Sleep(%v) on a context that is done: %v", d, err)
		}
	}
	if err := c.Sleep(context.Background(), -time.Hour); err != nil {
		t.Errorf("a sleep that is over already: %v", err)
	}
	for range 100 {
		if j := jitter(); j < 0 || j >= 1 {
			t.Errorf("jitter is %v", j)
		}
	}
}
