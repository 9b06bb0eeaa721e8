package daemon

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
)

// waitBounds are the bounds of the histogram of waits, in seconds: from no wait at all to a quota's.
var waitBounds = []float64{0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600}

// watch hears what the engines do, one after the other. It is called under an engine's lock and calls nobody.
type watch struct {
	mu sync.Mutex // guards what follows

	granted                int64
	limited, unexpected    int64
	disagreements, ignored int64
	waits                  map[string]*WaitHistogram
	refused                map[string]int64
	limits                 map[[2]string]*LimitTotals
	keys                   map[[3]string]*keyTotals
	refusals               ring[Refusal]
	limitedCalls           ring[RateLimitedCall]
	disagreed              bool // since the last look
}

// keyTotals are the counts of one key.
type keyTotals struct{ limited, unexpected, refused, disagreements int64 }

func newWatch() *watch {
	w := &watch{
		waits: make(map[string]*WaitHistogram), refused: make(map[string]int64),
		limits: make(map[[2]string]*LimitTotals), keys: make(map[[3]string]*keyTotals),
	}
	for _, priority := range []string{schema.PriorityCritical, schema.PriorityHigh, schema.PriorityNormal, schema.PriorityLow} {
		w.waits[priority] = &WaitHistogram{Priority: priority, BoundsSeconds: waitBounds, Counts: make([]int64, len(waitBounds))}
	}
	for _, reason := range []engine.Reason{engine.CircuitOpen, engine.Penalized, engine.QuotaExhausted, engine.DeadlineExceeded} {
		w.refused[string(reason)] = 0
	}
	return w
}

// limit requires mu.
func (w *watch) limit(provider, name string) *LimitTotals {
	key := [2]string{provider, name}
	if w.limits[key] == nil {
		w.limits[key] = &LimitTotals{Provider: provider, Limit: name, Refused: map[string]int64{}}
	}
	return w.limits[key]
}

// maxKeys bounds the keys whose counts are kept apart.
const maxKeys = 100_000

// key requires mu.
func (w *watch) key(provider, limit, key string) *keyTotals {
	name := [3]string{provider, limit, key}
	if w.keys[name] == nil {
		if len(w.keys) >= maxKeys {
			clear(w.keys)
		}
		w.keys[name] = new(keyTotals)
	}
	return w.keys[name]
}

// Granted implements engine.Observer.
func (w *watch) Granted(r *engine.Request, waitNanos int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.granted++
	h := w.waits[cmp.Or(r.Priority, schema.PriorityNormal)]
	seconds := float64(waitNanos) / 1e9
	h.Count++
	h.SumSeconds += seconds
	for i := len(waitBounds) - 1; i >= 0 && seconds <= waitBounds[i]; i-- {
		h.Counts[i]++
	}
}

// Refused implements engine.Observer.
func (w *watch) Refused(r *engine.Request, refused *engine.RefusedError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[string(refused.Reason)]++
	w.limit(refused.Provider, refused.Limit).Refused[string(refused.Reason)]++
	if refused.Limit != "" {
		w.key(refused.Provider, refused.Limit, refused.Key).refused++
	}
	one := Refusal{
		At: time.Now().UTC(), Provider: refused.Provider, Account: r.Account, Method: r.Method, Endpoint: r.Endpoint,
		Reason: string(refused.Reason), Limit: refused.Limit, Key: refused.Key,
	}
	if refused.RetryKnown {
		at := time.Unix(0, refused.RetryAtNanos).UTC()
		one.RetryAt = &at
	}
	w.refusals.add(one)
}

// RateLimited implements engine.Observer.
func (w *watch) RateLimited(r *engine.Request, limit, key string, unexpected bool, parked string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	totals, one := w.limit(r.Provider, limit), w.key(r.Provider, limit, key)
	w.limited++
	totals.RateLimited++
	one.limited++
	if unexpected {
		w.unexpected++
		totals.UnexpectedRateLimited++
		one.unexpected++
	}
	w.limitedCalls.add(RateLimitedCall{
		At: time.Now().UTC(), Provider: r.Provider, Account: r.Account, Method: r.Method, Endpoint: r.Endpoint,
		Limit: limit, Key: key, Unexpected: unexpected, Parked: parked,
	})
}

// Disagrees implements engine.Observer.
func (w *watch) Disagrees(provider, limit, key string, declared, named int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disagreements++
	w.limit(provider, limit).Disagreements++
	w.key(provider, limit, key).disagreements++
	w.disagreed = true
}

// Ignored implements engine.Observer.
func (w *watch) Ignored(provider, limit, key, header, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ignored++
}

// hasDisagreed tells whether a response has named another maximum since the last call.
func (w *watch) hasDisagreed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.disagreed
	w.disagreed = false
	return was
}

// totals copies the counts.
func (w *watch) totals() Totals {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := Totals{
		Granted: w.granted, Refused: make(map[string]int64), RateLimited: w.limited, UnexpectedRateLimited: w.unexpected,
		Disagreements: w.disagreements, IgnoredHeaders: w.ignored, ByLimit: []LimitTotals{},
	}
	for reason, n := range w.refused {
		t.Refused[reason] = n
	}
	for _, l := range w.limits {
		copied := *l
		copied.Refused = make(map[string]int64)
		for reason, n := range l.Refused {
			copied.Refused[reason] = n
		}
		t.ByLimit = append(t.ByLimit, copied)
	}
	slices.SortFunc(t.ByLimit, func(a, b LimitTotals) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Limit, b.Limit))
	})
	for _, priority := range []string{schema.PriorityCritical, schema.PriorityHigh, schema.PriorityNormal, schema.PriorityLow} {
		h := *w.waits[priority]
		h.BoundsSeconds, h.Counts = slices.Clone(h.BoundsSeconds), slices.Clone(h.Counts)
		t.Waits = append(t.Waits, h)
	}
	return t
}

// recent copies the latest refusals and rate-limited calls, the newest first.
func (w *watch) recent() ([]Refusal, []RateLimitedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusals.newestFirst(), w.limitedCalls.newestFirst()
}

// of copies the counts of a key.
func (w *watch) of(provider, limit, key string) keyTotals {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.keys[[3]string{provider, limit, key}]; one != nil {
		return *one
	}
	return keyTotals{}
}

// ring keeps the last MaxListed of what happened.
type ring[T any] struct {
	list []T
	next int
}

func (r *ring[T]) add(one T) {
	if len(r.list) < MaxListed {
		r.list = append(r.list, one)
		return
	}
	r.list[r.next] = one
	r.next = (r.next + 1) % MaxListed
}

func (r *ring[T]) newestFirst() []T {
	out := make([]T, 0, len(r.list))
	for i := range r.list {
		out = append(out, r.list[(r.next+len(r.list)-1-i)%len(r.list)])
	}
	return out
}
