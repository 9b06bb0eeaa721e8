package spend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend/book"
)

// Conformance is the result of Conform.
type Conformance struct {
	// Cases and Steps are how many were run.
	Cases int `json:"cases"`
	Steps int `json:"steps"`
	// Failures is empty, not nil, where everything is as expected.
	Failures []Failure `json:"failures"`
}

// Failure is an expectation that was not met.
type Failure struct {
	// Case is the case's name; Step counts from 1, and is 0 where the case as a whole is meant.
	Case string `json:"case"`
	Step int    `json:"step"`
	// Field is the expectation, Want what the file says and Got what happened.
	Field string `json:"field"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// The form of a file of vectors.
type (
	vectorFile struct {
		Comment string       `json:"comment"`
		Cases   []vectorCase `json:"cases"`
	}
	vectorCase struct {
		Name   string       `json:"name"`
		Policy vectorPolicy `json:"policy"`
		Steps  []vectorStep `json:"steps"`
	}
	vectorPolicy struct {
		AccountLimit     string                   `json:"account_limit"`
		CapabilityLimits map[string]string        `json:"capability_limits"`
		Preferences      map[string][]vectorRoute `json:"preferences"`
		Fallbacks        map[string]string        `json:"fallbacks"`
		Version          string                   `json:"policy_version"`
	}
	vectorRoute struct {
		Name string `json:"name"`
		Cost string `json:"cost_units"`
	}
	vectorStep struct {
		EventID            string            `json:"event_id"`
		Capability         string            `json:"capability"`
		Decision           *vectorDecision   `json:"decision"`
		AccountReserved    *string           `json:"account_reserved"`
		CapabilityReserved map[string]string `json:"capability_reserved"`
		AuditLength        *int64            `json:"audit_length"`
		LastEntryHash      *string           `json:"last_entry_hash"`
	}
	vectorDecision struct {
		EventID       string  `json:"event_id"`
		Capability    string  `json:"capability"`
		Disposition   string  `json:"disposition"`
		Route         *string `json:"route"`
		ReservedUnits string  `json:"reserved_units"`
		PolicyVersion string  `json:"policy_version"`
		PreviousHash  string  `json:"previous_hash"`
	}
)

// Conform runs a file of admission vectors through the machine and tells in what it differs. Every step must state all its
// expectations, and a member that Conform does not know is an error: nothing is passed over in silence. The error is about a
// file that cannot be read as vectors.
func Conform(vectors []byte) (Conformance, error) {
	result := Conformance{Failures: []Failure{}}
	var file vectorFile
	if err := jsonv2.Unmarshal(vectors, &file, jsonv2.RejectUnknownMembers(true)); err != nil {
		return result, fmt.Errorf("spend vectors: %w", err)
	}
	if len(file.Cases) == 0 {
		return result, fmt.Errorf("spend vectors: the file has no cases; want a JSON object with cases, each with policy and steps")
	}
	for i := range file.Cases {
		c := &conformer{vector: &file.Cases[i], result: &result}
		if err := c.run(); err != nil {
			result.Failures = append(result.Failures, Failure{Case: c.vector.Name, Step: c.step, Field: "error", Got: err.Error()})
		}
		result.Cases++
	}
	return result, nil
}

// conformer runs one case.
type conformer struct {
	vector  *vectorCase
	result  *Conformance
	machine *Machine
	step    int
}

func (c *conformer) expect(field, want, got string) {
	if want != got {
		c.result.Failures = append(c.result.Failures, Failure{c.vector.Name, c.step, field, want, got})
	}
}

func (c *conformer) run() error {
	policy, err := c.vector.Policy.compile()
	if err != nil {
		return err
	}
	ctx, now := context.Background(), time.Unix(0, 0).UTC() // without windows and deadlines the time means nothing
	c.machine = New(book.NewMemory(), policy.Name)
	c.machine.bare = true
	if err := c.machine.rehearse(ctx, now, policy); err != nil {
		return err
	}
	for i := range c.vector.Steps {
		c.step = i + 1
		c.result.Steps++
		step := &c.vector.Steps[i]
		if step.Decision == nil || step.AccountReserved == nil || step.CapabilityReserved == nil ||
			step.AuditLength == nil || step.LastEntryHash == nil {
			return fmt.Errorf("want decision, account_reserved, capability_reserved, audit_length and last_entry_hash")
		}
		out, err := c.machine.Admit(ctx, now, Admission{EventID: step.EventID, Capability: step.Capability})
		if err != nil {
			return err
		}
		c.compareDecision(step.Decision, out.Decision)
		if err := c.compareState(step); err != nil {
			return err
		}
	}
	return nil
}

func (c *conformer) compareDecision(want *vectorDecision, got Decision) {
	c.expect("decision.event_id", want.EventID, got.EventID)
	c.expect("decision.capability", want.Capability, got.Capability)
	c.expect("decision.disposition", want.Disposition, string(got.Disposition))
	c.expect("decision.route", routeText(want.Route), routeText(got.Route))
	c.expect("decision.reserved_units", want.ReservedUnits, got.ReservedUnits.String())
	c.expect("decision.policy_version", want.PolicyVersion, got.PolicyVersion)
	c.expect("decision.previous_hash", want.PreviousHash, got.PreviousHash)
}

// routeText tells a missing route from one that is called null.
func routeText(route *string) string {
	if route == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *route)
}

func (c *conformer) compareState(want *vectorStep) error {
	return c.machine.store.View(context.Background(), func(tx book.Tx) error {
		s := &step{m: c.machine, tx: tx}
		account, err := s.used("", time.Time{})
		if err != nil {
			return err
		}
		c.expect("account_reserved", *want.AccountReserved, account.String())
		names := slices.Sorted(maps.Keys(want.CapabilityReserved))
		c.expect("capability_reserved", fmt.Sprint(slices.Sorted(maps.Keys(c.vector.Policy.CapabilityLimits))), fmt.Sprint(names))
		for _, name := range names {
			used, err := s.used(name, time.Time{})
			if err != nil {
				return err
			}
			c.expect("capability_reserved."+name, want.CapabilityReserved[name], used.String())
		}
		head, err := tx.Head()
		if err != nil {
			return err
		}
		c.expect("audit_length", fmt.Sprint(*want.AuditLength), fmt.Sprint(head.Count))
		c.expect("last_entry_hash", *want.LastEntryHash, head.Hash)
		return nil
	})
}

// compile makes a policy of the vectors' form. Routes belong to a capability there; two of one name may cost differently.
func (v *vectorPolicy) compile() (*Policy, error) {
	limit, err := book.ParseUnits(v.AccountLimit)
	if err != nil {
		return nil, err
	}
	spec := &schema.SpendPolicySpec{Version: v.Version, Unit: "units"}
	spec.Account.Limit.Set(limit.Decimal())
	p, err := compile("vectors", spec, nil)
	if err != nil {
		return nil, err
	}
	for name, limit := range v.CapabilityLimits {
		c := &capability{name: name, fallback: book.Disposition(v.Fallbacks[name])}
		if !slices.Contains([]book.Disposition{book.Defer, book.Minimal, book.Reject}, c.fallback) {
			return nil, p.errorf("capability %q: fallback %q, want defer, minimal or reject", name, c.fallback)
		}
		if c.limit, err = book.ParseUnits(limit); err != nil {
			return nil, err
		}
		for _, r := range v.Preferences[name] {
			cost, err := book.ParseUnits(r.Cost)
			if err != nil {
				return nil, err
			}
			c.routes = append(c.routes, route{name: r.Name, cost: cost})
		}
		p.capabilities[name] = c
		p.offered = append(p.offered, c)
	}
	return p, nil
}
