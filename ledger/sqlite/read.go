package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tapyr/tapyr/ledger"
)

// Restore returns what matters at now, from one state of the file.
func (s *Store) Restore(ctx context.Context, now time.Time, horizon time.Duration) (snap ledger.Snapshot, err error) {
	err = s.View(ctx, func(tx *sql.Tx) error {
		at := now.UnixNano()
		for c, err := range counters(ctx, tx, `WHERE window_start <= ? AND window_end > ?`, at, at) {
			if err != nil {
				return err
			}
			snap.Counters = append(snap.Counters, c)
		}
		for m, err := range minutes(ctx, tx, `WHERE minute > ? AND minute <= ?`, at-int64(horizon), at) {
			if err != nil {
				return err
			}
			snap.Minutes = append(snap.Minutes, m)
		}
		snap.States, err = states(ctx, tx, at)
		return err
	})
	return snap, err
}

func states(ctx context.Context, tx *sql.Tx, now int64) (out []ledger.State, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT kind, name, key, value, expires_at FROM states WHERE expires_at = 0 OR expires_at > ?
		ORDER BY kind, name, key`, now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v ledger.State
		if err := rows.Scan(&v.Kind, &v.Name, &v.Key, &v.Value, &v.ExpiresNanos); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Counters gives the counters whose window starts in the interval.
func (s *Store) Counters(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Counter, error] {
	span := in.Span()
	return viewed(ctx, s, func(tx *sql.Tx) iter.Seq2[ledger.Counter, error] {
		return counters(ctx, tx, `WHERE window_start >= ? AND window_start < ?`, span.StartNanos, span.EndNanos)
	})
}

// Minutes gives the cells that start in the interval.
func (s *Store) Minutes(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Minute, error] {
	span := in.Span()
	return viewed(ctx, s, func(tx *sql.Tx) iter.Seq2[ledger.Minute, error] {
		return minutes(ctx, tx, `WHERE minute >= ? AND minute < ?`, span.StartNanos, span.EndNanos)
	})
}

// Journal gives the rows granted in the interval.
func (s *Store) Journal(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Row, error] {
	span := in.Span()
	return viewed(ctx, s, func(tx *sql.Tx) iter.Seq2[ledger.Row, error] {
		return journalRows(ctx, tx, span.StartNanos, span.EndNanos)
	})
}

// viewed runs a sequence inside a read transaction, and names its faults.
func viewed[T any](ctx context.Context, s *Store, rows func(*sql.Tx) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		more := true
		err := s.View(ctx, func(tx *sql.Tx) error {
			for row, err := range rows(tx) {
				if err != nil {
					return err
				}
				if more = yield(row, nil); !more {
					return nil
				}
			}
			return nil
		})
		if err != nil && more {
			var zero T
			yield(zero, err)
		}
	}
}

// scanned gives the rows of a query, each read by scan.
func scanned[T any](rows *sql.Rows, err error, scan func(*sql.Rows, *T) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		if err != nil {
			yield(zero, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var v T
			if err := scan(rows, &v); err != nil {
				yield(zero, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(zero, err)
		}
	}
}

func counters(ctx context.Context, tx *sql.Tx, where string, args ...any) iter.Seq2[ledger.Counter, error] {
	//nolint:gosec // G202: where is one of the constants above, with its values as arguments
	rows, err := tx.QueryContext(ctx, `SELECT provider, "limit", scope_key, window_start, window_end, used, lease, observed_remaining,
		observed_max, observed_used, updated_at FROM counters `+where+` ORDER BY provider, "limit", scope_key, window_start`, args...)
	return scanned(rows, err, func(rows *sql.Rows, c *ledger.Counter) error {
		return rows.Scan(&c.Provider, &c.Limit, &c.ScopeKey, &c.StartNanos, &c.EndNanos, &c.Used, &c.Lease, &c.ObservedRemaining,
			&c.ObservedMax, &c.ObservedUsed, &c.UpdatedNanos)
	})
}

func minutes(ctx context.Context, tx *sql.Tx, where string, args ...any) iter.Seq2[ledger.Minute, error] {
	//nolint:gosec // G202: as for counters
	rows, err := tx.QueryContext(ctx, `SELECT provider, "limit", scope_key, minute, used, lease FROM minutes `+where+
		` ORDER BY provider, "limit", scope_key, minute`, args...)
	return scanned(rows, err, func(rows *sql.Rows, m *ledger.Minute) error {
		return rows.Scan(&m.Provider, &m.Limit, &m.ScopeKey, &m.StartNanos, &m.Used, &m.Lease)
	})
}

func journalRows(ctx context.Context, tx *sql.Tx, from, to int64) iter.Seq2[ledger.Row, error] {
	rows, err := tx.QueryContext(ctx, `SELECT at, request, id, status, latency, headers, refused, body FROM journal
		WHERE at >= ? AND at < ? ORDER BY at, seq`, from, to)
	requests := map[int64]ledger.RowRequest{}
	return scanned(rows, err, func(rows *sql.Rows, r *ledger.Row) error {
		var at, ref, latency int64
		var headers sql.RawBytes
		if err := rows.Scan(&at, &ref, &r.ID, &r.Status, &latency, &headers, &r.Refused, &r.Body); err != nil {
			return err
		}
		r.At, r.Latency = time.Unix(0, at).UTC(), time.Duration(latency)
		if len(headers) > len("{}") {
			if err := json.Unmarshal(headers, &r.Headers); err != nil {
				return fmt.Errorf("headers of the row %q: %w", r.ID, err)
			}
		}
		request, ok := requests[ref]
		if !ok {
			var err error
			if request, err = readRequest(ctx, tx, ref); err != nil {
				return err
			}
			if len(requests) >= maxRemembered {
				clear(requests)
			}
			requests[ref] = request
		}
		r.Request = request
		return nil
	})
}

func readRequest(ctx context.Context, tx *sql.Tx, ref int64) (r ledger.RowRequest, err error) {
	var vars []byte
	err = tx.QueryRowContext(ctx, `SELECT provider, account, target, credential, method, endpoint, vars, job, priority, retry, auth
		FROM requests WHERE ref = ?`, ref).Scan(&r.Provider, &r.Account, &r.Target, &r.Credential, &r.Method, &r.Endpoint, &vars,
		&r.Job, &r.Priority, &r.Retry, &r.Auth)
	if err == nil && len(vars) > len("{}") {
		err = json.Unmarshal(vars, &r.Vars)
	}
	if err != nil {
		return r, fmt.Errorf("request %d of the journal: %w", ref, err)
	}
	return r, nil
}

// JournalRows opens a state file for its journal alone: what journal.Options.State asks for.
func JournalRows(path string) (iter.Seq2[ledger.Row, error], error) {
	s, err := Open(context.Background(), path, Options{Mode: ReadOnly})
	if err != nil {
		return nil, err
	}
	return func(yield func(ledger.Row, error) bool) {
		defer func() { _ = s.Close() }() // it was only read
		for row, err := range s.Journal(context.Background(), ledger.Interval{}) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}, nil
}

// Inventories are the last of every job and instance.
func (s *Store) Inventories(ctx context.Context) (out []ledger.Inventory, err error) {
	err = s.View(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT job, instance, at, items FROM inventories ORDER BY job, instance`)
		for v, err := range scanned(rows, err, func(rows *sql.Rows, v *ledger.Inventory) error {
			var at int64
			var items sql.RawBytes
			if err := rows.Scan(&v.Job, &v.Instance, &at, &items); err != nil {
				return err
			}
			v.At = time.Unix(0, at).UTC()
			return json.Unmarshal(items, &v.Items)
		}) {
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

// Runs are the last n runs, the latest first.
func (s *Store) Runs(ctx context.Context, job string, n int) (out []ledger.Run, err error) {
	err = s.View(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT job, instance, started, account, duration, pages, requests, items, status, error FROM runs
			WHERE ?1 = '' OR job = ?1 ORDER BY started DESC, job, instance LIMIT ?2`, job, max(n, 0))
		for v, err := range scanned(rows, err, func(rows *sql.Rows, r *ledger.Run) error {
			var started, duration int64
			err := rows.Scan(&r.Job, &r.Instance, &started, &r.Account, &duration, &r.Pages, &r.Requests, &r.Items, &r.Status, &r.Error)
			r.Started, r.Duration = time.Unix(0, started).UTC(), time.Duration(duration)
			return err
		}) {
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

// LastStarts tells, for every instance, when the last of its runs that came to an end of its own began.
func (s *Store) LastStarts(ctx context.Context) (map[string]time.Time, error) {
	out := make(map[string]time.Time)
	err := s.View(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT instance, max(started) FROM runs WHERE status <> 'interrupted' GROUP BY instance`)
		type last struct {
			instance string
			started  int64
		}
		for v, err := range scanned(rows, err, func(rows *sql.Rows, l *last) error { return rows.Scan(&l.instance, &l.started) }) {
			if err != nil {
				return err
			}
			out[v.instance] = time.Unix(0, v.started).UTC()
		}
		return nil
	})
	return out, err
}

// Salt returns the salt, and makes fresh the salt where there is none.
func (s *Store) Salt(ctx context.Context, fresh []byte) (salt []byte, err error) {
	const find = `SELECT value FROM secrets WHERE name = 'salt'`
	err = s.View(ctx, func(tx *sql.Tx) error { return tx.QueryRowContext(ctx, find).Scan(&salt) })
	if !errors.Is(err, sql.ErrNoRows) {
		return salt, err
	}
	err = s.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO secrets VALUES ('salt', ?) ON CONFLICT DO NOTHING`, fresh); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, find).Scan(&salt) // another process may have been quicker
	})
	return salt, err
}
