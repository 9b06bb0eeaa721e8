package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tapyr/tapyr/spend/chain"
)

// Memory is a Store that lasts as long as the process: for dry runs, conformance and tests.
type Memory struct {
	// mu guards everything below; a transaction holds it from start to end.
	mu      sync.RWMutex
	records map[Key]Record
	entries []chain.Entry
	// events, by (policy); deferred, by (policy, capability); due, by (policy): what Tx.Events walks.
	events   map[Key]*ordered
	deferred map[Key]*ordered
	due      map[Key]*ordered
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{
		records: make(map[Key]Record), events: make(map[Key]*ordered),
		deferred: make(map[Key]*ordered), due: make(map[Key]*ordered),
	}
}

// Update implements Store.
func (m *Memory) Update(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tx := &memoryTx{store: m, writable: true, entries: len(m.entries)}
	done := false
	defer func() { // a panic of fn leaves nothing behind either
		if !done {
			tx.undo()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	done = true
	return nil
}

// View implements Store.
func (m *Memory) View(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return fn(&memoryTx{store: m})
}

// Close implements Store.
func (m *Memory) Close() error { return nil }

// memoryTx is a transaction that writes at once and remembers how to take it back.
type memoryTx struct {
	store    *Memory
	writable bool
	// entries is the length of the chain before; replaced and erased what was overwritten, in order.
	entries  int
	replaced []replaced
	erased   []chain.Entry
}

// replaced is a record as it was; nil where there was none.
type replaced struct {
	key    Key
	record Record
}

var errReadOnly = errors.New("write in a view: use Update")

func (tx *memoryTx) undo() {
	for _, r := range slices.Backward(tx.replaced) {
		tx.store.set(r.key, r.record)
	}
	for _, e := range tx.erased {
		tx.store.entries[e.Seq-1] = e
	}
	tx.store.entries = tx.store.entries[:tx.entries]
}

func (tx *memoryTx) Get(key Key) (Record, error) {
	if r, ok := tx.store.records[key]; ok {
		return r, nil
	}
	return nil, nil
}

func (tx *memoryTx) Put(records ...Record) error {
	if !tx.writable {
		return errReadOnly
	}
	for _, r := range records {
		key := r.Key()
		tx.replaced = append(tx.replaced, replaced{key, tx.store.records[key]})
		tx.store.set(key, r)
	}
	return nil
}

// set replaces a record, by nothing where it is nil, and keeps the orders in step.
func (m *Memory) set(key Key, r Record) {
	if old, ok := m.records[key].(*Event); ok {
		m.unlink(key, old)
	}
	if r == nil {
		delete(m.records, key)
		return
	}
	m.records[key] = r
	if e, ok := r.(*Event); ok {
		m.link(key, e)
	}
}

// orders are the orders that an event stands in, with its place in each.
func (m *Memory) orders(key Key, e *Event, visit func(map[Key]*ordered, Key, place)) {
	policy := Key{Policy: e.Policy}
	visit(m.events, policy, place{0, e.AdmissionSeq, key})
	if e.State == Deferred {
		visit(m.deferred, Key{Policy: e.Policy, Name: e.Capability}, place{0, e.AdmissionSeq, key})
	}
	if e.Due() {
		visit(m.due, policy, place{Nanos(e.Deadline), e.AdmissionSeq, key})
	}
}

// Due tells whether a deadline counts for the event.
func (e *Event) Due() bool {
	return !e.Deadline.IsZero() && (e.State == Deferred || e.Waiting && e.State.Holds())
}

func (m *Memory) link(key Key, e *Event) {
	m.orders(key, e, func(in map[Key]*ordered, of Key, p place) {
		if in[of] == nil {
			in[of] = new(ordered)
		}
		in[of].add(p)
	})
}

func (m *Memory) unlink(key Key, e *Event) {
	m.orders(key, e, func(in map[Key]*ordered, of Key, p place) { in[of].remove(p) })
}

func (tx *memoryTx) Head() (chain.Head, error) {
	if n := len(tx.store.entries); n > 0 {
		return tx.store.entries[n-1].Head(), nil
	}
	return chain.Head{}, nil
}

func (tx *memoryTx) Append(e chain.Entry) error {
	if !tx.writable {
		return errReadOnly
	}
	if want := int64(len(tx.store.entries)) + 1; e.Seq != want {
		return fmt.Errorf("entry %d cannot be appended: %d follows", e.Seq, want)
	}
	tx.store.entries = append(tx.store.entries, e)
	return nil
}

func (tx *memoryTx) Entry(seq int64) (chain.Entry, error) {
	if seq < 1 || seq > int64(len(tx.store.entries)) {
		return chain.Entry{}, nil
	}
	return tx.store.entries[seq-1], nil
}

func (tx *memoryTx) Erase(seq int64) error {
	if !tx.writable {
		return errReadOnly
	}
	if seq < 1 || seq > int64(len(tx.store.entries)) {
		return fmt.Errorf("entry %d does not exist", seq)
	}
	e := &tx.store.entries[seq-1]
	if seq <= int64(tx.entries) {
		tx.erased = append(tx.erased, *e)
	}
	e.Body = nil
	return nil
}

func (tx *memoryTx) Entries(from int64) iter.Seq2[chain.Entry, error] {
	return func(yield func(chain.Entry, error) bool) {
		for seq := max(from, 1); seq <= int64(len(tx.store.entries)); seq++ {
			if !yield(tx.store.entries[seq-1], nil) {
				return
			}
		}
	}
}

func (tx *memoryTx) Events(q Query) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for _, order := range tx.store.ordersOf(q) {
			start := place{seq: q.AfterSeq}
			if !q.DueBy.IsZero() {
				start = place{nanos: -1 << 63}
			}
			more := order.after(start, func(p place) bool {
				if !q.DueBy.IsZero() && p.nanos > Nanos(q.DueBy) {
					return false
				}
				e, ok := tx.store.records[p.event].(*Event)
				return !ok || !q.Matches(e) || yield(e, nil)
			})
			if !more {
				return
			}
		}
	}
}

// ordersOf are the orders that hold all events which the query means.
func (m *Memory) ordersOf(q Query) []*ordered {
	in, of := m.events, Key{Policy: q.Policy}
	switch {
	case !q.DueBy.IsZero():
		in = m.due
	case q.Capability != "" && len(q.States) == 1 && q.States[0] == Deferred:
		in, of.Name = m.deferred, q.Capability
	}
	if o := in[of]; o != nil {
		return []*ordered{o}
	}
	return nil
}

// Matches decides whether an event is meant.
func (q Query) Matches(e *Event) bool {
	return (q.Policy == e.Policy) &&
		(q.Capability == "" || q.Capability == e.Capability) &&
		(len(q.States) == 0 || slices.Contains(q.States, e.State)) &&
		(q.DueBy.IsZero() || e.Due() && !e.Deadline.After(q.DueBy)) &&
		(!q.Outbox || e.Outbox && !e.State.Final()) &&
		e.AdmissionSeq > q.AfterSeq
}

func (tx *memoryTx) List(kind Kind, policy string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var found []Record
		for key, r := range tx.store.records {
			if key.Kind == kind && (policy == "" || key.Policy == policy) {
				found = append(found, r)
			}
		}
		slices.SortFunc(found, func(a, b Record) int { return CompareKeys(a.Key(), b.Key()) })
		for _, r := range found {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// CompareKeys is the order of records in Tx.List.
func CompareKeys(a, b Key) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Detail, b.Detail), strings.Compare(a.Class, b.Class), cmp.Compare(a.StartNanos, b.StartNanos),
	)
}
