package daemon

import (
	"context"
	"time"

	"github.com/tapyr/tapyr/engine"
)

// pruneEvery is how often what is too old is removed from the state: every hour, or every tenth of a short retention.
func pruneEvery(retention time.Duration) time.Duration {
	return min(time.Hour, max(retention/10, time.Minute))
}

// keepWriting writes counts down at the flush interval, and removes what is too old. The function that it returns stops that and
// waits.
func (d *Daemon) keepWriting(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pruned := time.Now()
		for {
			d.mu.Lock()
			every, pruneEvery := d.world.settings.flush, pruneEvery(d.world.settings.retention)
			d.mu.Unlock()
			timer := time.NewTimer(every)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
				d.flush(ctx, false)
			}
			if time.Since(pruned) >= pruneEvery {
				d.prune(ctx)
				pruned = time.Now()
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// flush writes what the engine has counted and learned. exact is for the end.
func (d *Daemon) flush(ctx context.Context, exact bool) {
	before := d.keeper.Health().Err
	w, s := d.take()
	err := d.keeper.Flush(ctx, w.config, s, exact)
	switch {
	case ctx.Err() != nil:
	case err != nil && before == nil:
		d.log.Error("THE STATE CANNOT BE WRITTEN: counts go on in memory and are written when it can; a restart before that forgets them",
			"path", w.settings.statePath, "error", err)
	case err == nil && before != nil:
		d.log.Info("the state is written again", "path", w.settings.statePath)
	}
	d.flushLearned(w, exact)
	d.series.Sweep()
	d.learned(s)
}

// take counts what the engine in force holds.
func (d *Daemon) take() (w *world, s *engine.Snapshot) {
	d.taking.Lock()
	defer d.taking.Unlock()
	d.mu.Lock()
	w = d.world
	d.mu.Unlock()
	w.gate.Do(func(e *engine.Engine, now int64) {
		s = e.Snapshot(now)
		d.keeper.Count(w.config, s)
	})
	return w, s
}

// learned asks for a plan where responses have told another maximum than the last plan knew.
func (d *Daemon) learned(s *engine.Snapshot) {
	maxima := make(map[[3]string]int64)
	for i := range s.Scopes {
		if scope := &s.Scopes[i]; scope.Learned != 0 {
			maxima[[3]string{scope.Provider, scope.Limit, scope.Key}] = scope.Learned
		}
	}
	disagreed := d.watch.hasDisagreed()
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := false
	for key, maximum := range maxima {
		if d.maxima[key] != maximum {
			changed = true
			d.log.Info("a response told the maximum of a quota", "provider", key[0], "limit", key[1], "key", key[2], "max", maximum)
		}
	}
	d.maxima = maxima
	if changed || disagreed {
		d.planWhy = "learned-max"
		d.world.schedule.Ask()
		d.poke()
	}
}

func (d *Daemon) prune(ctx context.Context) {
	d.mu.Lock()
	w := d.world
	d.mu.Unlock()
	pruned, err := d.keeper.Prune(ctx, time.Now(), w.settings.retention, w.config)
	if err != nil {
		d.log.Warn("what is too old could not be removed from the state", "error", err)
		return
	}
	d.log.Debug("removed what is too old", "rows", pruned.Rows, "counters", pruned.Counters, "minutes", pruned.Minutes, "runs", pruned.Runs)
}
