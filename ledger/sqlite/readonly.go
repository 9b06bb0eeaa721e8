package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
)

// walSuffix names the log that SQLite keeps beside a file: https://www.sqlite.org/wal.html.
const walSuffix = "-wal"

// openReadOnly opens a file for reading: beside its owner, or alone. Where neither the file nor its folder can be written, as on a
// backup that is mounted read-only, a file that is complete is read as it is; one that is not, because of an unfinished log or an
// older version, is read from a copy.
func openReadOnly(ctx context.Context, path string, options Options, h header, steps []migration) (*Store, error) {
	if h.empty {
		return nil, fault("open state", path, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
	}
	s := &Store{path: path, mode: ReadOnly}
	err := s.openWhereItIs(ctx, options, h.version < len(steps), steps)
	if isUnwritable(err) {
		err = s.openCopy(ctx, options, steps)
	}
	if err != nil {
		return nil, errors.Join(fault("open state", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) openWhereItIs(ctx context.Context, options Options, old bool, steps []migration) error {
	if old {
		// Written by an older tapyr, or this moment by one that is just beginning.
		if err := migrateFile(ctx, s.path, options, steps); err != nil {
			return err
		}
	}
	return s.openReads(ctx, s.path, options)
}

// migrateFile brings a file up to date.
func migrateFile(ctx context.Context, path string, options Options, steps []migration) error {
	options.Mode = Shared
	s, err := openWritable(ctx, path, options, steps)
	if err != nil {
		return err
	}
	return s.Close()
}

// openReads opens the pool of readers. On a medium that cannot be written SQLite cannot open a file with a log beside it; one
// without is complete in itself, and nobody can change it.
func (s *Store) openReads(ctx context.Context, path string, options Options) error {
	err := s.openPool(ctx, dsn(path, options, "ro"))
	if !isUnwritable(err) {
		return err
	}
	if info, statErr := os.Stat(path + walSuffix); statErr == nil && info.Size() > 0 { //nolint:gosec // G703: the path is the user's to choose
		return err
	}
	return s.openPool(ctx, dsn(path, options, "ro")+"&immutable=1")
}

func (s *Store) openPool(ctx context.Context, name string) error {
	pool, err := sql.Open("sqlite3", name)
	if err != nil {
		return err
	}
	if _, err := userVersion(ctx, pool); err != nil {
		_ = pool.Close() // it has not opened the file
		return err
	}
	pool.SetMaxOpenConns(4)
	s.reads, s.readsName = pool, name
	return nil
}

// openCopy copies the file and its log to a folder of our own, which Close removes, and reads there.
func (s *Store) openCopy(ctx context.Context, options Options, steps []migration) error {
	dir, err := os.MkdirTemp("", "tapyr-state-")
	if err != nil {
		return err
	}
	s.scratch = dir
	path := filepath.Join(dir, "state.db")
	for _, suffix := range []string{"", walSuffix} {
		if err := copyFile(path+suffix, s.path+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	// This finishes the log as well.
	if err := migrateFile(ctx, path, options, steps); err != nil {
		return fmt.Errorf("a copy of it: %w", err)
	}
	return s.openReads(ctx, path, options)
}

func copyFile(to, from string) error {
	source, err := os.Open(from) //nolint:gosec // G703: the path is the user's to choose
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// isUnwritable tells whether SQLite could not open a file because it could write neither it nor beside it.
func isUnwritable(err error) bool {
	var lite sqlite3.Error
	return errors.As(err, &lite) && (lite.Code == sqlite3.ErrCantOpen || lite.Code == sqlite3.ErrReadonly)
}
