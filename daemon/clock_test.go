package daemon_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// tower is a wall clock that can be set.
type tower struct{ offset atomic.Int64 }

func (w *tower) now() int64 { return time.Now().UnixNano() + w.offset.Load() }

func (w *tower) set(at time.Time) { w.offset.Store(at.UnixNano() - time.Now().UnixNano()) }

// clockRig is a daemon with a day's quota and a fan-out, whose clock says 20:00.
func clockRig(t *testing.T) (*rig, *tower) {
	r := newRig(t, provider(`  limits: [{ name: day, kind: quota, max: 100000, window: { period: day, timezone: UTC }, scope: { by: [account] } }]`)+
		job("list", "  interval: 10m\n  request: { endpoint: /list }\n  inventory: { items: response, vars: { n: string(item) } }\n")+
		job("each", `  interval: 40s
  forEach: list
  request: { endpoint: "/each/{n}" }
  metrics: [{ name: each, labels: { n: vars.n }, value: "1.0" }]
`), func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/list" {
			reply(w, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
			return
		}
		numbers(w, q)
	})
	w := new(tower)
	w.set(time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC))
	r.daemon = r.make(daemon.Options{})
	r.daemon.SetClock(w.now)
	t.Cleanup(r.start(r.daemon))
	r.until("instances", func() bool { s := r.daemon.Snapshot(); return s.Jobs[1].Instances == 10 && s.Jobs[1].NextRunAt != nil })
	if _, err := r.daemon.Trigger("each"); err != nil {
		t.Fatal(err)
	}
	r.until("a run of each", func() bool { return r.daemon.Snapshot().Jobs[1].Runs["ok"] >= 10 })
	return r, w
}

// step sets the clock, and waits until the daemon has followed it.
func (r *rig) step(w *tower, d time.Duration) daemon.Snapshot {
	r.t.Helper()
	w.offset.Add(int64(d))
	r.daemon.Poke()
	var s daemon.Snapshot
	r.until("the daemon follows the clock", func() bool {
		s = r.daemon.Snapshot()
		behind := time.Duration(w.now() - s.At.UnixNano())
		// A step of a second is within what the daemon tolerates, and a snapshot is a moment old.
		return behind.Abs() < 1500*time.Millisecond && s.Jobs[1].NextRunAt != nil
	})
	return s
}

// sane holds what a snapshot promises whatever the clock does.
func sane(t *testing.T, s *daemon.Snapshot) {
	t.Helper()
	for _, j := range s.Jobs {
		if j.AgeSeconds != nil && *j.AgeSeconds < 0 || j.LastRun != nil && j.LastRun.DurationSeconds < 0 || j.Missed < 0 {
			t.Errorf("%+v %+v", j, j.LastRun)
		}
		if j.NextRunAt != nil && (j.NextRunAt.Before(s.At) || j.NextRunAt.Sub(s.At) > 16*time.Minute) {
			t.Errorf("job %s runs next %v from now", j.Job, j.NextRunAt.Sub(s.At))
		}
	}
	for _, i := range s.Inventories {
		if i.AgeSeconds == nil || *i.AgeSeconds < 0 {
			t.Errorf("%+v", i)
		}
	}
	for _, scope := range s.Scopes {
		if scope.Used < 0 || scope.Remaining < 0 || scope.RecentPerHour < 0 || scope.OwnPerHour < 0 || scope.WindowEnd.Sub(scope.WindowStart) != 24*time.Hour {
			t.Errorf("%+v", scope)
		}
	}
	if s.StartedAt.After(s.At) || s.Accounts[0].Health == daemon.HealthFailing {
		t.Errorf("started %v, now %v, %+v", s.StartedAt, s.At, s.Accounts[0])
	}
}

// perPath counts requests since a number of them.
func (r *rig) perPath(since int) map[string]int {
	out := make(map[string]int)
	for _, h := range r.seen()[since:] {
		out[h.path]++
	}
	return out
}

// The machine sleeps for three hours, or its clock is set forward: what was missed is made up for once, not all at once, and the
// day's count goes on.
func TestClockThreeHoursForward(t *testing.T) {
	r, w := clockRig(t)
	before := len(r.seen())
	s := r.step(w, 3*time.Hour)
	sane(t, &s)
	r.until("what was missed", func() bool { return len(r.perPath(before)) >= 10 })
	s = r.daemon.Snapshot()
	sane(t, &s)
	for path, n := range r.perPath(before) {
		if n > 1 {
			t.Errorf("%s was asked for %d times after a sleep", path, n)
		}
	}
	if made := int64(len(r.seen())); s.Scopes[0].Used < made-1 || s.Scopes[0].Used > made {
		t.Errorf("%d requests on that day, %d counted", made, s.Scopes[0].Used)
	}
	if s.Jobs[1].Missed < 10*200 {
		t.Errorf("%d starts were missed", s.Jobs[1].Missed)
	}
	if !strings.Contains(r.logs.String(), "its clock was set") {
		t.Error("the log does not say so")
	}
}

// The clock is set back by ten minutes: nothing is forgotten, nobody waits for ten minutes, nobody starts at once.
func TestClockTenMinutesBack(t *testing.T) {
	r, w := clockRig(t)
	before := len(r.seen())
	s := r.step(w, -10*time.Minute)
	sane(t, &s)
	if s.Scopes[0].Used < int64(before) {
		t.Errorf("%d requests on that day, %d counted", before, s.Scopes[0].Used)
	}
	if wait := s.Jobs[1].NextRunAt.Sub(s.At); wait > time.Minute {
		t.Errorf("the next run is %v from now", wait)
	}
	if n := len(r.seen()) - before; n > 5 {
		t.Errorf("%d requests at once", n)
	}
}

// A step of NTP, or a leap second, is followed or ignored, and moves no start by more than itself.
func TestClockSmallSteps(t *testing.T) {
	r, w := clockRig(t)
	for _, step := range []time.Duration{2 * time.Second, -2 * time.Second, time.Second, -time.Second, 900 * time.Millisecond} {
		before, requests := r.daemon.Snapshot(), len(r.seen())
		s := r.step(w, step)
		sane(t, &s)
		if made := len(r.seen()); s.Scopes[0].Used < int64(requests) || made-requests > 5 {
			t.Errorf("%v: %d requests before, %d after, %d counted", step, requests, made, s.Scopes[0].Used)
		}
		if moved := s.Jobs[0].NextRunAt.Sub(*before.Jobs[0].NextRunAt); moved.Abs() > 5*time.Second {
			t.Errorf("%v: the next start moved by %v", step, moved)
		}
	}
}

// A window begins once, also when the clock is set back over its beginning; what was counted in it stays counted.
func TestClockBackOverMidnight(t *testing.T) {
	r, w := clockRig(t)
	first := r.daemon.Snapshot().Scopes[0]
	s := r.step(w, 4*time.Hour+time.Minute) // 00:01
	sane(t, &s)
	if s.Scopes[0].WindowStart.Equal(first.WindowStart) || s.Scopes[0].Used >= first.Used {
		t.Errorf("after midnight %+v, before %+v", s.Scopes[0], first)
	}
	before := len(r.seen())
	if _, err := r.daemon.Trigger("each"); err != nil {
		t.Fatal(err)
	}
	r.until("runs after midnight", func() bool { return len(r.perPath(before)) >= 10 })
	r.until("their ends", func() bool { return r.daemon.Snapshot().Scopes[0].Used >= 10 })
	s = r.step(w, -10*time.Minute) // 23:51
	if s.Scopes[0].Used < 10 {
		t.Errorf("set back over midnight, %d are counted of 10 and more", s.Scopes[0].Used)
	}
	used := s.Scopes[0].Used
	s = r.step(w, 12*time.Minute) // 00:03
	sane(t, &s)
	if s.Scopes[0].Used < used {
		t.Errorf("midnight again: %d are counted, %d were", s.Scopes[0].Used, used)
	}
}
