package window

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func rollingGen() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.OneOf(
			rapid.Int64Range(int64(MinLength), int64(MinLength)+1000),
			rapid.Int64Range(int64(MinLength), int64(2*time.Hour)),
			rapid.Int64Range(int64(time.Hour)-2, int64(time.Hour)+2),
			rapid.Int64Range(int64(time.Hour), int64(MaxLength)),
		).Draw(t, "length"))
	})
}

func mustBuckets(t fataler, length time.Duration) Buckets {
	t.Helper()
	b, ok := mustCompile(t, Spec{Rolling: length}).Buckets()
	if !ok {
		t.Fatal("a rolling window has no buckets")
	}
	return b
}

// bigFloor is floor(a*m/d) by the book.
func bigFloor(a, m, d int64) *big.Int {
	product := new(big.Int).Mul(big.NewInt(a), big.NewInt(m))
	// Euclidean division is floor division where the divisor is positive.
	return product.Div(product, big.NewInt(d))
}

func TestBucketNumberIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rollingGen().Draw(t, "window")
		at := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, -1, 0, 1})).Draw(t, "at")
		got := mustBuckets(t, length).Number(at)
		want := bigFloor(at, 60, int64(length))
		if length >= time.Hour {
			want = bigFloor(at, 1, int64(time.Minute))
		}
		if want.Cmp(big.NewInt(got)) != 0 {
			t.Fatalf("bucket of %d in %v is %d, want %v", at, length, got, want)
		}
	})
}

// A bucket's start is its first instant: the one before has another number.
func TestBucketStartIsItsFirstInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rollingGen().Draw(t, "window")
		b := mustBuckets(t, length)
		at := rapid.Int64Range(MinNanos, MaxNanos).Draw(t, "at")
		n := b.Number(at)
		start, end := b.StartNanos(n), b.StartNanos(n+1)
		if !(Span{start, end}).Contains(at) {
			t.Fatalf("bucket %d of %v is [%d, %d), without %d", n, length, start, end, at)
		}
		if b.Number(start) != n || b.Number(start-1) != n-1 || b.Number(end) != n+1 {
			t.Fatalf("bucket %d of %v does not start at %d or end at %d", n, length, start, end)
		}
	})
}

// Fifty years on, a bucket length cut to whole nanoseconds would be off by
// millions of buckets.
func TestBucketsDoNotDrift(t *testing.T) {
	b := mustBuckets(t, 100*time.Millisecond) // a bucket is 1,666,666.67 ns
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	if got, want := b.Number(at), at/1e9*600; got != want {
		t.Errorf("bucket %d, want %d (600 a second)", got, want)
	}
	if got := b.StartNanos(600 * (at / 1e9)); got != at {
		t.Errorf("starts at %d, want %d", got, at)
	}
	// Rounded up, also before 1970.
	for n, want := range map[int64]int64{
		-3: -5000000, -2: -3333333, -1: -1666666, 0: 0, 1: 1666667, 2: 3333334, 3: 5000000,
	} {
		if got := b.StartNanos(n); got != want {
			t.Errorf("bucket %d starts at %d, want %d", n, got, want)
		}
	}
}

func TestBucketStartsBeyondInt64AreHeld(t *testing.T) {
	for _, length := range []time.Duration{time.Millisecond, time.Minute, time.Hour, 24 * time.Hour} {
		b := mustBuckets(t, length)
		if got := b.StartNanos(math.MaxInt64); got != math.MaxInt64 {
			t.Errorf("%v: the last bucket starts at %d", length, got)
		}
		if got := b.StartNanos(math.MinInt64); got > -math.MaxInt64 {
			t.Errorf("%v: the first bucket starts at %d", length, got)
		}
		if got := b.StartNanos(-math.MaxInt64); got > -math.MaxInt64 {
			t.Errorf("%v: the second bucket starts at %d", length, got)
		}
	}
}

func TestBucketsOfAnHourAndMoreAreMinutes(t *testing.T) {
	for _, length := range []time.Duration{time.Hour, 90 * time.Minute, 24 * time.Hour} {
		b := mustBuckets(t, length)
		for _, c := range []struct{ at, want int64 }{{0, 0}, {59_999_999_999, 0}, {60e9, 1}, {-1, -1}, {-60e9, -1}, {-60e9 - 1, -2}} {
			if got := b.Number(c.at); got != c.want {
				t.Errorf("%v: bucket of %d is %d, want %d", length, c.at, got, c.want)
			}
		}
		if got := b.StartNanos(-2); got != -120e9 {
			t.Errorf("%v: bucket -2 starts at %d", length, got)
		}
	}
}

func TestOnlyRollingAdmissionHasBuckets(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want bool
	}{
		{Spec{Period: Day}, false},
		{Spec{Every: time.Minute}, false},
		{Spec{Rolling: time.Minute}, true},
		{Spec{Every: time.Minute, Anchor: AnchorFirstRequest}, true},
	} {
		b, ok := mustCompile(t, c.spec).Buckets()
		if ok != c.want {
			t.Errorf("%+v: buckets %v, want %v", c.spec, ok, c.want)
		}
		if ok && b.Number(61e9) != 61 {
			t.Errorf("%+v: bucket %d, want 61", c.spec, b.Number(61e9))
		}
	}
}

// The windows that an instant alone does not tell.
func TestRollingAndFirstRequestWindows(t *testing.T) {
	grant := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	for _, spec := range []Spec{{Rolling: time.Minute}, {Every: time.Minute, Anchor: AnchorFirstRequest}} {
		s := mustCompile(t, spec)
		if s.Length() != time.Minute {
			t.Errorf("length is %v", s.Length())
		}
		opened := s.Opened(grant)
		if want := (Window{grant, grant.Add(time.Minute)}); opened != want {
			t.Errorf("a grant opens %v, want %v", opened, want)
		}
		if next := s.Next(opened); next != (Window{opened.End, opened.End.Add(time.Minute)}) {
			t.Errorf("next is %v", next)
		}
		at := s.At(grant)
		if at.Length() != time.Minute || !at.Contains(grant) || at.Contains(grant.Add(1)) {
			t.Errorf("the window that ends at %v is %v", grant, at)
		}
		if at.Contains(grant.Add(-time.Minute)) || !at.Contains(grant.Add(-time.Minute+1)) {
			t.Errorf("%v: a unit one minute old has left, a younger one has not", at)
		}
		if got := s.Longest(grant, 24*time.Hour); got.Length() != time.Minute {
			t.Errorf("the longest is %v", got)
		}
	}
	if s := mustCompile(t, Spec{Every: time.Minute}); s.Opened(grant) != s.At(grant) {
		t.Errorf("a grid does not open with a request: %v", s.Opened(grant))
	}
}
