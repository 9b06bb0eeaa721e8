package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/tapyr/tapyr/spend/book"
)

// Spend is the book of paid calls in a SQLite file: a book.Store that many processes may have open. It may share its file with a
// ledger. What Update returned is on the disk (synchronous=FULL).
//
// Transactions that come at the same time in one process are committed as one group: each sees what those before it wrote, one
// that fails leaves nothing behind, and all others are durable with one write to the disk.
type Spend struct {
	path string
	// dsn is the driver's name of the file.
	dsn   string
	queue chan *spendJob
	// state is what ReadSpend opened; nil for a book that is written.
	state *Store
	// closing ends the writer's goroutine, and closed tells that it has ended.
	closing chan struct{}
	closed  chan struct{}
	once    sync.Once
	writer  *spendTx // only the writer's goroutine uses it

	// mu guards idle, the connections for views that nobody uses now.
	mu   sync.Mutex
	idle []*spendTx
}

// spendJob is a call of Update that waits for its answer.
type spendJob struct {
	ctx  context.Context
	fn   func(book.Tx) error
	err  error
	done chan struct{}
}

const (
	// spendGroupMax bounds the transactions that share a commit.
	spendGroupMax = 512
	// spendBusyTimeout is how long SQLite waits for another process; a group tries spendBusyTries times before it gives up. SQLite
	// gives the lock to whoever asks at the right moment, so with many processes one of them can wait long.
	spendBusyTimeout = 5 * time.Second
	spendBusyTries   = 12
	// spendIdleMax bounds the connections that are kept for views.
	spendIdleMax = 4
)

var errSpendClosed = errors.New("the store is closed")

// OpenSpend opens the book in a state file, and makes the file where it is missing. An owner of the state may be at work beside
// it. Options.Mode is not used. Errors are *ledger.VersionError, *ledger.StorageError and *book.StorageError.
func OpenSpend(ctx context.Context, path string, options Options) (*Spend, error) {
	options.Mode = Shared
	first := options
	if first.BusyTimeout <= 0 { // among many writers the first lock can be as long in coming as any other
		first.BusyTimeout = spendBusyTimeout * spendBusyTries
	}
	state, err := Open(ctx, path, first) // checks the file and brings its tables forward
	if err == nil {
		err = state.Close()
	}
	if err != nil {
		return nil, err
	}
	if options.BusyTimeout <= 0 {
		options.BusyTimeout = spendBusyTimeout
	}
	s := newSpend(path)
	s.dsn = dsn(path, options, "rw") + "&_journal_mode=WAL"
	if s.writer, err = s.connect(); err != nil {
		return nil, spendError("open "+path, err)
	}
	if options.MaxPages > 0 {
		if err := spendExec(s.writer.conn, fmt.Sprintf("PRAGMA max_page_count = %d", options.MaxPages)); err != nil {
			s.writer.close()
			return nil, spendError("open "+path, err)
		}
	}
	go s.run()
	return s, nil
}

// ReadSpend opens the book in a state file that is there, for views alone: Update is an error. Errors are as those of OpenSpend.
func ReadSpend(ctx context.Context, path string, options Options) (*Spend, error) {
	options.Mode = ReadOnly
	state, err := Open(ctx, path, options)
	if err != nil {
		return nil, err
	}
	s := newSpend(path)
	s.state, s.dsn = state, state.readsName
	close(s.closed) // there is no writer to wait for
	return s, nil
}

func newSpend(path string) *Spend {
	return &Spend{path: path, queue: make(chan *spendJob), closing: make(chan struct{}), closed: make(chan struct{})}
}

// connect opens a connection of SQLite's own interface: database/sql would add a pool, its locks and a copy of every argument.
func (s *Spend) connect() (*spendTx, error) {
	c, err := new(sqlite3.SQLiteDriver).Open(s.dsn)
	if err != nil {
		return nil, err
	}
	return newSpendTx(c.(*sqlite3.SQLiteConn)), nil
}

// Update implements book.Store.
func (s *Spend) Update(ctx context.Context, fn func(book.Tx) error) error {
	if s.writer == nil {
		return spendError("update", errSpendReadOnly)
	}
	job := &spendJob{ctx: ctx, fn: fn, done: make(chan struct{})}
	select {
	case s.queue <- job:
		<-job.done
		return job.err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return spendError("update", errSpendClosed)
	}
}

// run is the writer's goroutine. Close stops it and waits for it.
func (s *Spend) run() {
	defer close(s.closed)
	group := make([]*spendJob, 0, spendGroupMax)
	for {
		select {
		case job := <-s.queue:
			group = s.commit(append(group[:0], job), true)
		case <-s.closing:
			return
		}
		for _, job := range group {
			close(job.done)
		}
	}
}

// gather adds those that wait to a group. Callers that were just answered are let run first: they are likely to ask again, and
// what they ask then costs no commit of its own.
func (s *Spend) gather(group []*spendJob) []*spendJob {
	runtime.Gosched()
	for len(group) < spendGroupMax {
		select {
		case job := <-s.queue:
			group = append(group, job)
		default:
			return group
		}
	}
	return group
}

// commit runs the transactions of a group, which others may join meanwhile, and makes them durable together. Where one of them
// fails after its writes have reached the database, which no group can take back for it alone, each runs in a transaction of its
// own. It returns the group with those that have joined.
func (s *Spend) commit(group []*spendJob, join bool) []*spendJob {
	group, err := s.try(group, join)
	if errors.Is(err, errSpendAlone) && len(group) > 1 {
		for i := range group {
			s.commit(group[i:i+1:i+1], false)
		}
		return group
	}
	if err != nil && !errors.Is(err, errSpendAlone) {
		for _, job := range group { // what a job said rested on what was not kept
			job.err = err
		}
	}
	return group
}

// errSpendAlone tells that a transaction failed whose writes cannot be told from the group's.
var errSpendAlone = errors.New("a transaction of the group must be undone alone")

// try runs a group in one database transaction. On an error nothing of it is kept.
func (s *Spend) try(group []*spendJob, join bool) (_ []*spendJob, err error) {
	tx := s.writer
	if err := tx.begin(group[0].ctx); err != nil {
		return group, spendError("begin", err)
	}
	kept := false
	defer func() {
		if !kept {
			tx.rollback()
		}
	}()
	fetched := 0
	for i := 0; i < len(group); i++ {
		if i == fetched {
			if err := tx.fetch(group[i:]); err != nil {
				return group, spendError("read", err)
			}
			fetched = len(group)
		}
		if err := tx.run(group[i]); err != nil {
			return group, err
		}
		if join && i == len(group)-1 {
			group = s.gather(group)
		}
	}
	if err := tx.flush(); err != nil {
		return group, spendError("write", err)
	}
	if err := spendExec(tx.conn, "COMMIT"); err != nil {
		return group, spendError("commit", err)
	}
	kept = true
	tx.settle()
	return group, nil
}

// run runs one transaction of a group. The error is about the whole group.
func (tx *spendTx) run(job *spendJob) error {
	if job.err = job.ctx.Err(); job.err != nil {
		return nil //nolint:nilerr // the job's error is no error of the group
	}
	tx.mark()
	if job.err = job.fn(tx); job.err == nil {
		return nil
	}
	var storage *book.StorageError
	if errors.As(job.err, &storage) {
		return job.err
	}
	if !tx.undo() {
		return errSpendAlone
	}
	return nil
}

// View implements book.Store.
func (s *Spend) View(ctx context.Context, fn func(book.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx, err := s.viewer()
	if err != nil {
		return spendError("view", err)
	}
	if err := spendExec(tx.conn, "BEGIN"); err != nil {
		tx.close()
		return spendError("view", err)
	}
	err = fn(tx)
	tx.rollback()
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		tx.close()
		return err
	default:
	}
	if len(s.idle) < spendIdleMax {
		s.idle = append(s.idle, tx)
	} else {
		tx.close()
	}
	return err
}

// viewer is a connection for a view.
func (s *Spend) viewer() (*spendTx, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return nil, errSpendClosed
	default:
	}
	if n := len(s.idle); n > 0 {
		tx := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return tx, nil
	}
	tx, err := s.connect()
	if err == nil {
		tx.readOnly = true
	}
	return tx, err
}

// Close implements book.Store. Transactions that have not begun get an error.
func (s *Spend) Close() (err error) {
	s.once.Do(func() {
		s.mu.Lock()
		close(s.closing)
		for _, tx := range s.idle {
			tx.close()
		}
		s.idle = nil
		s.mu.Unlock()
		<-s.closed
		if s.writer != nil {
			s.writer.close()
		}
		if s.state != nil {
			err = s.state.Close()
		}
	})
	return err
}

// spendError wraps an error of SQLite. One that is wrapped already stays as it is.
func spendError(op string, err error) error {
	var wrapped *book.StorageError
	if errors.As(err, &wrapped) {
		return err
	}
	e := &book.StorageError{Op: op, Err: err}
	var code sqlite3.Error
	if errors.As(err, &code) {
		e.Full = code.Code == sqlite3.ErrFull
		e.Busy = code.Code == sqlite3.ErrBusy || code.Code == sqlite3.ErrLocked
	}
	return e
}

// spendExec runs statements without results.
func spendExec(c *sqlite3.SQLiteConn, text string) error {
	_, err := c.Exec(text, nil)
	return err
}

// spendRows visits rows and closes them. The values are valid only during the visit, texts and numbers for ever.
func spendRows(rows driver.Rows, visit func([]driver.Value) error) error {
	var row []driver.Value
	for {
		if row == nil {
			row = make([]driver.Value, len(rows.Columns()))
		}
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err == nil {
			err = visit(row)
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}
