// Package ledger remembers what must outlive the process: how much of each quota is used, what happened to every request, what
// the jobs found, and how their runs went.
//
// A Ledger is a store; ledger/sqlite is one, ledger/ledgertest holds the suite that every store passes. A Recorder stands
// between an engine and its store: it decides when a count must be written, and keeps what a failing store did not take.
// Export and Import move rows between stores and files; Open, in package ledger/journal, reads other programs' files.
//
// Nothing here reads a clock: a transaction's instant comes from its caller, never from the store.
package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/window"
)

// Row is one request and its outcome, a line of the journal.
type Row = journal.Row

// RowRequest is the part of a Row that was known before the request was sent.
type RowRequest = journal.Request

// CounterKey names a counter: one window of one limit for one scope key. Times of keys are nanoseconds since the epoch, so
// that keys can be compared and be map keys.
type CounterKey struct {
	// Provider and Limit are names in the documents, ScopeKey is what the limit's scope resolved to.
	Provider, Limit, ScopeKey string
	// StartNanos is the window's start.
	StartNanos int64
}

// Counter is how much of a quota a window has used, and what the provider last said of it.
type Counter struct {
	CounterKey
	// EndNanos is the window's end, after its start; a reset header may have moved it.
	EndNanos int64
	// Used is the units that tapyr used itself, the lease included: never less than was used, more by at most Lease.
	Used int64
	// Lease is how many of Used were written ahead, for use until the next flush. 0 <= Lease <= Used.
	Lease int64
	// ObservedRemaining and ObservedMax are the provider's own figures, ObservedUsed the count when they were read; nil where
	// none was. A remaining may be negative in what an engine derived from a percentage.
	ObservedRemaining, ObservedMax, ObservedUsed *int64
	// UpdatedNanos is when the counter last changed.
	UpdatedNanos int64
}

// Span is the counter's window.
func (c *Counter) Span() window.Span {
	return window.Span{StartNanos: c.StartNanos, EndNanos: c.EndNanos}
}

// Minute is the use of a limit in one cell of its timeline: a minute, or an hour for windows longer than a day. Rolling
// windows are restored from them.
type Minute struct {
	// CounterKey names the cell; its start is a whole minute.
	CounterKey
	// Used is the cell's units, the lease included.
	Used int64
	// Lease is how many of Used were written ahead.
	Lease int64
}

// State is something else that an engine needs after a restart: a penalty, a breaker, a learned maximum, the observation of a
// rolling window. The ledger does not read Value.
type State struct {
	// Kind, Name and Key name it: for instance "penalty", the provider and limit, the scope key.
	Kind, Name, Key string
	// Value is the engine's own notation.
	Value []byte
	// ExpiresNanos is when it is worth nothing any more; 0 is never.
	ExpiresNanos int64
}

// Inventory is what a job found at its last good run: the items that other jobs fan out over.
type Inventory struct {
	// Job is the job's name, Instance tells its instances apart (empty for a job without forEach).
	Job, Instance string
	// At is when the run ended.
	At time.Time
	// Items are the variables of each item, in the order in which the provider listed them.
	Items []map[string]string
	// Gone tells that the instance is no more: what it found is forgotten. Only changes have it.
	Gone bool
}

// Run is one run of one instance of a job.
type Run struct {
	Job, Instance, Account string
	// Started is when the first request was asked for; with Job and Instance it names the run.
	Started time.Time
	// Duration is until the last page was done.
	Duration time.Duration
	// Pages and Requests count what it took; requests include retries.
	Pages, Requests int64
	// Items is how many items it brought.
	Items int64
	// Status is ok, failed, partial or skipped, in the words of the daemon; Error is its text where there was one.
	Status, Error string
}

// Changes are what one flush writes, all or nothing. Counters, minutes, inventories and runs replace those of the same key, so
// writing them twice is writing them once.
type Changes struct {
	Counters []Counter
	Minutes  []Minute
	// States are all there are: those not listed are dropped. Nil leaves them alone.
	States []State
	// Rows are added to the journal; a row whose id, provider and account are there already takes that one's place.
	Rows        []Row
	Inventories []Inventory
	Runs        []Run
}

// Snapshot is what an engine starts from.
type Snapshot struct {
	Counters []Counter
	Minutes  []Minute
	States   []State
}

// Pruned counts what a Prune removed.
type Pruned struct{ Rows, Counters, Minutes, Runs int64 }

// Interval is a half-open interval [From, To); a zero time is no bound.
type Interval struct{ From, To time.Time }

// Contains tells whether an instant, in nanoseconds since the epoch, is in the interval.
func (i Interval) Contains(nanos int64) bool { return i.Span().Contains(nanos) }

// Span is the interval in nanoseconds; missing bounds are those of package window.
func (i Interval) Span() window.Span {
	s := window.Span{StartNanos: window.MinNanos, EndNanos: window.MaxNanos}
	if !i.From.IsZero() {
		s.StartNanos = window.Window{Start: i.From}.Span().StartNanos
	}
	if !i.To.IsZero() {
		s.EndNanos = window.Window{Start: i.To}.Span().StartNanos
	}
	return s
}

// Ledger is a store. All methods may be called from several goroutines; those that read see one state throughout, whatever is
// written meanwhile. Errors of the medium are *StorageError.
type Ledger interface {
	// Apply writes all changes, durably, or none.
	Apply(ctx context.Context, changes Changes) error
	// Restore returns what matters at now: counters whose window holds it, states that have not expired, and minutes that
	// began after now - horizon (the longest rolling window, or the longest timeline, that the caller has).
	Restore(ctx context.Context, now time.Time, horizon time.Duration) (Snapshot, error)

	// Journal gives the rows granted in the interval, by instant and then in the order in which they were written; Counters
	// those whose window starts in it, by provider, limit, key and start; Minutes likewise.
	Journal(ctx context.Context, in Interval) iter.Seq2[Row, error]
	Counters(ctx context.Context, in Interval) iter.Seq2[Counter, error]
	Minutes(ctx context.Context, in Interval) iter.Seq2[Minute, error]

	// Inventories are the last of every job and instance, by job and instance.
	Inventories(ctx context.Context) ([]Inventory, error)
	// Runs are the last n runs of a job's instances, the latest first; of all jobs where job is empty.
	Runs(ctx context.Context, job string, n int) ([]Run, error)
	// Salt returns the salt of the credential keys; where there is none yet, fresh becomes it.
	Salt(ctx context.Context, fresh []byte) ([]byte, error)

	// Prune removes journal rows, runs and ended windows, with their minutes, from before an instant.
	Prune(ctx context.Context, before time.Time) (Pruned, error)
	Close() error
}

// Fault is what a medium does not do.
type Fault string

// The faults. All but Corrupt may pass; meanwhile nothing is lost, because a Recorder keeps what was not written.
const (
	// FaultFull: no space is left.
	FaultFull Fault = "full"
	// FaultReadOnly: the file or its folder may not be written.
	FaultReadOnly Fault = "read-only"
	// FaultLocked: another program holds the file for longer than the store waits.
	FaultLocked Fault = "locked"
	// FaultCorrupt: the file is damaged, or no state file at all.
	FaultCorrupt Fault = "corrupt"
	// FaultIO: reading or writing failed in some other way.
	FaultIO Fault = "io"
)

// StorageError says that the medium failed; what was to be written is not.
type StorageError struct {
	// Op is what was being done, Path where.
	Op, Path string
	Fault    Fault
	Err      error
}

func (e *StorageError) Error() string {
	hint := map[Fault]string{
		FaultFull:     "no space is left: free some, writing goes on by itself",
		FaultReadOnly: "it may not be written: check its owner, its folder's, and how the file system is mounted",
		FaultLocked:   "another program holds it",
		FaultCorrupt:  "it is damaged: `tapyr ledger check` says where; restore a backup, or move it away to start anew",
		FaultIO:       "reading or writing failed",
	}[e.Fault]
	return fmt.Sprintf("%s %q: %s: %v", e.Op, e.Path, hint, e.Err)
}

// Unwrap returns the store's own error.
func (e *StorageError) Unwrap() error { return e.Err }

// Temporary tells whether to try again later.
func (e *StorageError) Temporary() bool { return e.Fault != FaultCorrupt }

// LockedError refuses a second owner of a state.
type LockedError struct {
	// Path is the state's, PID the process that owns it (0 where it did not say).
	Path string
	PID  int
}

func (e *LockedError) Error() string {
	owner := "another tapyr"
	if e.PID > 0 {
		owner = fmt.Sprintf("the tapyr with process id %d", e.PID)
	}
	return fmt.Sprintf("state %q is in use by %s: stop that one, or give this one another state.path", e.Path, owner)
}

// VersionError refuses a state that a newer tapyr has written; it is left as it was.
type VersionError struct {
	Path string
	// Have is the file's version, Want the newest that this program knows.
	Have, Want int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("state %q has version %d, and this tapyr knows versions up to %d: install the newer one that wrote it; the file was not touched",
		e.Path, e.Have, e.Want)
}
