package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/reconcile"
	"github.com/tapyr/tapyr/spend/report"
)

// reconciler looks into the folders of settled files, at the cadence of the policies in force, and compares each new file with the
// book once. What was compared is remembered in the audit chain by its content: neither a restart nor another name makes it new.
type reconciler struct {
	daemon *Daemon

	// bands are the crossings that were logged, by policy, window and band; it belongs to the goroutine of run.
	bands map[string]bool
	// head is the chain's when the bands were last looked at.
	head int64
	// machines know the versions that were read before.
	machines map[string]*spend.Machine

	mu       sync.Mutex // guards what follows
	policies map[string]*watched
}

// watched is the folder of a policy. Its inbox and times belong to the goroutine of run.
type watched struct {
	inbox *reconcile.Inbox
	next  time.Time
	// from is the entry of the chain behind those that were searched for files.
	from int64

	// The mutex guards what follows.
	hashes   map[string]bool
	standing report.Reconciling
}

func newReconciler(d *Daemon) *reconciler {
	return &reconciler{daemon: d, bands: make(map[string]bool), head: -1, machines: make(map[string]*spend.Machine), policies: make(map[string]*watched)}
}

const (
	// reconcileLook is how often the policies in force are asked whether a look is due, and the book whether a band was reached.
	reconcileLook = time.Second
	// maxSettledBytes bounds a settled file: it is held in memory, so that one that changes meanwhile is not half read.
	maxSettledBytes = 256 << 20
	// maxLoggedItems bounds the lines of the log about one list of one file.
	maxLoggedItems = 20
)

// run looks until the daemon stops.
func (r *reconciler) run(ctx context.Context) {
	ticker := time.NewTicker(reconcileLook)
	defer ticker.Stop()
	for {
		r.step(ctx, time.Now())
		select {
		case <-r.daemon.stopping:
			return
		case <-ticker.C:
		}
	}
}

// step does what is due at an instant.
func (r *reconciler) step(ctx context.Context, now time.Time) {
	store := r.daemon.Book()
	if store == nil {
		return
	}
	grown := r.hasGrown(ctx, store)
	for _, name := range slices.Sorted(maps.Keys(r.daemon.Machines())) {
		var policy *spend.Policy
		err := store.View(ctx, func(tx book.Tx) (err error) {
			policy, _, err = r.machine(store, name).Active(tx)
			if err == nil && grown {
				err = r.reportBands(tx, policy, now)
			}
			return err
		})
		var none *spend.NoPolicyError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			r.standing(name, func(s *report.Reconciling) { s.Problem = r.daemon.redactor.Text(err.Error()) })
			continue
		}
		r.look(ctx, store, policy, now)
	}
}

// machine is that of a policy. Its steps wake the delivery as any other process's do.
func (r *reconciler) machine(store book.Store, policy string) *spend.Machine {
	if r.machines[policy] == nil {
		r.machines[policy] = spend.New(store, policy)
	}
	return r.machines[policy]
}

// hasGrown tells whether the chain has entries that it had not at the last call.
func (r *reconciler) hasGrown(ctx context.Context, store book.Store) bool {
	before := r.head
	err := store.View(ctx, func(tx book.Tx) error {
		head, err := tx.Head()
		r.head = head.Count
		return err
	})
	return err != nil || r.head != before
}

// reportBands logs every band of the open window that was reached and is not in the log yet, whichever process reached it. Those
// that were reached before the daemon started are told as what it found: it cannot know who was told.
func (r *reconciler) reportBands(tx book.Tx, p *spend.Policy, now time.Time) error {
	start := p.WindowAt(now).Start
	record, err := tx.Get(book.CounterKey(p.Name, "", start))
	c, ok := record.(*book.Counter)
	if err != nil || !ok {
		return err
	}
	for _, band := range c.Crossed {
		key := fmt.Sprint(p.Name, " ", book.Nanos(start), " ", band.Band)
		if r.bands[key] {
			continue
		}
		r.bands[key] = true
		level, what := slog.LevelWarn, "a band of a spend policy's limit was reached"
		if band.At.Before(r.daemon.startedAt) {
			level, what = slog.LevelInfo, "a band of a spend policy's limit had been reached before"
		}
		r.daemon.log.Log(context.Background(), level, what, "policy", p.Name, "band", band.Band, "at", band.At,
			"used", c.Used.String(), "limit", p.Limit.String(), "unit", p.Unit)
	}
	return nil
}

// look looks into the folder of a policy where that is due.
func (r *reconciler) look(ctx context.Context, store book.Store, p *spend.Policy, now time.Time) {
	spec := p.Spec.Reconcile
	if spec == nil || spec.Folder == "" || spec.Every == nil {
		r.mu.Lock()
		delete(r.policies, p.Name)
		r.mu.Unlock()
		return
	}
	w := r.of(p.Name, spec.Every.Or(0))
	r.standing(p.Name, func(s *report.Reconciling) {
		s.Folder, s.EverySeconds, s.Applies = spec.Folder, spec.Every.Or(0).Seconds(), spec.Apply
	})
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(spec.Every.Or(0))
	err := r.recall(ctx, store, p.Name, w)
	var files []reconcile.Seen
	if err == nil {
		files, err = listFolder(spec.Folder)
	}
	r.standing(p.Name, func(s *report.Reconciling) {
		s.LookedAt = &now
		if err != nil {
			s.Problem = err.Error()
		} else if s.BadFiles == 0 {
			s.Problem = ""
		}
	})
	if err != nil {
		r.daemon.log.Warn("the folder of settled files cannot be looked at", "policy", p.Name, "folder", spec.Folder, "error", err)
		return
	}
	ready, again := w.inbox.Look(now, files)
	if !again.IsZero() && again.Before(w.next) {
		w.next = again
	}
	for _, f := range ready {
		if ctx.Err() != nil {
			return
		}
		r.file(ctx, store, p, w, f)
	}
}

// of is what is known of a policy's folder.
func (r *reconciler) of(policy string, every time.Duration) *watched {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policies[policy] == nil {
		r.policies[policy] = &watched{inbox: reconcile.NewInbox(min(reconcile.Stillness, every)), hashes: make(map[string]bool)}
	}
	return r.policies[policy]
}

// standing changes what the status shows of a policy.
func (r *reconciler) standing(policy string, change func(*report.Reconciling)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.policies[policy]; w != nil {
		change(&w.standing)
	}
}

// Reconciling is how the settled files of a policy are doing; nil where no folder is watched.
func (d *Daemon) Reconciling(policy string) *report.Reconciling {
	d.reconciler.mu.Lock()
	defer d.reconciler.mu.Unlock()
	w := d.reconciler.policies[policy]
	if w == nil {
		return nil
	}
	copied := w.standing
	return &copied
}

// recall reads from the chain which files were compared, by this process or another.
func (r *reconciler) recall(ctx context.Context, store book.Store, policy string, w *watched) (err error) {
	w.from, err = reconcile.Remembered(ctx, store, policy, w.from, func(f reconcile.File) { r.remember(w, f) })
	return err
}

func (r *reconciler) remember(w *watched, f reconcile.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !w.hashes[f.Hash] {
		w.hashes[f.Hash] = true
		w.standing.Files++
	}
	w.standing.Last = &f
}

// listFolder is what a folder holds, without what is no plain file.
func listFolder(folder string) ([]reconcile.Seen, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []reconcile.Seen
	for _, entry := range entries {
		if !reconcile.Eligible(entry.Name()) {
			continue
		}
		info, err := os.Stat(filepath.Join(folder, entry.Name())) // of what a link leads to
		if err != nil || !info.Mode().IsRegular() {
			continue // it has gone meanwhile, or is a pipe that would hold the daemon
		}
		files = append(files, reconcile.Seen{Name: entry.Name(), SizeBytes: info.Size(), Modified: info.ModTime()})
	}
	return files, nil
}

// errChanged tells that a file was written while it was read.
var errChanged = errors.New("it changed while it was read")

// readSettled reads a file that must be as it was seen.
func readSettled(folder string, seen reconcile.Seen) ([]byte, error) {
	if seen.SizeBytes > maxSettledBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d; split it, or use tapyr spend reconcile", seen.SizeBytes, maxSettledBytes)
	}
	file, err := os.Open(filepath.Join(folder, seen.Name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, seen.SizeBytes+1))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if int64(len(content)) != seen.SizeBytes || info.Size() != seen.SizeBytes || !info.ModTime().Equal(seen.Modified) {
		return nil, errChanged
	}
	if !utf8.Valid(content) {
		at := 0
		for at < len(content) {
			c, size := utf8.DecodeRune(content[at:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return nil, fmt.Errorf("line %d: byte 0x%02x is not UTF-8; save the file as UTF-8", 1+bytes.Count(content[:at], []byte("\n")), content[at])
	}
	return content, nil
}

// file compares one file with the book.
func (r *reconciler) file(ctx context.Context, store book.Store, p *spend.Policy, w *watched, seen reconcile.Seen) {
	spec := p.Spec.Reconcile
	log := r.daemon.log.With("policy", p.Name, "file", filepath.Join(spec.Folder, seen.Name))
	content, err := readSettled(spec.Folder, seen)
	if errors.Is(err, errChanged) || errors.Is(err, os.ErrNotExist) {
		return // the next look sees it as it is then
	}
	if err == nil {
		r.mu.Lock()
		known := w.hashes[reconcile.HashOf(content)]
		r.mu.Unlock()
		if known {
			w.inbox.Done(seen)
			return
		}
		var result *reconcile.Result
		if result, err = r.compare(ctx, store, p, content); err == nil {
			summary := result.Summary(seen.Name, reconcile.HashOf(content), spec.Apply)
			if err = reconcile.Remember(ctx, r.machine(store, p.Name), &summary); err == nil {
				w.inbox.Done(seen)
				r.remember(w, summary)
				logResult(log, result, spec.Apply)
				return
			}
		}
		var storage *book.StorageError
		if errors.As(err, &storage) || ctx.Err() != nil {
			log.Error("a settled file was not compared to the end; it is tried again", "error", err)
			return
		}
	}
	w.inbox.Done(seen)
	log.Warn("a settled file cannot be read; it is left where it is, and read again when it changes", "error", err)
	r.standing(p.Name, func(s *report.Reconciling) {
		s.BadFiles++
		s.Problem = seen.Name + ": " + err.Error()
	})
}

// compare reads the rows of a file and compares them, by the rule of the policy.
func (r *reconciler) compare(ctx context.Context, store book.Store, p *spend.Policy, content []byte) (*reconcile.Result, error) {
	spec := p.Spec.Reconcile
	columns := reconcile.Plain()
	if spec.Format == "focus" {
		columns = reconcile.FOCUS()
	}
	columns, err := columns.WithMap(spec.Map)
	if err != nil {
		return nil, err
	}
	rows := reconcile.Read(bytes.NewReader(content), columns, p.Unit)
	return reconcile.Run(ctx, store, p.Name, time.Now(), rows, reconcile.Options{
		Apply: spec.Apply, Sum: spec.Sum, Stale: spec.Stale.Or(0), ReleaseStale: spec.ReleaseStale,
	})
}
