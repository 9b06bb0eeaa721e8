package ledger

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// RecorderOptions bound what a Recorder does. The zero value means the defaults.
type RecorderOptions struct {
	// MinLease and MaxLease bound the units that a count is written ahead; defaults 1 and 1,000. A crash costs at most
	// MaxLease units of each count.
	MinLease, MaxLease int64
	// LeaseOf bounds the leases of one limit's counts further: a lease of 5 is a trifle of 5,000 a day, and half of 10 a day. At 0
	// each count is written as it is. Nil is no further bound. It is called under the recorder's lock.
	LeaseOf func(provider, limit string) int64
	// MaxRows bounds the journal rows that wait for a store that fails; default 200,000. Beyond it the oldest are dropped, and
	// counted: counts are never dropped. So many runs wait at most, too, and of inventories the last of each instance.
	MaxRows int
}

// Recorder gathers what an engine does between two flushes.
//
// A count must never be written too low, or a provider's quota is overrun after a crash. So each is written with a lease:
// as many units ahead as the interval is likely to use. While a count is Covered, a crash restores it too high by at most its
// lease; what is not covered must be flushed before the request goes out. A clean shutdown flushes without leases.
//
// What a store did not take stays, and goes with the next flush. Nothing is written twice: counts are absolute.
type Recorder struct {
	options RecorderOptions

	mu       sync.Mutex // guards all below; never held while the store works
	counters map[CounterKey]*recorded[Counter]
	minutes  map[CounterKey]*recorded[Minute]
	states   []State
	rows     []Row
	firstRow int64 // how many rows came before rows[0]: written or dropped
	dropped  int64
	items    []Inventory
	runs     []Run
	// leavingItems and leavingRuns are how many of them a flush under way has taken.
	leavingItems, leavingRuns int
	// thinAt is how many items are too many.
	thinAt int

	flushing sync.Mutex // held by the one flush under way
}

// recorded is a counter or a minute, and what the store has of it.
type recorded[T any] struct {
	value T
	// written is what the store holds at least, lease included; -1 for nothing.
	written int64
	// writing is what a flush under way writes; it may be less than written.
	writing int64
	// atFlush is the exact count at the last flush: what was added since tells the next lease.
	atFlush int64
	dirty   bool
}

// NewRecorder makes an empty one.
func NewRecorder(options RecorderOptions) *Recorder {
	if options.MinLease <= 0 {
		options.MinLease = 1
	}
	if options.MaxLease <= 0 {
		options.MaxLease = max(1000, options.MinLease)
	}
	if options.MaxRows <= 0 {
		options.MaxRows = 200_000
	}
	return &Recorder{
		options: options, thinAt: leastThin, counters: map[CounterKey]*recorded[Counter]{}, minutes: map[CounterKey]*recorded[Minute]{},
	}
}

// Restored tells the recorder what the store holds, after a Restore. The counts go on from there, leases of a crash included.
func (r *Recorder) Restored(s Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range s.Counters {
		// A lease left by a crash has become part of the count: it is written so at the next flush.
		dirty := c.Lease > 0
		c.Lease = 0
		r.counters[c.CounterKey] = &recorded[Counter]{value: c, written: c.Used, writing: c.Used, atFlush: c.Used, dirty: dirty}
	}
	for _, m := range s.Minutes {
		dirty := m.Lease > 0
		m.Lease = 0
		r.minutes[m.CounterKey] = &recorded[Minute]{value: m, written: m.Used, writing: m.Used, atFlush: m.Used, dirty: dirty}
	}
}

// Counter notes a counter as it now is; Lease is ignored. It tells whether the store already covers the count: if not, Flush
// before the units are spent.
func (r *Recorder) Counter(c Counter) (covered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return note(r.counters, c.CounterKey, c, c.Used)
}

// Minute notes a cell as it now is, in the same way.
func (r *Recorder) Minute(m Minute) (covered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return note(r.minutes, m.CounterKey, m, m.Used)
}

func note[T any](known map[CounterKey]*recorded[T], key CounterKey, value T, used int64) bool {
	e := known[key]
	if e == nil {
		e = &recorded[T]{written: -1, writing: -1}
		known[key] = e
	}
	e.value, e.dirty = value, true
	return used <= min(e.written, e.writing)
}

// Row adds a journal row.
func (r *Recorder) Row(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) >= r.options.MaxRows {
		// A tenth at a time, so that a long outage does not move the whole queue for every row.
		n := max(len(r.rows)/10, 1)
		r.rows = slices.Delete(r.rows, 0, n)
		r.firstRow += int64(n)
		r.dropped += int64(n)
	}
	r.rows = append(r.rows, row)
}

// States replaces the engine's other states. Nil is as an empty list.
func (r *Recorder) States(states []State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append([]State{}, states...)
}

// Inventory and Run note what a job found and how it went.
func (r *Recorder) Inventory(i Inventory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, i)
	if len(r.items) >= r.thinAt {
		r.thin()
	}
}

// Run notes how a run went.
func (r *Recorder) Run(run Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) >= r.options.MaxRows {
		n := max((len(r.runs)-r.leavingRuns)/10, 1)
		from := min(r.leavingRuns, len(r.runs)-n)
		if r.leavingRuns > from { // all are leaving: the new one is the one too many
			r.dropped++
			return
		}
		r.runs = slices.Delete(r.runs, from, from+n)
		r.dropped += int64(n)
	}
	r.runs = append(r.runs, run)
}

// leastThin is how many items a Recorder lets wait before it looks which of them are out of date.
const leastThin = 1000

// thin keeps the last item of each instance: a store may fail for long, while jobs go on. It requires mu.
func (r *Recorder) thin() {
	last := make(map[[2]string]int)
	for at := r.leavingItems; at < len(r.items); at++ {
		last[[2]string{r.items[at].Job, r.items[at].Instance}] = at
	}
	kept := r.items[:r.leavingItems]
	for at := r.leavingItems; at < len(r.items); at++ {
		if one := r.items[at]; last[[2]string{one.Job, one.Instance}] == at {
			kept = append(kept, one)
		}
	}
	clear(r.items[len(kept):])
	r.items = kept
	r.thinAt = max(leastThin, 2*len(kept))
}

// Waiting tells how many journal rows the store has not taken, and how many were dropped for want of room.
func (r *Recorder) Waiting() (rows int, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows), r.dropped
}

// Forget drops the counters and minutes of windows that ended before an instant and have been written, so that memory follows
// what is live. width is how long a minute's cell matters.
func (r *Recorder) Forget(before time.Time, width time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nanos := before.UnixNano()
	for key, e := range r.counters {
		if !e.dirty && e.value.EndNanos <= nanos {
			delete(r.counters, key)
		}
	}
	for key, e := range r.minutes {
		if !e.dirty && key.StartNanos+int64(width) <= nanos {
			delete(r.minutes, key)
		}
	}
}

// Flush writes what has changed, with leases; exact writes every count as it is, for a shutdown. Windows that are over at now
// are written as they are. On an error everything stays for the next flush.
func (r *Recorder) Flush(ctx context.Context, store Ledger, now time.Time, exact bool) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	f := r.collect(now.UnixNano(), exact)
	if f.empty() {
		return nil
	}
	if err := store.Apply(ctx, f.Changes); err != nil {
		r.failed(f)
		return err
	}
	r.written(f)
	return nil
}

// flight is a flush under way.
type flight struct {
	Changes
	// lastRow is how many rows there ever were when it left.
	lastRow int64
}

func (f *flight) empty() bool {
	return len(f.Counters)+len(f.Minutes)+len(f.Rows)+len(f.Inventories)+len(f.Runs) == 0 && f.States == nil
}

// collect takes what is to be written. From here to the end of the flush a count is covered only if both what the store has
// and what it gets cover it, for a crash may leave either.
func (r *Recorder) collect(now int64, exact bool) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &flight{lastRow: r.firstRow + int64(len(r.rows))}
	for _, e := range r.counters {
		over := exact || e.value.EndNanos <= now
		if !e.dirty && (!over || e.written == e.value.Used) {
			continue
		}
		c := e.value
		c.Lease = e.leave(c.Used, r.lease(c.CounterKey, c.Used-e.atFlush, over))
		c.Used = e.writing
		f.Counters = append(f.Counters, c)
	}
	for key, e := range r.minutes {
		// A cell that did not change for an interval is probably over.
		over := exact || (!e.dirty && key.StartNanos+int64(time.Minute) <= now)
		if !e.dirty && (!over || e.written == e.value.Used) {
			continue
		}
		m := e.value
		m.Lease = e.leave(m.Used, r.lease(m.CounterKey, m.Used-e.atFlush, over))
		m.Used = e.writing
		f.Minutes = append(f.Minutes, m)
	}
	f.States, f.Rows = slices.Clone(r.states), slices.Clone(r.rows)
	f.Inventories, f.Runs = slices.Clone(r.items), slices.Clone(r.runs)
	r.leavingItems, r.leavingRuns = len(f.Inventories), len(f.Runs)
	return f
}

// leave notes that a count leaves for the store with a lease, and returns the lease as far as an int64 has room.
func (e *recorded[T]) leave(used, lease int64) int64 {
	e.dirty = false
	lease = min(lease, math.MaxInt64-max(used, 0))
	e.writing = used + lease
	return lease
}

// lease is the units to write ahead, from those used since the last flush: half as many again.
func (r *Recorder) lease(key CounterKey, recent int64, over bool) int64 {
	if over {
		return 0
	}
	recent = min(max(recent, 0), r.options.MaxLease)
	lease := min(max(recent+(recent+1)/2, r.options.MinLease), r.options.MaxLease)
	if r.options.LeaseOf != nil {
		lease = min(lease, max(0, r.options.LeaseOf(key.Provider, key.Limit)))
	}
	return lease
}

// failed marks again what was not written. The store may have it nevertheless, where the answer was lost.
func (r *Recorder) failed(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leavingItems, r.leavingRuns = 0, 0
	for i := range f.Counters {
		e := r.counters[f.Counters[i].CounterKey]
		e.dirty, e.written = true, min(e.written, e.writing)
	}
	for i := range f.Minutes {
		e := r.minutes[f.Minutes[i].CounterKey]
		e.dirty, e.written = true, min(e.written, e.writing)
	}
}

// written notes what the store now has, and drops what waited.
func (r *Recorder) written(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range f.Counters {
		c := &f.Counters[i]
		if e := r.counters[c.CounterKey]; e != nil {
			e.written, e.writing, e.atFlush = c.Used, c.Used, c.Used-c.Lease
		}
	}
	for i := range f.Minutes {
		m := &f.Minutes[i]
		if e := r.minutes[m.CounterKey]; e != nil {
			e.written, e.writing, e.atFlush = m.Used, m.Used, m.Used-m.Lease
		}
	}
	if n := int(f.lastRow - r.firstRow); n > 0 { // not so where they were dropped meanwhile
		r.rows = slices.Delete(r.rows, 0, n)
		r.firstRow = f.lastRow
	}
	r.items, r.runs = slices.Delete(r.items, 0, len(f.Inventories)), slices.Delete(r.runs, 0, len(f.Runs))
	r.leavingItems, r.leavingRuns, r.thinAt = 0, 0, leastThin
	if f.States != nil && slices.EqualFunc(r.states, f.States, equalState) {
		r.states = nil
	}
}

func equalState(a, b State) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Key == b.Key && a.ExpiresNanos == b.ExpiresNanos && string(a.Value) == string(b.Value)
}
