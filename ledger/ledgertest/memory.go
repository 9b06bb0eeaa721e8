package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
)

// Memory is a ledger without a file: for tests, and the dumb twin of the others. Set Fail to make it fail as a disk does.
type Memory struct {
	mu          sync.Mutex // guards all below
	fail        error
	closed      bool
	counters    map[ledger.CounterKey]ledger.Counter
	minutes     map[ledger.CounterKey]ledger.Minute
	states      map[[3]string]ledger.State
	rows        []ledger.Row
	inventories map[[2]string]ledger.Inventory
	runs        []ledger.Run
	salt        []byte
}

var _ ledger.Ledger = (*Memory)(nil)

// NewMemory makes an empty one.
func NewMemory() *Memory {
	return &Memory{
		counters: map[ledger.CounterKey]ledger.Counter{}, minutes: map[ledger.CounterKey]ledger.Minute{},
		states: map[[3]string]ledger.State{}, inventories: map[[2]string]ledger.Inventory{},
	}
}

// Fail makes all writes fail with an error, until it is called with nil.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// begin is the common start of all methods. Requires mu.
func (m *Memory) begin(ctx context.Context, write bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.closed:
		return errors.New("the ledger is closed")
	case write:
		return m.fail
	}
	return nil
}

// Apply writes all changes or none.
func (m *Memory) Apply(ctx context.Context, c ledger.Changes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, true); err != nil {
		return err
	}
	for _, v := range c.Counters {
		m.counters[v.CounterKey] = v
	}
	for _, v := range c.Minutes {
		m.minutes[v.CounterKey] = v
	}
	if c.States != nil {
		clear(m.states)
	}
	for _, v := range c.States {
		v.Value = append([]byte{}, v.Value...)
		m.states[[3]string{v.Kind, v.Name, v.Key}] = v
	}
	for _, row := range c.Rows {
		m.addRow(copied(row))
	}
	for _, v := range c.Inventories {
		if v.Gone {
			delete(m.inventories, [2]string{v.Job, v.Instance})
			continue
		}
		v.Items = slices.Clone(v.Items)
		m.inventories[[2]string{v.Job, v.Instance}] = v
	}
	for _, r := range c.Runs {
		m.runs = slices.DeleteFunc(m.runs, func(o ledger.Run) bool {
			return o.Job == r.Job && o.Instance == r.Instance && o.Started.Equal(r.Started)
		})
		m.runs = append(m.runs, r)
	}
	return nil
}

// copied is what a file would keep of a row.
func copied(row ledger.Row) ledger.Row {
	out, err := journal.DecodeJSON(row.AppendJSON(nil))
	if err != nil {
		panic("ledgertest: a row does not read back: " + err.Error())
	}
	return out
}

func (m *Memory) addRow(row ledger.Row) {
	if row.ID != "" {
		for i := range m.rows {
			if o := &m.rows[i]; o.ID == row.ID && o.Provider == row.Provider && o.Account == row.Account {
				*o = row
				return
			}
		}
	}
	m.rows = append(m.rows, row)
}

// Restore returns what matters at now.
func (m *Memory) Restore(ctx context.Context, now time.Time, horizon time.Duration) (s ledger.Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, false); err != nil {
		return s, err
	}
	at := now.UnixNano()
	for _, c := range m.counters {
		if c.Span().Contains(at) {
			s.Counters = append(s.Counters, c)
		}
	}
	for _, v := range m.minutes {
		if v.StartNanos > at-int64(horizon) && v.StartNanos <= at {
			s.Minutes = append(s.Minutes, v)
		}
	}
	for _, v := range m.states {
		if v.ExpiresNanos == 0 || v.ExpiresNanos > at {
			s.States = append(s.States, v)
		}
	}
	slices.SortFunc(s.Counters, func(a, b ledger.Counter) int { return compareKeys(a.CounterKey, b.CounterKey) })
	slices.SortFunc(s.Minutes, func(a, b ledger.Minute) int { return compareKeys(a.CounterKey, b.CounterKey) })
	slices.SortFunc(s.States, func(a, b ledger.State) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return s, nil
}

func compareKeys(a, b ledger.CounterKey) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.ScopeKey, b.ScopeKey),
		cmp.Compare(a.StartNanos, b.StartNanos))
}

// Journal gives the rows granted in the interval.
func (m *Memory) Journal(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Row, error] {
	return listed(ctx, m, func() (out []ledger.Row) {
		for _, r := range m.rows {
			if in.Contains(r.At.UnixNano()) {
				out = append(out, r)
			}
		}
		slices.SortStableFunc(out, func(a, b ledger.Row) int { return a.At.Compare(b.At) })
		return out
	})
}

// Counters gives the counters whose window starts in the interval.
func (m *Memory) Counters(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Counter, error] {
	return listed(ctx, m, func() []ledger.Counter {
		return slices.SortedFunc(within(m.counters, in), func(a, b ledger.Counter) int { return compareKeys(a.CounterKey, b.CounterKey) })
	})
}

// Minutes gives the cells that start in the interval.
func (m *Memory) Minutes(ctx context.Context, in ledger.Interval) iter.Seq2[ledger.Minute, error] {
	return listed(ctx, m, func() []ledger.Minute {
		return slices.SortedFunc(within(m.minutes, in), func(a, b ledger.Minute) int { return compareKeys(a.CounterKey, b.CounterKey) })
	})
}

func within[T any](all map[ledger.CounterKey]T, in ledger.Interval) iter.Seq[T] {
	return func(yield func(T) bool) {
		for key, v := range all {
			if in.Contains(key.StartNanos) && !yield(v) {
				return
			}
		}
	}
}

func listed[T any](ctx context.Context, m *Memory, list func() []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		m.mu.Lock()
		err := m.begin(ctx, false)
		var all []T
		if err == nil {
			all = list()
		}
		m.mu.Unlock()
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Inventories are the last of every job and instance.
func (m *Memory) Inventories(ctx context.Context) ([]ledger.Inventory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, false); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(m.inventories), func(a, b ledger.Inventory) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Instance, b.Instance))
	}), nil
}

// Runs are the last n runs, the latest first.
func (m *Memory) Runs(ctx context.Context, job string, n int) (out []ledger.Run, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, false); err != nil {
		return nil, err
	}
	for _, r := range m.runs {
		if job == "" || r.Job == job {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b ledger.Run) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Instance, b.Instance))
	})
	return out[:min(len(out), max(n, 0))], nil
}

// Salt returns the salt.
func (m *Memory) Salt(ctx context.Context, fresh []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, m.salt == nil); err != nil {
		return nil, err
	}
	if m.salt == nil {
		m.salt = slices.Clone(fresh)
	}
	return slices.Clone(m.salt), nil
}

// Prune removes what is older than an instant.
func (m *Memory) Prune(ctx context.Context, before time.Time) (p ledger.Pruned, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, true); err != nil {
		return p, err
	}
	at := before.UnixNano()
	rows, runs, counters, minutes := len(m.rows), len(m.runs), len(m.counters), len(m.minutes)
	m.rows = slices.DeleteFunc(m.rows, func(r ledger.Row) bool { return r.At.Before(before) })
	m.runs = slices.DeleteFunc(m.runs, func(r ledger.Run) bool { return r.Started.Before(before) })
	maps.DeleteFunc(m.counters, func(_ ledger.CounterKey, c ledger.Counter) bool { return c.EndNanos <= at })
	maps.DeleteFunc(m.minutes, func(k ledger.CounterKey, _ ledger.Minute) bool { return k.StartNanos < at })
	return ledger.Pruned{
		Rows: int64(rows - len(m.rows)), Runs: int64(runs - len(m.runs)),
		Counters: int64(counters - len(m.counters)), Minutes: int64(minutes - len(m.minutes)),
	}, nil
}

// Close ends it; all later calls fail.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
