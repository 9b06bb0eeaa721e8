package smartflow

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// The limits of the benchmarks are so high that nobody waits: what is measured is
// the price of a decision, not the pace.
const noWait = 1e12

func benchLimiter(b *testing.B) *Limiter {
	b.Helper()
	l, err := New(Config{OrgRatePerSecond: noWait, GlobalRatePerSecond: noWait})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkAcquire is one goroutine; the bar is 150 ns and no allocation.
func BenchmarkAcquire(b *testing.B) {
	for name, url := range map[string]string{
		"org":     "/api/v1/organizations/123456/networks",
		"url":     "https://api.meraki.com/api/v1/organizations/123456/networks?perPage=1000",
		"network": "/api/v1/networks/N_1/clients",
		"device":  "/api/v1/devices/Q2AA-BBBB-CCCC/lldpCdp",
	} {
		b.Run(name, func(b *testing.B) {
			l := benchLimiter(b)
			l.RegisterNetwork("N_1", "123456")
			l.RegisterDevice("Q2AA-BBBB-CCCC", "123456")
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Acquire(ctx, url); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParallel is 8 goroutines over 8 organizations, against what one would
// write with x/time/rate: a global limiter and one for each organization. The first
// must not be slower than the second.
func BenchmarkParallel(b *testing.B) {
	const goroutines = 8
	// RunParallel multiplies by GOMAXPROCS; with 8 or more it would start too many.
	perProc := func(b *testing.B) { b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0))) }

	b.Run("smartflow", func(b *testing.B) {
		l := benchLimiter(b)
		var next atomic.Int64
		perProc(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			url := fmt.Sprintf("/api/v1/organizations/O_%d/networks", next.Add(1)%goroutines)
			ctx := context.Background()
			for pb.Next() {
				if err := l.Acquire(ctx, url); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("xtimerate", func(b *testing.B) {
		global := rate.NewLimiter(noWait, noWait)
		orgs := make([]*rate.Limiter, goroutines)
		for i := range orgs {
			orgs[i] = rate.NewLimiter(noWait, noWait)
		}
		var next atomic.Int64
		perProc(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			org := orgs[next.Add(1)%goroutines]
			ctx := context.Background()
			for pb.Next() {
				if err := global.Wait(ctx); err != nil {
					b.Error(err)
					return
				}
				if err := org.Wait(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkTwice is x/time/rate on one goroutine in place of Acquire, with the
// organization at hand: what a URL is worth is on top. It tells a slow limiter from a
// slow machine.
func BenchmarkTwice(b *testing.B) {
	global, org := rate.NewLimiter(noWait, noWait), rate.NewLimiter(noWait, noWait)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := global.Wait(ctx); err != nil {
			b.Fatal(err)
		}
		if err := org.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkYardstick is one of them, which is told the time.
func BenchmarkYardstick(b *testing.B) {
	l := rate.NewLimiter(noWait, noWait)
	now := time.Now()
	for b.Loop() {
		l.AllowN(now, 1)
	}
}
