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
	orgs     *sharded[*bucket] // by organization id
	networks *sharded[string]  // organization id by network id
	devices  *sharded[string]  // organization id by serial
	learner  *Learner          // section 6, for response bodies

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
		orgs:     newSharded[*bucket](),
		networks: newSharded[string](),
		devices:  newSharded[string](),
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
	now := int64(l.clock.Monotonic())
	var global, own reservation
	if err := l.charge(ctx, l.global, "", now, &global); err != nil {
		return err
	}
	waited := global.waitSeconds > 0
	org, known := l.resolve(target)
	if !known || !l.dialect.usable(org) {
		if err := l.lookup(ctx, target); err != nil {
			l.global.cancel(&global)
			return err
		}
		waited = true
		if org, known = l.resolve(target); !known || !l.dialect.usable(org) {
			return nil
		}
	}
	if !l.dialect.hashable(org) {
		return errUnhashable
	}
	if waited {
		now = int64(l.clock.Monotonic())
	}
	if err := l.charge(ctx, l.bucketOf(org, now), org, now, &own); err != nil {
		if ctx.Err() != nil {
			l.global.cancel(&global)
		}
		return err
	}
	return nil
}

// errStalled says that a bucket has neither tokens nor a rate. New does not allow
// such a rate.
var errStalled = errors.New("smartflow: the bucket is empty and has no rate")

// charge takes a token from b at now, notes it in r and waits for it. org is empty
// for the global bucket. If ctx is done first, the token is given back.
func (l *Limiter) charge(ctx context.Context, b *bucket, org string, now int64, r *reservation) error {
	b.reserve(now, r)
	if l.trace != nil && !math.IsInf(r.waitSeconds, 1) {
		l.trace.charge(org, b == l.global, *r)
	}
	if r.waitSeconds == 0 {
		return nil
	}
	return l.wait(ctx, b, r)
}

// wait sleeps until the turn of a reservation has come.
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

// bucketOf returns the bucket of an organization; a new one is full as of now.
func (l *Limiter) bucketOf(org string, now int64) *bucket {
	if b, ok := l.orgs.get(org); ok {
		return b
	}
	return l.orgs.getOrCreate(org, func() *bucket { return newBucket(l.orgRate, l.orgCapacity, now) })
}

// Resolve returns the organization that a request to the URL belongs to, as far as
// it is known now. It asks nobody.
func (l *Limiter) Resolve(url string) (organization string, ok bool) {
	return l.resolve(l.dialect.target(url))
}

func (l *Limiter) resolve(target Key) (org string, ok bool) {
	switch target.Kind {
	case organization:
		return target.ID, true
	case Network:
		return l.networks.get(target.ID)
	case Device:
		return l.devices.get(target.ID)
	}
	return "", false
}

// existing returns the bucket of the organization of target, if it has one.
func (l *Limiter) existing(target Key) (*bucket, bool) {
	org, ok := l.resolve(target)
	if !ok || !l.dialect.usable(org) {
		return nil, false
	}
	return l.orgs.get(org)
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
	b, ok := l.existing(target)
	aimd := l.aimd(orgAIMD, l.orgRate)
	if !ok {
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
	if b, ok := l.existing(l.dialect.target(url)); ok {
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
	for org, b := range l.orgs.all() {
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
	if now > b.last {
		s.Tokens = min(b.capacity, b.tokens+float64(seconds(now-b.last)*b.rate))
	} else {
		s.PausedSeconds = seconds(b.last - now)
	}
	return s
}
