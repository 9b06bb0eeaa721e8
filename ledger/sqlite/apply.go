package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
)

// statements are prepared once, on the writer's connection.
type statements struct {
	counter, minute, stateClear, state, row, requestFind, requestAdd, originFind, originAdd, inventory, inventoryGone, run *sql.Stmt

	all []*sql.Stmt
	// requests and origins remember what stands in the tables, as far as committed or written in the transaction under way;
	// a transaction that fails clears them. For the writer's goroutine only.
	requests map[string]int64
	origins  map[[2]string]int64
	// version is the file's data_version when they were filled: another process may prune.
	version int64
}

// maxRemembered bounds the two maps.
const maxRemembered = 50_000

func prepare(ctx context.Context, db *sql.DB) (*statements, error) {
	s := &statements{requests: map[string]int64{}, origins: map[[2]string]int64{}}
	for _, p := range []struct {
		statement **sql.Stmt
		sql       string
	}{
		{&s.counter, `INSERT INTO counters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET window_end = excluded.window_end,
			used = excluded.used, lease = excluded.lease, observed_remaining = excluded.observed_remaining, observed_max = excluded.observed_max,
			observed_used = excluded.observed_used, updated_at = excluded.updated_at`},
		{&s.minute, `INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET used = excluded.used, lease = excluded.lease`},
		{&s.stateClear, `DELETE FROM states`},
		{&s.state, `INSERT INTO states VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at`},
		{&s.row, `INSERT INTO journal (at, request, origin, id, status, latency, headers, refused, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id, origin) WHERE id <> '' DO UPDATE SET at = excluded.at, request = excluded.request, status = excluded.status,
			latency = excluded.latency, headers = excluded.headers, refused = excluded.refused, body = excluded.body`},
		{&s.requestFind, `SELECT ref FROM requests WHERE provider = ? AND account = ? AND target = ? AND credential = ? AND method = ?
			AND endpoint = ? AND vars = ? AND job = ? AND priority = ? AND retry = ? AND auth = ?`},
		{&s.requestAdd, `INSERT INTO requests (provider, account, target, credential, method, endpoint, vars, job, priority, retry, auth)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.originFind, `SELECT ref FROM origins WHERE provider = ? AND account = ?`},
		{&s.originAdd, `INSERT INTO origins (provider, account) VALUES (?, ?)`},
		{&s.inventory, `INSERT INTO inventories VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at, items = excluded.items`},
		{&s.inventoryGone, `DELETE FROM inventories WHERE job = ? AND instance = ?`},
		{&s.run, `INSERT INTO runs (job, instance, started, account, duration, pages, requests, items, status, error)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET account = excluded.account, duration = excluded.duration,
			pages = excluded.pages, requests = excluded.requests, items = excluded.items, status = excluded.status, error = excluded.error`},
	} {
		statement, err := db.PrepareContext(ctx, p.sql) //nolint:sqlclosecheck // kept in all, which close goes through
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		*p.statement = statement
		s.all = append(s.all, statement)
	}
	return s, nil
}

// bound is a statement in a transaction. Its end closes it.
type bound struct{ *sql.Stmt }

func bind(ctx context.Context, tx *sql.Tx, statement *sql.Stmt) bound {
	return bound{tx.StmtContext(ctx, statement)}
}

func (s *statements) close() error {
	var errs []error
	for _, statement := range s.all {
		errs = append(errs, statement.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// forget drops what is remembered: after a failure, and when rows have been pruned.
func (s *statements) forget() {
	clear(s.requests)
	clear(s.origins)
}

// Apply writes all changes or none.
func (s *Store) Apply(ctx context.Context, changes ledger.Changes) error {
	return s.Update(ctx, func(tx *sql.Tx) error {
		err := s.statements.apply(ctx, tx, &changes)
		if err != nil {
			s.statements.forget()
		}
		return err
	})
}

func (s *statements) apply(ctx context.Context, tx *sql.Tx, c *ledger.Changes) error {
	if err := s.applyCounts(ctx, tx, c); err != nil {
		return err
	}
	if err := s.checkVersion(ctx, tx); err != nil {
		return err
	}
	if err := s.applyRows(ctx, tx, c.Rows); err != nil {
		return err
	}
	inventory, run := bind(ctx, tx, s.inventory), bind(ctx, tx, s.run)
	for i := range c.Inventories {
		v := &c.Inventories[i]
		if v.Gone {
			if _, err := bind(ctx, tx, s.inventoryGone).Exec(v.Job, v.Instance); err != nil {
				return err
			}
			continue
		}
		items, err := json.Marshal(v.Items, json.Deterministic(true), json.FormatNilSliceAsNull(false))
		if err != nil {
			return err
		}
		if _, err := inventory.Exec(v.Job, v.Instance, v.At.UnixNano(), string(items)); err != nil {
			return err
		}
	}
	for i := range c.Runs {
		r := &c.Runs[i]
		_, err := run.Exec(r.Job, r.Instance, r.Started.UnixNano(), r.Account, int64(r.Duration), r.Pages, r.Requests, r.Items, r.Status, r.Error)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkVersion forgets what is remembered if another process has written to the file since.
func (s *statements) checkVersion(ctx context.Context, tx *sql.Tx) error {
	var version int64
	if err := tx.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version); err != nil {
		return err
	}
	if version != s.version {
		s.forget()
		s.version = version
	}
	return nil
}

func (s *statements) applyCounts(ctx context.Context, tx *sql.Tx, c *ledger.Changes) error {
	counter, minute := bind(ctx, tx, s.counter), bind(ctx, tx, s.minute)
	for i := range c.Counters {
		v := &c.Counters[i]
		_, err := counter.Exec(v.Provider, v.Limit, v.ScopeKey, v.StartNanos, v.EndNanos, v.Used, v.Lease,
			v.ObservedRemaining, v.ObservedMax, v.ObservedUsed, v.UpdatedNanos)
		if err != nil {
			return err
		}
	}
	for i := range c.Minutes {
		v := &c.Minutes[i]
		if _, err := minute.Exec(v.Provider, v.Limit, v.ScopeKey, v.StartNanos, v.Used, v.Lease); err != nil {
			return err
		}
	}
	if c.States == nil {
		return nil
	}
	if _, err := bind(ctx, tx, s.stateClear).Exec(); err != nil {
		return err
	}
	state := bind(ctx, tx, s.state)
	for i := range c.States {
		v := &c.States[i]
		value := v.Value
		if value == nil {
			value = []byte{}
		}
		if _, err := state.Exec(v.Kind, v.Name, v.Key, value, v.ExpiresNanos); err != nil {
			return err
		}
	}
	return nil
}

func (s *statements) applyRows(ctx context.Context, tx *sql.Tx, rows []ledger.Row) error {
	add := bind(ctx, tx, s.row) // once: binding costs as much as a row
	known := make(map[sameRequest]int64)
	for i := range rows {
		r := &rows[i]
		same := sameAs(&r.Request)
		request, ok := known[same]
		if !ok {
			var err error
			if request, err = s.request(ctx, tx, &r.Request); err != nil {
				return err
			}
			known[same] = request
		}
		origin, err := s.origin(ctx, tx, r.Provider, r.Account)
		if err != nil {
			return err
		}
		if _, err := add.Exec(r.At.UnixNano(), request, origin, text(r.ID), r.Status, int64(r.Latency), journal.FormatMap(r.Headers),
			text(r.Refused), text(r.Body)); err != nil {
			return err
		}
	}
	return nil
}

// sameRequest is equal for equal requests that share their variables' map, as those of one instance do: finding that out is cheaper
// than writing down what they have in common. It is good for rows that are in memory together, since a map's place is used again.
type sameRequest struct {
	provider, account, target, credential, method, endpoint, job, priority string
	retry, auth                                                            bool
	vars                                                                   uintptr
}

func sameAs(r *ledger.RowRequest) sameRequest {
	return sameRequest{
		r.Provider, r.Account, r.Target, r.Credential, r.Method, r.Endpoint, r.Job, r.Priority, r.Retry, r.Auth,
		reflect.ValueOf(r.Vars).Pointer(),
	}
}

// text is s as UTF-8: a vendor's header need not be, and a journal is.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// request finds or adds the part of a row that repeats.
func (s *statements) request(ctx context.Context, tx *sql.Tx, r *ledger.RowRequest) (int64, error) {
	key := journal.FormatRequest(r)
	if ref, ok := s.requests[key]; ok {
		return ref, nil
	}
	args := []any{
		text(r.Provider), text(r.Account), text(r.Target), text(r.Credential), text(r.Method), text(r.Endpoint), journal.FormatMap(r.Vars),
		text(r.Job), text(r.Priority), r.Retry, r.Auth,
	}
	ref, err := findOrAdd(ctx, tx, s.requestFind, s.requestAdd, args)
	if err != nil {
		return 0, err
	}
	if len(s.requests) >= maxRemembered {
		clear(s.requests)
	}
	s.requests[key] = ref
	return ref, nil
}

func (s *statements) origin(ctx context.Context, tx *sql.Tx, provider, account string) (int64, error) {
	key := [2]string{text(provider), text(account)}
	if ref, ok := s.origins[key]; ok {
		return ref, nil
	}
	ref, err := findOrAdd(ctx, tx, s.originFind, s.originAdd, []any{key[0], key[1]})
	if err != nil {
		return 0, err
	}
	if len(s.origins) >= maxRemembered {
		clear(s.origins)
	}
	s.origins[key] = ref
	return ref, nil
}

func findOrAdd(ctx context.Context, tx *sql.Tx, find, add *sql.Stmt, args []any) (ref int64, err error) {
	err = bind(ctx, tx, find).QueryRow(args...).Scan(&ref)
	if !errors.Is(err, sql.ErrNoRows) {
		return ref, err
	}
	result, err := bind(ctx, tx, add).Exec(args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}
