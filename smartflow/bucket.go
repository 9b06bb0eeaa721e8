package smartflow

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// bucket is one rate limit: the token bucket of section 1 of the specification.
//
// A reservation takes its token at once, even when there is none, so tokens may
// be negative. The debt is the queue: every caller computes its own wait from it
// and sleeps without holding the lock. The size is two cache lines, so that two
// organizations never share one; what a reservation needs is in the first.
//
// A pause voids the queue: all reservations in it are made anew after the pause, by
// those who hold them, in their order and at their intervals. From then on until the
// rate is the configured one again, the bucket is wary: no more than one token is
// saved, and the global bucket is paid when a request goes, not before it waits here.
// What was refused once must not be refused again because several go together.
type bucket struct {
	mu sync.Mutex // guards everything below but wary

	rate     float64 // tokens a second
	capacity float64 // tokens <= capacity
	tokens   float64 // as of last; negative while callers are waiting
	last     int64   // nanoseconds on the limiter's clock; the end of a pause, if paused
	seq      uint64  // reservations, cancellations and pauses so far
	delayed  int64   // nanoseconds that the queue was moved back so far
	wary     atomic.Bool
	paused   bool // a pause has begun, and nobody has come since it ended

	full  float64 // the capacity when not wary
	begun uint32  // pauses so far
	over  uint32  // pauses that resume has ended; over <= begun
	cutAt int64   // when the rate was last decreased, for the hold of decreases
	_     [40]byte
}

// reservation is what one caller took from a bucket, and what is needed to give
// it back as if the caller had not come.
type reservation struct {
	waitSeconds  float64 // +Inf if the bucket has no rate and will never pay the debt
	tokensAfter  float64
	tokensBefore float64
	lastBefore   int64
	seq          uint64
	delayed      int64
	begun, over  uint32
	paused       bool // it met a pause, and is void
}

// never is the cutAt of a bucket whose rate was not decreased yet.
const never = math.MinInt64

// newBucket returns a full bucket that starts to refill now.
func newBucket(rate, capacity float64, now int64) *bucket {
	return &bucket{rate: rate, capacity: capacity, tokens: capacity, last: now, full: capacity, cutAt: never}
}

// reserve takes one token at now and notes in r how long the caller has to wait for
// it. A pointer, because copies of r would cost as much as the rest.
func (b *bucket) reserve(now int64, r *reservation) {
	b.mu.Lock()
	if b.paused {
		b.resume(now)
	}
	r.tokensBefore, r.lastBefore = b.tokens, b.last
	b.refill(now)
	b.tokens--
	b.seq++
	r.tokensAfter, r.seq, r.delayed, r.waitSeconds = b.tokens, b.seq, b.delayed, 0
	r.begun, r.over, r.paused = b.begun, b.over, b.paused
	if b.tokens < 0 {
		// last is later than now during a pause, and by a little when another
		// goroutine read the clock later but locked first.
		r.waitSeconds = seconds(b.last-now) + -b.tokens/b.rate
	}
	b.mu.Unlock()
}

// resume ends a pause that is over: the first may go. It requires mu.
func (b *bucket) resume(now int64) {
	if now < b.last {
		return
	}
	b.tokens, b.last = b.capacity, now
	b.paused = false
	b.over++
	b.seq++
}

// refill credits the time since last. It requires mu.
func (b *bucket) refill(now int64) {
	elapsed := 0.0
	if now > b.last {
		elapsed = seconds(now - b.last)
		b.last = now
	}
	// The conversion forbids a fused multiply-add, which would differ in the last
	// bit from what the reference computes.
	b.tokens = min(b.capacity, b.tokens+float64(elapsed*b.rate))
}

// cancel gives a reservation back. If nobody came in between, the bucket is
// exactly what it was before, its clock included; a changed rate does not matter,
// because a rate applies to all the time since last. What a pause has voided is not
// there any more.
func (b *bucket) cancel(r *reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over != r.over:
		return
	case b.seq == r.seq:
		b.tokens, b.last = r.tokensBefore, r.lastBefore
	default:
		b.tokens = min(b.capacity, b.tokens+1)
	}
	b.seq++
}

// pause stops the bucket until the given time: the server said so, and with it that
// there is no credit left. The queue moves back as a whole, in its order and at its
// intervals; so the end of a pause is no stampede, and nobody is overtaken.
func (b *bucket) pause(now, until int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.paused {
		b.resume(now)
	}
	b.refill(now)
	// last is now, or the end of a pause that is longer than what has passed.
	longer := until - b.last
	if longer <= 0 {
		return
	}
	b.capacity = min(b.full, 1)
	b.wary.Store(true)
	b.tokens = min(b.tokens, 0)
	b.last = until
	b.paused = true
	b.begun++
	b.delayed += longer
	b.seq++
}

// delay returns by how many nanoseconds a reservation was moved back since it was
// made, or since the last call, and notes in it whether a pause was the reason.
func (b *bucket) delay(r *reservation) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := b.delayed - r.delayed
	r.delayed = b.delayed
	r.paused = r.paused || b.begun != r.begun
	return more
}

// hold moves the queue behind a reservation back, because its holder, whose turn is
// now, has to wait for something else: those behind it keep their distance.
func (b *bucket) hold(now int64, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	b.last += int64(d)
	b.delayed += int64(d)
	b.seq++
}

// setRate is the setter of section 1: a rate never falls below its floor.
func (b *bucket) setRate(rate float64) {
	b.mu.Lock()
	b.rate = max(rateFloor, rate)
	b.mu.Unlock()
}

// decrease applies the multiplicative decrease, unless one was applied less than
// hold nanoseconds ago.
func (b *bucket) decrease(a AIMD, now, hold int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cutAt != never && now-b.cutAt < hold {
		return
	}
	b.rate = a.Down(b.rate)
	b.cutAt = now
}

// increase applies the additive increase, up to limit.
func (b *bucket) increase(a AIMD, limit float64) {
	b.mu.Lock()
	b.rate = a.Up(b.rate, limit)
	if b.rate >= limit && b.wary.Load() && !b.paused {
		b.capacity = b.full
		b.wary.Store(false)
	}
	b.mu.Unlock()
}

// look returns rate, tokens and last as they stand, without refilling.
func (b *bucket) look() (rate, tokens float64, last int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rate, b.tokens, b.last
}

// seconds converts nanoseconds. The result is the nearest double, hence exact for
// the multiples of 1/512 s that conformance vectors use.
func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }

// duration converts seconds to the nearest nanosecond; what does not fit is the
// longest duration there is.
func duration(s float64) time.Duration {
	ns := math.Round(s * 1e9)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
