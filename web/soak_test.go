package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/web"
)

// pipes is a network in memory, so that a day of a daemon passes in minutes: time goes on when all wait.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, errors.New("the vendor is gone")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	close(p.done)
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "vendor", Net: "unix"} }

// restless is a vendor whose inventory never stays the same, whose tokens do not last, and which fails in every way now and then.
type restless struct {
	lists, answers, tokens atomic.Int64
	// items is how many items there are at a time: a fifth of them are new each time, for ever.
	items int64
}

func (v *restless) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/v1/token" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"PLANTED-token-%09d","token_type":"Bearer","expires_in":600}`, v.tokens.Add(1))
		return
	}
	switch n := v.answers.Add(1); {
	case n%211 == 0:
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return
	case n%97 == 0:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case n%61 == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case n%53 == 0:
		time.Sleep(2 * time.Second)
	}
	if strings.HasSuffix(q.URL.Path, "/list") {
		first := v.lists.Add(1) * (v.items / 5)
		ids := make([]string, v.items)
		for i := range ids {
			ids[i] = fmt.Sprintf(`{"id":"item-%d"}`, first+int64(i))
		}
		fmt.Fprintf(w, "[%s]", strings.Join(ids, ","))
		return
	}
	w.Header().Set("X-Remaining", "900")
	if q.URL.Query().Get("p") == "1" {
		fmt.Fprint(w, `[{"n":1,"text":"a"},{"n":2,"text":"b"}]`)
		return
	}
	fmt.Fprint(w, `[]`)
}

// soakDocuments are those of a generation: one job of its own goes with it.
func soakDocuments(generation int64) string {
	return strings.ReplaceAll(soakProvider(`  auth: { type: oauth2_client_credentials, tokenURL: /token, clientId: key, clientSecret: key }
  pagination: { type: page, pageParam: p, limit: 2, limitParam: n }
  circuitBreaker: { failures: 100 }
  limits:
  - { name: rate, kind: rate, rate: 50/s, burst: 50, scope: { by: [account] } }
  - { name: item, kind: rate, rate: 2/s, burst: 4, scope: { by: ["var:id"] } }
  - { name: tenth, kind: quota, max: 1000, window: { every: 5m }, scope: { by: ["var:id"] }, sync: { remainingHeader: X-Remaining } }
  - { name: rolling, kind: quota, max: 100000, window: { rolling: 10m }, scope: { by: [account] } }`)+
		soakJob("list", "  interval: 1m\n  pagination: { type: none }\n  request: { endpoint: /list }\n  inventory: { items: response, vars: { id: item.id } }\n")+
		soakJob("sub", "  interval: 5m\n  forEach: list\n  pagination: { type: none }\n  request: { endpoint: \"/{id}/list\" }\n  inventory: { items: \"response.slice(0, 2)\", vars: { sub: item.id } }\n")+
		soakJob("leaf", "  interval: 10m\n  forEach: sub\n  request: { endpoint: \"/{id}/{sub}\" }\n  metrics: [{ name: leaf, type: info, labels: { id: vars.id, sub: vars.sub } }]\n")+
		soakJob("each", `  interval: 2m
  forEach: list
  request: { endpoint: "/each/{id}" }
  metrics: [{ name: each, items: response, labels: { id: vars.id, text: item.text }, value: item.n }]
  outputs: [{ jsonl: { path: "@DIR/out/each-%Y%m%d.jsonl" } }]
`)+
		soakJob(fmt.Sprintf("passing-%d", generation), "  interval: 1m\n  request: { endpoint: /passing }\n  metrics: [{ name: passing, type: info }]\n")+
		"---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\n"+
		"spec: { state: { path: \"@DIR/tapyr.db\", journalRetention: 30m }, budget: { replanInterval: 1m } }\n", "@URL", "http://vendor.test")
}

func soakProvider(spec string) string {
	return "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: p }\nspec:\n  baseURL: \"@URL/v1\"\n  retry: { initial: 1ms, max: 5ms, jitter: 0 }\n" + spec +
		"\n---\napiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec: { provider: p, credentials: { key: { env: KEY } } }\n"
}

func soakJob(name, spec string) string {
	return "---\napiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: " + name + " }\nspec:\n  account: a\n" + spec
}

func configOf(text string) (*validate.Config, error) {
	docs, problems := schema.Decode("test.yaml", []byte(text))
	config, more := validate.Check(docs)
	if config == nil {
		return nil, fmt.Errorf("%v %v", problems, more)
	}
	return config, nil
}

// footprint is what a process holds.
type footprint struct {
	heapBytes, stateBytes, logBytes int64
	goroutines, descriptors         int
	scopes, jobs, inventories       int
}

func footprintOf(t *testing.T, dir string, d *daemon.Daemon) (f footprint) {
	t.Helper()
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	s := d.Snapshot()
	f = footprint{heapBytes: int64(m.HeapAlloc), goroutines: runtime.NumGoroutine(), scopes: len(s.Scopes), jobs: len(s.Jobs)}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.descriptors = len(entries)
	}
	for name, into := range map[string]*int64{"tapyr.db": &f.stateBytes, "tapyr.db-wal": &f.logBytes} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			*into = info.Size()
		}
	}
	for _, one := range s.Inventories {
		f.inventories += one.Listed
	}
	return f
}

// Hours of a restless life, in virtual time: the inventory changes every minute, items never come back, tokens pass, documents are
// reloaded, answers fail, old rows are pruned, and somebody looks at the page, the API and the metrics all the while. What the daemon
// holds after that is what it held before.
func TestADaemonDoesNotGrow(t *testing.T) {
	// Rows are kept for an hour and keys for most of one: what is held after that does not grow any more.
	hours, items, every := 3, int64(5), 10
	if os.Getenv("TAPYR_SOAK") != "" {
		hours, items, every = 8, 20, 1
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		vendor := &http.Server{Handler: &restless{items: items}, ReadHeaderTimeout: time.Minute}
		go func() { _ = vendor.Serve(network) }()
		var generation, failures atomic.Int64
		d := daemon.New(daemon.Options{
			Load: func(context.Context) (*validate.Config, error) {
				return configOf(strings.ReplaceAll(soakDocuments(generation.Load()), "@DIR", dir))
			},
			Log:    slog.New(slog.NewJSONHandler(&countingErrors{&failures, t}, &slog.HandlerOptions{Level: slog.LevelError})),
			Getenv: func(string) string { return "PLANTED-client-secret" }, Dial: network.dial, Version: "test",
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for d.Ready() != nil {
			select {
			case err := <-done:
				t.Fatalf("the daemon does not begin: %v", err)
			case <-time.After(time.Second):
			}
		}
		page := web.New(web.Options{Daemon: d, Series: d.Series()})
		var first footprint
		minutes := hours * 60
		for minute := range minutes {
			time.Sleep(time.Minute)
			if minute%every == 0 {
				look(t, page)
			}
			if minute%5 == 4 {
				generation.Add(1)
				d.Reload()
			}
			if minute == minutes/2 {
				first = footprintOf(t, dir, d)
			}
		}
		last := footprintOf(t, dir, d)
		totals := d.Snapshot()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
		_ = vendor.Close()
		t.Logf("%d hours, %d requests, %d reloads: %+v, then %+v", hours, totals.Totals.Granted, totals.Config.Reloads, first, last)
		if totals.Totals.Granted < int64(minutes)*items/2 || totals.Config.Reloads < int64(minutes)/6 || totals.Config.ReloadErrors > 0 {
			t.Errorf("not much happened: %d requests, %d reloads, %d of them failed", totals.Totals.Granted, totals.Config.Reloads, totals.Config.ReloadErrors)
		}
		if failures.Load() > 0 {
			t.Errorf("%d errors were logged", failures.Load())
		}
		checkGrowth(t, first, last)
	})
}

// checkGrowth asserts that what is held later is not more, but for what chance decides.
func checkGrowth(t *testing.T, first, last footprint) {
	t.Helper()
	for _, one := range []struct {
		what        string
		first, last int64
		slack       int64 // beside a quarter
	}{
		{"bytes of memory", first.heapBytes, last.heapBytes, 2 << 20},
		{"bytes of state", first.stateBytes, last.stateBytes, 1 << 20},
		{"bytes of its log", first.logBytes, last.logBytes, 8 << 20},
		{"goroutines", int64(first.goroutines), int64(last.goroutines), 20},
		{"descriptors", int64(first.descriptors), int64(last.descriptors), 10},
		{"keys of quotas", int64(first.scopes), int64(last.scopes), 20},
		{"jobs", int64(first.jobs), int64(last.jobs), 0},
		{"inventories", int64(first.inventories), int64(last.inventories), 20},
	} {
		if one.last > one.first+one.first/4+one.slack {
			t.Errorf("%s: %d, then %d", one.what, one.first, one.last)
		}
	}
}

// look asks for what people and programs look at.
func look(t *testing.T, page http.Handler) {
	t.Helper()
	for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/healthz"} {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		q.RemoteAddr = "127.0.0.1:40000"
		page.ServeHTTP(w, q)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %.200s", path, w.Code, w.Body)
		}
	}
}

// countingErrors counts the lines of a log of errors.
type countingErrors struct {
	n *atomic.Int64
	t *testing.T
}

func (c *countingErrors) Write(line []byte) (int, error) {
	if json.Valid(line) && c.n.Add(1) <= 5 {
		c.t.Logf("logged: %s", line)
	}
	return len(line), nil
}
