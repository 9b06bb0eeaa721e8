package spend

import (
	"fmt"
	"strings"

	"github.com/tapyr/tapyr/spend/book"
)

// UnknownEventError is an event that was never admitted.
type UnknownEventError struct{ Event string }

// Error quotes the event's id.
func (e *UnknownEventError) Error() string {
	return fmt.Sprintf("event %q is unknown; admit it first", e.Event)
}

// UnknownCapabilityError is a capability that the active policy does not have.
type UnknownCapabilityError struct {
	Capability string
	// Version is the active version; Known its capabilities, sorted.
	Version string
	Known   []string
}

// Error lists the capabilities that there are.
func (e *UnknownCapabilityError) Error() string {
	return fmt.Sprintf("capability %q is not in policy version %q; it has %s", e.Capability, e.Version, strings.Join(e.Known, ", "))
}

// NoPolicyError tells that no version of the policy was published.
type NoPolicyError struct {
	Policy string
	// Known are the policies that were, sorted.
	Known []string
}

// Error says how to get a policy.
func (e *NoPolicyError) Error() string {
	known := "nothing is published yet"
	if len(e.Known) > 0 {
		known = "published are " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("spend policy %q has no published version (%s); publish one first", e.Policy, known)
}

// SettledError is a second settlement of an event with another amount.
type SettledError struct {
	Event          string
	Settled, Asked book.Units
}

// Error names both amounts.
func (e *SettledError) Error() string {
	return fmt.Sprintf("event %q is settled with %s and cannot be settled again with %s", e.Event, e.Settled, e.Asked)
}

// PrunedError is an event whose decision is beyond its horizon. It is not admitted a second time.
type PrunedError struct{ Event string }

// Error says what is known.
func (e *PrunedError) Error() string {
	return fmt.Sprintf("event %q was decided once and its decision was pruned; use a new event id for a new event", e.Event)
}

// InputError is an argument that cannot be used.
type InputError struct {
	// Field is what the argument is called, Value what it was.
	Field, Value string
	// Want says what is allowed.
	Want string
}

// Error quotes the value.
func (e *InputError) Error() string { return fmt.Sprintf("%s %q: want %s", e.Field, e.Value, e.Want) }

// PolicyError is a policy that cannot decide, or that cannot be published.
type PolicyError struct {
	Policy, Version string
	// Reason says what is wrong and what is allowed.
	Reason string
}

// Error names the policy and its version.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("spend policy %q version %q: %s", e.Policy, e.Version, e.Reason)
}
