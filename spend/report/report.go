// Package report says where the money goes: what a book holds now, and what a policy would make of recorded events.
package report

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/reconcile"
)

// Report is where a policy stands at an instant.
type Report struct {
	Policy  string    `json:"policy"`
	Version string    `json:"version"`
	Unit    string    `json:"unit"`
	At      time.Time `json:"at"`
	// WindowStart and WindowEnd bound the account's window; null where the limits hold for ever.
	WindowStart *time.Time `json:"windowStart"`
	WindowEnd   *time.Time `json:"windowEnd"`
	Account     Line       `json:"account"`
	// Capabilities are those of the active version, by name.
	Capabilities []Line `json:"capabilities"`
	// Bands are those reached in the window, Thresholds all that the policy has, the lowest first.
	Bands      []book.Crossing `json:"bands"`
	Thresholds []Threshold     `json:"thresholds"`
	// Chain is the end of the audit chain, which all policies of a book share.
	Chain chain.Head `json:"chain"`
	// OldestDeferred is the longest waiting event, OldestEssential that of the essential capabilities; null where none waits.
	OldestDeferred  *Waiting `json:"oldestDeferred"`
	OldestEssential *Waiting `json:"oldestEssential"`
	// Reconcile is how the settled files are doing; null where nobody watches them.
	Reconcile *Reconciling `json:"reconcile,omitempty"`
	// FirstDay is the day on which the window begins; empty where the limits hold for ever.
	FirstDay string `json:"firstDay,omitempty"`
	// Days are what was admitted on each day, by what holds now: by day, capability, route class and disposition.
	Days []Day `json:"days"`
}

// Line is an account or a capability in the present window.
type Line struct {
	// Capability is empty for the account.
	Capability string     `json:"capability,omitempty"`
	Essential  bool       `json:"essential,omitempty"`
	Limit      book.Units `json:"limit"`
	// Used is Reserved and Settled together; Headroom what is left of the limit, negative where settlements exceeded it.
	Used     book.Units `json:"used"`
	Reserved book.Units `json:"reserved"`
	Settled  book.Units `json:"settled"`
	Headroom book.Units `json:"headroom"`
	// Protected is what only this capability may take of the account, and has not taken yet; for the account, the sum of these.
	Protected book.Units `json:"protected"`
	// Deferred is the number of events that wait, OldestSeconds the age of the oldest.
	Deferred      int64   `json:"deferred"`
	OldestSeconds float64 `json:"oldestSeconds"`
}

// Threshold is a band of the account's limit.
type Threshold struct {
	Band  string     `json:"band"`
	Units book.Units `json:"units"`
	// ReachedAt is when it was reached in the window; null where it was not.
	ReachedAt *time.Time `json:"reachedAt"`
}

// Waiting is a deferred event.
type Waiting struct {
	EventID    string     `json:"eventId"`
	Capability string     `json:"capability"`
	Since      time.Time  `json:"since"`
	AgeSeconds float64    `json:"ageSeconds"`
	Deadline   *time.Time `json:"deadline"`
}

// Day is a number of events that were admitted on one day in the zone of the account's window.
type Day struct {
	Day         string           `json:"day"`
	Capability  string           `json:"capability"`
	RouteClass  string           `json:"routeClass"`
	Disposition book.Disposition `json:"disposition"`
	Events      int64            `json:"events"`
	Reserved    book.Units       `json:"reserved"`
	Settled     book.Units       `json:"settled"`
}

// Reconciling is what became of the settled files of a policy whose folder is watched.
type Reconciling struct {
	Folder       string  `json:"folder"`
	EverySeconds float64 `json:"everySeconds"`
	// Applies tells that the policy lets files change the book.
	Applies bool `json:"applies"`
	// LookedAt is when the folder was last looked at; null before that.
	LookedAt *time.Time `json:"lookedAt"`
	// Files were compared so far, as the audit chain remembers, BadFiles could not be read since the start.
	Files    int64 `json:"files"`
	BadFiles int64 `json:"badFiles"`
	// Last is the file that was compared last; null where there is none.
	Last *reconcile.File `json:"last"`
	// Problem is why the folder or the last bad file cannot be read; empty where all is well.
	Problem string `json:"problem,omitempty"`
}

// Make reads a book. It changes nothing, so time does not pass in it: what is due at now may still be shown as waiting.
func Make(ctx context.Context, store book.Store, policy string, now time.Time) (*Report, error) {
	var r *Report
	m := spend.New(store, policy)
	err := store.View(ctx, func(tx book.Tx) error {
		p, status, err := m.Active(tx)
		if err != nil {
			return err
		}
		w := &writer{tx: tx, policy: p, status: status, now: now.UTC()}
		r, err = w.report()
		return err
	})
	return r, err
}

type writer struct {
	tx     book.Tx
	policy *spend.Policy
	status *book.Status
	now    time.Time
	start  time.Time
}

func (w *writer) report() (*Report, error) {
	r := &Report{
		Policy: w.policy.Name, Version: w.policy.Version, Unit: w.policy.Unit, At: w.now,
		Capabilities: []Line{}, Bands: []book.Crossing{}, Days: []Day{}, Thresholds: []Threshold{},
	}
	if window := w.policy.WindowAt(w.now); !window.Start.IsZero() {
		w.start = window.Start
		r.WindowStart, r.WindowEnd, r.FirstDay = &window.Start, &window.End, w.policy.Day(window.Start)
	}
	account, err := w.line("", w.policy.Limit)
	if err != nil {
		return nil, err
	}
	for _, name := range w.policy.Capabilities() {
		terms := w.policy.Terms(name)
		line, err := w.line(name, terms.Limit)
		if err != nil {
			return nil, err
		}
		line.Essential = terms.Essential
		if left := terms.Protected.Sub(line.Used); left.Sign() > 0 {
			line.Protected = left
			account.Protected = account.Protected.Add(left)
		}
		if err := w.addWaiting(&line, r); err != nil {
			return nil, err
		}
		account.Deferred += line.Deferred
		account.OldestSeconds = max(account.OldestSeconds, line.OldestSeconds)
		r.Capabilities = append(r.Capabilities, line)
	}
	r.Account = account
	record, err := w.tx.Get(book.CounterKey(r.Policy, "", w.start))
	if err != nil {
		return nil, err
	}
	if c, ok := record.(*book.Counter); ok && c.Crossed != nil {
		r.Bands = c.Crossed
	}
	w.addThresholds(r)
	if r.Chain, err = w.tx.Head(); err != nil {
		return nil, err
	}
	return r, w.addDays(r)
}

// line reads the counters of an account or a capability.
func (w *writer) line(capability string, limit book.Units) (Line, error) {
	line := Line{Capability: capability, Limit: limit, Headroom: limit}
	record, err := w.tx.Get(book.CounterKey(w.policy.Name, capability, w.start))
	if err != nil {
		return line, err
	}
	if c, ok := record.(*book.Counter); ok {
		line.Used, line.Settled, line.Reserved = c.Used, c.Settled, c.Reserved()
		line.Headroom = limit.Sub(c.Used)
	}
	return line, nil
}

// addWaiting finds the oldest deferred event of a capability: it is the first of them.
func (w *writer) addWaiting(line *Line, r *Report) error {
	if line.Deferred = w.status.Deferred[line.Capability]; line.Deferred == 0 {
		return nil
	}
	q := book.Query{Policy: w.policy.Name, Capability: line.Capability, States: []book.State{book.Deferred}}
	for e, err := range w.tx.Events(q) {
		if err != nil {
			return err
		}
		oldest := &Waiting{
			EventID: e.ID, Capability: e.Capability, Since: e.AdmittedAt, AgeSeconds: max(0, w.now.Sub(e.AdmittedAt).Seconds()),
		}
		if !e.Deadline.IsZero() {
			deadline := e.Deadline
			oldest.Deadline = &deadline
		}
		line.OldestSeconds = oldest.AgeSeconds
		if r.OldestDeferred == nil || oldest.Since.Before(r.OldestDeferred.Since) {
			r.OldestDeferred = oldest
		}
		if line.Essential && (r.OldestEssential == nil || oldest.Since.Before(r.OldestEssential.Since)) {
			r.OldestEssential = oldest
		}
		break
	}
	return nil
}

func (w *writer) addThresholds(r *Report) {
	w.policy.Thresholds(func(band string, units book.Units) {
		t := Threshold{Band: band, Units: units}
		for i := range r.Bands {
			if r.Bands[i].Band == band {
				t.ReachedAt = &r.Bands[i].At
			}
		}
		r.Thresholds = append(r.Thresholds, t)
	})
}

func (w *writer) addDays(r *Report) error {
	for record, err := range w.tx.List(book.KindTally, w.policy.Name) {
		if err != nil {
			return err
		}
		if t := record.(*book.Tally); t.Events > 0 {
			r.Days = append(r.Days, Day{t.Day, t.Capability, t.RouteClass, t.Disposition, t.Events, t.Reserved, t.Settled})
		}
	}
	slices.SortFunc(r.Days, func(a, b Day) int {
		return cmp.Or(
			cmp.Compare(a.Day, b.Day), cmp.Compare(a.Capability, b.Capability),
			cmp.Compare(a.RouteClass, b.RouteClass), cmp.Compare(a.Disposition, b.Disposition),
		)
	})
	return nil
}
