package book

import (
	"context"
	"iter"
	"time"

	"github.com/tapyr/tapyr/spend/chain"
)

// Store keeps a book. All its methods may be called from many goroutines, and many processes may have one store open at once.
type Store interface {
	// Update runs fn in a transaction that no other one overlaps, here or in another process. When Update returns nil, what fn
	// wrote is durable: it is there after a crash of the process or of the machine. When it returns an error, nothing of it is
	// there; an error of the store itself is a *StorageError, and fn's own errors are returned as they are. fn may run more than
	// once and must not keep what belongs to an earlier run; it must not call the store.
	Update(ctx context.Context, fn func(Tx) error) error
	// View runs fn on one state of the store, beside writers. Writing in it is an error.
	View(ctx context.Context, fn func(Tx) error) error
	// Close waits for what runs and gives back what the store holds.
	Close() error
}

// Tx is what a transaction can see and do. A Tx sees its own writes. It is not for use by several goroutines, nor after its
// transaction.
type Tx interface {
	// Get is the record of this key, or nil.
	Get(Key) (Record, error)
	// Put stores records, in place of those with the same keys.
	Put(...Record) error
	// Append puts an entry at the end of the chain. Its Seq must be the one that follows.
	Append(chain.Entry) error
	// Head is the last entry of the chain.
	Head() (chain.Head, error)
	// Entry is the entry of this number; its Seq is 0 where there is none.
	Entry(seq int64) (chain.Entry, error)
	// Erase takes the body of an entry away and leaves its hashes.
	Erase(seq int64) error
	// Entries yields the chain from this number on.
	Entries(from int64) iter.Seq2[chain.Entry, error]
	// Events yields the events that match, in the order of their admission; those of Query.DueBy in the order of their deadlines.
	// What is written meanwhile may or may not be seen.
	Events(Query) iter.Seq2[*Event, error]
	// List yields all records of a kind other than KindEvent that belong to the policy, or to any where it is empty, in the
	// order of their keys.
	List(kind Kind, policy string) iter.Seq2[Record, error]
}

// expected is the context's key for a hint.
type expected struct{}

// Expect makes a context for Store.Update which tells that the transaction will ask for the record of this key: a store that commits
// many transactions together can read for all of them at once. It is a hint, and nothing depends on it.
func (k Key) Expect(ctx context.Context) context.Context {
	return context.WithValue(ctx, expected{}, k)
}

// ExpectedIn reads the hint of a context; false where there is none.
func (k *Key) ExpectedIn(ctx context.Context) (ok bool) {
	*k, ok = ctx.Value(expected{}).(Key)
	return ok
}

// Query says which events of a policy are meant. Fields that are zero do not restrict.
type Query struct {
	// Policy is always set.
	Policy string
	// Capability is what the events asked for.
	Capability string
	// States are those of the events.
	States []State
	// DueBy selects events that wait and whose deadline is not after this instant.
	DueBy time.Time
	// Outbox selects events that are for tapyr to deliver and are not over.
	Outbox bool
	// AfterSeq selects events that were admitted after this entry.
	AfterSeq int64
}

// StorageError tells that a store could not do its work. Nothing of the transaction was kept.
type StorageError struct {
	// Op is what was tried.
	Op string
	// Full tells that there is no space left; Busy that another process held the store for too long.
	Full, Busy bool
	Err        error
}

// Error says what failed and what can be done.
func (e *StorageError) Error() string {
	text := "storage: " + e.Op + ": " + e.Err.Error() + "; nothing was admitted or changed"
	switch {
	case e.Full:
		return text + ", free some space and try again"
	case e.Busy:
		return text + ", another process holds the store, try again"
	}
	return text
}

// Unwrap is the cause.
func (e *StorageError) Unwrap() error { return e.Err }
