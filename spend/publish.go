package spend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/window"
)

// Publication is what comes with a policy's version when it is put in force.
type Publication struct {
	// Change is the identifier under which both approvals were given.
	Change string `json:"change"`
	// Approvals are at least one for "routing" and one for "budget", by two different names.
	Approvals []Approval `json:"approvals"`
	// Test is what a representative call came to, or nil.
	Test *Test `json:"test,omitempty"`
}

// Approval is one consent to a publication.
type Approval struct {
	// Role is routing or budget.
	Role string `json:"role"`
	// By is who approved.
	By string `json:"by"`
}

// Test is the result of a representative call under the policy, without any of its payload.
type Test struct {
	// InputClass says what kind of input was sent.
	InputClass string `json:"inputClass"`
	// RouteClass is the class (or, for a route without one, the name) of the route that was taken.
	RouteClass string `json:"routeClass"`
	// Outcome is one word, such as pass. One that begins with "fail" or "error" keeps the policy from being published.
	Outcome string `json:"outcome"`
}

// The roles of an approval.
const (
	roleRouting = "routing"
	roleBudget  = "budget"
)

// check tells what a publication lacks.
func (pub Publication) check(p *Policy) error {
	if strings.TrimSpace(pub.Change) == "" {
		return p.errorf("has no change id, want the one under which it was approved")
	}
	names := make(map[string]string) // by role, folded: Alice and alice are one person
	people := make(map[string]bool)
	for _, a := range pub.Approvals {
		by := strings.ToLower(strings.Join(strings.Fields(a.By), " "))
		switch {
		case a.Role != roleRouting && a.Role != roleBudget:
			return p.errorf("approval %q by %q: want the role routing or budget", a.Role, a.By)
		case by == "":
			return p.errorf("the %s approval has no name", a.Role)
		}
		names[a.Role], people[by] = by, true
	}
	for _, role := range [...]string{roleRouting, roleBudget} {
		if names[role] == "" {
			return p.errorf("the %s approval of change %q is missing; want one for routing and one for budget", role, pub.Change)
		}
	}
	if len(people) < 2 {
		return p.errorf("both approvals of change %q are by %q; want two different names", pub.Change, pub.Approvals[0].By)
	}
	return pub.Test.check(p)
}

func (t *Test) check(p *Policy) error {
	if t == nil {
		return nil
	}
	outcome := strings.ToLower(t.Outcome)
	if outcome == "" || strings.HasPrefix(outcome, "fail") || strings.HasPrefix(outcome, "error") {
		return p.errorf("its test call came to %q; want one that passed", t.Outcome)
	}
	var classes []string
	for name, r := range p.Spec.Routes {
		if r.Class == "" {
			r.Class = name
		}
		classes = append(classes, r.Class)
	}
	if !slices.Contains(classes, t.RouteClass) {
		slices.Sort(classes)
		return p.errorf("its test call took the route class %q; the policy has %s", t.RouteClass, strings.Join(slices.Compact(classes), ", "))
	}
	for _, text := range [...]string{t.InputClass, t.Outcome} {
		if err := checkText("test result", text); err != nil {
			return err
		}
	}
	return nil
}

// Publish puts a version of the policy in force. What was recorded of it, and the entry of the chain from which it decides, can
// be asked for later (see Explain). Deferred events are offered under it at once. Counters go on: they belong to the
// capability's name.
//
// A version that was published before must have the same content; it then comes into force again, or, where it is in force,
// nothing is changed. The unit of a policy cannot change. Where its window does, the events of the window that is then open
// are counted anew. Errors are *PolicyError and *book.StorageError.
func (m *Machine) Publish(ctx context.Context, now time.Time, p *Policy, pub Publication) (Outcome, error) {
	if p.Name != m.policy {
		return Outcome{}, p.errorf("belongs to another policy than %q", m.policy)
	}
	if err := pub.check(p); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	err := m.store.Update(ctx, func(tx book.Tx) error {
		out = Outcome{}
		s := &step{m: m, tx: tx, now: now.UTC()}
		err := s.publish(p, &pub, &out)
		out.Others, out.Crossed = s.others, s.crossed
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	m.remember(p)
	return out, nil
}

func (s *step) publish(p *Policy, pub *Publication, out *Outcome) error {
	known, err := s.tx.Get(book.VersionKey(p.Name, p.Version))
	if err != nil {
		return err
	}
	if v, ok := known.(*book.Version); ok && v.Hash != p.hash {
		return p.errorf("was published on %s with the content %s and cannot become %s; give the new content a new version",
			v.PublishedAt.Format(time.DateOnly), v.Hash[:12], p.hash[:12])
	}
	record, err := s.tx.Get(book.StatusKey(p.Name))
	if err != nil {
		return err
	}
	out.PolicyVersion = p.Version
	if record == nil {
		return s.activate(p, pub)
	}
	if err := s.begin(); err != nil { // up to now the old version holds
		return err
	}
	if s.status.Active == p.Version {
		out.Repeated = true
		return s.end()
	}
	if s.policy.Unit != p.Unit {
		return p.errorf("counts in %q, the version in force in %q; start a policy of another name for another unit", p.Unit, s.policy.Unit)
	}
	return s.activate(p, pub)
}

// activate makes the version decide from here on. Without a publication, which is for throwaway stores, nothing is recorded.
func (s *step) activate(p *Policy, pub *Publication) error {
	old := s.policy
	if s.status == nil {
		s.status, s.changed = &book.Status{Policy: p.Name}, true
	}
	status := s.edit()
	s.policy = p
	v := &book.Version{Policy: p.Name, Version: p.Version, Content: p.content, Hash: p.hash, PublishedAt: s.now}
	if pub != nil && !s.m.bare {
		if err := s.recordPublication(p, pub, v, status.Active); err != nil {
			return err
		}
	}
	status.Active, status.ActiveSeq = p.Version, v.Seq
	if err := s.keepVersion(v); err != nil {
		return err
	}
	current := p.WindowAt(s.now)
	if old != nil && !sameWindow(old, p, s.now) {
		if err := s.recount(current); err != nil {
			return err
		}
	}
	status.WindowStart = current.Start
	if err := s.offer(causePolicy); err != nil {
		return err
	}
	return s.end()
}

// keepVersion stores a version unless it is there: what was recorded first stays, later publications are in the chain.
func (s *step) keepVersion(v *book.Version) error {
	known, err := s.tx.Get(v.Key())
	if err != nil || known != nil {
		return err
	}
	return s.tx.Put(v)
}

func (s *step) recordPublication(p *Policy, pub *Publication, v *book.Version, replaces string) error {
	text, err := json.Marshal(pub)
	if err != nil {
		return fmt.Errorf("publication of version %q: %w", p.Version, err)
	}
	canonical, err := chain.Canonical(text)
	if err != nil {
		return fmt.Errorf("publication of version %q: %w", p.Version, err)
	}
	v.Record = string(canonical)
	fields := []chain.Field{
		{Name: "policy_version", Text: p.Version},
		{Name: "policy_hash", Text: p.hash},
		{Name: "policy_content", Text: p.content},
		{Name: "publication", Literal: v.Record},
	}
	v.Seq, err = s.seal(kindPublication, appendText(fields, "replaces", replaces))
	return err
}

// sameWindow tells whether two versions count in the same windows, as far as the present one shows.
func sameWindow(a, b *Policy, now time.Time) bool {
	if (a.window == nil) != (b.window == nil) {
		return false
	}
	return a.window == nil || a.window.Spec() == b.window.Spec() && a.WindowAt(now) == b.WindowAt(now)
}

// recount moves the units of the events that were reserved in the window that is open now to it. Events of earlier times stay
// where they were counted.
func (s *step) recount(current window.Window) error {
	charged := book.Query{Policy: s.m.policy, States: []book.State{book.Reserved, book.Dispatched, book.Settled}}
	for old, err := range s.tx.Events(charged) {
		if err != nil {
			return err
		}
		inside := current.Start.IsZero() || current.Contains(old.DecidedAt)
		if !inside || old.WindowStart.Equal(current.Start) || old.Pruned { // what was spent on a pruned event is known only in sums
			continue
		}
		e := old.Clone()
		e.WindowStart = current.Start
		if err := s.keep(old, e); err != nil {
			return err
		}
	}
	s.freed = false
	return nil
}
