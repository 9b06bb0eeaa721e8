package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// maxGroup is how many callers share a transaction at most: enough to make the commit cheap, few enough to be quick.
const maxGroup = 512

// writer commits in groups. One goroutine, started by newWriter and ended by stop, does all writing.
//
// While it commits one group, the next one gathers in the queue: the slower the disk, the larger the groups.
type writer struct {
	db    *sql.DB
	queue chan *update
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
	// undone is called, by the goroutine, after a transaction that was not committed.
	undone func()
}

// update is one caller's work.
type update struct {
	ctx    context.Context
	do     func(*sql.Tx) error
	result chan error
	err    error // of do; the rest of the group commits nevertheless
}

// ownError is what a caller's function returned.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

var errClosed = errors.New("the state is closed")

func newWriter(db *sql.DB, undone func()) *writer {
	w := &writer{db: db, undone: undone, queue: make(chan *update, maxGroup), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// stop lets the group under way finish and refuses the rest.
func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *writer) update(ctx context.Context, do func(*sql.Tx) error) error {
	u := &update{ctx: ctx, do: do, result: make(chan error, 1)}
	select {
	case w.queue <- u:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.done:
		return errClosed
	}
	select {
	case err := <-u.result: // even if ctx ends: the caller must know whether it is written
		return err
	case <-w.done:
		select {
		case err := <-u.result:
			return err
		default:
			return errClosed
		}
	}
}

func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case u := <-w.queue:
			w.commit(w.gather(u))
		case <-w.quit:
			return
		}
	}
}

// gather takes what is in the queue.
func (w *writer) gather(first *update) []*update {
	group := []*update{first}
	for len(group) < maxGroup {
		select {
		case u := <-w.queue:
			group = append(group, u)
		default:
			return group
		}
	}
	return group
}

// commit runs a group in one transaction and answers all of it.
func (w *writer) commit(group []*update) {
	err := w.transact(group)
	if err != nil {
		w.undone()
	}
	for _, u := range group {
		switch {
		case u.err != nil:
			u.result <- u.err
		default:
			u.result <- err
		}
	}
}

func (w *writer) transact(group []*update) error {
	tx, err := w.db.Begin() // immediate: see openWritable. Not the callers' contexts: one of them must not undo the others' work
	if err != nil {
		return err
	}
	defer tx.Rollback()
	good := 0
	for _, u := range group {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		if u.err, err = savepoint(tx, u.do); err != nil {
			return err
		}
		if u.err == nil {
			good++
		}
	}
	if good == 0 {
		return nil
	}
	return tx.Commit()
}

// savepoint runs do so that it can be undone alone. own is its error, err one that has ended the whole transaction.
func savepoint(tx *sql.Tx, do func(*sql.Tx) error) (own, err error) {
	if _, err := tx.Exec(`SAVEPOINT one`); err != nil {
		return nil, err
	}
	if own = guarded(tx, do); own != nil {
		own = ownError{own}
		if _, err := tx.Exec(`ROLLBACK TO one`); err != nil {
			// On a full disk SQLite rolls the whole transaction back by itself: then do's error is everybody's.
			return own, errors.Join(own, err)
		}
	}
	_, err = tx.Exec(`RELEASE one`)
	return own, err
}

// guarded turns a panic into an error: the writer must outlive a caller's mistake.
func guarded(tx *sql.Tx, do func(*sql.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while writing the state: %v", p)
		}
	}()
	return do(tx)
}
