package daemon_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// ago moves everything that the state knows of runs back.
func (r *rig) ago(d time.Duration) {
	r.t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(r.dir, "tapyr.db"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE runs SET started = started - ?`, d.Nanoseconds()); err != nil {
		r.t.Fatal(err)
	}
}

// A start that was missed while the daemon was down is made up for once, soon; a job that ran a moment ago does not run at once.
func TestStartsMissedWhileDown(t *testing.T) {
	r := newRig(t, provider("")+strings.ReplaceAll(one("x", ""), "interval: 1h", "interval: 30s"), numbers)
	life := func(look func(d *daemon.Daemon)) {
		t.Helper()
		d := r.make(daemon.Options{})
		stop := r.start(d)
		look(d)
		stop()
	}
	runs := func() int { return len(r.seen()) }
	life(func(d *daemon.Daemon) {
		if _, err := d.Trigger("x"); err != nil {
			t.Fatal(err)
		}
		r.until("the first run", func() bool { return d.Snapshot().Jobs[0].Runs["ok"] == 1 })
	})
	life(func(d *daemon.Daemon) {
		s := d.Snapshot()
		if wait := s.Jobs[0].NextRunAt.Sub(s.At); wait < 14*time.Second || runs() != 1 {
			t.Errorf("what ran a moment ago runs again after %v", wait)
		}
		if s.Jobs[0].LastSuccessAt == nil || s.Jobs[0].Missed != 0 {
			t.Errorf("the job is shown as %+v", s.Jobs[0])
		}
	})
	r.ago(5 * time.Minute)
	life(func(d *daemon.Daemon) {
		r.until("the run that makes up", func() bool { return d.Snapshot().Jobs[0].Runs["ok"] == 1 })
		s := d.Snapshot()
		if late := s.Jobs[0].LastRun.StartedAt.Sub(s.StartedAt); late > 10*time.Second || s.Jobs[0].Missed < 8 || s.Jobs[0].Missed > 10 {
			t.Errorf("%v after the start, for %d missed ones", late, s.Jobs[0].Missed)
		}
		if wait := s.Jobs[0].NextRunAt.Sub(s.At); wait < 10*time.Second {
			t.Errorf("and again after %v", wait)
		}
	})
	if runs() != 2 {
		t.Errorf("%d runs in all, want 2", runs())
	}
}

// A reload does not make a job wait for longer, or run twice.
func TestReloadKeepsTheRhythm(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), numbers)
	defer r.start(r.daemon)()
	if _, err := r.daemon.Trigger("x"); err != nil {
		t.Fatal(err)
	}
	r.until("the run", func() bool { return r.daemon.Snapshot().Jobs[0].Runs["ok"] == 1 })
	r.set(provider("") + one("x", "") + one("y", "") + one("z", ""))
	r.daemon.Reload()
	r.until("the plan with all three", func() bool { s := r.daemon.Snapshot(); return len(s.Jobs) == 3 && s.Jobs[0].NextRunAt != nil })
	s := r.daemon.Snapshot()
	if wait := s.Jobs[0].NextRunAt.Sub(s.At); wait < 29*time.Minute || wait > 91*time.Minute {
		t.Errorf("after a run and a reload the next is in %v", wait)
	}
}
