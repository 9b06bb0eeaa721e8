// Package keep stands between an engine and its ledger: it writes down what the engine counts, before a request goes out where a
// crash could lose it and every few seconds otherwise, and brings a new engine to where the last one was.
//
// A store that fails stops nothing: counts go on in memory, Health says so, and the next write that succeeds has everything.
package keep

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/validate"
)

// Kinds of ledger.State.
const (
	stateScope   = "scope"
	stateBreaker = "breaker"
	statePaused  = "paused"
	stateClock   = "clock"
)

// forgetAfter is how long what an engine knows beside its counts matters: penalties and buckets are long over by then, learned
// maxima and breakers stay as long as the daemon runs at all.
const forgetAfter = 35 * 24 * time.Hour

// Keeper writes what one engine after the other counts. Its methods may be called by any goroutine.
type Keeper struct {
	store    ledger.Ledger
	recorder *ledger.Recorder
	config   atomic.Pointer[validate.Config] // that of the engine in force

	mu     sync.Mutex // guards what follows
	health Health
	// noted is what the recorder was last told, so that it is told what has changed only.
	noted map[ledger.CounterKey]int64
	cells map[ledger.CounterKey]int64
	// skipped is how many flushes went without the states.
	skipped int
	// swept is up to where timelines were told.
	sweptNanos int64
	paused     map[string]bool // by job
}

// Health is how writing goes.
type Health struct {
	// Err is why the last write failed, nil where it did not; Since is when that began.
	Err   error
	Since time.Time
	// Flushed is the last success; Flushes and Failures count.
	Flushed           time.Time
	Flushes, Failures int64
	// Pending rows of the journal wait, Dropped were lost.
	Pending int
	Dropped int64
}

// New keeps in a store, which the caller closes after the last Flush; nil keeps nothing.
func New(store ledger.Ledger) *Keeper {
	k := &Keeper{store: store, noted: make(map[ledger.CounterKey]int64), cells: make(map[ledger.CounterKey]int64), paused: make(map[string]bool)}
	k.recorder = ledger.NewRecorder(ledger.RecorderOptions{LeaseOf: k.leaseOf})
	return k
}

// leasePart is the part of a quota, as 1 in so many, that a crash may cost at the most: of less than a hundred units none.
const leasePart = 100

// leaseOf is how far ahead the counts of a limit may be written.
func (k *Keeper) leaseOf(provider, name string) int64 {
	config := k.config.Load()
	if config == nil {
		return 0
	}
	limit := limitOf(config, provider, name)
	if limit == nil || limit.Spec.Max == nil {
		return 0
	}
	maximum, _ := limit.Max(nil)
	if values := limit.Spec.Max.Values; len(values) > 0 {
		maximum = slices.Min(slices.Collect(maps.Values(values)))
	}
	return maximum / leasePart
}

// Row notes the outcome of a request.
func (k *Keeper) Row(r ledger.Row) { k.recorder.Row(r) }

// Run notes how a run went.
func (k *Keeper) Run(r ledger.Run) { k.recorder.Run(r) }

// Inventory notes what a job found.
func (k *Keeper) Inventory(i ledger.Inventory) { k.recorder.Inventory(i) }

// Note takes down what a request that is about to go out has been counted as, and tells whether the store covers that already: if
// not, Write must come before the request, for a crash must not lose the count of a request that a provider has seen. It is
// called under the engine's lock, so that counts come in their order.
func (k *Keeper) Note(atNanos int64, c engine.Counted) (covered bool) {
	key := ledger.CounterKey{Provider: c.Provider, Limit: c.Limit, ScopeKey: c.Key, StartNanos: c.StartNanos}
	if c.Rolling {
		key.StartNanos = c.CellNanos
		return k.recorder.Minute(ledger.Minute{CounterKey: key, Used: c.CellUnits})
	}
	k.mu.Lock()
	delete(k.noted, key) // what was observed is noted again with the next Count
	k.mu.Unlock()
	return k.recorder.Counter(ledger.Counter{CounterKey: key, EndNanos: c.EndNanos, Used: c.UsedUnits, UpdatedNanos: atNanos})
}

// Write writes what was noted. The error is in Health, too. A store that has failed is not waited for again, which may take it
// seconds each time: the next Flush finds out when it is well.
func (k *Keeper) Write(ctx context.Context, at time.Time) error {
	k.mu.Lock()
	failing := k.health.Err
	k.mu.Unlock()
	if failing != nil {
		return failing
	}
	return k.write(ctx, at, false)
}

// write flushes and takes down how it went.
func (k *Keeper) write(ctx context.Context, at time.Time, exact bool) error {
	if k.store == nil {
		return nil // nothing is kept, as for a single call
	}
	err := k.recorder.Flush(ctx, k.store, at, exact)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.health.Err, k.health.Since, k.health.Flushed = nil, time.Time{}, at
		k.health.Flushes++
	case ctx.Err() != nil: // the caller went away; that says nothing about the store
	default:
		if k.health.Err == nil {
			k.health.Since = at
		}
		k.health.Err = err
		k.health.Failures++
	}
	return err
}

// Health is how writing goes.
func (k *Keeper) Health() Health {
	k.mu.Lock()
	h := k.health
	k.mu.Unlock()
	h.Pending, h.Dropped = k.recorder.Waiting()
	return h
}

// Fault names what is wrong with the medium, empty where nothing is.
func (h Health) Fault() string {
	var storage *ledger.StorageError
	switch {
	case h.Err == nil:
		return ""
	case errors.As(h.Err, &storage):
		return string(storage.Fault)
	}
	return string(ledger.FaultIO)
}

// Count takes down the counts of an engine. It is called under the engine's lock.
func (k *Keeper) Count(config *validate.Config, s *engine.Snapshot) {
	k.config.Store(config)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range s.Scopes {
		if limit := limitOf(config, s.Scopes[i].Provider, s.Scopes[i].Limit); limit != nil && limit.Window != nil {
			k.noteQuota(limit, s.AtNanos, &s.Scopes[i])
		}
	}
	k.sweptNanos = s.AtNanos
}

// Flush writes what was counted, and what the engine has learned beside. exact is for a shutdown: without it, counts are written
// with a lease.
func (k *Keeper) Flush(ctx context.Context, config *validate.Config, s *engine.Snapshot, exact bool) error {
	if k.statesDue(len(s.Scopes), exact) {
		if err := k.noteStates(config, s); err != nil {
			return err
		}
	}
	return k.write(ctx, time.Unix(0, s.AtNanos), exact)
}

// statesAtOnce is how many keys' states are written with every flush. Of ten times as many they are written with every tenth: they are
// written all at once, and what counts, the counts, goes with every flush in any case. What a crash forgets is what answers have taught
// in the last minutes, such as a penalty.
const statesAtOnce = 2000

// statesDue tells whether what the engine knows beside its counts is written this time.
func (k *Keeper) statesDue(scopes int, exact bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.skipped++
	if !exact && k.skipped < scopes/statesAtOnce {
		return false
	}
	k.skipped = 0
	return true
}

// saved is how a scope is kept beside its count.
type saved struct {
	AtNanos int64             `json:"at"`
	Scope   engine.ScopeState `json:"scope"`
}

// noteStates notes what an engine knows beside its counts.
func (k *Keeper) noteStates(config *validate.Config, s *engine.Snapshot) error {
	expires := s.AtNanos + int64(forgetAfter)
	clock, err := json.Marshal(s.AtNanos)
	if err != nil {
		return err
	}
	states := make([]ledger.State, 0, len(s.Scopes)+len(s.Breakers)+1)
	states = append(states, ledger.State{Kind: stateClock, Name: "engine", Value: clock, ExpiresNanos: expires})
	for i := range s.Scopes {
		scope := s.Scopes[i]
		if limit := limitOf(config, scope.Provider, scope.Limit); limit != nil && limit.Window != nil {
			scope.Timeline = tail(scope.Timeline, s.AtNanos-2*slotNanos(limit))
		}
		value, err := json.Marshal(saved{s.AtNanos, scope})
		if err != nil {
			return err
		}
		states = append(states, ledger.State{
			Kind: stateScope, Name: scope.Provider + "/" + scope.Limit, Key: scope.Key, Value: value, ExpiresNanos: expires,
		})
	}
	for i := range s.Breakers {
		value, err := json.Marshal(&s.Breakers[i])
		if err != nil {
			return err
		}
		states = append(states, ledger.State{
			Kind: stateBreaker, Name: s.Breakers[i].Account, Key: s.Breakers[i].Target, Value: value, ExpiresNanos: expires,
		})
	}
	for _, job := range k.Paused() {
		states = append(states, ledger.State{Kind: statePaused, Name: job}) // until somebody resumes it
	}
	k.recorder.States(states)
	return nil
}

// Pause notes that a job is paused or no longer is. It is written with the next flush.
func (k *Keeper) Pause(job string, paused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if paused {
		k.paused[job] = true
	} else {
		delete(k.paused, job)
	}
}

// Paused are the jobs that are paused, sorted: after Restore, those of the last process.
func (k *Keeper) Paused() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.paused))
}

// noteQuota notes a quota's count and timeline. It requires mu.
func (k *Keeper) noteQuota(limit *validate.Limit, now int64, scope *engine.ScopeState) {
	key := ledger.CounterKey{Provider: scope.Provider, Limit: scope.Limit, ScopeKey: scope.Key, StartNanos: scope.StartNanos}
	if !rolling(limit) && scope.EndNanos != 0 {
		c := ledger.Counter{CounterKey: key, EndNanos: scope.EndNanos, Used: scope.Used, UpdatedNanos: now}
		print := scope.Used
		if o := scope.Observed; o != nil {
			c.ObservedRemaining, c.ObservedUsed = &o.Remaining, &o.UsedThen
			print = print*31 + o.Remaining*7 + o.UsedThen + 1
		}
		if scope.Learned != 0 {
			c.ObservedMax = &scope.Learned
			print = print*31 + scope.Learned
		}
		print = print*31 + scope.EndNanos
		if old, known := k.noted[key]; !known || old != print {
			k.noted[key] = print
			k.recorder.Counter(c)
		}
	}
	for _, slot := range tail(scope.Timeline, k.sweptNanos-2*slotNanos(limit)) {
		key.StartNanos = slot.StartNanos
		if old, known := k.cells[key]; !known || old != slot.Units {
			k.cells[key] = slot.Units
			k.recorder.Minute(ledger.Minute{CounterKey: key, Used: slot.Units})
		}
	}
}

// tail is the part of a timeline that begins at or after an instant.
func tail(timeline []engine.Slot, from int64) []engine.Slot {
	i := len(timeline)
	for i > 0 && timeline[i-1].StartNanos >= from {
		i--
	}
	return timeline[i:]
}

func limitOf(config *validate.Config, provider, name string) *validate.Limit {
	if p := config.Provider(provider); p != nil && name != "" {
		return p.Limit(name)
	}
	return nil
}

// rolling tells whether admission counts a limit over a span that moves.
func rolling(limit *validate.Limit) bool {
	_, ok := limit.Window.Buckets()
	return ok
}

// slotNanos is the length of a timeline's slot: a minute, or an hour for windows longer than a day.
func slotNanos(limit *validate.Limit) int64 {
	if length(limit) > 24*time.Hour {
		return int64(time.Hour)
	}
	return int64(time.Minute)
}

// length is the usual length of a limit's window.
func length(limit *validate.Limit) time.Duration {
	if fixed := limit.Window.Length(); fixed != 0 {
		return fixed
	}
	spec := limit.Spec.Window
	switch spec.Period {
	case "week":
		return 7 * 24 * time.Hour
	case "month":
		return 31 * 24 * time.Hour
	}
	return 24 * time.Hour // a day or less
}

// Prune removes what is older than an instant from the store, and what is over from memory.
func (k *Keeper) Prune(ctx context.Context, now time.Time, retention time.Duration, config *validate.Config) (ledger.Pruned, error) {
	width := Horizon(config)
	k.recorder.Forget(now.Add(-time.Hour), width)
	k.mu.Lock()
	for key := range k.cells {
		if key.StartNanos < now.Add(-width).UnixNano() {
			delete(k.cells, key)
		}
	}
	for key := range k.noted {
		if key.StartNanos < now.Add(-width).UnixNano() {
			delete(k.noted, key)
		}
	}
	k.mu.Unlock()
	return k.store.Prune(ctx, now.Add(-max(retention, width)))
}

// Horizon is how far back the timelines of a configuration's quotas reach.
func Horizon(config *validate.Config) time.Duration {
	longest := time.Hour
	for _, p := range config.Providers {
		for _, limit := range p.Limits {
			if limit.Window != nil {
				longest = max(longest, 2*length(limit)+2*time.Duration(slotNanos(limit)))
			}
		}
	}
	return longest
}
