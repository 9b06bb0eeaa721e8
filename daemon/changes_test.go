package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// A pause outlives the process, and a reload; what is resumed is so after the next start, too.
func TestPauseOutlivesARestart(t *testing.T) {
	r := newRig(t, provider("")+strings.ReplaceAll(one("x", "")+one("y", ""), "interval: 1h", "interval: 50ms"), numbers)
	life := func(do func(d *daemon.Daemon)) {
		t.Helper()
		d := r.make(daemon.Options{})
		stop := r.start(d)
		do(d)
		stop()
	}
	calls := func(path string) (n int) {
		for _, h := range r.seen() {
			if h.path == path {
				n++
			}
		}
		return n
	}
	life(func(d *daemon.Daemon) {
		if err := d.Pause("x"); err != nil {
			t.Fatal(err)
		}
	})
	before := calls("/v1/x")
	for range 2 {
		life(func(d *daemon.Daemon) {
			if s := d.Snapshot(); !s.Jobs[0].Paused || s.Jobs[0].NextRunAt != nil || s.Jobs[1].Paused {
				t.Errorf("after a restart %+v", s.Jobs)
			}
			y := calls("/v1/y")
			r.until("the other job", func() bool { return calls("/v1/y") > y+2 })
		})
	}
	if n := calls("/v1/x"); n != before || !strings.Contains(r.logs.String(), "paused since an earlier start") {
		t.Errorf("a paused job made %d calls after restarts", n-before)
	}
	life(func(d *daemon.Daemon) {
		if err := d.Resume("x"); err != nil {
			t.Fatal(err)
		}
		r.until("the job that is resumed", func() bool { return calls("/v1/x") > before })
	})
	life(func(d *daemon.Daemon) {
		if d.Snapshot().Jobs[0].Paused {
			t.Error("what was resumed is paused again")
		}
	})
}

// reloaded sets documents, and waits until they are in force or refused.
func (r *rig) reloaded(documents string) daemon.Snapshot {
	r.t.Helper()
	r.set(documents)
	before := r.daemon.Snapshot().Config
	r.daemon.Reload()
	var s daemon.Snapshot
	r.until("the reload", func() bool {
		s = r.daemon.Snapshot()
		return s.Config.Generation > before.Generation || s.Config.ReloadErrors > before.ReloadErrors
	})
	return s
}

// Every kind of change that documents can have comes into force in a process that goes on.
func TestReloadOfEveryKind(t *testing.T) {
	limit := func(most int) string {
		return fmt.Sprintf(`  auth: { type: bearer, credential: key }
  limits: [{ name: day, kind: quota, max: %d, window: { period: day }, scope: { by: [account] } }]`, most)
	}
	fast := strings.ReplaceAll(one("x", ""), "interval: 1h", "interval: 50ms")
	block := make(chan struct{})
	var held atomic.Int64
	r := newRig(t, provider(limit(1_000_000))+fast+one("slow", ""), func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/slow" {
			held.Add(1)
			<-block
		}
		numbers(w, q)
	})
	defer r.start(r.daemon)()
	if _, err := r.daemon.Trigger("slow"); err != nil {
		t.Fatal(err)
	}
	r.until("a run under way", func() bool { return held.Load() == 1 })

	// A job is removed while it runs. The reload waits for its request; what it brings is published, and nothing runs again.
	go func() {
		time.Sleep(300 * time.Millisecond)
		close(block)
	}()
	s := r.reloaded(provider(limit(1_000_000)) + fast)
	if len(s.Jobs) != 1 || s.Config.Error != "" {
		t.Errorf("a job was removed: %+v", s.Config)
	}

	s = r.reloaded(provider(limit(500)) + fast)
	r.until("the new limit", func() bool { s = r.daemon.Snapshot(); return len(s.Scopes) == 1 && s.Scopes[0].Max == 500 })
	if s.Scopes[0].Used == 0 {
		t.Error("what was used is forgotten")
	}

	// Credentials change in the environment: the next reload takes them.
	r.env["KEY"] = "PLANTED-rotated-key-98765"
	r.reloaded(provider(limit(1_000_000)) + fast)
	r.until("the new key", func() bool {
		hits := r.seen()
		return hits[len(hits)-1].authorization == "Bearer PLANTED-rotated-key-98765"
	})
	delete(r.env, "KEY")
	if s = r.reloaded(provider(limit(1_000_000)) + fast); !strings.Contains(s.Config.Error, "KEY") {
		t.Errorf("a credential is gone: %+v", s.Config)
	}
	r.env["KEY"] = plantedKey

	renamed := strings.NewReplacer("metadata: { name: a }", "metadata: { name: b }", "account: a\n", "account: b\n").Replace(provider(limit(1_000_000)) + fast)
	s = r.reloaded(renamed)
	if len(s.Accounts) != 1 || s.Accounts[0].Account != "b" || s.Config.Error != "" {
		t.Errorf("an account was renamed: %+v %+v", s.Accounts, s.Config)
	}
	r.until("the new account's scope", func() bool { s = r.daemon.Snapshot(); return len(s.Scopes) > 0 && s.Scopes[len(s.Scopes)-1].Key == "b" })

	elsewhere := "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: \"@DIR/other.db\" } }\n"
	s = r.reloaded(renamed + elsewhere)
	if s.State.Path != filepath.Join(r.dir, "tapyr.db") || !strings.Contains(r.logs.String(), "hold from the next start on") {
		t.Errorf("the state moved to %s while it was open", s.State.Path)
	}
	if s = r.reloaded("kind: Nonsense\n"); s.Config.Error == "" || len(s.Jobs) != 1 {
		t.Errorf("nonsense is in force: %+v", s.Config)
	}
	if s = r.reloaded(renamed); s.Config.Error != "" || s.Config.ErrorAt != nil || strings.Contains(r.logs.String(), "PLANTED") {
		t.Errorf("repaired documents are not in force, or a key is in the log: %+v", s.Config)
	}
}

// Kubernetes replaces all files of a volume by turning one link; a file that is gone is an error, and one that comes back is read.
func TestVolumesAreNoticed(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), numbers)
	folder := filepath.Join(r.dir, "volume")
	version := func(n int) string { return filepath.Join(folder, fmt.Sprintf("..v%d", n)) }
	turn := func(n int) {
		t.Helper()
		if err := os.MkdirAll(version(n), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(version(n), "jobs.yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(folder, "..data_tmp")
		if err := os.Symlink(filepath.Base(version(n)), next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(folder, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	turn(1)
	if err := os.Symlink("..data/jobs.yaml", filepath.Join(folder, "jobs.yaml")); err != nil {
		t.Fatal(err)
	}
	r.daemon = r.make(daemon.Options{Watch: []string{folder}})
	defer r.start(r.daemon)()
	r.set(provider("") + one("x", "") + one("y", ""))
	turn(2)
	r.until("the turned link", func() bool { return len(r.daemon.Snapshot().Jobs) == 2 })
	r.set("kind: Gone\n")
	if err := os.Remove(filepath.Join(folder, "jobs.yaml")); err != nil {
		t.Fatal(err)
	}
	r.until("word that it is gone", func() bool { return r.daemon.Snapshot().Config.Error != "" })
	r.set(provider("") + one("x", ""))
	if err := os.Symlink("..data/jobs.yaml", filepath.Join(folder, "jobs.yaml")); err != nil {
		t.Fatal(err)
	}
	r.until("that it is back", func() bool { s := r.daemon.Snapshot(); return s.Config.Error == "" && len(s.Jobs) == 1 })
}

// The first SIGTERM, in the middle of pages, lets the request under way finish, and the run publishes nothing; the second ends the
// process at once.
func TestSecondSIGTERMEndsAtOnce(t *testing.T) {
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, provider("  pagination: { type: page, pageParam: page }")+one("x", ""), func(w http.ResponseWriter, q *http.Request) {
		arrived <- struct{}{}
		if q.URL.Query().Get("page") == "2" {
			<-release
		}
		numbers(w, q)
	})
	defer close(release)
	r.env["TRIGGER"] = "1"
	p := r.spawn(r.documents + settingsAt("127.0.0.1:0", ""))
	<-arrived
	<-arrived
	for range 2 {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	began := time.Now()
	if err := p.end(t); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("ended with %v after %v", err, time.Since(began))
	}
}
