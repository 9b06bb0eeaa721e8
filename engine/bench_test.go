package engine

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// benchDocuments are three limits, one of each kind, by organization.
const benchDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: rate, kind: rate, rate: 1000000000/s, burst: 1000000000, scope: { by: [account, "var:organizationId"] } }
    - { name: slots, kind: concurrency, max: 1000000, scope: { by: [account, "var:organizationId"] } }
    - { name: daily, kind: quota, max: 1000000000000000, window: { period: day }, scope: { by: [account, "var:organizationId"] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
`

var benchKeys = func() int {
	if n, err := strconv.Atoi(os.Getenv("BENCH_KEYS")); err == nil {
		return n
	}
	return 3_334 // of three keys each: 10,000
}()

var benchStart = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()

func benchRequest(key int) *Request {
	return &Request{Request: match.Request{
		Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/organizations/{organizationId}/devices",
		Vars: map[string]string{"organizationId": strconv.Itoa(500_000 + key)},
	}}
}

func benchEngine(b testing.TB, documents string) (*Engine, []*Prepared) {
	e := New(validatetest.Config(b, documents), Options{})
	prepared := make([]*Prepared, benchKeys)
	for i := range prepared {
		p, err := e.Prepare(benchStart, benchRequest(i))
		if err != nil {
			b.Fatal(err)
		}
		prepared[i] = p
		e.reserveRelease(b, benchStart, p) // keys are open, records are there
	}
	return e, prepared
}

func (e *Engine) reserveRelease(b testing.TB, now int64, p *Prepared) {
	t, granted, refused := e.Reserve(now, p, false, now)
	if !granted {
		b.Fatal(refused)
	}
	e.Release(now, t)
}

// cpuTime reports the processor time of an operation beside the elapsed one, which says little on a machine that others use.
func cpuTime(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

// next is a cheap sequence of keys without a pattern that a prefetcher knows.
func next(x uint32) uint32 { return x*1664525 + 1013904223 }

// The bar: a prepared request at most 2.5 times this.
func BenchmarkPeer(b *testing.B) {
	defer cpuTime(b)()
	l := rate.NewLimiter(1e9, 1e9)
	now := time.Unix(0, benchStart)
	b.ReportAllocs()
	for i := range b.N {
		if !l.AllowN(now.Add(time.Duration(i)), 1) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkPrepared(b *testing.B) {
	e, prepared := benchEngine(b, benchDocuments)
	x := uint32(1)
	b.ReportAllocs()
	b.ResetTimer()
	defer cpuTime(b)()
	for i := range b.N {
		x = next(x)
		e.reserveRelease(b, benchStart+int64(i), prepared[int(x>>16)%benchKeys])
	}
}

// The log of the last 15 minutes at its full length: each grant also makes one leave.
func BenchmarkPreparedSteady(b *testing.B) {
	e, prepared := benchEngine(b, benchDocuments)
	const step = recentNanos / 1_000_000
	x := uint32(1)
	now := benchStart
	for range 1_100_000 {
		x = next(x)
		now += step
		e.reserveRelease(b, now, prepared[int(x>>16)%benchKeys])
	}
	b.ReportAllocs()
	b.ResetTimer()
	defer cpuTime(b)()
	for range b.N {
		x = next(x)
		now += step
		e.reserveRelease(b, now, prepared[int(x>>16)%benchKeys])
	}
}

// The bar: strings each call at most 8 times AllowN.
func BenchmarkStrings(b *testing.B) {
	e, _ := benchEngine(b, benchDocuments)
	// The caller has just made the request: its variable is set each time, at the caller's cost.
	q := benchRequest(0)
	ids := make([]string, benchKeys)
	for i := range ids {
		ids[i] = benchRequest(i).Vars["organizationId"]
	}
	x := uint32(1)
	b.ReportAllocs()
	b.ResetTimer()
	defer cpuTime(b)()
	for i := range b.N {
		x = next(x)
		now := benchStart + int64(i)
		q.Vars["organizationId"] = ids[int(x>>16)%benchKeys]
		t, granted, err := e.ReserveRequest(now, q, false, now)
		if !granted {
			b.Fatal(err)
		}
		e.Release(now, t)
	}
}

func BenchmarkLimits(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var limits strings.Builder
			for i := range n {
				fmt.Fprintf(&limits, "    - { name: l%d, kind: quota, max: 1000000000000000, window: { period: day }, scope: { by: [account, \"var:organizationId\"] } }\n", i)
			}
			head, rest, _ := strings.Cut(benchDocuments, "    - { name: rate")
			_, tail, _ := strings.Cut(rest, "---\n")
			e, prepared := benchEngine(b, head+limits.String()+"---\n"+tail)
			x := uint32(1)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpuTime(b)()
			for i := range b.N {
				x = next(x)
				e.reserveRelease(b, benchStart+int64(i), prepared[int(x>>16)%benchKeys])
			}
		})
	}
}

// Neither way of reserving allocates, once keys are open.
func TestReserveDoesNotAllocate(t *testing.T) {
	e, prepared := benchEngine(t, benchDocuments)
	q := benchRequest(7)
	now := benchStart
	for range 2000 { // the log of the last 15 minutes has room
		e.reserveRelease(t, now, prepared[7])
	}
	e.recent.first = e.recent.next
	for name, f := range map[string]func(){
		"prepared": func() { e.reserveRelease(t, now, prepared[7]) },
		"strings": func() {
			ticket, _, _ := e.ReserveRequest(now, q, false, now)
			e.Release(now, ticket)
		},
		"settled": func() {
			ticket, _, _ := e.Reserve(now, prepared[7], false, now)
			e.Settle(now, ticket, &okResponse)
			e.Release(now, ticket)
		},
	} {
		if n := testing.AllocsPerRun(500, func() { f(); e.recent.first = e.recent.next }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var okResponse = Response{Status: 200}

// parallel runs b.N operations on eight goroutines.
func parallel(b *testing.B, op func(worker, i int)) {
	const workers = 8
	b.ReportAllocs()
	b.ResetTimer()
	defer cpuTime(b)()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < b.N; i += workers {
				op(w, i)
			}
		})
	}
	wg.Wait()
}

func BenchmarkPeer8(b *testing.B) {
	l := rate.NewLimiter(1e9, 1e9)
	parallel(b, func(_, _ int) {
		if !l.AllowN(time.Now(), 1) {
			b.Error("refused")
		}
	})
}

// The gate with its lock and clock: Acquire and Release of a prepared request.
func BenchmarkGate8(b *testing.B) {
	e, prepared := benchEngine(b, benchDocuments)
	e.now = 0 // the keys are open; the gate's clock is the wall's
	g := e.Gate()
	defer g.Close()
	var x [8]struct {
		state uint32
		_     [60]byte
	}
	parallel(b, func(w, _ int) {
		x[w].state = next(x[w].state)
		r, err := g.AcquirePrepared(context.Background(), prepared[int(x[w].state>>16)%benchKeys], false, time.Time{})
		if err != nil {
			b.Error(err)
			return
		}
		r.Release()
	})
}
