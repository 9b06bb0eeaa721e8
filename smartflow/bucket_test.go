package smartflow

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// plainBucket is section 1 of the specification, word for word: the twin that bucket
// is compared with.
type plainBucket struct{ rate, capacity, tokens, last float64 }

func (b *plainBucket) acquire(now float64) (wait float64) {
	elapsed := now - b.last
	b.tokens = math.Min(b.capacity, b.tokens+elapsed*b.rate)
	b.last = now
	b.tokens--
	if b.tokens < 0 {
		return -b.tokens / b.rate
	}
	return 0
}

func drawBucket(t *rapid.T) *bucket {
	return newBucket(rapid.Float64Range(0.5, 200).Draw(t, "rate"), float64(rapid.IntRange(0, 50).Draw(t, "capacity")), 0)
}

func TestBucketIsTheSpecification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBucket(t)
		twin := plainBucket{b.rate, b.capacity, b.capacity, 0}
		var now int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 400).Draw(t, "ticks")) * tick
			var r reservation
			b.reserve(now, &r)
			if wait := twin.acquire(seconds(now)); math.Abs(wait-r.waitSeconds) > 1e-9 || math.Abs(twin.tokens-b.tokens) > 1e-9 {
				t.Fatalf("at %v: wait %v, tokens %v; the twin says %v, %v", seconds(now), r.waitSeconds, b.tokens, wait, twin.tokens)
			}
		}
	})
}

// tokensAt is the level of a bucket at a time that is not before its last charge.
func tokensAt(b *bucket, now int64) float64 {
	return min(b.capacity, b.tokens+seconds(max(0, now-b.last))*b.rate)
}

// A waiter that is cancelled leaves the bucket as if it had not come, whatever other
// traffic there was before, meanwhile and after.
func TestCancelledWaiterLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBucket(t)
		b = newBucket(b.rate, max(1, b.capacity), 0)
		twin := newBucket(b.rate, b.capacity, 0)
		var now int64
		pass := func(most int) { now += int64(rapid.IntRange(0, most).Draw(t, "ticks")) * tick }
		others := func(most int) {
			for range rapid.IntRange(0, most).Draw(t, "others") {
				pass(20)
				var r, s reservation
				b.reserve(now, &r)
				twin.reserve(now, &s)
			}
		}
		others(80)
		var r reservation
		b.reserve(now, &r)
		if r.waitSeconds == 0 {
			t.Skip("did not have to wait")
		}
		until := now + int64(r.waitSeconds*1e9)
		for range rapid.IntRange(0, 5).Draw(t, "meanwhile") {
			pass(20)
			if now >= until {
				t.Skip("its turn came first")
			}
			var r, s reservation
			b.reserve(now, &r)
			twin.reserve(now, &s)
		}
		b.cancel(&r)
		if got, want := tokensAt(b, now), tokensAt(twin, now); math.Abs(got-want) > 1e-9 {
			t.Fatalf("tokens %v after the cancellation, want %v", got, want)
		}
		others(20)
		if got, want := tokensAt(b, now), tokensAt(twin, now); math.Abs(got-want) > 1e-9 {
			t.Fatalf("tokens %v later on, want %v", got, want)
		}
	})
}

// If nobody came in between, even the clock of the bucket is what it was, so a rate
// that changes later is applied to the same time.
func TestCancelledAloneRestoresTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBucket(t)
		var now int64
		var r reservation
		for range rapid.IntRange(0, 60).Draw(t, "before") {
			now += int64(rapid.IntRange(0, 20).Draw(t, "ticks")) * tick
			b.reserve(now, &r)
		}
		tokens, last := b.tokens, b.last
		b.reserve(now+tick, &r)
		if rapid.Bool().Draw(t, "rate changes") {
			b.setRate(3)
		}
		b.cancel(&r)
		if b.tokens != tokens || b.last != last {
			t.Fatalf("tokens %v, last %v; before it was %v, %v", b.tokens, b.last, tokens, last)
		}
	})
}

// Any number of cancellations in any order never leaves more than the capacity, nor
// less than if the cancelled ones had stayed.
func TestCancellationsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBucket(t)
		stayed := newBucket(b.rate, b.capacity, 0)
		var now int64
		var open []reservation
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 30).Draw(t, "ticks")) * tick
			if len(open) > 0 && rapid.Bool().Draw(t, "cancel") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				b.cancel(&open[i])
				open = append(open[:i], open[i+1:]...)
			} else {
				var r, s reservation
				b.reserve(now, &r)
				stayed.reserve(now, &s)
				if r.waitSeconds > 0 {
					open = append(open, r)
				}
			}
			if b.tokens > b.capacity || tokensAt(b, now) < tokensAt(stayed, now)-1e-9 {
				t.Fatalf("tokens %v of %v; %v if nobody had left", tokensAt(b, now), b.capacity, tokensAt(stayed, now))
			}
		}
	})
}

func TestPauseQueuesBehindItsEnd(t *testing.T) {
	second := int64(time.Second)
	b := newBucket(5, 10, 0)
	b.pause(0, 2*second)
	var r reservation
	for i := range 3 {
		b.reserve(second, &r)
		if want := 1 + float64(i+1)/5; math.Abs(r.waitSeconds-want) > 1e-9 {
			t.Errorf("caller %d waits %v s, want %v", i, r.waitSeconds, want)
		}
	}
	// A shorter pause does not shorten a longer one, and one in the past is none.
	b.pause(second, second+1)
	b.pause(second, 0)
	if b.last != 2*second {
		t.Errorf("the pause ends at %v s, want 2", seconds(b.last))
	}
	// After it, the queue is void and one may go, however late, until the rate is back.
	b.cancel(&r)
	b.reserve(10*second, &r)
	if r.waitSeconds != 0 || b.tokens != 0 {
		t.Errorf("long after the pause the first waits %v s and leaves %v tokens", r.waitSeconds, b.tokens)
	}
	b.setRate(4.9)
	b.increase(orgAIMD, 5)
	if got := tokensAt(b, 20*second); b.wary.Load() || got != 10 {
		t.Errorf("%v tokens at the full rate, want 10", got)
	}
}

// What a pause has voided is given back to nobody.
func TestVoidReservationsGiveNothingBack(t *testing.T) {
	second := int64(time.Second)
	b := newBucket(2, 3, 0)
	var early, during, late reservation
	for range 4 {
		b.reserve(0, &early)
	}
	b.pause(0, second)
	b.reserve(0, &during)
	if b.delay(&early); !early.paused || !during.paused {
		t.Error("reservations that met a pause do not know it")
	}
	b.reserve(2*second, &late)
	if late.paused || late.waitSeconds != 0 || b.tokens != 0 {
		t.Errorf("after the pause: %+v, %v tokens", late, b.tokens)
	}
	b.cancel(&early)
	b.cancel(&during)
	if b.tokens != 0 {
		t.Errorf("%v tokens after void reservations were cancelled", b.tokens)
	}
	b.cancel(&late)
	if b.tokens != 1 || b.last != 2*second {
		t.Errorf("%v tokens as of %v after the only one was cancelled", b.tokens, seconds(b.last))
	}
}

// Those behind a request that is held up keep their distance, and are not void.
func TestHoldKeepsTheDistance(t *testing.T) {
	b := newBucket(2, 1, 0)
	var first, second, third reservation
	b.reserve(0, &first)
	b.reserve(0, &second)
	b.hold(0, 300*time.Millisecond)
	b.reserve(0, &third)
	if got := b.delay(&second); got != int64(300*time.Millisecond) || second.paused {
		t.Errorf("the second is delayed by %v s, void: %v", seconds(got), second.paused)
	}
	if math.Abs(third.waitSeconds-1.3) > 1e-9 || third.paused {
		t.Errorf("the third waits %v s, want 1.3", third.waitSeconds)
	}
}

func TestBucketsShareNoCacheLine(t *testing.T) {
	if size := unsafe.Sizeof(bucket{}); size != 128 {
		t.Errorf("a bucket has %d bytes, want two cache lines", size)
	}
	if at := unsafe.Offsetof(bucket{}.full); at != 64 {
		t.Errorf("what a reservation needs ends at byte %d, want one cache line", at)
	}
}

// A pause moves those who wait already back by the same time, in their order.
func TestPauseDelaysTheQueue(t *testing.T) {
	second := int64(time.Second)
	b := newBucket(2, 1, 0)
	var waiting [4]reservation // turns at 0, 0.5, 1 and 1.5 s
	for i := range waiting {
		b.reserve(0, &waiting[i])
	}
	b.pause(second/4, 4*second) // 3.75 s
	b.pause(second/2, 5*second) // 1 s more
	b.pause(second/2, second)   // no more
	for i := range waiting[1:] {
		if got := b.delay(&waiting[i+1]); got != 4750*second/1000 {
			t.Errorf("waiter %d is delayed by %v s, want 4.75", i+1, seconds(got))
		}
		if got := b.delay(&waiting[i+1]); got != 0 {
			t.Errorf("waiter %d is delayed twice, by %v s", i+1, seconds(got))
		}
	}
	// Who comes now is behind them: the last of them goes at 1.5 + 4.75 s.
	var r reservation
	b.reserve(second, &r)
	if want := 5.75; math.Abs(r.waitSeconds-want) > 1e-9 {
		t.Errorf("waits %v s, want %v", r.waitSeconds, want)
	}
}

// SF-03 as published, and with the hold that makes one cycle count once.
func TestDecreaseHold(t *testing.T) {
	for _, c := range []struct {
		hold time.Duration
		want float64
	}{{0, 0.5}, {time.Second, 7}} {
		b := newBucket(10, 10, 0)
		for i := range 9 {
			b.decrease(orgAIMD, int64(i)*int64(10*time.Millisecond), int64(c.hold))
		}
		if math.Abs(b.rate-c.want) > 1e-9 {
			t.Errorf("hold %v: rate %v after nine refusals, want %v", c.hold, b.rate, c.want)
		}
	}
	b := newBucket(10, 10, 0)
	b.decrease(orgAIMD, 0, int64(time.Second))
	b.decrease(orgAIMD, int64(time.Second), int64(time.Second))
	if math.Abs(b.rate-4.9) > 1e-9 {
		t.Errorf("rate %v: a refusal after the hold must count, want 4.9", b.rate)
	}
}

func TestAIMDStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Float64Range(0.1, 1000).Draw(t, "limit")
		a := orgAIMD.cappedAt(limit)
		rate := limit
		for range rapid.IntRange(1, 200).Draw(t, "answers") {
			before := rate
			if rapid.Bool().Draw(t, "refused") {
				if rate = a.Down(rate); rate > before {
					t.Fatalf("a refusal raised %v to %v", before, rate)
				}
			} else if rate = a.Up(rate, limit); rate < before {
				t.Fatalf("a success lowered %v to %v", before, rate)
			}
			if rate > limit || rate < min(0.5, limit) {
				t.Fatalf("rate %v is not between the floor and %v", rate, limit)
			}
		}
	})
}

func TestDuration(t *testing.T) {
	for s, want := range map[float64]time.Duration{
		0: 0, 1.0 / 3: 333333333, 2.0 / 3: 666666667, 1e300: math.MaxInt64, math.Inf(1): math.MaxInt64, 9.3e9: math.MaxInt64,
	} {
		if got := duration(s); got != want {
			t.Errorf("duration(%v) = %d, want %d", s, got, want)
		}
	}
}
