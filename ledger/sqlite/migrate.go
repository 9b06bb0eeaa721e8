package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/ledger"
)

// Migrations are files of SQL named NNNN_what.sql. The number is the schema's version after it; there are no gaps. A file that
// has been released is never changed: what comes later is another file.
//
//go:embed migrations/*.sql
var embedded embed.FS

// applicationID marks a SQLite file as tapyr's (https://www.sqlite.org/fileformat.html#application_id): "TAPY".
const applicationID = 0x54415059

// migration is one step of the schema.
type migration struct {
	version int
	name    string
	sql     string
}

// readMigrations lists the steps in order.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var steps []migration
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimPrefix(name, "migrations/")
		number, _, _ := strings.Cut(base, "_")
		if version, err := strconv.Atoi(number); err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %q should have number %d", base, i+1)
		}
		steps = append(steps, migration{version: i + 1, name: base, sql: string(text)})
	}
	return steps, nil
}

// header is what the first bytes of a SQLite file say (https://www.sqlite.org/fileformat.html#the_database_header).
type header struct {
	// empty: there is no file, or nothing in it.
	empty       bool
	application uint32
	version     int
	notSQLite   bool
}

// readHeader looks at a file without SQLite, which would create files beside it.
func readHeader(path string) (h header, err error) {
	f, err := os.Open(path) //nolint:gosec // G703: the path is the user's to choose
	if errors.Is(err, fs.ErrNotExist) {
		return header{empty: true}, nil
	}
	if err != nil {
		return h, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var b [100]byte
	n, err := io.ReadFull(f, b[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return header{empty: true}, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return h, err
	case n < len(b) || string(b[:16]) != "SQLite format 3\x00":
		return header{notSQLite: true}, nil
	}
	return header{version: int(binary.BigEndian.Uint32(b[60:])), application: binary.BigEndian.Uint32(b[68:])}, nil
}

// checkHeader refuses what is not a state file, and what is a newer one.
func checkHeader(path string, h header, newest int) error {
	switch {
	case h.empty:
		return nil
	case h.notSQLite:
		return &ledger.StorageError{Op: "open state", Path: path, Fault: ledger.FaultCorrupt, Err: errors.New("it is not a SQLite file")}
	case h.application != applicationID && (h.application != 0 || h.version != 0):
		return notState(path)
	case h.version > newest:
		return &ledger.VersionError{Path: path, Have: h.version, Want: newest}
	}
	return nil
}

func notState(path string) error {
	return &ledger.StorageError{
		Op: "open state", Path: path, Fault: ledger.FaultCorrupt, Err: errors.New("it is a SQLite file of some other program"),
	}
}

// migrate brings a schema up to date, each step in a transaction of its own. Several processes may try: each step looks again
// where the file stands.
func migrate(ctx context.Context, db *sql.DB, path string, steps []migration) error {
	version, err := userVersion(ctx, db)
	if err != nil {
		return fault("open state", path, err)
	}
	if version > len(steps) {
		return &ledger.VersionError{Path: path, Have: version, Want: len(steps)}
	}
	if version == 0 {
		var tables int
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&tables); err != nil {
			return fault("open state", path, err)
		}
		if tables > 0 {
			return notState(path)
		}
	}
	if version == len(steps) {
		return nil
	}
	for _, step := range steps[version:] {
		if err := migrateOne(ctx, db, step); err != nil {
			return fault("migrate state to version "+strconv.Itoa(step.version), path, err)
		}
	}
	// The version must be in the file itself and not only in its log: that is where readHeader looks for it.
	_, err = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return fault("migrate state", path, err)
}

func migrateOne(ctx context.Context, db *sql.DB, step migration) error {
	tx, err := db.BeginTx(ctx, nil) // immediate: see dsn
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := userVersion(ctx, tx)
	if err != nil || version >= step.version { // another process was quicker
		return err
	}
	if _, err := tx.ExecContext(ctx, step.sql); err != nil {
		return fmt.Errorf("%s: %w", step.name, err)
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, step.version)); err != nil {
		return err
	}
	return tx.Commit()
}

func userVersion(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
},
) (version int, err error) {
	err = q.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version)
	return version, err
}
