// Package book is what is kept of paid calls: the records, the states of an event, exact amounts, and the interface of the
// stores that keep them. It decides nothing; package spend does.
package book

import (
	"maps"
	"slices"
	"time"
)

// Key names a record. Keys of different records differ.
type Key struct {
	// Kind is the kind of record.
	Kind Kind
	// Policy is the name of the policy that the record belongs to.
	Policy string
	// Name, Detail and Class are what tells records of one kind apart; see the records' Key methods.
	Name, Detail, Class string
	// StartNanos is the start of the window that the record counts, in nanoseconds since the Unix epoch.
	StartNanos int64
}

// Kind is a kind of record.
type Kind uint8

// The kinds.
const (
	KindEvent Kind = iota + 1
	KindCounter
	KindTally
	KindStatus
	KindVersion
)

// Record is one of *Event, *Counter, *Tally, *Status and *Version. A record that was given to a store, or that came from one, is
// never changed: put a changed copy.
type Record interface{ Key() Key }

// Event is a logical event that was admitted once, however often it was tried.
type Event struct {
	// Policy and ID name the event; Capability is what it asked for.
	Policy, ID, Capability string
	State                  State
	Disposition            Disposition
	// Route and RouteClass are those of the reservation; empty where there never was one.
	Route, RouteClass string
	// Reserved is what the reservation holds or held; 0 without one. Actual is what was spent, once the event is settled.
	Reserved, Actual Units
	// Version is the policy's version that made the decision.
	Version string
	// WindowStart is the start of the window that the units count in, whenever they are corrected; the zero time where the
	// account's limit holds for ever.
	WindowStart time.Time
	// AdmittedAt is when the event came, DecidedAt when the decision was made that holds, UpdatedAt when its state last changed.
	AdmittedAt, DecidedAt, UpdatedAt time.Time
	// Day is the date of the admission in the zone of the account's window, YYYY-MM-DD: the day that counts it.
	Day string
	// Deadline is the first instant at which the event may no longer wait; zero where it may wait for ever.
	Deadline time.Time
	// OnDeadline is what it gets then: Minimal or Reject.
	OnDeadline Disposition
	// Waiting tells that the event holds units but waits for a route that is down.
	Waiting bool
	// Outbox tells that the event is for tapyr itself to deliver, and that it has not given up.
	Outbox bool
	// InDoubt tells that a request for the event was about to leave, or has left, and that it is not known that the vendor charges
	// nothing for it. Such an event keeps its units until somebody who knows settles or releases it.
	InDoubt bool
	// Attempts is the number of the last delivery attempt, from 1; Result is its category.
	Attempts int64
	Result   string
	// Class is the caller's class of input; Size its size, in the caller's unit.
	Class string
	Size  int64
	// Vars are the variables of the route's request.
	Vars map[string]string
	// Reference says where the payload is; ContentHash is its hash. Response is what came back, or a reference to it, kept
	// since ResponseAt.
	Reference, ContentHash, Response string
	ResponseAt                       time.Time
	// AdmissionSeq is the chain's entry of the admission, and with that the order of events. DecisionSeq is that of the decision
	// that holds, and LastSeq the last entry about the event.
	AdmissionSeq, DecisionSeq, LastSeq int64
	// Pruned tells that the horizon of the decision is over: what is left says only that the event was decided once.
	Pruned bool
}

// Key is made of the policy and the id.
func (e *Event) Key() Key { return EventKey(e.Policy, e.ID) }

// EventKey is the key of an event.
func EventKey(policy, id string) Key { return Key{Kind: KindEvent, Policy: policy, Name: id} }

// Units is what the event takes from the limits now: what is reserved for it, or what was spent on it.
func (e *Event) Units() Units {
	switch {
	case e == nil:
		return Units{}
	case e.State.Holds():
		return e.Reserved
	case e.State == Settled:
		return e.Actual
	}
	return Units{}
}

// Charged tells whether the event takes anything, be it 0 units.
func (e *Event) Charged() bool { return e != nil && (e.State.Holds() || e.State == Settled) }

// Clone is a copy to change.
func (e *Event) Clone() *Event {
	c := *e
	c.Vars = maps.Clone(e.Vars)
	return &c
}

// Counter is what an account or one of its capabilities has used in a window.
type Counter struct {
	Policy string
	// Capability is empty for the account. A counter belongs to the name: versions of the policy come and go.
	Capability string
	// Start and End bound the window; both are zero where the limit holds for ever.
	Start, End time.Time
	// Used is the sum of Event.Units over the events of the window. Settled is the part of it that was really spent, the rest
	// is reserved.
	Used, Settled Units
	// Crossed are the bands that were reported for the account in this window, in the order of crossing.
	Crossed []Crossing
}

// Crossing is a band of the account's limit that was reached.
type Crossing struct {
	// Band is the part of the limit, as the policy writes it.
	Band string    `json:"band"`
	At   time.Time `json:"at"`
}

// Key is made of the policy, the capability and the window's start.
func (c *Counter) Key() Key { return CounterKey(c.Policy, c.Capability, c.Start) }

// CounterKey is the key of a counter.
func CounterKey(policy, capability string, start time.Time) Key {
	return Key{Kind: KindCounter, Policy: policy, Name: capability, StartNanos: Nanos(start)}
}

// Reserved is what is held and not settled yet.
func (c *Counter) Reserved() Units { return c.Used.Sub(c.Settled) }

// Clone is a copy to change.
func (c *Counter) Clone() *Counter {
	d := *c
	d.Crossed = slices.Clone(c.Crossed)
	return &d
}

// Tally counts the events that were admitted on a day, by what holds for them now.
type Tally struct {
	Policy string
	// Day is the day of the admission in the zone of the account's window, YYYY-MM-DD.
	Day                    string
	Capability, RouteClass string
	Disposition            Disposition
	// Events is their number. Reserved is the sum of what is held for them, Settled of what was spent on them.
	Events            int64
	Reserved, Settled Units
}

// Key is made of everything but the numbers.
func (t *Tally) Key() Key {
	return Key{
		Kind: KindTally, Policy: t.Policy, Name: t.Day, Detail: t.Capability,
		Class: string(t.Disposition) + " " + t.RouteClass,
	}
}

// Clone is a copy to change.
func (t *Tally) Clone() *Tally {
	c := *t
	return &c
}

// Status is where a policy stands.
type Status struct {
	Policy string
	// Active is the version that decides, since the chain's entry ActiveSeq.
	Active    string
	ActiveSeq int64
	// WindowStart is that of the latest window that was opened.
	WindowStart time.Time
	// NextDeadline is no later than the first deadline of all waiting events; zero where none has one.
	NextDeadline time.Time
	// Deferred is the number of deferred events by capability; those with none are left out.
	Deferred map[string]int64
}

// Key is made of the policy.
func (s *Status) Key() Key { return StatusKey(s.Policy) }

// StatusKey is the key of a policy's status.
func StatusKey(policy string) Key { return Key{Kind: KindStatus, Policy: policy} }

// Clone is a copy to change.
func (s *Status) Clone() *Status {
	c := *s
	c.Deferred = maps.Clone(s.Deferred)
	return &c
}

// Version is the content of a policy under a name that never stands for another.
type Version struct {
	Policy, Version string
	// Content is the policy as canonical JSON; Hash its SHA-256, in lower-case hex.
	Content, Hash string
	// Record is what was recorded when it was first published, as JSON: change, approvals and test.
	Record string
	// PublishedAt is when, and Seq the entry of the chain from which it decided.
	PublishedAt time.Time
	Seq         int64
}

// Key is made of the policy and the version.
func (v *Version) Key() Key { return VersionKey(v.Policy, v.Version) }

// VersionKey is the key of a version.
func VersionKey(policy, version string) Key {
	return Key{Kind: KindVersion, Policy: policy, Name: version}
}

// Nanos is t in nanoseconds since the Unix epoch, and 0 for the zero time: a store has no other word for "none".
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// FromNanos is the inverse of Nanos, in UTC. The epoch itself becomes the zero time.
func FromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
