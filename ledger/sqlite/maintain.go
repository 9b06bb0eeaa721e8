package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tapyr/tapyr/ledger"
)

// pruneChunk is how many rows go in one transaction: other writers get their turn between two.
const pruneChunk = 10_000

// Prune removes what is older than an instant.
func (s *Store) Prune(ctx context.Context, before time.Time) (p ledger.Pruned, err error) {
	at := before.UnixNano()
	for _, d := range []struct {
		n   *int64
		sql string
	}{
		{&p.Rows, `DELETE FROM journal WHERE seq IN (SELECT seq FROM journal WHERE at < ? LIMIT ?)`},
		{&p.Counters, `DELETE FROM counters WHERE (provider, "limit", scope_key, window_start) IN
			(SELECT provider, "limit", scope_key, window_start FROM counters WHERE window_end <= ? LIMIT ?)`},
		{&p.Minutes, `DELETE FROM minutes WHERE (provider, "limit", scope_key, minute) IN
			(SELECT provider, "limit", scope_key, minute FROM minutes WHERE minute < ? LIMIT ?)`},
		{&p.Runs, `DELETE FROM runs WHERE (job, instance, started) IN (SELECT job, instance, started FROM runs WHERE started < ? LIMIT ?)`},
	} {
		for more := true; more; {
			n, err := s.deleteSome(ctx, d.sql, at)
			*d.n += n
			if err != nil {
				return p, err
			}
			more = n == pruneChunk
		}
	}
	if p.Rows == 0 {
		return p, nil
	}
	err = s.Update(ctx, func(tx *sql.Tx) error {
		s.statements.forget()
		for _, q := range []string{
			`DELETE FROM requests WHERE ref NOT IN (SELECT request FROM journal)`,
			`DELETE FROM origins WHERE ref NOT IN (SELECT origin FROM journal)`,
		} {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
	return p, err
}

func (s *Store) deleteSome(ctx context.Context, query string, at int64) (n int64, err error) {
	err = s.Update(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, at, pruneChunk)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// invariants are what SQLite's own check does not know. Each query returns one text for every row that breaks it.
var invariants = []string{
	`SELECT format('counter %s/%s/%s: window [%d, %d) is empty', provider, "limit", scope_key, window_start, window_end)
		FROM counters WHERE window_end <= window_start`,
	`SELECT format('counter %s/%s/%s: used %d, of which a lease of %d', provider, "limit", scope_key, used, lease)
		FROM counters WHERE used < 0 OR lease < 0 OR lease > used`,
	`SELECT format('minute %s/%s/%s at %d: used %d, of which a lease of %d', provider, "limit", scope_key, minute, used, lease)
		FROM minutes WHERE used < 0 OR lease < 0 OR lease > used`,
	`SELECT format('minute %s/%s/%s: %d is not a whole minute', provider, "limit", scope_key, minute) FROM minutes WHERE minute % 60000000000 <> 0`,
	`SELECT format('journal row %d: status %d or latency %d out of range', seq, status, latency) FROM journal
		WHERE status NOT BETWEEN 0 AND 999 OR latency < 0`,
	`SELECT format('journal row %d: headers are not a JSON object', seq) FROM journal WHERE NOT json_valid(headers) OR json_type(headers) <> 'object'`,
	`SELECT format('journal row %d: its provider and account are not those of its request', j.seq) FROM journal j
		JOIN requests r ON r.ref = j.request JOIN origins o ON o.ref = j.origin WHERE r.provider <> o.provider OR r.account <> o.account`,
	`SELECT format('request %d: variables are not a JSON object', ref) FROM requests WHERE NOT json_valid(vars) OR json_type(vars) <> 'object'`,
	`SELECT format('inventory of %s/%s: items are not a JSON list', job, instance) FROM inventories WHERE NOT json_valid(items) OR json_type(items) <> 'array'`,
	`SELECT format('run of %s/%s at %d: a negative figure', job, instance, started) FROM runs
		WHERE duration < 0 OR pages < 0 OR requests < 0 OR items < 0`,
}

// maxFindings bounds what Check says of one kind of damage.
const maxFindings = 20

// Check looks for damage, in the file and in what it says; no findings mean that it is sound. An error means that it could not
// be told, or that the file is so damaged that it cannot be read.
func (s *Store) Check(ctx context.Context) (findings []string, err error) {
	err = s.View(ctx, func(tx *sql.Tx) error {
		found, err := texts(ctx, tx, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxFindings))
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0] != "ok" {
			findings = append(findings, found...)
		}
		var broken int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM pragma_foreign_key_check`).Scan(&broken); err != nil {
			return err
		}
		if broken > 0 {
			findings = append(findings, fmt.Sprintf("%d rows refer to rows that are not there", broken))
		}
		for _, q := range invariants {
			found, err := texts(ctx, tx, q+fmt.Sprintf(" LIMIT %d", maxFindings))
			if err != nil {
				return err
			}
			findings = append(findings, found...)
		}
		return nil
	})
	return findings, err
}

func texts(ctx context.Context, tx *sql.Tx, query string) (out []string, err error) {
	rows, err := tx.QueryContext(ctx, query)
	for text, err := range scanned(rows, err, func(rows *sql.Rows, text *string) error { return rows.Scan(text) }) {
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// Backup writes a complete copy of one state of the file, while it is in use; the copy appears at once, whole, under its name.
// An existing file is replaced.
func (s *Store) Backup(ctx context.Context, name string) (err error) {
	if same, err := sameFile(s.path, name); err != nil || same {
		if same {
			err = fmt.Errorf("%q is the state itself: name another file", name)
		}
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), ".tapyr-backup-*")
	if err != nil {
		return fault("back up state", name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty, or its copy of no use: what Backup answers stays true
	part := filepath.Join(dir, "state.db")
	if _, err := s.reads.ExecContext(ctx, `VACUUM INTO ?`, part); err != nil {
		return fault("back up state", name, err)
	}
	if err := syncFile(part); err != nil {
		return fault("back up state", name, err)
	}
	return fault("back up state", name, os.Rename(part, name))
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(x, y), err
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
