package smartflow

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter paces requests to the Meraki Dashboard API: one token bucket for all of
// them and one for each organization, whose rates follow the server's answers. It is
// safe for concurrent use. Close it when it has a Cache.
type Limiter struct {
	settings

	global   *bucket
	orgs     *table[orgEntry] // by their own identifier
	networks *table[orgEntry] // by network id
	devices  *table[orgEntry] // by serial
	learner  *Learner         // section 6, for response bodies

	dirty   atomic.Int64 // mappings learned since the last flush
	flushAt atomic.Int64 // dirty >= flushAt: a flush is due
	changes atomic.Int64 // changes of any mapping, registered ones included
	stored  atomic.Int64 // changes as of the last store; stored <= changes
	saving  sync.Mutex   // held while the cache is stored
	flusher *flusher     // nil without a cache
	fresh   bool         // a cache file was loaded; does not change after New

	mu       sync.Mutex // guards what follows
	hydrated map[string]bool
	flights  map[Key]*flight
}

// trace is told what the limiter does, for Conform.
type trace struct {
	charge func(org string, global bool, r reservation)
	save   func(result string)
}

// New returns a limiter that has loaded its cache. The error is a *ConfigError; a
// cache that cannot be read is a warning.
func New(c Config) (*Limiter, error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	return newLimiter(s)
}

// newLimiter fails in the reference dialect only.
func newLimiter(s settings) (*Limiter, error) {
	learner, err := NewLearner(merakiSpec())
	if err != nil {
		return nil, err
	}
	l := &Limiter{
		settings: s,
		global:   newBucket(s.globalRate, s.globalCapacity, int64(s.clock.Monotonic())),
		orgs:     newTable[orgEntry](),
		networks: newTable[orgEntry](),
		devices:  newTable[orgEntry](),
		learner:  learner,
		hydrated: make(map[string]bool),
		flights:  make(map[Key]*flight),
	}
	l.flushAt.Store(s.flushEvery)
	warning, fatal := l.readCache()
	if fatal != nil {
		return nil, fatal
	}
	l.warning(warning)
	if s.cache != nil && !s.dialect.flushInline {
		l.flusher = startFlusher(l)
	}
	return l, nil
}

func (l *Limiter) warning(err error) {
	if err != nil && l.warn != nil {
		l.warn(err)
	}
}

// Acquire waits until a request to the URL may go. It pays the global rate first and
// then that of the organization, which it looks up if it is not known yet. A URL may
// be a path only; its query and fragment do not matter.
//
// When ctx is done first, the error is ctx.Err() and all that was reserved is given
// back.
func (l *Limiter) Acquire(ctx context.Context, url string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	target := l.dialect.target(url)
	for {
		void, err := l.acquire(ctx, target)
		if !void || err != nil {
			return err
		}
	}
}

// acquire is one attempt to acquire. It is void if it met a pause.
func (l *Limiter) acquire(ctx context.Context, target Key) (void bool, err error) {
	now := int64(l.clock.Monotonic())
	org := l.payer(target)
	if org != nil {
		if b := org.bucket.Load(); b != nil && b.wary.Load() {
			return l.acquireWary(ctx, b, org.id, now)
		}
	}
	var global, own reservation
	l.reserve(l.global, "", now, &global)
	if global.waitSeconds > 0 {
		if err := l.wait(ctx, l.global, &global); err != nil || global.paused {
			return true, err
		}
		now = int64(l.clock.Monotonic())
		org = l.payer(target) // learned meanwhile
	}
	if org == nil {
		if err := l.lookup(ctx, target); err != nil {
			l.global.cancel(&global)
			return false, err
		}
		if org = l.payer(target); org == nil {
			return false, nil
		}
		now = int64(l.clock.Monotonic())
	}
	if l.dialect.anyID && !l.dialect.hashable(org.id) {
		return false, errUnhashable
	}
	b := l.bucketOf(org, now)
	l.reserve(b, org.id, now, &own)
	if own.waitSeconds == 0 {
		return false, nil
	}
	if b.wary.Load() { // since this request began
		// The global token is lost: those behind it in the queue keep their turns, so to
		// give it back would let somebody go together with one of them.
		if own.paused {
			return true, l.wait(ctx, b, &own)
		}
		b.cancel(&own)
		return true, nil
	}
	if err = l.wait(ctx, b, &own); err != nil && ctx.Err() != nil {
		l.global.cancel(&global)
	}
	return own.paused, err
}

// acquireWary is acquire for an organization that was refused and has not recovered.
// The global bucket is paid last, or else what was paid to it before a pause would be
// on top of the global rate when the pause of several organizations ends. One request
// of an organization waits for it at a time, or else they would go close together.
func (l *Limiter) acquireWary(ctx context.Context, b *bucket, org string, now int64) (void bool, err error) {
	var own, global reservation
	l.reserve(b, org, now, &own)
	if own.waitSeconds > 0 {
		if err := l.wait(ctx, b, &own); err != nil || own.paused {
			return true, err
		}
		now = int64(l.clock.Monotonic())
	}
	l.reserve(l.global, "", now, &global)
	if global.waitSeconds == 0 {
		return false, nil
	}
	b.hold(now, duration(global.waitSeconds))
	if err := l.wait(ctx, l.global, &global); err != nil || global.paused {
		b.cancel(&own)
		return true, err
	}
	b.delay(&own)
	return own.paused, nil
}

// payer returns the organization that a request to target pays for, nil if that is not
// known.
func (l *Limiter) payer(target Key) *orgEntry {
	org := l.resolve(target)
	if org == nil && target.Kind == organization {
		org = l.orgOf(target.ID)
	}
	if org == nil || (l.dialect.anyID && !l.dialect.usable(org.id)) {
		return nil
	}
	return org
}

// errStalled says that a bucket has neither tokens nor a rate. New does not allow
// such a rate.
var errStalled = errors.New("smartflow: the bucket is empty and has no rate")

// reserve takes a token from b at now and notes it in r.
func (l *Limiter) reserve(b *bucket, org string, now int64, r *reservation) {
	b.reserve(now, r)
	if l.trace != nil && !math.IsInf(r.waitSeconds, 1) {
		l.trace.charge(org, b == l.global, *r)
	}
}

// wait sleeps until the turn of a reservation has come. If ctx is done first, the token
// is given back.
func (l *Limiter) wait(ctx context.Context, b *bucket, r *reservation) error {
	if math.IsInf(r.waitSeconds, 1) {
		return errStalled
	}
	// A pause that began meanwhile holds for those who were in the queue, too.
	for d := duration(r.waitSeconds); d > 0; d = time.Duration(b.delay(r)) {
		if err := l.clock.Sleep(ctx, d); err != nil {
			b.cancel(r)
			return err
		}
	}
	return nil
}

// Resolve returns the organization that a request to the URL belongs to, as far as
// it is known now. It asks nobody.
func (l *Limiter) Resolve(url string) (organization string, ok bool) {
	return l.resolveID(l.dialect.target(url))
}

func (l *Limiter) resolveID(target Key) (id string, ok bool) {
	if target.Kind == organization {
		return target.ID, true
	}
	if org := l.resolve(target); org != nil {
		return org.id, true
	}
	return "", false
}

// resolve returns the organization of target, nil if it is not known, or was not heard
// of before.
func (l *Limiter) resolve(target Key) *orgEntry {
	switch target.Kind {
	case organization:
		return l.orgs.get(target.ID)
	case Network:
		return l.networks.get(target.ID)
	case Device:
		return l.devices.get(target.ID)
	}
	return nil
}

// existing returns the bucket of the organization of target, nil if it has none.
func (l *Limiter) existing(target Key) *bucket {
	org := l.resolve(target)
	if org == nil || (l.dialect.anyID && !l.dialect.usable(org.id)) {
		return nil
	}
	return org.bucket.Load()
}

// RateLimited reports that a request to the URL was answered with 429. It decreases
// the rate of the organization; that of all requests if the URL names no scope; and
// nothing if the organization is one in particular, but not known. A retryAfter above
// 0 is what the server asked for: the bucket that was decreased stops for that long,
// 24 hours at most.
func (l *Limiter) RateLimited(url string, retryAfter time.Duration) {
	l.rateLimited(url, retryAfter)
}

// longestPause bounds what a server can ask for.
const longestPause = 24 * time.Hour

// rateLimited also tells whether there was a bucket to stop.
func (l *Limiter) rateLimited(url string, retryAfter time.Duration) (stopped bool) {
	target := l.dialect.target(url)
	now := int64(l.clock.Monotonic())
	b, aimd := l.existing(target), l.aimd(orgAIMD, l.orgRate)
	if b == nil {
		if target.scoped() {
			return false
		}
		b, aimd = l.global, l.aimd(globalAIMD, l.globalRate)
	}
	b.decrease(aimd, now, int64(l.decreaseHold))
	if retryAfter <= 0 {
		return false
	}
	b.pause(now, now+int64(min(retryAfter, longestPause)))
	return true
}

// Success reports that a request to the URL was answered with any 2xx. It increases
// the rates that are below the configured ones.
func (l *Limiter) Success(url string) {
	if b := l.existing(l.dialect.target(url)); b != nil {
		b.increase(l.aimd(orgAIMD, l.orgRate), l.orgRate)
	}
	l.global.increase(l.aimd(globalAIMD, l.globalRate), l.globalRate)
}

// aimd returns the constants for a configured rate.
func (l *Limiter) aimd(a AIMD, configured float64) AIMD {
	if l.dialect.literalFloor {
		return a
	}
	return a.cappedAt(configured)
}

// Snapshot is the state of a limiter at one moment.
type Snapshot struct {
	Global BucketState
	Orgs   []BucketState // sorted by Org
	// Networks and Devices are the numbers of known mappings.
	Networks, Devices int64
	// Dirty is the number of mappings learned since the cache was last flushed.
	Dirty int64
	// Fresh tells that New found a cache file that was not too old.
	Fresh bool
}

// BucketState is the state of one rate limit at one moment.
type BucketState struct {
	Org           string  // empty for the global one
	RatePerSecond float64 // as adapted
	Tokens        float64 // requests that may go at once; negative = requests waiting
	// PausedSeconds is how much is left of what a Retry-After asked for; 0 = nothing.
	PausedSeconds float64
}

// Snapshot returns the state as of now.
func (l *Limiter) Snapshot() Snapshot {
	now := int64(l.clock.Monotonic())
	s := Snapshot{
		Global: stateOf(l.global, "", now), Dirty: l.dirty.Load(), Fresh: l.fresh,
		Networks: int64(l.networks.len()), Devices: int64(l.devices.len()),
	}
	for org, b := range l.buckets() {
		s.Orgs = append(s.Orgs, stateOf(b, org, now))
	}
	slices.SortFunc(s.Orgs, func(a, b BucketState) int {
		if a.Org < b.Org {
			return -1
		}
		return 1 // organizations are distinct
	})
	return s
}

func stateOf(b *bucket, org string, now int64) BucketState {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The refill is shown, not done: looking must not move the clock of a bucket.
	s := BucketState{Org: org, RatePerSecond: b.rate, Tokens: b.tokens}
	switch {
	case b.paused && now >= b.last:
		s.Tokens = b.capacity
	case b.paused:
		s.PausedSeconds = seconds(b.last - now)
	case now > b.last:
		s.Tokens = min(b.capacity, b.tokens+float64(seconds(now-b.last)*b.rate))
	}
	return s
}
