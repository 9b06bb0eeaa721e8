package smartflow

import (
	"sync"
)

// learned counts n new mappings and sees to a flush when one is due. It fails in the
// reference dialect only, where the flush happens here.
func (l *Limiter) learned(n int64) error {
	dirty := l.dirty.Add(n)
	if dirty < l.flushAt.Load() {
		return nil
	}
	switch {
	case l.flusher != nil:
		l.flusher.kick()
	case l.dialect.flushInline:
		if err := l.Save(); err != nil {
			return err
		}
		l.dirty.Store(0)
	default: // there is nowhere to flush to
		l.dirty.Store(0)
	}
	return nil
}

// Save stores all mappings in the cache now. The error is a *CacheError. Without a
// cache, it does nothing. It does not touch the count that makes a flush due.
func (l *Limiter) Save() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	result := "nopath"
	var err error
	if l.cache != nil {
		result = "ok"
		changes := l.changes.Load()
		m := mappings{networks: pairsOf(l.networks), devices: pairsOf(l.devices)}
		if err = l.cache.Store(l.dialect.encodeCache(m, l.clock.Wall())); err != nil {
			result, err = "failed", &CacheError{Op: "store", Err: err}
		} else {
			l.stored.Store(changes)
		}
	}
	if l.trace != nil {
		l.trace.save(result)
	}
	return err
}

// flusher owns the goroutine that stores the cache in the background.
type flusher struct {
	due  chan struct{} // holds one: a flush is due
	stop chan struct{} // closed by Close
	done chan struct{} // closed by the goroutine when it ends
	once sync.Once     // guards stop
	err  error         // of the last save; valid once done is closed
}

func startFlusher(l *Limiter) *flusher {
	f := &flusher{due: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go f.run(l)
	return f
}

// kick makes a flush due; it never waits.
func (f *flusher) kick() {
	select {
	case f.due <- struct{}{}:
	default: // one is due already
	}
}

func (f *flusher) run(l *Limiter) {
	defer close(f.done)
	for {
		select {
		case <-f.due:
			l.flush()
		case <-f.stop:
			// A file that would hold the same as before is not rewritten: its mappings
			// would look younger than they are.
			if l.changes.Load() != l.stored.Load() {
				f.err = l.Save()
			}
			return
		}
	}
}

// flush stores the cache and takes off the count what is stored now. After a failure
// nothing is taken off, and the next attempt waits for as many new mappings again.
func (l *Limiter) flush() {
	flushed := l.dirty.Load()
	if err := l.Save(); err != nil {
		l.flushAt.Store(flushed + l.flushEvery)
		l.warning(err)
		return
	}
	l.dirty.Add(-flushed)
	l.flushAt.Store(l.flushEvery)
}

// Close stores what was learned since the last flush and ends the background
// goroutine. It may be called more than once, by several goroutines, and returns the
// same error each time: a *CacheError if the last write failed or did not end within
// 10 seconds. A closed limiter still limits; only what it learns is not kept.
func (l *Limiter) Close() error {
	f := l.flusher
	if f == nil {
		return nil
	}
	f.once.Do(func() { close(f.stop) })
	ctx, cancel := bounded()
	defer cancel()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return &CacheError{Op: "store", Err: ctx.Err()}
	}
}
