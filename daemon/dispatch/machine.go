package dispatch

import (
	"context"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// Machine is a spend.Machine that lets somebody hear what its steps have changed, so that it is delivered at once.
type Machine struct {
	*spend.Machine
	heard func(*spend.Outcome)
}

// NewMachine makes a machine for the policy of this name. heard is told of every step that succeeds.
func NewMachine(store book.Store, policy string, heard func(*spend.Outcome)) *Machine {
	return &Machine{spend.New(store, policy), heard}
}

func (m *Machine) told(out spend.Outcome, err error) (spend.Outcome, error) {
	if err == nil {
		m.heard(&out)
	}
	return out, err
}

// Admit is that of spend.Machine.
func (m *Machine) Admit(ctx context.Context, now time.Time, a spend.Admission) (spend.Outcome, error) {
	return m.told(m.Machine.Admit(ctx, now, a))
}

// Settle is that of spend.Machine.
func (m *Machine) Settle(ctx context.Context, now time.Time, event string, actual book.Units) (spend.Outcome, error) {
	return m.told(m.Machine.Settle(ctx, now, event, actual))
}

// Release is that of spend.Machine.
func (m *Machine) Release(ctx context.Context, now time.Time, event, reason string) (spend.Outcome, error) {
	return m.told(m.Machine.Release(ctx, now, event, reason))
}

// Attempt is that of spend.Machine.
func (m *Machine) Attempt(ctx context.Context, now time.Time, event string, d spend.Delivery) (spend.Outcome, error) {
	return m.told(m.Machine.Attempt(ctx, now, event, d))
}

// Tick is that of spend.Machine.
func (m *Machine) Tick(ctx context.Context, now time.Time) (spend.Outcome, error) {
	return m.told(m.Machine.Tick(ctx, now))
}
