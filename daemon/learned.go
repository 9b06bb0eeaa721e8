package daemon

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/smartflow"
	"github.com/tapyr/tapyr/validate"
)

// learnedLog is what the log knows of what was learned.
type learnedLog struct {
	mu      sync.Mutex // guards what follows, and is held while files are written
	version uint64
	failed  bool // to write a file
}

// libraryFor is what is known of identifiers, for the documents of a world: new documents know what the old ones have learned. Files
// with relative paths are beside the state.
func (d *Daemon) libraryFor(w *world) *learn.Library {
	if d.library != nil {
		d.library = d.library.For(w.config)
		return d.library
	}
	d.library = learn.New(w.config, learn.Options{
		Folder: filepath.Dir(w.settings.statePath),
		// What a provider echoes can stand anywhere, also where an identifier is looked for; in answers it is taken out already.
		Secret: func(text string) bool { return strings.Contains(d.redactor.Text(text), client.Redacted) },
	})
	return d.library
}

// loadLearned reads what earlier processes have learned.
func (d *Daemon) loadLearned(w *world) {
	if err := w.library.Load(time.Now().UnixNano()); err != nil {
		d.log.Warn("not everything that was learned before is known", "error", err)
	}
	for _, c := range w.library.Counts() {
		if c.Identifiers > 0 {
			d.log.Info("identifiers are known from before", "provider", c.Provider, "variable", c.Var, "key", c.Key, "identifiers", c.Identifiers)
		}
	}
	d.lessons.mu.Lock()
	defer d.lessons.mu.Unlock()
	d.lessons.version = w.library.Version()
}

// flushLearned writes what was learned where that is due, and says so in the log.
func (d *Daemon) flushLearned(w *world, exact bool) {
	d.lessons.mu.Lock()
	defer d.lessons.mu.Unlock()
	err := w.library.Flush(time.Now().UnixNano(), exact)
	switch {
	case err != nil && !d.lessons.failed:
		d.log.Error("WHAT WAS LEARNED CANNOT BE KEPT: it goes on in memory, and a restart forgets it", "error", err)
		d.lessons.failed = true
	case err == nil:
		d.lessons.failed = false
	}
	version := w.library.Version()
	if version == d.lessons.version {
		return
	}
	d.lessons.version = version
	for _, c := range w.library.Counts() {
		d.log.Info("identifiers were learned", "provider", c.Provider, "variable", c.Var, "key", c.Key, "identifiers", c.Identifiers)
	}
	if w.library.Full() {
		d.log.Warn("a provider names more identifiers than are kept: some requests pay only the limits that need no learned variable")
	}
}

// placeOf an instance: what its account, or its target, has told is believed of that one only.
func placeOf(i *schedule.Instance) learn.Place {
	return learn.Place{Account: i.Job.Account.Name, Target: i.Target}
}

// subject is what an ask is about, where its provider has something to learn.
type subject struct {
	place learn.Place
	// path is the request's, concrete; empty where a variable has no value.
	path string
	// own are the variables of the instance, given these with those of its target and account.
	own, given map[string]string
}

// subjectOf an instance; nil where its provider learns nothing.
func subjectOf(w *world, i *schedule.Instance) *subject {
	if w.library.Book(i.Job.Account.Provider.Name) == nil {
		return nil
	}
	s := &subject{place: placeOf(i), own: i.Vars, given: givenVars(i.Job.Account, i.Target, i.Vars)}
	s.path, _ = i.Job.Endpoint.Expand(s.given)
	return s
}

// givenVars are an instance's variables, with those of its target and account, which come before them.
func givenVars(a *validate.Account, target string, own map[string]string) map[string]string {
	all := make(map[string]string, len(own)+len(a.Spec.Vars))
	maps.Copy(all, own)
	for i := range a.Spec.Targets {
		if t := &a.Spec.Targets[i]; t.Name == target {
			maps.Copy(all, t.Vars)
		}
	}
	maps.Copy(all, a.Spec.Vars)
	return all
}

// complete adds what is known by now to an ask's variables, and tells whether that changes them.
func (a *ask) complete(w *world) (changed bool) {
	s := a.subject
	if s == nil {
		return false
	}
	r := &a.request
	all, unresolved := w.library.Book(r.Provider).Complete(w.gate.Now(), s.place, s.path, s.given)
	vars := s.own
	if len(all) > len(s.given) {
		vars = maps.Clone(all)
		maps.DeleteFunc(vars, func(name, _ string) bool {
			_, own := s.own[name]
			_, given := s.given[name]
			return given && !own
		})
	}
	if unresolved == r.Unresolved && maps.Equal(vars, r.Vars) {
		return false
	}
	r.Vars, r.Unresolved = vars, unresolved
	return true
}

// learn takes in what a run's good answer teaches. body is decoded already.
func (r *run) learn(body any, items []any) {
	s := r.ask.subject
	if s == nil {
		return
	}
	// The library of the run's own world will do: all of them share what they know.
	r.world.library.Book(r.ask.request.Provider).Learn(r.daemon.now(), &learn.Seen{Place: s.place, Path: s.path, Vars: s.given, Body: body, Items: items})
}

// learnItems takes in what the items of an inventory show: which of them belong to which item above.
func (w *world) learnItems(now int64, i *schedule.Instance, items []map[string]string) {
	book := w.library.Book(i.Job.Account.Provider.Name)
	if book == nil {
		return
	}
	given := givenVars(i.Job.Account, i.Target, i.Vars)
	for _, item := range items {
		vars := maps.Clone(item)
		maps.Copy(vars, given)
		book.LearnVars(now, placeOf(i), vars)
	}
}

// pauseUnresolved waits as long as the answer to a request asks whose scope is not known: there is no key that could be left alone for
// so long, so the run is. cause is returned where that is longer than a request may wait.
func (r *run) pauseUnresolved(ctx context.Context, got *sent, cause error) error {
	if !got.limited || !r.ask.request.Unresolved || got.answer == nil {
		return nil
	}
	wait, ok := smartflow.ParseRetryAfter(got.answer.Header.Get("Retry-After"), time.Now())
	switch {
	case !ok:
		return nil
	case wait > r.instance.Job.Deadline:
		return cause
	}
	return r.daemon.sleep(ctx, r.daemon.now()+int64(wait))
}

// listLearned requires mu.
func (d *Daemon) listLearned(s *Snapshot) {
	s.Learned = slices.Concat(s.Learned, d.world.library.Counts())
}
