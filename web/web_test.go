package web_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

// still is a daemon that stands still: it shows one snapshot and does what it is told to one field of it.
type still struct {
	mu       sync.Mutex // guards what follows
	snapshot *daemon.Snapshot
	sick     error
	unready  error
	refuses  error
	done     []string
}

func stillOf(c webtest.Condition, scopes int) *still {
	return &still{snapshot: webtest.Snapshot(c, scopes)}
}

// Snapshot is a copy whose lists are copies, too, as the interface promises.
func (d *still) Snapshot() daemon.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := *d.snapshot
	s.Accounts, s.Scopes, s.Jobs = slices.Clone(s.Accounts), slices.Clone(s.Scopes), slices.Clone(s.Jobs)
	for i := range s.Accounts {
		s.Accounts[i].Reasons = slices.Clone(s.Accounts[i].Reasons)
	}
	for i := range s.Jobs {
		if run := s.Jobs[i].LastRun; run != nil {
			last := *run
			s.Jobs[i].LastRun = &last
		}
	}
	s.Waiting, s.Refusals, s.RateLimited = slices.Clone(s.Waiting), slices.Clone(s.Refusals), slices.Clone(s.RateLimited)
	s.Changes, s.Inventories, s.Learned = slices.Clone(s.Changes), slices.Clone(s.Inventories), slices.Clone(s.Learned)
	s.Totals.ByLimit, s.Totals.Waits = slices.Clone(s.Totals.ByLimit), slices.Clone(s.Totals.Waits)
	return s
}

func (d *still) change(f func(s *daemon.Snapshot)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.snapshot)
}

func (d *still) Healthy() error { return d.sick }
func (d *still) Ready() error   { return d.unready }

func (d *still) steer(what, job string, paused bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, what+" "+job)
	if d.refuses != nil {
		return d.refuses
	}
	for i := range d.snapshot.Jobs {
		if d.snapshot.Jobs[i].Job == job {
			d.snapshot.Jobs[i].Paused = paused
			return nil
		}
	}
	return &daemon.NoSuchJobError{Job: job}
}

func (d *still) Pause(job string) error          { return d.steer("pause", job, true) }
func (d *still) Resume(job string) error         { return d.steer("resume", job, false) }
func (d *still) Trigger(job string) (int, error) { return 3, d.steer("trigger", job, false) }
func (d *still) Reload()                         { d.done = append(d.done, "reload") }

const token = "correct-horse-battery-staple"

func tokenOf() string { return token }

// call is a request as a test writes it.
type call struct {
	method, path, body string
	remote, host       string // default: a client on loopback that asks for localhost
	header             map[string]string
}

func (c call) do(h http.Handler) *httptest.ResponseRecorder {
	method := c.method
	if method == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, c.path, strings.NewReader(c.body))
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "localhost:9469"
	if c.remote != "" {
		r.RemoteAddr = c.remote
	}
	if c.host != "" {
		r.Host = c.host
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	w := call{path: path}.do(h)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// field is the member of a JSON object at a path such as jobs.0.job.
func field(t *testing.T, text, path string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			var ok bool
			if value, ok = v[name]; !ok {
				t.Fatalf("no %s in %.300s", path, text)
			}
		case []any:
			i := 0
			for _, digit := range name {
				i = 10*i + int(digit-'0')
			}
			if i >= len(v) {
				t.Fatalf("no %s in %.300s", path, text)
			}
			value = v[i]
		default:
			t.Fatalf("no %s in %.300s", path, text)
		}
	}
	return value
}

func TestProbes(t *testing.T) {
	d := stillOf(webtest.Healthy, 3)
	h := web.New(web.Options{Daemon: d})
	if a, b := field(t, get(t, h, "/healthz"), "status"), field(t, get(t, h, "/readyz"), "status"); a != "ok" || b != "ready" {
		t.Error(a, b)
	}
	d.sick, d.unready = errors.New("the loop has not turned for 30s"), errors.New("there is no plan yet")
	for path, want := range map[string]error{"/healthz": d.sick, "/readyz": d.unready} {
		if w := (call{path: path}).do(h); w.Code != http.StatusServiceUnavailable || field(t, w.Body.String(), "error") != want.Error() {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

func TestRoutes(t *testing.T) {
	h := web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3)})
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 200, ""},
		{"HEAD", "/", 200, ""},
		{"GET", "/api/v1/status", 200, ""},
		{"GET", "/api/v1/jobs/meraki-devices", 200, ""},
		{"GET", "/nothing", 404, ""},
		{"GET", "/api/v1/", 404, ""},
		{"GET", "/api/v1/jobs/nobody", 404, ""},
		{"GET", "/api/v1/jobs/%00", 404, ""},
		{"POST", "/", 405, "GET, HEAD"},
		{"DELETE", "/api/v1/status", 405, "GET, HEAD"},
		{"PUT", "/metrics", 405, "GET, HEAD"},
		{"GET", "/api/v1/jobs/meraki-devices/pause", 405, "POST"},
		{"OPTIONS", "/api/v1/jobs/meraki-devices/pause", 405, "POST"},
		{"POST", "/api/v1/jobs/nobody/pause", 404, ""},
		{"GET", "/api/v1/reload", 405, "POST"},
		{"POST", "/api/v1/jobs/meraki-devices/explode", 404, ""},
		{"TRACE", "/", 405, "GET, HEAD"},
	} {
		w := call{method: test.method, path: test.path}.do(h)
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q, want %d, %q", test.method, test.path, w.Code, w.Header().Get("Allow"), test.status, test.allow)
		}
		if w.Code >= 400 {
			if got := field(t, w.Body.String(), "status"); got != float64(test.status) {
				t.Errorf("%s %s: status in the body is %v", test.method, test.path, got)
			}
		}
	}
}

// A HEAD request must not be answered with a body: a real connection tells.
func TestHeadHasNoBody(t *testing.T) {
	server := httptest.NewServer(web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3)}))
	defer server.Close()
	response, err := http.Head(server.URL + "/api/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || len(body) > 0 || response.ContentLength < 1000 {
		t.Errorf("%v, %d bytes, Content-Length %d", err, len(body), response.ContentLength)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, o := range map[string]web.Options{
		"no daemon":    {},
		"spend, clock": {Daemon: stillOf(webtest.Healthy, 3), Spend: web.NewBookSpend(nil)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			web.New(o)
		}()
	}
}

// A mistake in one answer is 500 and the next is well.
func TestAPanicEndsOneAnswer(t *testing.T) {
	d := &panicky{still: stillOf(webtest.Healthy, 3), times: 1}
	h := web.New(web.Options{Daemon: d})
	w := call{path: "/api/v1/status"}.do(h)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "a mistake in tapyr") || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	get(t, h, "/api/v1/status")
}

type panicky struct {
	*still
	times int
}

func (p *panicky) Snapshot() daemon.Snapshot {
	if p.times--; p.times >= 0 {
		panic("boom")
	}
	return p.still.Snapshot()
}

func request(remote, host string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Host = remote, host
	return r
}

func recorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
