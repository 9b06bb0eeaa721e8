package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// numbers answers every request with a list of one number.
func numbers(w http.ResponseWriter, _ *http.Request) { reply(w, []int{1}) }

// Every way of paging brings every item, and ends.
func TestEveryPagination(t *testing.T) {
	const total, size = 7, 3
	slice := func(from int) []int {
		out := []int{}
		for i := from; i < min(total, from+size); i++ {
			out = append(out, i)
		}
		return out
	}
	number := func(q *http.Request, name string) (n int) {
		_, _ = fmt.Sscan(q.URL.Query().Get(name), &n)
		return n
	}
	for spec, answer := range map[string]http.HandlerFunc{
		`{ type: offset, offsetParam: o, limitParam: n, limit: 3, items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			reply(w, map[string]any{"list": slice(number(q, "o"))})
		},
		`{ type: page, pageParam: p, items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			reply(w, map[string]any{"list": slice(size * (number(q, "p") - 1))})
		},
		`{ type: page, pageParam: p, firstPage: 0, limit: 3, items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			reply(w, map[string]any{"list": slice(size * number(q, "p"))})
		},
		`{ type: cursor, cursorParam: c, cursor: "response.next", items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			from := number(q, "c")
			next := any(fmt.Sprint(from + size))
			if from+size >= total {
				next = nil
			}
			reply(w, map[string]any{"list": slice(from), "next": next})
		},
		`{ type: link_header, items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			from := number(q, "from")
			if from+size < total {
				w.Header().Set("Link", fmt.Sprintf(`<?from=%d>; rel="next"`, from+size))
			}
			reply(w, map[string]any{"list": slice(from)})
		},
		`{ type: expression, next: 'response.more ? dyn({"from": string(page * 3)}) : null', items: response.list }`: func(w http.ResponseWriter, q *http.Request) {
			from := number(q, "from")
			reply(w, map[string]any{"list": slice(from), "more": from+size < total})
		},
	} {
		r := newRig(t, provider("  pagination: "+spec)+job("x", `  interval: 1h
  request: { endpoint: /x, query: { keep: "yes" } }
  metrics: [{ name: x, items: response.list, labels: { n: string(item) }, value: "1.0" }]
`), answer)
		if err := r.once(); err != nil {
			t.Errorf("%s: %v\n%s", spec, err, r.logs)
			continue
		}
		if got := metrics(t, r.daemon); len(got) != total {
			t.Errorf("%s: %d of %d items: %q", spec, len(got), total, got)
		}
		if n := len(r.seen()); n != 3 && n != 4 {
			t.Errorf("%s: %d requests", spec, n)
		}
		for _, h := range r.seen()[1:] {
			if h.query["keep"] != "yes" && !strings.Contains(spec, "link") {
				t.Errorf("%s: the query was lost: %v", spec, h.query)
			}
		}
	}
}

// Pages without end are cut; pages that go round in circles, and links to elsewhere, fail the run.
func TestPagesThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		answer func(w http.ResponseWriter, q *http.Request)
		want   string
		calls  int
	}{
		"endless": {"{ type: page, pageParam: p, maxPages: 5 }", numbers, "maxPages", 5},
		"cursor": {"{ type: cursor, cursorParam: c, cursor: response.next, items: response.list }", func(w http.ResponseWriter, _ *http.Request) {
			reply(w, map[string]any{"list": []int{1}, "next": "same"})
		}, "a second time", 2},
		"link": {"{ type: link_header }", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `</v1/x?a=1>; rel=next`)
			reply(w, []int{1})
		}, "a second time", 2},
		"elsewhere": {"{ type: link_header }", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `<http://169.254.169.254/latest/meta-data>; rel=next`)
			reply(w, []int{1})
		}, "allowedHosts", 1},
	} {
		r := newRig(t, provider("  pagination: "+c.spec)+one("x", ""), c.answer)
		err := r.once()
		var failed *daemon.FailedRunsError
		if !errors.As(err, &failed) || !strings.Contains(failed.First.Error, c.want) || len(r.seen()) != c.calls {
			t.Errorf("%s: %v after %d calls, want %q after %d", name, err, len(r.seen()), c.want, c.calls)
		}
	}
}

// A redirect is a request like any other: it takes of the quota, and carries credentials only where they may go.
func TestRedirectsTakeOfTheQuotaAndKeepCredentialsIn(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		elsewhere.Add(1)
		if q.Header.Get("Authorization") != "" {
			t.Error("the key went to another host")
		}
		numbers(w, q)
	}))
	defer other.Close()
	documents := provider(`  auth: { type: bearer, credential: key }
  limits: [{ name: day, kind: quota, max: 100, window: { period: day } }]`)
	for target, want := range map[string]struct {
		used, elsewhere int64
		fails           bool
	}{
		"/v1/there": {2, 0, false},
		// The same host's name on another port is another origin: followed, without credentials.
		other.URL + "/x":           {2, 1, false},
		"http://elsewhere.test/x":  {1, 0, true},
		"https://[::1]:1/x":        {1, 0, true},
		"file:///etc/passwd":       {1, 0, true},
		"http://127.0.0.1@evil.x/": {1, 0, true},
	} {
		elsewhere.Store(0)
		r := newRig(t, documents+one("x", ""), func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/v1/x" {
				w.Header().Set("Location", target)
				w.WriteHeader(http.StatusTemporaryRedirect)
				return
			}
			numbers(w, q)
		})
		err := r.once()
		s := r.daemon.Snapshot()
		if (err != nil) != want.fails || s.Scopes[0].Used != want.used || elsewhere.Load() != want.elsewhere {
			t.Errorf("to %s: %v, %d units, %d calls elsewhere; want %+v", target, err, s.Scopes[0].Used, elsewhere.Load(), want)
		}
	}
}

// A fan-out that is larger than a short quota waits for the next windows instead of failing.
func TestRefusedRequestsWaitForTheNextWindow(t *testing.T) {
	text := provider(`  limits: [{ name: short, kind: quota, max: 5, window: { every: 1s } }]`)
	text += "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: 0 }, state: { path: \"@DIR/tapyr.db\" } }\n"
	for i := range 12 {
		text += one(fmt.Sprintf("j%02d", i), "")
	}
	r := newRig(t, text, numbers)
	done := make(chan error, 1)
	go func() { done <- r.once() }()
	r.until("a request that is queued again, with the reason", func() bool {
		s := r.daemon.Snapshot()
		return s.WaitingTotal > 0 && s.Waiting[0].Reason == "quota_exhausted"
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	perSecond := make(map[int64]int)
	for _, h := range r.seen() {
		perSecond[h.at.Unix()]++
	}
	if len(r.seen()) != 12 || len(perSecond) < 3 {
		t.Errorf("%d requests in %d seconds", len(r.seen()), len(perSecond))
	}
	for second, n := range perSecond {
		if n > 5 {
			t.Errorf("%d requests in the second %d, want at most 5", n, second)
		}
	}
	if s := r.daemon.Snapshot(); s.Totals.Refused["quota_exhausted"] == 0 {
		t.Error("nothing was refused: the test sees nothing")
	}
}

// Instances run at their interval, at most one run of each at a time, and pause, resume and trigger do what they say.
func TestScheduleAndOperations(t *testing.T) {
	var under, most atomic.Int64
	block := make(chan struct{})
	r := newRig(t, provider("")+strings.ReplaceAll(one("slow", "")+one("fast", ""), "interval: 1h", "interval: 100ms"), func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/slow" {
			n := under.Add(1)
			most.Store(max(most.Load(), n))
			<-block
			under.Add(-1)
		}
		numbers(w, q)
	})
	defer r.start(r.daemon)()
	count := func(path string) (n int) {
		for _, h := range r.seen() {
			if h.path == path {
				n++
			}
		}
		return n
	}
	r.until("several runs of the fast job", func() bool { return count("/v1/fast") >= 5 })
	if n := count("/v1/slow"); n != 1 || most.Load() != 1 {
		t.Errorf("the slow job has %d runs at once", n)
	}
	close(block)
	r.until("more runs of the slow job", func() bool { return count("/v1/slow") >= 3 })
	if most.Load() != 1 {
		t.Errorf("%d runs of one instance at once", most.Load())
	}
	if s := r.daemon.Snapshot(); s.Jobs[0].Missed == 0 && s.Jobs[1].Missed == 0 {
		t.Error("missed starts are not counted")
	}
	if err := r.daemon.Pause("fast"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	before := count("/v1/fast")
	time.Sleep(300 * time.Millisecond)
	if after := count("/v1/fast"); after != before {
		t.Errorf("a paused job ran %d times", after-before)
	}
	if s := r.daemon.Snapshot(); !s.Jobs[1].Paused || s.Jobs[1].NextRunAt != nil {
		t.Errorf("the paused job is shown as %+v", s.Jobs[1])
	}
	if err := r.daemon.Resume("fast"); err != nil {
		t.Fatal(err)
	}
	r.until("runs after the pause", func() bool { return count("/v1/fast") > before })
	var missing *daemon.NoSuchJobError
	if err := r.daemon.Pause("nobody"); !errors.As(err, &missing) {
		t.Errorf("pausing a job that there is not: %v", err)
	}
	if _, err := r.daemon.Trigger("nobody"); !errors.As(err, &missing) {
		t.Errorf("triggering a job that there is not: %v", err)
	}
}

func TestTriggerStartsNow(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), numbers)
	defer r.start(r.daemon)()
	if n, err := r.daemon.Trigger("x"); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	r.until("the run", func() bool { return len(r.seen()) == 1 })
	r.until("its end", func() bool { return r.daemon.Snapshot().Jobs[0].Runs["ok"] == 1 })
	s := r.daemon.Snapshot()
	if j := s.Jobs[0]; j.LastRun.Pages != 1 || !j.Fresh || j.NextRunAt == nil || j.IntervalSeconds != 3600 || j.Stretch != 1 {
		t.Errorf("the job is shown as %+v", j)
	}
	if s.Accounts[0].Health != daemon.HealthOK || len(s.Accounts[0].Reasons) != 0 {
		t.Errorf("the account is shown as %+v", s.Accounts[0])
	}
}

// New documents come into force without a request lost or a count forgotten; bad ones are reported, and the old ones go on.
func TestReload(t *testing.T) {
	limits := `  limits: [{ name: day, kind: quota, max: 1000, window: { period: day } }]`
	fast := strings.ReplaceAll(one("x", ""), "interval: 1h", "interval: 50ms")
	r := newRig(t, provider(limits)+fast, numbers)
	defer r.start(r.daemon)()
	calls := func(n int) func() bool { return func() bool { return len(r.seen()) >= n } }
	r.until("calls", calls(3))
	r.set(provider(limits) + "---\napiVersion: tapyr/v1alpha1\nkind: Jbo\nmetadata: { name: y }\nspec: {}\n")
	r.daemon.Reload()
	r.until("the error", func() bool { return r.daemon.Snapshot().Config.Error != "" })
	s := r.daemon.Snapshot()
	if s.Config.Generation != 1 || s.Config.ReloadErrors != 1 || !strings.Contains(r.logs.String(), "THE NEW DOCUMENTS ARE NOT USED") {
		t.Errorf("the configuration is shown as %+v", s.Config)
	}
	r.until("calls after bad documents", calls(len(r.seen())+2))
	r.set(provider(limits) + fast + strings.ReplaceAll(one("y", ""), "interval: 1h", "interval: 50ms"))
	r.daemon.Reload()
	r.until("the new job", func() bool {
		return slices.ContainsFunc(r.seen(), func(h hit) bool { return h.path == "/v1/y" })
	})
	if s := r.daemon.Snapshot(); s.Config.Generation != 2 || s.Config.Error != "" || len(s.Jobs) != 2 {
		t.Errorf("after good documents: %+v", s.Config)
	}
	if err := r.daemon.Pause("x"); err != nil {
		t.Fatal(err)
	}
	if err := r.daemon.Pause("y"); err != nil {
		t.Fatal(err)
	}
	r.until("quiet", func() bool {
		n := len(r.seen())
		time.Sleep(100 * time.Millisecond)
		return n == len(r.seen())
	})
	s = r.daemon.Snapshot()
	if made := int64(len(r.seen())); s.Scopes[0].Used != made || s.Totals.Granted != made {
		t.Errorf("%d requests were made, %d are counted", made, s.Scopes[0].Used)
	}
	// A pause outlives a reload.
	r.daemon.Reload()
	r.until("the third generation", func() bool { return r.daemon.Snapshot().Config.Generation == 3 })
	if s := r.daemon.Snapshot(); !s.Jobs[0].Paused {
		t.Error("the pause was forgotten")
	}
}

// A reload in the middle of a fan-out that waits for its budget loses nobody.
func TestReloadWhileRequestsWait(t *testing.T) {
	text := provider(`  limits: [{ name: pace, kind: rate, rate: 20/s, burst: 2 }]`) + job("list", `  interval: 1h
  request: { endpoint: /list }
  inventory: { items: response, vars: { n: string(item) } }
`) + job("each", `  interval: 1h
  forEach: list
  request: { endpoint: "/each/{n}" }
  metrics: [{ name: each, labels: { n: vars.n }, value: "1.0" }]
`)
	r := newRig(t, text, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/list" {
			reply(w, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
			return
		}
		time.Sleep(20 * time.Millisecond)
		numbers(w, q)
	})
	defer r.start(r.daemon)()
	r.until("instances with a start", func() bool { return r.daemon.Snapshot().Jobs[1].NextRunAt != nil })
	if n, err := r.daemon.Trigger("each"); n != 15 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	r.until("a few calls", func() bool { return len(r.seen()) > 4 })
	if s := r.daemon.Snapshot(); s.WaitingTotal == 0 || s.Waiting[0].Job != "each" {
		t.Errorf("nobody waits: %+v", s.Waiting)
	}
	r.daemon.Reload()
	r.until("all runs", func() bool { return r.daemon.Snapshot().Jobs[1].Runs["ok"] >= 15 })
	if got := metrics(t, r.daemon); len(got) != 15 {
		t.Errorf("%d series, want 15: %q", len(got), got)
	}
	hits := r.seen()
	for i := 4; i < len(hits); i++ {
		if d := hits[i].at.Sub(hits[i-4].at); d < 100*time.Millisecond {
			t.Errorf("five requests within %v, across a reload", d)
		}
	}
}
