package daemon_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/simulate"
)

// The throughput row of the benchmarks: tapyr run against tapyr simulate serve on loopback, without limits, and a bare loop of net/http
// with the same concurrency against the same, in one process, one after the other, and again.

const (
	benchWorkers  = 16
	benchRequests = 16000
)

// spent is what something took: time, and the work of the processor, which says more where other programs are at work. On a machine
// of its own, with all processors busy, the two are in proportion.
type spent struct{ wall, work time.Duration }

// measure runs f.
func measure(f func()) spent {
	runtime.GC()
	began, before := time.Now(), processorTime()
	f()
	return spent{time.Since(began), processorTime() - before}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchDocuments are jobs that page through a long list each, at a provider without limits. A page has ten items.
func benchDocuments(workers int) string {
	text := provider(`  auth: { type: bearer, credential: key }
  pagination: { type: page, pageParam: p, limitParam: n, limit: 10, items: response.list, maxPages: 1000000 }`)
	for i := range workers {
		text += job(fmt.Sprintf("j%02d", i), fmt.Sprintf(`  interval: 1h
  request: { endpoint: /j%02d }
  metrics: [{ name: m%d, value: double(size(response.list)) }]
`, i, i))
	}
	return text
}

// benchServer is tapyr simulate serve for these documents, with so many pages for each job.
func benchServer(t testing.TB, pages, workers int) *rig {
	t.Helper()
	documents := benchDocuments(workers)
	config, err := configOf(strings.ReplaceAll(documents, "@URL", "http://vendor.test"))
	if err != nil {
		t.Fatal(err)
	}
	items := make(map[string]int64)
	for _, j := range config.Jobs {
		items[j.Name] = int64(pages)*10 - 5
	}
	server, err := simulate.NewServer(config, "p", simulate.ServerOptions{
		Seed: 1, Items: items, Sleep: func(context.Context, time.Duration) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, documents, server.ServeHTTP)
	r.quiet = true
	r.daemon = r.make(daemon.Options{})
	return r
}

// bareLoop asks for the same pages with so many workers, and throws the answers away.
func bareLoop(t testing.TB, url string, pages, workers int) {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for page := range pages {
				q, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/v1/j%02d?n=10&p=%d", url, i, page+1), nil)
				if err != nil {
					t.Error(err)
					return
				}
				q.Header.Set("Authorization", "Bearer "+plantedKey)
				response, err := client.Do(q)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("status %d", response.StatusCode)
					return
				}
			}
		})
	}
	group.Wait()
}

// ratio is tapyr's requests by time and by work over the bare loop's, each the median of some rounds.
func ratio(t testing.TB, requests, rounds int) (wall, work float64) {
	t.Helper()
	var walls, works []float64
	for range rounds {
		pages := requests / benchWorkers
		r := benchServer(t, pages, benchWorkers)
		direct := measure(func() { bareLoop(t, r.server.URL, pages, benchWorkers) })
		ours := measure(func() {
			if err := r.once(); err != nil {
				t.Error(err)
			}
		})
		if n := r.daemon.Snapshot().Totals.Granted; n != int64(pages*benchWorkers) {
			t.Fatalf("%d requests, want %d", n, pages*benchWorkers)
		}
		walls = append(walls, direct.wall.Seconds()/ours.wall.Seconds())
		works = append(works, direct.work.Seconds()/ours.work.Seconds())
		t.Logf("bare: %.0f requests a second, %.0f a second of work; tapyr: %.0f and %.0f",
			float64(requests)/direct.wall.Seconds(), float64(requests)/direct.work.Seconds(),
			float64(requests)/ours.wall.Seconds(), float64(requests)/ours.work.Seconds())
	}
	slices.Sort(walls)
	slices.Sort(works)
	return walls[len(walls)/2], works[len(works)/2]
}

// The bar is measured by the benchmark; this is far enough below it not to fail on a machine that is busy.
func TestThroughputIsNotFarFromABareLoop(t *testing.T) {
	if os.Getenv("TAPYR_SOAK") == "" {
		t.Skip("measures, which a busy machine fails: set TAPYR_SOAK")
	}
	if raceEnabled || strings.Contains(os.Getenv("GOFLAGS"), "-race") {
		t.Skip("the race detector slows the two unequally")
	}
	if _, work := ratio(t, 4000, 3); work < 0.5 {
		t.Errorf("%.2f of a bare loop's requests for the same work; the bar of the benchmark is 0.7", work)
	}
}

func BenchmarkRunAgainstABareLoop(b *testing.B) {
	for b.Loop() {
		wall, work := ratio(b, benchRequests, 3)
		b.ReportMetric(wall, "ratio")
		b.ReportMetric(work, "work-ratio")
	}
}
