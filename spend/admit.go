package spend

import (
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tapyr/tapyr/spend/book"
)

// Admission asks for an event to be paid.
type Admission struct {
	// EventID names the logical event, whatever happens on the way: a retry has the same. 1 to 512 bytes.
	EventID string `json:"event_id"`
	// Capability is what the event asks for, by its stable name.
	Capability string `json:"capability"`
	// Class is the caller's class of input and Size its size, for reports and test runs. Optional.
	Class string `json:"class,omitempty"`
	Size  int64  `json:"size,omitempty"`
	// Vars are variables for the request of a route that tapyr delivers itself.
	Vars map[string]string `json:"vars,omitempty"`
	// Reference says where the payload is, ContentHash is a hash of it. The payload itself has no place here.
	Reference   string `json:"reference,omitempty"`
	ContentHash string `json:"content_hash,omitempty"`
}

// maxTextBytes bounds every text that a caller gives.
const maxTextBytes = 512

// checkText is nil where a text is valid UTF-8 and no longer than allowed.
func checkText(field, text string) error {
	if len(text) > maxTextBytes || !utf8.ValidString(text) {
		if len(text) > 64 {
			text = text[:64] + "..."
		}
		return &InputError{field, text, "UTF-8 text of at most " + strconv.Itoa(maxTextBytes) + " bytes"}
	}
	return nil
}

func (a Admission) check() error {
	if a.EventID == "" {
		return &InputError{"event id", "", "a name that a retry of the event has too"}
	}
	if a.Size < 0 {
		return &InputError{"size", strconv.FormatInt(a.Size, 10), "a number from 0"}
	}
	texts := [...][2]string{
		{"event id", a.EventID},
		{"class", a.Class},
		{"reference", a.Reference},
		{"content hash", a.ContentHash},
	}
	for _, t := range texts {
		if err := checkText(t[0], t[1]); err != nil {
			return err
		}
	}
	for name, value := range a.Vars {
		if err := checkText("variable "+strconv.Quote(name), name+value); err != nil {
			return err
		}
	}
	return nil
}

// Admit decides for an event: the first of the capability's routes that fits is reserved, and if none does, its fallback holds.
// An event that was seen before gets the decision that holds for it, whatever else is asked now. Errors are *InputError,
// *UnknownCapabilityError, *NoPolicyError, *PrunedError and *book.StorageError; after any of them nothing is reserved.
func (m *Machine) Admit(ctx context.Context, now time.Time, a Admission) (Outcome, error) {
	if err := a.check(); err != nil {
		return Outcome{}, err
	}
	ctx = book.EventKey(m.policy, a.EventID).Expect(ctx)
	return m.run(ctx, now, func(s *step) (Outcome, error) { return s.admit(a) })
}

func (s *step) admit(a Admission) (Outcome, error) {
	seen, err := s.event(a.EventID)
	if err != nil {
		return Outcome{}, err
	}
	if seen != nil {
		return s.outcome(seen, true)
	}
	c := s.policy.capabilities[a.Capability]
	if c == nil {
		return Outcome{}, &UnknownCapabilityError{a.Capability, s.policy.Version, s.policy.Capabilities()}
	}
	e := &book.Event{
		Policy: s.m.policy, ID: a.EventID, Capability: a.Capability,
		Class: a.Class, Size: a.Size, Vars: a.Vars, Reference: a.Reference, ContentHash: a.ContentHash,
	}
	if err := e.BecomeAccepted(s.now); err != nil {
		return Outcome{}, err
	}
	e.Day = s.policy.Day(s.now)
	if c.deadline > 0 {
		e.Deadline, e.OnDeadline = s.now.Add(c.deadline), c.onDeadline
	}
	q, err := s.quote(c)
	if err != nil {
		return Outcome{}, err
	}
	switch r := q.first(c.routes); {
	case r != nil:
		err = s.reserve(e, r)
	case c.fallback == book.Defer:
		err = e.BecomeDeferred(s.now)
	case c.fallback == book.Reject:
		err = e.BecomeRejected(s.now)
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := s.decide(e, kindAdmission, "", q); err != nil {
		return Outcome{}, err
	}
	if err := s.keep(nil, e); err != nil {
		return Outcome{}, err
	}
	return s.outcome(e, false)
}

// event is a stored event, or nil.
func (s *step) event(id string) (*book.Event, error) {
	record, err := s.tx.Get(book.EventKey(s.m.policy, id))
	if err != nil || record == nil {
		return nil, err
	}
	e := record.(*book.Event)
	if e.Pruned {
		return nil, &PrunedError{id}
	}
	return e, nil
}

// quote is what a capability may still spend in the current window.
type quote struct {
	start time.Time
	// accountUsed, ownUsed and protected are the left sides of the two conditions, without the cost; protected is what the
	// others have protected and not used.
	accountUsed, ownUsed, protected book.Units
	accountLimit, ownLimit          book.Units
}

func (s *step) quote(c *capability) (quote, error) {
	q := quote{start: s.policy.WindowAt(s.now).Start, accountLimit: s.policy.Limit, ownLimit: c.limit}
	var err error
	if q.accountUsed, err = s.used("", q.start); err != nil {
		return q, err
	}
	if q.ownUsed, err = s.used(c.name, q.start); err != nil {
		return q, err
	}
	for _, other := range s.policy.offered {
		if other == c || other.protected.Sign() == 0 {
			continue
		}
		used, err := s.used(other.name, q.start)
		if err != nil {
			return q, err
		}
		if left := other.protected.Sub(used); left.Sign() > 0 {
			q.protected = q.protected.Add(left)
		}
	}
	return q, nil
}

// obstacle is the limit that a cost does not fit: "account", "capability", or empty where it fits.
func (q *quote) obstacle(cost book.Units) string {
	switch {
	case q.accountUsed.Add(cost).Add(q.protected).Cmp(q.accountLimit) > 0:
		return "account"
	case q.ownUsed.Add(cost).Cmp(q.ownLimit) > 0:
		return "capability"
	}
	return ""
}

// first is the first route that fits, or nil.
func (q *quote) first(routes []route) *route {
	for i := range routes {
		if q.obstacle(routes[i].cost) == "" {
			return &routes[i]
		}
	}
	return nil
}

// reserve gives an event a route, in the current window.
func (s *step) reserve(e *book.Event, r *route) error {
	e.Outbox = r.outbox
	return e.BecomeReserved(s.now, r.name, r.class, r.cost, s.policy.WindowAt(s.now).Start)
}

// outcome is that of a step about an event that is stored.
func (s *step) outcome(e *book.Event, repeated bool) (Outcome, error) {
	d, err := decisionOf(s.tx, e)
	return Outcome{Decision: d, Repeated: repeated}, err
}

// decisionOf is the decision that holds for an event.
func decisionOf(tx book.Tx, e *book.Event) (Decision, error) {
	entry, err := tx.Entry(e.DecisionSeq)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{
		EventID: e.ID, Capability: e.Capability, Disposition: e.Disposition, ReservedUnits: e.Reserved,
		PolicyVersion: e.Version, PreviousHash: entry.Previous, State: e.State, At: e.DecidedAt, EntryHash: entry.Hash,
	}
	if e.Route != "" {
		route := e.Route
		d.Route = &route
	}
	if e.State == book.Settled {
		actual := e.Actual
		d.ActualUnits = &actual
	}
	return d, nil
}
