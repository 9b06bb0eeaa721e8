package engine

import (
	"context"
	"sync"
	"time"
)

// Gate is the shell around an Engine: a lock, a clock, a timer, and calls that block. Any number of goroutines may use it.
//
// Its time is the wall clock at its start plus what has passed since: a clock that is set back or forward while the program runs
// moves no limit. Whoever wants to follow it makes another gate.
type Gate struct {
	startNanos int64
	start      time.Time

	// mu guards everything below, and the engine with all its state.
	mu     sync.Mutex
	engine *Engine
	waits  map[Ticket]chan *RefusedError
	timer  *time.Timer
	wakeAt int64 // what the timer is set to, never where it is not
	closed bool
}

// Gate is a gate to the engine, which nobody else calls from then on.
func (e *Engine) Gate() *Gate { return e.GateAt(time.Now().UnixNano()) }

// GateAt is a gate whose present is the one given, in nanoseconds since the Unix epoch.
func (e *Engine) GateAt(nowNanos int64) *Gate {
	g := &Gate{startNanos: nowNanos, start: time.Now(), engine: e, waits: make(map[Ticket]chan *RefusedError), wakeAt: never}
	g.timer = time.AfterFunc(time.Hour, g.wake)
	g.timer.Stop()
	return g
}

// Now is the gate's present, in nanoseconds since the Unix epoch.
func (g *Gate) Now() int64 { return g.startNanos + int64(time.Since(g.start)) }

// Do runs f with the engine under the gate's lock: projections, snapshots, preparations. f must be quick, and must not keep the
// engine or call the gate.
func (g *Gate) Do(f func(e *Engine, now int64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g.engine, g.Now())
	g.advance(g.Now())
}

// Reservation is a granted request. Its methods may be called by any goroutine.
type Reservation struct {
	gate   *Gate
	ticket Ticket
}

// Settle reads the request's response. It is false where that was done before, or after Release.
func (r Reservation) Settle(response *Response) bool {
	g := r.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Now()
	ok := g.engine.Settle(now, r.ticket, response)
	g.advance(now)
	return ok
}

// Release ends the request, in every case: success, failure, panic, cancellation. All but the first call do nothing.
func (r Reservation) Release() {
	g := r.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Now()
	if g.engine.Release(now, r.ticket) {
		g.advance(now)
	}
}

// Acquire waits until a request may go. The error is a *RefusedError where it may not, at the latest at its deadline (the zero
// time: none) or the context's, whichever is earlier; the context's error where that ends first, and then nothing is left of the
// request; a *RequestError where it cannot be resolved; or context.Canceled after Close.
func (g *Gate) Acquire(ctx context.Context, q *Request, retry bool, deadline time.Time) (Reservation, error) {
	return g.acquire(ctx, deadline, func(now, until int64) (Ticket, bool, error) {
		return g.engine.ReserveRequest(now, q, retry, until)
	})
}

// AcquirePrepared is Acquire for a prepared request.
func (g *Gate) AcquirePrepared(ctx context.Context, p *Prepared, retry bool, deadline time.Time) (Reservation, error) {
	return g.acquire(ctx, deadline, func(now, until int64) (Ticket, bool, error) {
		t, granted, refused := g.engine.Reserve(now, p, retry, until)
		if refused != nil {
			return 0, false, refused
		}
		return t, granted, nil
	})
}

func (g *Gate) acquire(
	ctx context.Context, deadline time.Time, reserve func(now, until int64) (Ticket, bool, error),
) (Reservation, error) {
	if err := ctx.Err(); err != nil {
		return Reservation{}, err
	}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return Reservation{}, context.Canceled
	}
	now := g.Now()
	t, granted, err := reserve(now, g.until(ctx, deadline))
	var done chan *RefusedError
	if err == nil && !granted {
		done = make(chan *RefusedError, 1)
		g.waits[t] = done
	}
	if g.engine.waiting > 0 {
		g.advance(now)
	}
	g.mu.Unlock()
	if err != nil {
		return Reservation{}, err
	}
	if done == nil {
		return Reservation{g, t}, nil
	}
	return g.await(ctx, t, done)
}

// until is the earlier of a deadline and the context's, in the gate's time.
func (g *Gate) until(ctx context.Context, deadline time.Time) int64 {
	until := int64(forever)
	if !deadline.IsZero() {
		until = saturatedAdd(g.startNanos, int64(deadline.Sub(g.start)))
	}
	if end, ok := ctx.Deadline(); ok {
		until = min(until, saturatedAdd(g.startNanos, int64(end.Sub(g.start))))
	}
	return until
}

// await blocks until a waiting request is decided, or its context ends.
func (g *Gate) await(ctx context.Context, t Ticket, done chan *RefusedError) (Reservation, error) {
	select {
	case refused, open := <-done:
		return g.decided(t, refused, open)
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case refused, open := <-done: // decided before the context's end was seen
		return g.decided(t, refused, open)
	default:
	}
	delete(g.waits, t)
	g.engine.Cancel(t)
	g.advance(g.Now())
	return Reservation{}, ctx.Err()
}

func (g *Gate) decided(t Ticket, refused *RefusedError, open bool) (Reservation, error) {
	switch {
	case !open:
		return Reservation{}, context.Canceled
	case refused != nil:
		return Reservation{}, refused
	}
	return Reservation{g, t}, nil
}

// advance tells the waiters what has become of them, and sets the timer. It requires mu.
func (g *Gate) advance(now int64) {
	if g.engine.waiting == 0 && g.wakeAt == never {
		return
	}
	g.engine.Advance(now, func(t Ticket, refused *RefusedError) {
		if done := g.waits[t]; done != nil {
			done <- refused // has room for one
			delete(g.waits, t)
		}
	})
	next, ok := g.engine.Next()
	switch {
	case !ok || g.closed:
		if g.wakeAt != never {
			g.timer.Stop()
			g.wakeAt = never
		}
	case next != g.wakeAt:
		g.wakeAt = next
		g.timer.Reset(time.Duration(saturatedSub(next, g.Now())))
	}
}

// wake is what the timer calls.
func (g *Gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakeAt = never
	if now := g.Now(); !g.closed {
		g.advance(now)
	}
}

// Close ends all waiting with context.Canceled, and stops the timer. What was granted can still be settled and released. Calls after the
// first do nothing.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.timer.Stop()
	for t, done := range g.waits {
		g.engine.Cancel(t)
		close(done)
		delete(g.waits, t)
	}
	g.wakeAt = never
}
