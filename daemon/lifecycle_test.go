package daemon_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/ledger"
)

// What is under way may finish; who would need another request is interrupted, publishes nothing, and nothing hangs.
func TestStopLetsRequestsFinish(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, provider("  pagination: { type: page, pageParam: p }")+one("last", "")+one("more", ""), func(w http.ResponseWriter, q *http.Request) {
		<-release
		if q.URL.Path == "/v1/last" {
			reply(w, []int{})
			return
		}
		numbers(w, q)
	})
	stop := r.start(r.daemon)
	for _, name := range []string{"last", "more"} {
		if _, err := r.daemon.Trigger(name); err != nil {
			t.Fatal(err)
		}
	}
	r.until("both requests", func() bool { return len(r.seen()) == 2 })
	done := make(chan struct{})
	go func() {
		stop()
		close(done)
	}()
	r.until("the end begins", func() bool { return r.daemon.Snapshot().Stopping })
	if r.daemon.Ready() == nil {
		t.Error("a daemon that stops is ready")
	}
	close(release)
	<-done
	s := r.daemon.Snapshot()
	if s.Jobs[0].Runs["ok"] != 1 || s.Jobs[1].Runs["interrupted"] != 1 || len(r.seen()) != 2 {
		t.Errorf("runs: %v and %v, %d requests", s.Jobs[0].Runs, s.Jobs[1].Runs, len(r.seen()))
	}
	if got := metrics(t, r.daemon); len(got) != 1 {
		t.Errorf("an interrupted run published: %q", got)
	}
}

// A server that never answers does not keep the daemon from ending.
func TestStopIsBounded(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	r.daemon = r.make(daemon.Options{Grace: 200 * time.Millisecond})
	stop := r.start(r.daemon)
	if _, err := r.daemon.Trigger("x"); err != nil {
		t.Fatal(err)
	}
	r.until("the request", func() bool { return len(r.seen()) == 1 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A second daemon on one state is refused, with a way out.
func TestSecondDaemonIsRefused(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), numbers)
	defer r.start(r.daemon)()
	err := r.make(daemon.Options{}).Run(t.Context())
	var locked *ledger.LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), "state.path") {
		t.Errorf("got %v", err)
	}
}

// A series that the provider no longer tells, and a failing refresh: the inventory stays, and its age tells.
func TestAFailedRefreshKeepsTheInventory(t *testing.T) {
	var broken atomic.Bool
	r := newRig(t, strings.ReplaceAll(provider("  circuitBreaker: { failures: 1000 }"), "maxAttempts: 4", "maxAttempts: 1")+job("list", `  interval: 100ms
  request: { endpoint: /list }
  inventory: { items: response, vars: { n: string(item) } }
`)+job("each", `  interval: 100ms
  forEach: list
  request: { endpoint: "/each/{n}" }
  metrics: [{ name: each, labels: { n: vars.n }, value: "1.0" }]
`), func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/list" && broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		reply(w, []int{1, 2})
	})
	stop := r.start(r.daemon)
	r.until("series", func() bool { return len(metrics(t, r.daemon)) == 2 })
	broken.Store(true)
	r.until("a failed refresh", func() bool { return r.daemon.Snapshot().Jobs[0].Error != "" })
	before := len(r.seen())
	r.until("more calls", func() bool { return len(r.seen()) > before+4 })
	s := r.daemon.Snapshot()
	if s.Inventories[0].Items != 2 || s.Jobs[1].Instances != 2 || *s.Inventories[0].AgeSeconds <= 0 {
		t.Errorf("inventories: %+v", s.Inventories)
	}
	if s.Accounts[0].Health != daemon.HealthDegraded {
		t.Errorf("the account is shown as %+v", s.Accounts[0])
	}
	stop()
	// It also outlives the process.
	again := r.make(daemon.Options{})
	defer r.start(again)()
	if s := again.Snapshot(); s.Inventories[0].Items != 2 || s.Jobs[1].Instances != 2 {
		t.Errorf("after a restart: %+v", s.Inventories)
	}
}

// LG-17: a disk that is full is said loudly and stops nothing.
func TestFullDiskStopsNothing(t *testing.T) {
	r := newRig(t, provider(`  limits: [{ name: day, kind: quota, max: 1000, window: { period: day } }]`)+
		strings.ReplaceAll(one("x", ""), "interval: 1h", "interval: 50ms"), numbers)
	stop := r.start(r.daemon)
	r.until("calls", func() bool { return len(r.seen()) > 2 })
	unlock := r.lockState()
	r.until("the fault", func() bool { return !r.daemon.Snapshot().State.OK })
	before := len(r.seen())
	r.until("calls without a state", func() bool { return len(r.seen()) > before+3 })
	s := r.daemon.Snapshot()
	if s.State.Fault == "" || s.State.Error == "" || s.State.Since == nil || !strings.Contains(r.logs.String(), "THE STATE CANNOT BE WRITTEN") {
		t.Errorf("the state is shown as %+v", s.State)
	}
	unlock()
	r.until("the state is written again", func() bool { return r.daemon.Snapshot().State.OK })
	stop()
	again := r.make(daemon.Options{})
	defer r.start(again)()
	if used, made := again.Snapshot().Scopes[0].Used, int64(len(r.seen())); used < made-1 || used > made+1 {
		t.Errorf("%d requests were made, the next life counts %d", made, used)
	}
}

// The daemon tells systemd when it is ready, reloads and stops.
func TestSystemdHearsOfIt(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Skip("no unix sockets here:", err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "200000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	said := new(syncBuffer)
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(said, string(buffer[:n]))
		}
	}()
	r := newRig(t, provider("")+one("x", ""), numbers)
	stop := r.start(r.daemon)
	r.until("READY and WATCHDOG", func() bool {
		return strings.Contains(said.String(), "READY=1") && strings.Contains(said.String(), "WATCHDOG=1")
	})
	r.daemon.Reload()
	r.until("RELOADING", func() bool { return strings.Contains(said.String(), "RELOADING=1\nMONOTONIC_USEC=") })
	r.until("READY again", func() bool { return strings.Count(said.String(), "READY=1") == 2 })
	stop()
	r.until("STOPPING", func() bool { return strings.Contains(said.String(), "STOPPING=1") })
}

// A daemon that has ended leaves no goroutine behind.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		r := newRig(t, provider(oauth)+strings.ReplaceAll(one("x", ""), "interval: 1h", "interval: 20ms"), func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/token") {
				reply(w, map[string]any{"access_token": "T-1234567", "token_type": "bearer"})
				return
			}
			numbers(w, q)
		})
		stop := r.start(r.daemon)
		r.until("calls", func() bool { return len(r.seen()) > 3 })
		r.daemon.Reload()
		r.until("the reload", func() bool { return r.daemon.Snapshot().Config.Generation == 2 })
		stop()
		r.server.Close()
	}
	var after int
	for range 100 {
		if after = runtime.NumGoroutine(); after <= before+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	buffer := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after:\n%s", before, after, buffer[:runtime.Stack(buffer, true)])
}
