// Package audit says in which way a book of paid calls is not what its chain says. Package spend makes the comparison.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/spend/book"
)

// Result is how a book compares with its own chain.
type Result struct {
	// Policies, Events and Totals (counters and tallies) are how many were derived from the chain and compared.
	Policies int64 `json:"policies"`
	Events   int64 `json:"events"`
	Totals   int64 `json:"totals"`
	// PrunedEvents are events whose entries were pruned: of them the chain proves only that they were, and the totals count them
	// by what the entry of the pruning says.
	PrunedEvents int64 `json:"prunedEvents"`
	// Difference is the first, nil where there is none: those that show in the chain come first, then those of the records.
	Difference *Difference `json:"difference"`
}

// Difference is something that the book says and its chain does not.
type Difference struct {
	Policy string `json:"policy"`
	// Record is the kind of record: entry, event, counter, tally, status or version. Name tells which one it is.
	Record string `json:"record"`
	Name   string `json:"name"`
	// Event is the event that the record is about, if it is about one, and Seq the entry at which the difference shows, or 0.
	Event string `json:"event,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
	// Field is what differs; Stored is its value in the book and Derived what follows from the chain.
	Field   string `json:"field"`
	Stored  string `json:"stored"`
	Derived string `json:"derived"`
}

// String is one line for people.
func (d *Difference) String() string {
	at := ""
	if d.Seq > 0 {
		at = " at entry " + strconv.FormatInt(d.Seq, 10)
	}
	return fmt.Sprintf("%s %s of policy %q%s: %s is %q, the chain says %q", d.Record, d.Name, d.Policy, at, d.Field, d.Stored, d.Derived)
}

// Compare names the first field in which two records of one key differ, nil where there is none. One of them may be nil, for a
// record that is not there.
func Compare(stored, derived book.Record) *Difference {
	r := stored
	if r == nil {
		r = derived
	}
	d := describe(r)
	switch {
	case stored == nil:
		d.Field, d.Stored, d.Derived = "record", "missing", "present"
		return d
	case derived == nil:
		d.Field, d.Stored, d.Derived = "record", "present", "missing"
		return d
	}
	next, stop := iter.Pull2(fields(derived))
	defer stop()
	for name, value := range fields(stored) {
		if _, want, _ := next(); value != want {
			d.Field, d.Stored, d.Derived = name, value, want
			return d
		}
	}
	return nil
}

// describe names a record.
func describe(r book.Record) *Difference {
	d := &Difference{Policy: r.Key().Policy}
	switch r := r.(type) {
	case *book.Event:
		d.Record, d.Name, d.Event, d.Seq = "event", strconv.Quote(r.ID), r.ID, r.AdmissionSeq
	case *book.Counter:
		d.Record, d.Name = "counter", "of the account"
		if r.Capability != "" {
			d.Name = "of " + strconv.Quote(r.Capability)
		}
		if !r.Start.IsZero() {
			d.Name += " from " + instant(r.Start)
		}
	case *book.Tally:
		d.Record, d.Name = "tally", strings.Join([]string{r.Day, r.Capability, r.RouteClass, string(r.Disposition)}, "/")
	case *book.Status:
		d.Record, d.Name = "status", strconv.Quote(r.Policy)
	case *book.Version:
		d.Record, d.Name, d.Seq = "version", strconv.Quote(r.Version), r.Seq
	}
	return d
}

// fields are the names and values of what the chain tells of a record. What it does not tell is left out: the variables, the
// payload's reference and the response of an event, which have horizons of their own, and the two instants of a status that
// time moves without an entry.
func fields(r book.Record) iter.Seq2[string, string] {
	var list []string
	add := func(name, value string) { list = append(list, name, value) }
	switch r := r.(type) {
	case *book.Event:
		addEvent(r, add)
	case *book.Counter:
		add("window end", instant(r.End))
		add("used", Plain(r.Used))
		add("settled", Plain(r.Settled))
		var crossed []string
		for _, c := range r.Crossed {
			crossed = append(crossed, c.Band+" at "+instant(c.At))
		}
		add("crossed bands", strings.Join(crossed, ", "))
	case *book.Tally:
		add("events", strconv.FormatInt(r.Events, 10))
		add("reserved", Plain(r.Reserved))
		add("settled", Plain(r.Settled))
	case *book.Status:
		add("active version", r.Active)
		add("active since entry", strconv.FormatInt(r.ActiveSeq, 10))
		add("deferred events", fmt.Sprint(r.Deferred)) // fmt sorts the keys
	case *book.Version:
		add("content hash", r.Hash)
		add("content", r.Content)
		add("publication", r.Record)
		add("published", instant(r.PublishedAt))
		add("entry", strconv.FormatInt(r.Seq, 10))
	}
	return func(yield func(string, string) bool) {
		for i := 0; i < len(list); i += 2 {
			if !yield(list[i], list[i+1]) {
				return
			}
		}
	}
}

// Fingerprint is the SHA-256 of what Compare looks at in events, in lower-case hex.
func Fingerprint(events []*book.Event) string {
	hash := sha256.New()
	for _, e := range events {
		for name, value := range fields(e) {
			fmt.Fprintf(hash, "%s %q\n", name, value)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// addEvent adds those of an event.
func addEvent(e *book.Event, add func(name, value string)) {
	add("event id", e.ID)
	add("capability", e.Capability)
	add("state", string(e.State))
	add("disposition", string(e.Disposition))
	add("route", e.Route)
	add("route class", e.RouteClass)
	add("reserved", Plain(e.Reserved))
	add("actual", Plain(e.Actual))
	add("policy version", e.Version)
	add("window start", instant(e.WindowStart))
	add("admitted", instant(e.AdmittedAt))
	add("decided", instant(e.DecidedAt))
	add("updated", instant(e.UpdatedAt))
	add("day", e.Day)
	add("deadline", instant(e.Deadline))
	add("on deadline", string(e.OnDeadline))
	add("waiting", strconv.FormatBool(e.Waiting))
	add("outbox", strconv.FormatBool(e.Outbox))
	add("in doubt", strconv.FormatBool(e.InDoubt))
	add("attempts", strconv.FormatInt(e.Attempts, 10))
	add("result", e.Result)
	add("class", e.Class)
	add("size", strconv.FormatInt(e.Size, 10))
	add("content hash", e.ContentHash)
	add("admission entry", strconv.FormatInt(e.AdmissionSeq, 10))
	add("decision entry", strconv.FormatInt(e.DecisionSeq, 10))
	add("last entry", strconv.FormatInt(e.LastSeq, 10))
	add("pruned", strconv.FormatBool(e.Pruned))
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Plain writes an amount without the zeros behind its decimals: 1.50 is no other amount than 1.5, and a sum that lost a part may
// be written either way.
func Plain(u book.Units) string {
	d := u.Decimal()
	d.Reduce(d)
	return d.Text('f')
}

// DamageError is a stored value that cannot be what it should be.
type DamageError struct {
	// Table and Column say where it stands, Key which record it belongs to.
	Table, Column string
	Key           book.Key
	// Reason quotes the value.
	Reason string
}

// Error names the place.
func (e *DamageError) Error() string {
	return fmt.Sprintf("table %s, record of policy %q %q: column %s: %s", e.Table, e.Key.Policy, e.Key.Name, e.Column, e.Reason)
}
