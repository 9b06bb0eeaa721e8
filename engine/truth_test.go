package engine

import (
	"errors"
	"fmt"
	"math/big"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
	"github.com/tapyr/tapyr/window"
)

// server is a vendor's own count, exactly: a bucket in fractions, windows by the calendar, every unit of a rolling window by its
// own instant. It knows one key.
type server struct {
	limit      *validate.Limit
	tokens     *big.Rat
	last       int64
	start, end int64
	used       int64
	units      []arrival // of a rolling window
	inFlight   []int64   // when each will be answered
}

type arrival struct{ at, cost int64 }

func newServer(l *validate.Limit) *server {
	return &server{limit: l, tokens: new(big.Rat).SetInt64(l.Burst), last: -1 << 62, end: -1 << 62}
}

// room tells whether a request that arrives now is let through; take counts it.
func (s *server) room(now, cost int64) bool {
	switch s.limit.Spec.Kind {
	case "rate":
		r := s.limit.Spec.Rate
		gain := new(big.Rat).Mul(r.Count.Rat(), big.NewRat(now-s.last, int64(r.Per)))
		s.tokens.Add(s.tokens, gain)
		if burst := new(big.Rat).SetInt64(s.limit.Burst); s.last < 0 || s.tokens.Cmp(burst) > 0 {
			s.tokens.Set(burst)
		}
		s.last = now
		return s.tokens.Cmp(new(big.Rat).SetInt64(cost)) >= 0
	case "concurrency":
		n := int64(0)
		for _, until := range s.inFlight {
			if until > now {
				n++
			}
		}
		return n < s.limit.Spec.Max.Number
	}
	switch w := s.limit.Window; w.Kind() {
	case window.Rolling:
		s.used = 0
		for _, u := range s.units {
			if now-u.at < int64(w.Length()) {
				s.used += u.cost
			}
		}
	case window.FirstRequest:
		if now >= s.end {
			s.start, s.end, s.used = now, now+int64(w.Length()), 0
		}
	default:
		if now >= s.end {
			span := w.AtNanos(now)
			s.start, s.end, s.used = span.StartNanos, span.EndNanos, 0
		}
	}
	return s.used+cost <= s.limit.Spec.Max.Number
}

func (s *server) take(now, cost, answered int64) {
	s.used += cost
	s.units = append(s.units, arrival{now, cost})
	s.inFlight = append(s.inFlight, answered)
	s.tokens.Sub(s.tokens, new(big.Rat).SetInt64(cost))
}

// sent is a granted request on its way.
type sent struct{ granted, arrives, answered, cost int64 }

// drawLimit is a limit whose server can be modelled, and the jitter that a bucket bears.
func drawLimit(t *rapid.T) (text string, jitterNanos int64) {
	cost := rapid.IntRange(1, 2).Draw(t, "cost")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		rates := map[string]int64{"2/s": 5e8, "10/s": 1e8, "27.4/m": 2189781021, "1/3s": 3e9}
		r := rapid.SampledFrom([]string{"2/s", "10/s", "27.4/m", "1/3s"}).Draw(t, "rate")
		return fmt.Sprintf("kind: rate, rate: %s, burst: %d, cost: %d", r, rapid.IntRange(cost+1, 9).Draw(t, "burst"), cost), rates[r]
	case 1:
		return fmt.Sprintf("kind: concurrency, max: %d", rapid.IntRange(1, 4).Draw(t, "max")), 3e9
	}
	w := rapid.SampledFrom([]string{
		"period: minute", "every: 20s", "every: 7s, phase: 3s", "rolling: 10s", "rolling: 61s", "every: 15s, anchor: firstRequest",
		"period: hour, timezone: Asia/Kathmandu",
	}).Draw(t, "window")
	return fmt.Sprintf("kind: quota, max: %d, cost: %d, window: { %s }", rapid.IntRange(2, 12).Draw(t, "max"), cost, w), 3e9
}

// flights grants as many of the requests as the engine lets go, each with its own latency.
func flights(t *rapid.T, config *validate.Config, jitter int64) []sent {
	e := New(config, Options{})
	loop := e.Loop()
	now := goldenStart
	var out []sent
	edges := []int64{0, 1, 1e6, 19999e6, 20e9, 59999e6, 60e9}
	for range rapid.IntRange(5, 60).Draw(t, "requests") {
		if rapid.IntRange(0, 3).Draw(t, "edge") == 0 { // just before, at, or after an edge of a window
			now += rapid.SampledFrom(edges).Draw(t, "at edge") - (now-goldenStart)%60e9
			now = max(now, loop.now)
		} else {
			now += int64(rapid.SampledFrom([]int{0, 1, 40, 300, 1100, 5000}).Draw(t, "gap")) * 1e6
		}
		there := rapid.Int64Range(0, jitter-1).Draw(t, "there")
		work := rapid.Int64Range(0, 4e9).Draw(t, "work")
		back := rapid.Int64Range(0, 1e9).Draw(t, "back")
		loop.RunTo(now - 1)
		p, err := e.Prepare(now, plainRequest())
		if err != nil {
			t.Fatal(err)
		}
		loop.Arrive(now, &Call{
			Prepared: p, DeadlineNanos: now + int64(rapid.SampledFrom([]int{0, 2, 90}).Draw(t, "patience"))*1e9,
			Done: func(at int64, _ Ticket, refused *RefusedError) (*Response, int64) {
				if refused == nil {
					out = append(out, sent{at, at + there, at + there + work, p.entries[0].cost})
				}
				return &Response{Status: 200}, there + work + back
			},
		})
	}
	loop.Drain()
	return out
}

// What the engine grants, an exact server lets through, whatever the latency: at window edges, in rolling windows, and in
// buckets while the jitter is below one token's interval.
func TestServerNeverRefuses(t *testing.T) {
	total := 0
	one := func(t *rapid.T) {
		text, jitter := drawLimit(t)
		config := tryConfig(oneLimit(text, ""))
		if config == nil {
			t.Skip("not valid: " + text)
		}
		all := flights(t, config, jitter)
		total += len(all)
		sort.SliceStable(all, func(i, j int) bool { return all[i].arrives < all[j].arrives })
		s := newServer(config.Providers[0].Limits[0])
		for i, f := range all {
			if !s.room(f.arrives, f.cost) {
				t.Fatalf("%s: the server refuses request %d, granted at %.6f, arriving at %.6f", text, i, sinceStart(f.granted), sinceStart(f.arrives))
			}
			s.take(f.arrives, f.cost, f.answered)
		}
	}
	for total < soak(3000) {
		rapid.Check(t, one)
		if t.Failed() {
			return
		}
	}
}

// The enforcer is that exact server.
func TestEnforcerIsExact(t *testing.T) {
	allowed, denied := 0, 0
	one := func(t *rapid.T) {
		text, _ := drawLimit(t)
		config := tryConfig(oneLimit(text, ""))
		if config == nil {
			t.Skip("not valid: " + text)
		}
		l := config.Providers[0].Limits[0]
		s, f := newServer(l), NewEnforcer(config)
		cost := int64(1)
		if l.Spec.Cost != nil {
			cost = *l.Spec.Cost
		}
		type open struct {
			ticket Ticket
			until  int64
		}
		var flying []open
		now := goldenStart
		for range rapid.IntRange(5, 60).Draw(t, "requests") {
			now += int64(rapid.SampledFrom([]int{0, 0, 1, 40, 300, 1100, 5000, 20000}).Draw(t, "gap")) * 1e6
			for len(flying) > 0 && flying[0].until <= now {
				f.Done(flying[0].until, flying[0].ticket, 200)
				flying = flying[1:]
			}
			until := now + rapid.Int64Range(0, 4e9).Draw(t, "work")
			want := s.room(now, cost)
			ticket, retryAfter, err := f.Allow(now, &plainRequest().Request)
			var refused *RefusedError
			if (err == nil) != want || err != nil && !errors.As(err, &refused) {
				t.Fatalf("%s at %.3f: the enforcer says %v, the exact server %v", text, sinceStart(now), err, want)
			}
			if err != nil {
				denied++
				if retryAfter < 1 || l.Spec.Kind != "concurrency" && refused.RetryAtNanos-now > retryAfter*1e9 {
					t.Fatalf("%s: Retry-After %d, %v", text, retryAfter, refused)
				}
				continue
			}
			allowed++
			s.take(now, cost, until)
			flying = append(flying, open{ticket, until})
			sort.SliceStable(flying, func(i, j int) bool { return flying[i].until < flying[j].until })
		}
	}
	for allowed+denied < soak(3000) {
		rapid.Check(t, one)
		if t.Failed() {
			return
		}
	}
	if allowed == 0 || denied == 0 {
		t.Errorf("%d allowed, %d denied: the streams have become too tame", allowed, denied)
	}
}

// With another client the server refuses a granted request only where that client used the quota after the last answer that the
// engine could have heard of.
func TestServerWithAnotherClient(t *testing.T) {
	refusals, granted := 0, 0
	one := func(t *rapid.T) {
		const window = int64(60e9)
		maximum := rapid.Int64Range(4, 15).Draw(t, "max")
		config := validatetest.Config(t, oneLimit(fmt.Sprintf("kind: quota, max: %d, window: { period: minute }, sync: { remainingHeader: X-Left }", maximum), ""))
		e := New(config, Options{})
		p, err := e.Prepare(goldenStart, plainRequest())
		if err != nil {
			t.Fatal(err)
		}
		// One at a time, so that the vendor's count and ours have the same order; both begin after the first 3 seconds of the
		// window, where clocks may differ.
		now, used, since := goldenStart, int64(0), int64(0)
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			before := now
			now += rapid.Int64Range(1, 9e9).Draw(t, "gap")
			if at := (now - goldenStart) % window; at < 3e9 {
				now += 3e9 - at
			}
			if (now-goldenStart)/window != (before-goldenStart)/window {
				used, since = 0, 0
			}
			if rapid.Bool().Draw(t, "other") {
				if used < maximum {
					used++
					since++
				}
				continue
			}
			ticket, ok, refused := e.Reserve(now, p, false, now)
			if refused != nil {
				continue
			}
			if !ok {
				t.Fatal("a quota makes nobody wait")
			}
			granted++
			response := &Response{Status: 200}
			if used >= maximum {
				response.Status = 429
				refusals++
				if since == 0 {
					t.Fatalf("at %.3f the server refuses what the last answer had told", sinceStart(now))
				}
			} else {
				used++
			}
			since = 0
			response.Fields = []Field{{"X-Left", fmt.Sprint(maximum - used)}}
			e.Settle(now, ticket, response)
			e.Release(now, ticket)
		}
	}
	for granted < soak(2000) {
		rapid.Check(t, one)
		if t.Failed() {
			return
		}
	}
	if refusals == 0 {
		t.Error("the other client was never in the way: the streams have become too tame")
	}
}
