package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/tapyr/tapyr/plan"
)

// advice is what would help a plan that is over a budget. It takes some hundred plans to find, so it is looked for once for each plan,
// and only when somebody asks.
type advice struct {
	in   plan.Input
	of   *plan.Plan
	once sync.Once
	done chan struct{} // closed when remedies are there
	// remedies are not changed any more.
	remedies []plan.Remedy
}

func newAdvice(in plan.Input, of *plan.Plan) *advice {
	return &advice{in: in, of: of, done: make(chan struct{})}
}

// Remedies are changes with which the scopes of a snapshot's plan that are most over their budgets would fit, as tapyr plan tells them.
// The first call for a plan begins to look for them, and each waits until they are there, patience or ctx ends; then ready is false, and a later
// call may have them. Of a plan that is no longer in force nothing is told.
func (d *Daemon) Remedies(ctx context.Context, of *plan.Plan, patience time.Duration) (remedies []plan.Remedy, ready bool) {
	if of == nil || of.Feasible {
		return nil, true
	}
	d.mu.Lock()
	a := d.advice
	d.mu.Unlock()
	if a == nil || a.of != of {
		return nil, true
	}
	a.once.Do(func() {
		go func() { // it ends by itself: the search is bounded (package plan), and touches nothing else
			defer close(a.done)
			a.remedies = plan.Remedies(a.in, a.of, nil)
		}()
	})
	select {
	case <-a.done:
		return a.remedies, true
	default:
	}
	select {
	case <-a.done:
		return a.remedies, true
	case <-ctx.Done():
		return nil, false
	case <-time.After(patience):
		return nil, false
	}
}
