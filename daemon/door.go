package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tapyr/tapyr/engine"
)

// errStopping ends runs that would need another request while the daemon stops.
var errStopping = errors.New("tapyr is stopping")

// door leads requests to the engine in force. A reload closes it: those that wait for a budget come back, those that are under way
// finish, and the next engine begins with the counts of the last.
type door struct {
	mu      sync.Mutex // guards what follows
	world   *world     // nil while closed
	stopped bool
	turned  chan struct{} // closed when the door opens or is stopped
	inside  int           // requests that wait at the gate or are under way
	empty   chan struct{} // closed when inside becomes 0 while the door is closed; nil where nobody waits for that
}

func newDoor() *door { return &door{turned: make(chan struct{})} }

// open lets requests to a world's gate.
func (d *door) open(w *world) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	d.world = w
	close(d.turned)
	d.turned = make(chan struct{})
}

// shut closes the door; stop closes it for good. It returns a channel that is closed when nobody is inside any more.
func (d *door) shut(stop bool) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.world; w != nil {
		d.world = nil
		w.gate.Close()
	}
	if stop && !d.stopped {
		d.stopped = true
		close(d.turned)
	}
	empty := make(chan struct{})
	if d.inside == 0 {
		close(empty)
	} else {
		d.empty = empty
	}
	return empty
}

// enter waits until the door is open. Who has entered leaves.
func (d *door) enter(ctx context.Context) (*world, error) {
	for {
		d.mu.Lock()
		w, turned, stopped := d.world, d.turned, d.stopped
		if w != nil {
			d.inside++
		}
		d.mu.Unlock()
		switch {
		case w != nil:
			return w, nil
		case stopped:
			return nil, errStopping
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside--; d.inside == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// ask is a kind of request that is asked for again and again: an instance's, or an account's token request.
type ask struct {
	request engine.Request
	// line bounds how many of its job stand at the gate; nil for requests of no job.
	line *semaphore.Weighted
	// subject is nil where the provider has nothing to learn.
	subject *subject

	// prepared is for the gate of world.
	world    *world
	prepared *engine.Prepared
	vars     map[string]string
	// counted tells that a quota counts it, so that the state must cover it.
	counted bool
}

// prepare resolves the request for a world's engine, once, and again when more of it is known.
func (a *ask) prepare(w *world) error {
	if !a.complete(w) && a.world == w {
		return nil
	}
	var err error
	w.gate.Do(func(e *engine.Engine, now int64) {
		if a.prepared, err = e.Prepare(now, &a.request); err != nil {
			return
		}
		a.vars, a.counted = e.Matched(a.prepared).Vars, false
		if a.subject != nil {
			a.vars = a.subject.given // what is made of answers must not depend on what happens to be known
		}
		e.Counted(now, a.prepared, func(engine.Counted) { a.counted = true })
	})
	if err == nil {
		a.world = w
	}
	return err
}

// pass is a request that may go.
type pass struct {
	daemon      *Daemon
	world       *world
	ask         *ask
	reservation engine.Reservation
	granted     int64
	retry       bool
	once        sync.Once
}

// acquire waits until a request may go, in whatever engine is in force by then. The error is an *engine.RefusedError, an
// *engine.RequestError, errStopping, or the context's.
func (d *Daemon) acquire(ctx context.Context, a *ask, retry bool, deadlineNanos int64) (*pass, error) {
	leave, err := d.queue(ctx, a, time.Duration(deadlineNanos-d.now()))
	if err != nil {
		return nil, err
	}
	defer leave()
	for {
		w, err := d.door.enter(ctx)
		if err != nil {
			return nil, err
		}
		if err := a.prepare(w); err != nil {
			d.door.leave()
			return nil, err
		}
		// The gate's clock is not this process's: what is left is the same on both.
		left := time.Duration(deadlineNanos - w.gate.Now())
		reservation, err := w.gate.AcquirePrepared(ctx, a.prepared, retry, time.Now().Add(left))
		if err == nil {
			p := &pass{daemon: d, world: w, ask: a, reservation: reservation, granted: w.gate.Now(), retry: retry}
			d.cover(ctx, p)
			return p, nil
		}
		d.door.leave()
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			continue // the gate was closed: another opens, or the daemon stops
		}
		return nil, err
	}
}

// cover has the counts of a granted request written where a crash could lose them.
func (d *Daemon) cover(ctx context.Context, p *pass) {
	if !p.ask.counted {
		return
	}
	covered := true
	p.world.gate.Do(func(e *engine.Engine, now int64) {
		e.Counted(now, p.ask.prepared, func(c engine.Counted) { covered = d.keeper.Note(now, c) && covered })
	})
	if !covered {
		_ = d.keeper.Write(ctx, time.Unix(0, p.world.gate.Now())) // what fails is in the keeper's health
	}
}

// settle reads the answer and ends the request. It tells whether the provider says that a limit was exceeded.
func (p *pass) settle(response *engine.Response) (limited bool) {
	limited = p.world.limited(p.ask, response)
	p.reservation.Settle(response)
	return limited
}

// end frees what the request holds, at least once in every case.
func (p *pass) end() {
	p.once.Do(func() {
		p.reservation.Release()
		p.daemon.door.leave()
	})
}

// limited tells whether an answer says that a limit was exceeded, by the engine's own reading.
func (w *world) limited(a *ask, response *engine.Response) (limited bool) {
	declared := w.config.Account(a.request.Account).Provider.Spec.Errors.RateLimited
	if declared == nil || declared.Match == "" {
		statuses := []int{429}
		if declared != nil && declared.Status != nil {
			statuses = declared.Status
		}
		for _, status := range statuses {
			limited = limited || status == response.Status
		}
		return limited
	}
	w.gate.Do(func(e *engine.Engine, now int64) {
		if reading, err := e.Read(now, &a.request, response); err == nil {
			limited = reading.RateLimited
		}
	})
	return limited
}
