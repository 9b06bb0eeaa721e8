package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// Options of Run. The zero value changes nothing and lists what is older than DefaultStale.
type Options struct {
	// Apply settles what is matched or corrected, by the rule of Run.
	Apply bool
	// Sum adds the rows of one event up. Without it, an event with several different rows is a conflict.
	Sum bool
	// Stale is the age from which a reservation without a settlement is listed; 0 means DefaultStale.
	Stale time.Duration
	// ReleaseStale gives the units of those back.
	ReleaseStale bool
}

// DefaultStale is two days.
const DefaultStale = 48 * time.Hour

// Item is an event, a row or both.
type Item struct {
	EventID string `json:"eventId"`
	// Line is the row's, from 1; 0 for an event without a row.
	Line       int    `json:"line,omitempty"`
	Capability string `json:"capability,omitempty"`
	Route      string `json:"route,omitempty"`
	State      string `json:"state,omitempty"`
	// ReservedUnits is what was reserved, ActualUnits what the file says, DifferenceUnits the latter less the former.
	ReservedUnits   string     `json:"reservedUnits,omitempty"`
	ActualUnits     string     `json:"actualUnits,omitempty"`
	DifferenceUnits string     `json:"differenceUnits,omitempty"`
	SettledAt       *time.Time `json:"settledAt,omitempty"`
	// Late tells that it was settled after the window of its admission had closed.
	Late bool `json:"late,omitempty"`
	// Reason says why the item is in its list.
	Reason string `json:"reason,omitempty"`
}

// Result is what the comparison found. Lists are in the order of the file, or of admission.
type Result struct {
	Policy string    `json:"policy"`
	At     time.Time `json:"at"`
	// Rows were read; BadRows of them cannot be, Duplicates are exact repetitions of another.
	Rows       int        `json:"rows"`
	Duplicates int        `json:"duplicates"`
	BadRows    []RowError `json:"badRows"`
	// Matched are events charged with exactly what was reserved or settled.
	Matched int `json:"matched"`
	// Corrected are reservations charged with another amount.
	Corrected []Item `json:"corrected"`
	// UnmatchedRows are charges for events that are unknown or hold no units; UnmatchedEvents are reservations, and
	// settlements of the time that the file covers, without a row.
	UnmatchedRows   []Item `json:"unmatchedRows"`
	UnmatchedEvents []Item `json:"unmatchedEvents"`
	// Conflicts contradict what is settled, or each other. They are for people to decide.
	Conflicts []Item `json:"conflicts"`
	// Late is how many of the matched and corrected were settled after their window.
	Late int `json:"late"`
	// Stale are reservations that nobody settled in time.
	Stale []Item `json:"stale"`
	// ReservedUnits and ActualUnits are the sums over the matched and corrected.
	ReservedUnits book.Units `json:"reservedUnits"`
	ActualUnits   book.Units `json:"actualUnits"`
	// Applied and Released count what was changed, Failed lists what could not be.
	Applied  int    `json:"applied"`
	Released int    `json:"released"`
	Failed   []Item `json:"failed"`
}

// Clean tells that nothing is left for people to look at.
func (r *Result) Clean() bool {
	return len(r.BadRows)+len(r.UnmatchedRows)+len(r.UnmatchedEvents)+len(r.Conflicts)+len(r.Stale)+len(r.Failed) == 0
}

// Run compares the rows of a settled file with the book of a policy.
//
// The rule, which Options.Apply follows:
//
//   - An exact repetition of a row (event, amount and time) counts once.
//   - Several different rows of one event are added up with Options.Sum, and are a conflict without.
//   - An event that holds units and has a row is settled with the row's amount, be it more or less than was reserved, in the
//     window of its admission, be it closed (then it is late).
//   - An event that is settled with the same amount is matched; with another one it is a conflict. A settlement is never
//     changed.
//   - A row for an event that is unknown, or that holds no units because it was released, expired, refused or served with the
//     minimal result, changes nothing. To charge it nevertheless, admit and settle it under an id of its own.
//   - An event that holds units and has no row keeps them. Once it is stale, Options.ReleaseStale gives them back.
//
// Running the same file again changes nothing more.
func Run(ctx context.Context, store book.Store, policy string, now time.Time, rows iter.Seq2[Row, error], o Options) (*Result, error) {
	if o.Stale <= 0 {
		o.Stale = DefaultStale
	}
	r := &runner{
		result: &Result{
			Policy: policy, At: now.UTC(), BadRows: []RowError{}, Corrected: []Item{}, UnmatchedRows: []Item{},
			UnmatchedEvents: []Item{}, Conflicts: []Item{}, Stale: []Item{}, Failed: []Item{},
		},
		charges: make(map[string]*charge), options: o,
	}
	if err := r.read(rows); err != nil {
		return nil, err
	}
	err := store.View(ctx, func(tx book.Tx) error {
		r.tx, r.policy = tx, policy
		if err := r.compareRows(); err != nil {
			return err
		}
		return r.compareEvents(now)
	})
	if err != nil {
		return nil, err
	}
	return r.result, r.apply(ctx, spend.New(store, policy), now)
}

// charge is what a file says of one event.
type charge struct {
	Row
	rows []Row
	// seen tells that the event was found.
	seen bool
}

type runner struct {
	result  *Result
	options Options
	charges map[string]*charge
	order   []*charge
	// from and to are the first and the last time in the file.
	from, to time.Time
	tx       book.Tx
	policy   string
	settle   []*charge
	release  []*book.Event
}

func (r *runner) read(rows iter.Seq2[Row, error]) error {
	for row, err := range rows {
		var bad *RowError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		r.result.Rows++
		if bad != nil {
			r.result.BadRows = append(r.result.BadRows, *bad)
			continue
		}
		if !row.SettledAt.IsZero() {
			if r.from.IsZero() || row.SettledAt.Before(r.from) {
				r.from = row.SettledAt
			}
			if row.SettledAt.After(r.to) {
				r.to = row.SettledAt
			}
		}
		r.add(row)
	}
	return nil
}

func (r *runner) add(row Row) {
	c := r.charges[row.EventID]
	if c == nil {
		c = &charge{Row: row, rows: []Row{row}}
		r.charges[row.EventID] = c
		r.order = append(r.order, c)
		return
	}
	same := func(x Row) bool { return x.Amount.Cmp(row.Amount) == 0 && x.SettledAt.Equal(row.SettledAt) }
	if slices.ContainsFunc(c.rows, same) {
		r.result.Duplicates++
		return
	}
	c.rows = append(c.rows, row)
	c.Amount = c.Amount.Add(row.Amount)
	if row.SettledAt.After(c.SettledAt) {
		c.SettledAt = row.SettledAt
	}
}

func (r *runner) compareRows() error {
	for _, c := range r.order {
		record, err := r.tx.Get(book.EventKey(r.policy, c.EventID))
		if err != nil {
			return err
		}
		item := Item{EventID: c.EventID, Line: c.Line, ActualUnits: c.Amount.String()}
		if !c.SettledAt.IsZero() {
			at := c.SettledAt
			item.SettledAt = &at
		}
		e, known := record.(*book.Event)
		if known {
			c.seen = true
			item.describe(e)
		}
		switch {
		case len(c.rows) > 1 && !r.options.Sum:
			r.result.Conflicts = append(r.result.Conflicts, item.because("the file has different rows for it in lines "+linesOf(c.rows)))
		case c.Amount.Sign() < 0:
			r.result.Conflicts = append(r.result.Conflicts, item.because("the file takes more back than it charges"))
		case !known:
			r.result.UnmatchedRows = append(r.result.UnmatchedRows, item.because("the event is unknown"))
		case e.Pruned:
			r.result.UnmatchedRows = append(r.result.UnmatchedRows, item.because("the event's decision was pruned"))
		case !e.Charged():
			r.result.UnmatchedRows = append(r.result.UnmatchedRows, item.because("the event holds no units: it is "+string(e.State)))
		default:
			if err := r.compare(c, e, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare handles a row whose event is charged.
func (r *runner) compare(c *charge, e *book.Event, item Item) error {
	taken := e.Units()
	difference := c.Amount.Sub(taken)
	item.DifferenceUnits = difference.String()
	if e.State == book.Settled && difference.Sign() != 0 {
		r.result.Conflicts = append(r.result.Conflicts, item.because("the event is settled with "+taken.String()))
		return nil
	}
	record, err := r.tx.Get(book.CounterKey(r.policy, "", e.WindowStart))
	if err != nil {
		return err
	}
	if w, ok := record.(*book.Counter); ok && !w.End.IsZero() && !c.SettledAt.Before(w.End) {
		item.Late = true
		r.result.Late++
	}
	r.result.ReservedUnits = r.result.ReservedUnits.Add(e.Reserved)
	r.result.ActualUnits = r.result.ActualUnits.Add(c.Amount)
	if difference.Sign() == 0 {
		r.result.Matched++
	} else {
		direction := "over"
		if difference.Sign() < 0 {
			direction = "under"
		}
		r.result.Corrected = append(r.result.Corrected, item.because(direction))
	}
	if e.State.Holds() {
		r.settle = append(r.settle, c)
	}
	return nil
}

// compareEvents finds the events without rows.
func (r *runner) compareEvents(now time.Time) error {
	charged := book.Query{Policy: r.policy, States: []book.State{book.Reserved, book.Dispatched, book.Settled}}
	for e, err := range r.tx.Events(charged) {
		if err != nil {
			return err
		}
		if c := r.charges[e.ID]; c != nil || e.Pruned {
			continue
		}
		item := Item{EventID: e.ID}
		item.describe(e)
		switch {
		case !e.State.Holds():
			if !e.UpdatedAt.Before(r.from) && !e.UpdatedAt.After(r.to) && !r.to.IsZero() {
				r.result.UnmatchedEvents = append(r.result.UnmatchedEvents, item.because("settled, but not in the file"))
			}
			continue
		case !e.DecidedAt.After(r.to):
			r.result.UnmatchedEvents = append(r.result.UnmatchedEvents, item.because("reserved, but not in the file"))
		}
		if !now.Before(e.DecidedAt.Add(r.options.Stale)) {
			r.result.Stale = append(r.result.Stale, item.because("reserved since "+e.DecidedAt.UTC().Format(time.RFC3339)))
			r.release = append(r.release, e)
		}
	}
	return nil
}

// apply changes what the options allow.
func (r *runner) apply(ctx context.Context, m *spend.Machine, now time.Time) error {
	if r.options.Apply {
		for _, c := range r.settle {
			if _, err := m.Settle(ctx, now, c.EventID, c.Amount); err != nil {
				if fatal(err) {
					return err
				}
				r.result.Failed = append(r.result.Failed, Item{EventID: c.EventID, Line: c.Line, Reason: err.Error()})
				continue
			}
			r.result.Applied++
		}
	}
	if r.options.ReleaseStale {
		for _, e := range r.release {
			reason := fmt.Sprintf("stale: not settled within %s", r.options.Stale)
			if _, err := m.Release(ctx, now, e.ID, reason); err != nil {
				if fatal(err) {
					return err
				}
				r.result.Failed = append(r.result.Failed, Item{EventID: e.ID, Reason: err.Error()})
				continue
			}
			r.result.Released++
		}
	}
	return nil
}

// fatal tells whether an error would meet the next event too.
func fatal(err error) bool {
	var storage *book.StorageError
	return errors.As(err, &storage) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (i *Item) describe(e *book.Event) {
	i.Capability, i.Route, i.State = e.Capability, e.Route, string(e.State)
	i.ReservedUnits = e.Reserved.String()
}

func (i Item) because(reason string) Item {
	i.Reason = reason
	return i
}

func linesOf(rows []Row) string {
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = fmt.Sprint(row.Line)
	}
	return strings.Join(lines, ", ")
}
