package daemon_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// plantedKey is the secret that tests look for where no secret belongs.
const plantedKey = "PLANTED-s3cr3t-key-0123456789"

// rig is a daemon in a folder of its own, against a server.
type rig struct {
	t      testing.TB
	dir    string
	server *httptest.Server
	logs   *syncBuffer
	env    map[string]string
	daemon *daemon.Daemon
	// listen opens the status address; quiet notes neither requests nor logs.
	listen, quiet bool

	mu        sync.Mutex
	documents string
	hits      []hit
}

// hit is one request that reached the server.
type hit struct {
	at            time.Time
	method, path  string
	query         map[string]string
	authorization string
	body          string
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newRig serves answer and notes every request. In the documents @URL stands for the server.
func newRig(t testing.TB, documents string, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), logs: new(syncBuffer), env: map[string]string{"KEY": plantedKey}}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.quiet {
			answer(w, q)
			return
		}
		body, _ := io.ReadAll(q.Body)
		query := make(map[string]string)
		for name := range q.URL.Query() {
			query[name] = q.URL.Query().Get(name)
		}
		r.mu.Lock()
		r.hits = append(r.hits, hit{time.Now(), q.Method, q.URL.Path, query, q.Header.Get("Authorization"), string(body)})
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.server.Close)
	r.documents = documents
	r.daemon = r.make(daemon.Options{})
	return r
}

// make makes a daemon of this rig.
func (r *rig) make(o daemon.Options) *daemon.Daemon {
	o.Load = func(context.Context) (*validate.Config, error) { return r.load() }
	o.Log = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if r.quiet {
		o.Log = nil
	}
	o.Getenv = func(name string) string { return r.env[name] }
	if r.listen {
		o.Handler = page
	}
	o.Version = "test"
	return daemon.New(o)
}

// page stands for what tapyr run serves on the status address, which package web tests.
func page(d *daemon.Daemon) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"token": len(d.Token()), "exposed": d.Exposed()})
	})
}

func (r *rig) load() (*validate.Config, error) {
	r.mu.Lock()
	text := r.documents
	r.mu.Unlock()
	text = strings.NewReplacer("@URL", r.server.URL, "@DIR", r.dir).Replace(text)
	if !strings.Contains(text, "kind: Settings") {
		text += fmt.Sprintf("\n---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: %q, flushInterval: 50ms } }\n",
			filepath.Join(r.dir, "tapyr.db"))
	}
	return configOf(text)
}

func configOf(text string) (*validate.Config, error) {
	docs, problems := schema.Decode("test.yaml", []byte(text))
	config, more := validate.Check(docs)
	problems = append(problems, more...)
	if config == nil || len(docs) == 0 {
		for _, p := range problems {
			if p.Severity == schema.SeverityError {
				return nil, fmt.Errorf("%d:%d: %s [%s]", p.Line, p.Column, p.Message, p.Rule)
			}
		}
		return nil, fmt.Errorf("no documents")
	}
	return config, nil
}

// set replaces the documents.
func (r *rig) set(documents string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.documents = documents
}

// seen copies the requests so far.
func (r *rig) seen() []hit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hit(nil), r.hits...)
}

// once runs all jobs once.
func (r *rig) once() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.daemon.Once(ctx)
}

// start runs the daemon until stop, which waits for its end.
func (r *rig) start(d *daemon.Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					r.t.Errorf("the daemon ended with %v", err)
				}
			case <-time.After(30 * time.Second):
				r.t.Error("the daemon does not stop")
			}
		})
	}
	r.t.Cleanup(stop)
	r.until("the daemon is ready", func() bool { return d.Ready() == nil })
	return stop
}

// until waits for something that must come.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never: %s\n%s", what, r.logs.String())
		}
	}
}

// metrics gathers the series of a daemon as text: name{label=value,...} value.
func metrics(t testing.TB, d *daemon.Daemon) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(d.Series()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetGauge().GetValue()
			if m.GetCounter() != nil {
				value = m.GetCounter().GetValue()
			}
			out = append(out, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return out
}

// reply writes JSON.
func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// provider is the beginning of most documents: a provider with the spec given, and an account.
func provider(spec string) string {
	return `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: "@URL/v1"
  retry: { initial: 1ms, max: 5ms, maxAttempts: 4, jitter: 0 }
` + spec + `
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p, credentials: { key: { env: KEY } } }
`
}

// job is a document of a job.
func job(name, spec string) string {
	return "---\napiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: " + name + " }\nspec:\n  account: a\n" + spec
}

func TestOnceCollectsPagesItemsAndMetricsInOrderOfDependence(t *testing.T) {
	r := newRig(t, provider(`  auth: { type: bearer, credential: key }
  pagination: { type: page, pageParam: page, limitParam: n, limit: 2, items: response.items }`)+
		job("children", `  interval: 1m
  forEach: sites
  request: { endpoint: "/sites/{site}/devices", query: { of: "{site}" } }
  metrics:
  - { name: device_up, items: response.items, labels: { site: vars.site, id: item.id }, value: item.up, help: Whether it is up. }
  outputs: [{ jsonl: { path: "@DIR/out/devices-%Y.jsonl" } }]
`)+job("sites", `  interval: 1m
  request: { endpoint: /sites }
  inventory: { items: response.items, vars: { site: item.name } }
`)+job("unkept", `  interval: 1m
  request: { endpoint: /unkept }
`), func(w http.ResponseWriter, q *http.Request) {
		page := q.URL.Query().Get("page")
		if q.URL.Path == "/v1/sites" {
			items := map[string][]any{"1": {map[string]any{"name": "x"}, map[string]any{"name": "y/z"}}, "2": {map[string]any{"name": "w"}}}
			reply(w, map[string]any{"items": items[page]})
			return
		}
		var items []any
		if page == "1" {
			items = []any{map[string]any{"id": 1, "up": true}, map[string]any{"id": int64(9007199254740993), "up": false}}
		}
		reply(w, map[string]any{"items": items})
	})
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	got := metrics(t, r.daemon)
	if want := 6; len(got) != want || got[0] != "device_up{id=1,site=w} 1" {
		t.Errorf("got %d series, want %d: %q", len(got), want, got)
	}
	for _, h := range r.seen() {
		if h.path == "/v1/unkept" {
			t.Error("a job that nobody keeps made a call")
		}
		if h.authorization != "Bearer "+plantedKey {
			t.Errorf("%s was sent with %q", h.path, h.authorization)
		}
	}
	if n := len(r.seen()); n != 2+3*2 {
		t.Errorf("%d requests, want 2 pages of sites and 2 of each of 3 sites' devices", n)
	}
	lines, err := filepath.Glob(filepath.Join(r.dir, "out", "devices-20*.jsonl"))
	if err != nil || len(lines) != 1 {
		t.Fatalf("outputs: %q %v", lines, err)
	}
	s := r.daemon.Snapshot()
	if len(s.Jobs) != 3 || s.Jobs[0].Lines != 6 || s.Jobs[0].Instances != 3 || s.Jobs[2].Kept || s.Inventories[0].Items != 3 {
		t.Errorf("snapshot: %+v", s.Jobs)
	}
}

// lockState makes writes to the state fail, as another process does that holds it, until unlock.
func (r *rig) lockState() (unlock func()) {
	r.t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(r.dir, "tapyr.db")+"?_txlock=exclusive")
	if err != nil {
		r.t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		r.t.Fatal(err)
	}
	return func() {
		_ = tx.Rollback()
		_ = db.Close()
	}
}
