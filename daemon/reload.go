package daemon

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/semaphore"

	"github.com/tapyr/tapyr/engine"
)

// reload reads the documents again. Bad ones are reported, and the old ones go on.
func (d *Daemon) reload(ctx context.Context) {
	notifyReloading()
	defer notify(readyState)
	d.mu.Lock()
	d.config.Reloads++
	generation := d.world.generation + 1
	old := d.world
	d.mu.Unlock()
	w, err := d.load(ctx, generation)
	if err == nil {
		err = d.reloadToken(w)
	}
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		at := time.Now().UTC()
		d.config.ReloadErrors++
		d.config.Error, d.config.ErrorAt = d.redactor.Text(err.Error()), &at
		d.log.Error("THE NEW DOCUMENTS ARE NOT USED, the old ones go on", "error", err)
		return
	}
	if w.settings.statePath != old.settings.statePath || w.settings.listen != old.settings.listen {
		d.log.Warn("state.path and status.listen hold from the next start on")
		w.settings.statePath, w.settings.listen = old.settings.statePath, old.settings.listen
	}
	if err := d.openBook(ctx, w); err != nil {
		d.log.Error("nothing is admitted", "error", err) // the policy is new; everything else goes on
	}
	d.restart(ctx, w, "reload")
	old.close()
	d.reloadPaid(ctx, w)
	d.mu.Lock()
	d.forget(w)
	d.mu.Unlock()
	d.log.Info("new documents are in force", "generation", generation, "jobs", len(w.kept.Jobs))
}

// forget lets go of what is known of jobs and accounts that the documents no longer have. It requires mu.
func (d *Daemon) forget(w *world) {
	has := func(job string) bool { return w.config.Job(job) != nil }
	maps.DeleteFunc(d.jobs, func(job string, _ *jobRecord) bool { return !has(job) })
	maps.DeleteFunc(d.paused, func(job string, _ bool) bool { return !has(job) })
	maps.DeleteFunc(d.lines, func(job string, _ *semaphore.Weighted) bool { return !has(job) })
	maps.DeleteFunc(d.accounts, func(account string, _ *accountRecord) bool { return w.config.Account(account) == nil })
	d.history.Keep(has)
	d.series.Keep(has)
}

// load makes a world of the documents as they are now.
func (d *Daemon) load(ctx context.Context, generation int64) (*world, error) {
	config, err := d.options.Load(ctx)
	if err != nil {
		return nil, err
	}
	w, err := d.newWorld(config, generation)
	if err != nil {
		return nil, err
	}
	d.loadLearned(w)
	return w, d.connect(w)
}

// reloadToken is the status token of new documents. Those that would not start do not come into force either.
func (d *Daemon) reloadToken(w *world) error {
	if d.options.Handler == nil {
		return nil
	}
	token, err := d.statusToken(w)
	if err == nil && token == "" && d.Exposed() {
		err = &OpenAddressError{d.world.settings.listen} // the address of the documents holds from the next start on
	}
	if err == nil {
		d.token.Store(&token)
	}
	return err
}

// drain bounds how long a reload waits for requests that are under way. What they teach after that is lost; their units are not.
const drain = 20 * time.Second

// restart replaces the engine: nothing new goes, what is under way finishes, and the next engine begins with the counts of the last.
// It is for the loop's goroutine.
func (d *Daemon) restart(ctx context.Context, w *world, why string) {
	select {
	case <-d.door.shut(false):
	case <-time.After(min(drain, watchdogInterval()/2)):
	case <-ctx.Done():
	}
	d.taking.Lock()
	defer d.taking.Unlock()
	d.mu.Lock()
	old := d.world
	d.mu.Unlock()
	var s *engine.Snapshot
	old.gate.Do(func(e *engine.Engine, now int64) {
		s = e.Snapshot(now)
		d.keeper.Count(old.config, s)
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.schedule != old.schedule {
		d.takeInventories(w)
		d.takeStarts(w)
	}
	d.install(w, s)
	d.planWhy = why
	w.schedule.Ask()
}

// watchFiles asks for a reload when one of the documents changes. It watches folders, since editors and volumes replace files. The
// function that it returns stops that and waits.
func (d *Daemon) watchFiles() (stop func()) {
	if len(d.options.Watch) == 0 {
		return func() {}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.log.Warn("changed documents will not be noticed; send SIGHUP after a change", "error", err)
		return func() {}
	}
	for _, path := range d.options.Watch {
		for _, folder := range foldersOf(path) {
			if err := watcher.Add(folder); err != nil {
				d.log.Warn("changed documents in a folder will not be noticed; send SIGHUP after a change", "folder", folder, "error", err)
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watching(watcher)
	}()
	return func() {
		_ = watcher.Close()
		<-done
	}
}

// settle is how long the files must be left alone before they are read: an editor writes in several steps.
const settle = 300 * time.Millisecond

// watching turns events into a reload, one for all that come together.
func (d *Daemon) watching(watcher *fsnotify.Watcher) {
	var timer <-chan time.Time
	for {
		select {
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if event.Has(fsnotify.Create) {
				if info, err := os.Stat(event.Name); err == nil && info.IsDir() && !strings.HasPrefix(filepath.Base(event.Name), ".") {
					_ = watcher.Add(event.Name)
					timer = time.After(settle)
				}
			}
			if d.concerns(event) {
				timer = time.After(settle)
			}
		case err, open := <-watcher.Errors:
			if !open {
				return
			}
			d.log.Warn("changed documents may not have been noticed", "error", err)
		case <-timer:
			timer = nil
			d.log.Info("documents have changed")
			d.Reload()
		}
	}
}

// concerns tells whether an event is about a document: the state is often in the same folder, and does not count.
func (d *Daemon) concerns(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	for _, path := range d.options.Watch {
		if filepath.Clean(path) == filepath.Clean(event.Name) {
			return true
		}
	}
	name := filepath.Base(event.Name)
	// ..data is the link by which Kubernetes replaces all files of a volume at once.
	return strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(name, ".") ||
		strings.HasSuffix(name, ".yml") && !strings.HasPrefix(name, ".") || name == "..data"
}

// foldersOf a path: itself and those below it, or a file's.
func foldersOf(path string) []string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{filepath.Dir(path)}
	}
	var folders []string
	_ = filepath.WalkDir(path, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // what cannot be read is reported when the documents are loaded
		}
		if name != path && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		folders = append(folders, name)
		return nil
	})
	return folders
}
