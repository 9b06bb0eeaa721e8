package daemon_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// The throughput row of the benchmarks: tapyr run against a server on loopback without limits, against a bare loop of net/http with
// the same concurrency, in the same process, one after the other, and again.

const (
	benchWorkers  = 16
	benchRequests = 12000
)

// bareLoop sends n requests with so many workers, and tells how long that takes.
func bareLoop(t testing.TB, url string, n, workers int) time.Duration {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	began := time.Now()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range n / workers {
				q, err := http.NewRequest(http.MethodGet, url, nil)
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
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// pagedRun has so many jobs page through so many pages each, once, and tells how long that takes.
func pagedRun(t testing.TB, pages, workers int) time.Duration {
	t.Helper()
	text := provider(`  auth: { type: bearer, credential: key }
  pagination: { type: page, pageParam: p, items: response.list, maxPages: 100000 }`)
	for i := range workers {
		text += job(fmt.Sprintf("j%02d", i), `  interval: 1h
  request: { endpoint: /x }
  metrics: [{ name: m`+fmt.Sprint(i)+`, items: response.list, labels: { id: string(item) }, value: "1.0" }]
`)
	}
	r := newRig(t, text, func(w http.ResponseWriter, q *http.Request) { benchAnswer(w, q, pages) })
	r.quiet = true
	r.daemon = r.make(daemon.Options{})
	began := time.Now()
	if err := r.once(); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// benchAnswer is a page with one item; the last has none.
func benchAnswer(w http.ResponseWriter, q *http.Request, pages int) {
	w.Header().Set("Content-Type", "application/json")
	if q.URL.Query().Get("p") == fmt.Sprint(pages) {
		_, _ = io.WriteString(w, `{"list":[]}`)
		return
	}
	_, _ = io.WriteString(w, `{"list":[1]}`)
}

// ratio is tapyr's requests a second over the bare loop's, the median of some rounds.
func ratio(t testing.TB, requests, rounds int) float64 {
	t.Helper()
	bare := newRig(t, provider("")+one("x", ""), func(w http.ResponseWriter, q *http.Request) { benchAnswer(w, q, -1) })
	bare.quiet = true
	var ratios []float64
	for range rounds {
		runtime.GC()
		direct := bareLoop(t, bare.server.URL+"/v1/x", requests, benchWorkers)
		runtime.GC()
		ours := pagedRun(t, requests/benchWorkers, benchWorkers)
		ratios = append(ratios, direct.Seconds()/ours.Seconds())
		t.Logf("bare %.0f requests a second, tapyr %.0f", float64(requests)/direct.Seconds(), float64(requests)/ours.Seconds())
	}
	for i := range ratios {
		for j := i + 1; j < len(ratios); j++ {
			if ratios[j] < ratios[i] {
				ratios[i], ratios[j] = ratios[j], ratios[i]
			}
		}
	}
	return ratios[len(ratios)/2]
}

// A tenth of the bar's margin is left for noisy machines here; the benchmark measures.
func TestThroughputIsNotFarFromABareLoop(t *testing.T) {
	if raceEnabled || strings.Contains(os.Getenv("GOFLAGS"), "-race") {
		t.Skip("the race detector slows the two unequally")
	}
	if got := ratio(t, 4000, 3); got < 0.5 {
		t.Errorf("%.2f of a bare loop's requests a second; the bar of the benchmark is 0.7", got)
	}
}

func BenchmarkRunAgainstABareLoop(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(ratio(b, benchRequests, 3), "ratio")
	}
}
