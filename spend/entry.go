package spend

import (
	"context"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// The kinds of entries in the audit chain.
const (
	kindAdmission   = "admission"   // an event was admitted
	kindDecision    = "decision"    // another decision holds for an event from now on
	kindAttempt     = "attempt"     // a delivery was attempted
	kindSettlement  = "settlement"  // what was really spent is charged
	kindRelease     = "release"     // the units were given back
	kindPublication = "publication" // a policy's version decides from here on
	kindNote        = "note"        // something about the policy that changes nothing in the book
)

// The causes of changed decisions.
const (
	causeWindow      = "window opened"
	causePolicy      = "policy published"
	causeFreed       = "units came back"
	causeDeadline    = "deadline"
	causeUnavailable = "route unavailable"
)

// decide records the decision that an event now has, and what it rested on.
func (s *step) decide(e *book.Event, kind, cause string, q quote) error {
	e.Version, e.DecidedAt = s.policy.Version, s.now
	fields := make([]chain.Field, 0, 24) // nearly in order, with room for what append, seal and Seal add
	if s.m.bare {
		return s.append(e, kind, appendDecision(fields, e))
	}
	fields = append(fields,
		chain.Field{Name: "account_units", Text: q.accountUsed.String()},
		chain.Field{Name: "capability_units", Text: q.ownUsed.String()},
		chain.Field{Name: "protected_units", Text: q.protected.String()},
		chain.Field{Name: "state", Text: string(e.State)},
	)
	fields = appendText(fields, "cause", cause)
	fields = appendText(fields, "class", e.Class)
	fields = appendText(fields, "content_hash", e.ContentHash)
	if e.Due() {
		fields = appendTime(fields, "deadline", e.Deadline)
	}
	fields = appendDecision(fields, e)
	if e.Route != "" {
		fields = appendText(fields, "route_class", e.RouteClass)
		fields = appendTime(fields, "window_start", e.WindowStart)
	}
	if e.Size > 0 {
		fields = append(fields, chain.Int("size", e.Size))
	}
	return s.append(e, kind, fields)
}

// appendDecision adds the members that every decision has, and a bare one has alone.
func appendDecision(fields []chain.Field, e *book.Event) []chain.Field {
	route := chain.Field{Name: "route", Text: e.Route}
	if e.Route == "" {
		route.Literal = "null"
	}
	return append(fields,
		chain.Field{Name: "capability", Text: e.Capability},
		chain.Field{Name: "disposition", Text: string(e.Disposition)},
		chain.Field{Name: "event_id", Text: e.ID},
		chain.Field{Name: "policy_version", Text: e.Version},
		chain.Field{Name: "reserved_units", Text: e.Reserved.String()},
		route,
	)
}

// record notes a step about an event that decides nothing.
func (s *step) record(e *book.Event, kind string, fields ...chain.Field) error {
	if s.m.bare {
		return nil
	}
	return s.append(e, kind, append(fields, chain.Field{Name: "event_id", Text: e.ID}))
}

// append seals an entry and makes it the event's last. The entries of an event are linked backwards, so that they are found
// without an index.
func (s *step) append(e *book.Event, kind string, fields []chain.Field) error {
	if !s.m.bare && e.LastSeq > 0 {
		fields = append(fields, chain.Int("event_previous", e.LastSeq))
	}
	seq, err := s.seal(kind, fields)
	if err != nil {
		return err
	}
	e.LastSeq = seq
	switch kind {
	case kindAdmission:
		e.AdmissionSeq, e.DecisionSeq = seq, seq
	case kindDecision:
		e.DecisionSeq = seq
	}
	return nil
}

// seal puts an entry at the end of the chain.
func (s *step) seal(kind string, fields []chain.Field) (seq int64, err error) {
	head, err := s.tx.Head()
	if err != nil {
		return 0, err
	}
	if !s.m.bare {
		fields = append(appendText(fields, "kind", kind),
			chain.Field{Name: "policy", Text: s.m.policy},
			chain.Field{Name: "at", Text: s.now.UTC().Format(time.RFC3339Nano)},
		)
	}
	entry, err := chain.Seal(head, s.m.bare, fields...)
	if err != nil {
		return 0, err
	}
	return entry.Seq, s.tx.Append(entry)
}

// Note puts an entry at the end of the chain that changes nothing in the book.
func (m *Machine) Note(ctx context.Context, now time.Time, fields ...chain.Field) error {
	_, err := m.run(ctx, now, func(s *step) (Outcome, error) {
		_, err := s.seal(kindNote, append([]chain.Field(nil), fields...)) // the step may run again
		return Outcome{}, err
	})
	return err
}

func appendText(fields []chain.Field, name, text string) []chain.Field {
	if text == "" {
		return fields
	}
	return append(fields, chain.Field{Name: name, Text: text})
}

func appendTime(fields []chain.Field, name string, t time.Time) []chain.Field {
	if t.IsZero() {
		return fields
	}
	return append(fields, chain.Field{Name: name, Text: t.UTC().Format(time.RFC3339Nano)})
}
