package spend

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// Explanation is why an event got its decision.
type Explanation struct {
	Decision Decision `json:"decision"`
	// Policy is the name, and Version what decided.
	Policy  string           `json:"policy"`
	Version ExplainedVersion `json:"version"`
	// WindowStart is the start of the window that counted; null where the limits hold for ever or nothing was reserved.
	WindowStart *time.Time `json:"windowStart"`
	// The counters as they stood before the decision, and the limits.
	AccountUnits    book.Units `json:"accountUnits"`
	AccountLimit    book.Units `json:"accountLimit"`
	CapabilityUnits book.Units `json:"capabilityUnits"`
	CapabilityLimit book.Units `json:"capabilityLimit"`
	// ProtectedUnits is what other capabilities had protected and not used.
	ProtectedUnits book.Units `json:"protectedUnits"`
	// Alternatives are the capability's routes in the order of preference.
	Alternatives []Alternative `json:"alternatives"`
	// Fallback is what held if no route fitted.
	Fallback book.Disposition `json:"fallback"`
	// Attempts counts the attempts to deliver the event, Result is the category of the last; Response is what came back, until its
	// horizon. InDoubt tells that the vendor may have charged for one, and that nobody has settled or released the event since.
	Attempts int64  `json:"attempts"`
	Result   string `json:"result,omitempty"`
	Response string `json:"response,omitempty"`
	InDoubt  bool   `json:"inDoubt"`
	// Entries are the event's entries of the chain, the oldest first.
	Entries []json.RawMessage `json:"entries"`
}

// ExplainedVersion is a version of a policy and how it first came into force.
type ExplainedVersion struct {
	Version string `json:"version"`
	// Active tells that it is in force now.
	Active      bool      `json:"active"`
	ContentHash string    `json:"contentHash"`
	PublishedAt time.Time `json:"publishedAt"`
	// Seq is the entry of the chain from which it decided.
	Seq int64 `json:"seq"`
	// Publication holds the change, its approvals and the test call.
	Publication json.RawMessage `json:"publication,omitempty"`
}

// Alternative is a route that was considered.
type Alternative struct {
	Route string     `json:"route"`
	Class string     `json:"class,omitempty"`
	Cost  book.Units `json:"cost"`
	Taken bool       `json:"taken"`
	// Obstacle is the limit that the route did not fit: account or capability; empty where it fitted. A route that fits behind
	// the one taken was not needed.
	Obstacle string `json:"obstacle,omitempty"`
}

// Explain tells which version, counters and entry decided an event, and what else there was. It changes nothing.
func (m *Machine) Explain(ctx context.Context, event string) (Explanation, error) {
	var x Explanation
	err := m.store.View(ctx, func(tx book.Tx) error {
		s := &step{m: m, tx: tx}
		e, err := s.known(event)
		if err != nil {
			return err
		}
		x = Explanation{Policy: m.policy, Attempts: e.Attempts, Result: e.Result, Response: e.Response, InDoubt: e.InDoubt}
		if x.Decision, err = decisionOf(tx, e); err != nil {
			return err
		}
		if !e.WindowStart.IsZero() {
			start := e.WindowStart
			x.WindowStart = &start
		}
		if err := x.explainVersion(tx, m, e); err != nil {
			return err
		}
		return x.addEntries(tx, e.LastSeq)
	})
	return x, err
}

func (x *Explanation) explainVersion(tx book.Tx, m *Machine, e *book.Event) error {
	record, err := tx.Get(book.VersionKey(m.policy, e.Version))
	if err != nil {
		return err
	}
	_, status, err := m.Active(tx)
	if err != nil {
		return err
	}
	if v, ok := record.(*book.Version); ok {
		x.Version = explainVersion(v, status)
	}
	p, err := m.version(tx, e.Version)
	if err != nil {
		return err
	}
	entry, err := tx.Entry(e.DecisionSeq)
	if err != nil {
		return err
	}
	c := p.capabilities[e.Capability]
	if c == nil { // it was dropped while the event waited
		c = &capability{}
	}
	q := quote{accountLimit: p.Limit, ownLimit: c.limit}
	for name, into := range map[string]*book.Units{
		"account_units": &q.accountUsed, "capability_units": &q.ownUsed, "protected_units": &q.protected,
	} {
		if text := entry.Text(name); text != "" {
			if *into, err = book.RestoreUnits(text); err != nil {
				return err
			}
		}
	}
	x.AccountUnits, x.AccountLimit, x.CapabilityUnits, x.CapabilityLimit = q.accountUsed, q.accountLimit, q.ownUsed, q.ownLimit
	x.ProtectedUnits, x.Fallback = q.protected, c.fallback
	x.Alternatives = []Alternative{}
	for _, r := range c.routes {
		x.Alternatives = append(x.Alternatives, Alternative{r.name, r.class, r.cost, r.name == e.Route, q.obstacle(r.cost)})
	}
	return nil
}

func explainVersion(v *book.Version, status *book.Status) ExplainedVersion {
	return ExplainedVersion{v.Version, v.Version == status.Active, v.Hash, v.PublishedAt, v.Seq, json.RawMessage(v.Record)}
}

// Versions are all versions of the machine's policy, in the order of their first publication.
func (m *Machine) Versions(ctx context.Context) ([]ExplainedVersion, error) {
	var versions []ExplainedVersion
	err := m.store.View(ctx, func(tx book.Tx) error {
		versions = nil
		_, status, err := m.Active(tx)
		if err != nil {
			return err
		}
		for r, err := range tx.List(book.KindVersion, m.policy) {
			if err != nil {
				return err
			}
			versions = append(versions, explainVersion(r.(*book.Version), status))
		}
		return nil
	})
	slices.SortFunc(versions, func(a, b ExplainedVersion) int { return cmp.Compare(a.Seq, b.Seq) })
	return versions, err
}

// Policies are the names of the policies of which a version was published, sorted.
func Policies(ctx context.Context, store book.Store) ([]string, error) {
	var names []string
	err := store.View(ctx, func(tx book.Tx) error {
		names = nil
		for r, err := range tx.List(book.KindStatus, "") {
			if err != nil {
				return err
			}
			names = append(names, r.Key().Policy)
		}
		return nil
	})
	return names, err
}

// addEntries follows the event's entries backwards.
func (x *Explanation) addEntries(tx book.Tx, last int64) error {
	return eachEntry(tx, last, func(e chain.Entry) {
		x.Entries = slices.Insert(x.Entries, 0, json.RawMessage(e.AppendJSON(nil)))
	})
}

// eachEntry visits the entries of an event, the last one first.
func eachEntry(tx book.Tx, last int64, visit func(chain.Entry)) error {
	for seq := last; seq > 0; {
		e, err := tx.Entry(seq)
		if err != nil {
			return err
		}
		if e.Seq == 0 {
			return nil
		}
		visit(e)
		seq = e.Number("event_previous")
	}
	return nil
}
