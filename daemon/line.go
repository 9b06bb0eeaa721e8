package daemon

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tapyr/tapyr/engine"
)

// maxAsking is how many requests of one job stand at the gate at once. What the gate does for an answer grows with those that wait there,
// so of a fan-out of a hundred thousand the others wait before it, in the order in which they came. Instances of a job have the same
// priority and meet the same limits, so that this changes no order that matters; who waits for another window of a quota does not stand
// there.
const maxAsking = 512

// line is the line of one job. It requires mu.
func (d *Daemon) line(job string) *semaphore.Weighted {
	if d.lines[job] == nil {
		d.lines[job] = semaphore.NewWeighted(maxAsking)
	}
	return d.lines[job]
}

// queue waits for a place at the gate. The error is an *engine.RefusedError where the request's deadline comes first.
func (d *Daemon) queue(ctx context.Context, a *ask, left time.Duration) (leave func(), err error) {
	if a.line == nil {
		return func() {}, nil
	}
	leave = func() { a.line.Release(1) }
	if a.line.TryAcquire(1) {
		return leave, nil
	}
	timed, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if a.line.Acquire(timed, 1) == nil {
		return leave, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	refused := &engine.RefusedError{Reason: engine.DeadlineExceeded, Provider: a.request.Provider, Key: a.request.Account}
	d.watch.Refused(&a.request, refused)
	return nil, refused
}
