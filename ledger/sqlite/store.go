// Package sqlite is the ledger in one SQLite file.
//
// There is one writer: a goroutine that commits what several callers want in one transaction, so that durable writes
// (synchronous=FULL) cost about the same for many as for one. Readers, in this process and in others, work beside it from
// their own snapshots (WAL). Other packages may keep tables in the same file: their schema is another migration, their writes
// go through Update and their reads through View.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/tapyr/tapyr/ledger"
)

// Mode says what a store is opened for.
type Mode int

const (
	// ReadOnly reads; the file must exist. It works beside an owner.
	ReadOnly Mode = iota
	// Shared reads and writes beside an owner, transaction by transaction.
	Shared
	// Owner is for the one daemon of a state: a second one is refused with *ledger.LockedError.
	Owner
)

// Options of Open. The zero value reads.
type Options struct {
	Mode Mode
	// BusyTimeout is how long a write waits for another process's; default 5 s.
	BusyTimeout time.Duration
	// MaxPages bounds the file, in pages of 4 KiB; 0 is SQLite's own bound. A write beyond it fails as on a full disk.
	MaxPages int
}

// Store is a ledger in a SQLite file. It implements ledger.Ledger.
type Store struct {
	path  string
	mode  Mode
	reads *sql.DB
	// readsName is the driver's name of what reads reads.
	readsName string
	writes    *sql.DB // nil where read-only
	lock      *os.File
	writer    *writer
	// scratch is a folder with a copy of the file, where that could not be read in its place; "" for none.
	scratch string

	statements *statements // for the writer only
}

var _ ledger.Ledger = (*Store)(nil)

// Open opens a state file, and creates it unless the mode is ReadOnly. A file of an older version is migrated. A file of a newer
// version is a *ledger.VersionError and stays as it is, to the byte; one that is damaged or not a state is a
// *ledger.StorageError with FaultCorrupt.
func Open(ctx context.Context, path string, options Options) (*Store, error) {
	if options.BusyTimeout <= 0 {
		options.BusyTimeout = 5 * time.Second
	}
	steps, err := readMigrations(embedded)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(path)
	if err != nil {
		return nil, fault("open state", path, err)
	}
	if err := checkHeader(path, h, len(steps)); err != nil {
		return nil, err
	}
	if options.Mode == ReadOnly {
		return openReadOnly(ctx, path, options, h, steps)
	}
	return openWritable(ctx, path, options, steps)
}

func openWritable(ctx context.Context, path string, options Options, steps []migration) (_ *Store, err error) {
	s := &Store{path: path, mode: options.Mode}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if options.Mode == Owner {
		if s.lock, err = lockFile(path); err != nil {
			return nil, err
		}
	}
	if s.writes, err = sql.Open("sqlite3", dsn(path, options, "rwc")+"&_journal_mode=WAL&_auto_vacuum=incremental&_txlock=immediate"); err != nil {
		return nil, fault("open state", path, err)
	}
	// One connection, kept: its prepared statements and its share of the log stay.
	s.writes.SetMaxOpenConns(1)
	s.writes.SetConnMaxLifetime(0)
	if _, err = s.writes.ExecContext(ctx, fmt.Sprintf(`PRAGMA journal_size_limit = %d`, maxLogBytes)); err != nil {
		return nil, fault("open state", path, err)
	}
	if options.MaxPages > 0 {
		if _, err = s.writes.ExecContext(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, options.MaxPages)); err != nil {
			return nil, fault("open state", path, err)
		}
	}
	if err = migrate(ctx, s.writes, path, steps); err != nil {
		return nil, err
	}
	if s.statements, err = prepare(ctx, s.writes); err != nil {
		return nil, fault("open state", path, err)
	}
	if err = s.openReads(ctx, path, options); err != nil {
		return nil, fault("open state", path, err)
	}
	s.writer = newWriter(s.writes, s.statements.forget)
	return s, nil
}

// maxLogBytes is what the log beside the file shrinks to, after a large transaction or a reader that kept it from being taken in. It
// is taken in every thousand pages, and begun anew then.
const maxLogBytes = 16 << 20

// dsn is the driver's name of a file. The path is escaped: it may contain what a URL gives a meaning.
//
// SQLite does not enforce the foreign keys: Check looks for what they forbid. Enforced, every row of the journal is a statement that
// may fail half done, for which SQLite copies the pages it touches to a temporary file, and a pruned request is one walk through the
// whole journal.
func dsn(path string, options Options, mode string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	return fmt.Sprintf("%s?mode=%s&_synchronous=FULL&_foreign_keys=0&_busy_timeout=%d", u.String(), mode, options.BusyTimeout.Milliseconds())
}

// Close ends the writer, after what it has begun, and frees the state for another owner. It may be called twice.
func (s *Store) Close() error {
	var errs []error
	if s.writer != nil {
		s.writer.stop()
	}
	if s.statements != nil {
		errs = append(errs, s.statements.close())
	}
	for _, db := range []*sql.DB{s.reads, s.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	if s.scratch != "" {
		errs = append(errs, os.RemoveAll(s.scratch)) //nolint:gosec // G703: a folder of our own
		s.scratch = ""
	}
	return fault("close state", s.path, errors.Join(errs...))
}

// Update runs do in a transaction with whatever else wants to write at the moment, and returns when it is durable. If do fails,
// what it did is undone, and its error returned; the others' work stays. do must use nothing but tx.
func (s *Store) Update(ctx context.Context, do func(tx *sql.Tx) error) error {
	if s.writer == nil {
		return &ledger.StorageError{Op: "write state", Path: s.path, Fault: ledger.FaultReadOnly, Err: errors.New("it was opened for reading")}
	}
	var own ownError
	err := s.writer.update(ctx, do)
	if errors.As(err, &own) {
		var lite sqlite3.Error
		if !errors.As(own.error, &lite) {
			return own.error
		}
		err = own.error
	}
	return fault("write state", s.path, err)
}

// View runs do in a read transaction: all that it reads is of one state.
func (s *Store) View(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fault("read state", s.path, err)
	}
	defer tx.Rollback()
	return fault("read state", s.path, do(tx))
}

// Path is the file's.
func (s *Store) Path() string { return s.path }
