package engine

import "container/heap"

// Loop drives an engine in virtual time: arrivals come in order, and everything that happens at one instant happens in the one
// order that makes it deterministic: releases and settles first, then waiters, then deadlines that end, then waiters again, then
// new arrivals one by one, then waiters until nothing changes.
type Loop struct {
	engine *Engine
	now    int64
	seq    uint64
	due    answers
	batch  []answer
	calls  map[Ticket]*Call
}

// Call is a request that arrives in a Loop.
type Call struct {
	// Prepared is the request.
	Prepared *Prepared
	// Retry tells that it is sent again.
	Retry bool
	// DeadlineNanos is the instant until which it may wait.
	DeadlineNanos int64
	// Done is called once: with the ticket when the request is granted, or with the refusal. What it returns is the answer and
	// how long it takes; a nil answer is left to the caller's own Settle and Release.
	Done func(now int64, t Ticket, refused *RefusedError) (answer *Response, latencyNanos int64)
}

// answer is a response on its way.
type answer struct {
	at       int64
	seq      uint64
	ticket   Ticket
	response *Response
}

// answers is a heap by instant, then by order of the grants.
type answers []answer

func (a answers) Len() int { return len(a) }
func (a answers) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a answers) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *answers) Push(x any) { *a = append(*a, x.(answer)) }

// Pop implements heap.Interface.
func (a *answers) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// Loop drives the engine, which nobody else calls meanwhile.
func (e *Engine) Loop() *Loop {
	return &Loop{engine: e, now: -never, calls: make(map[Ticket]*Call)}
}

// Arrive lets everything happen that is due before now, then what is due at now, then the calls, one by one. Instants must not
// go backwards; all arrivals of one instant come in one call.
func (l *Loop) Arrive(now int64, calls ...*Call) {
	l.RunTo(now - 1)
	l.instant(now, calls)
}

// RunTo lets everything happen up to and including an instant.
func (l *Loop) RunTo(until int64) {
	for {
		at, ok := l.Next()
		if !ok || at > until {
			return
		}
		l.instant(at, nil)
	}
}

// Next is the next instant at which something happens by itself; ok is false where nothing will.
func (l *Loop) Next() (nanos int64, ok bool) {
	nanos, ok = l.engine.Next()
	if len(l.due) > 0 && (!ok || l.due[0].at < nanos) {
		nanos, ok = l.due[0].at, true
	}
	return max(nanos, l.now), ok
}

// instant lets everything happen that is due at an instant.
func (l *Loop) instant(now int64, calls []*Call) {
	l.now = now
	e := l.engine
	for {
		l.settle(now)
		e.passWaiters(e.tick(now))
		e.endWaiters(e.now)
		e.passWaiters(e.now)
		l.report(now)
		for _, c := range calls {
			l.call(now, c)
		}
		calls = nil
		e.calm(e.now)
		l.report(now)
		if len(l.due) == 0 || l.due[0].at > now { // an answer may take no time at all
			return
		}
	}
}

// settle reads all answers of an instant, and releases their requests.
func (l *Loop) settle(now int64) {
	l.batch = l.batch[:0]
	for len(l.due) > 0 && l.due[0].at <= now {
		a := heap.Pop(&l.due).(answer)
		l.batch = append(l.batch, a)
	}
	if len(l.batch) == 0 {
		return
	}
	l.engine.settleAll(now, l.batch)
	for _, s := range l.batch {
		l.engine.Release(now, s.ticket)
	}
}

func (l *Loop) call(now int64, c *Call) {
	t, granted, refused := l.engine.Reserve(now, c.Prepared, c.Retry, c.DeadlineNanos)
	switch {
	case refused != nil:
		c.Done(now, 0, refused)
	case granted:
		l.granted(now, t, c)
	default:
		l.calls[t] = c
	}
}

// report tells the callers what became of those that waited.
func (l *Loop) report(now int64) {
	for _, event := range l.engine.events {
		c := l.calls[event.ticket]
		delete(l.calls, event.ticket)
		switch {
		case c == nil: // reserved by other means than the loop
		case event.refused != nil:
			c.Done(now, 0, event.refused)
		default:
			l.granted(now, event.ticket, c)
		}
	}
	l.engine.events = l.engine.events[:0]
}

func (l *Loop) granted(now int64, t Ticket, c *Call) {
	response, latency := c.Done(now, t, nil)
	if response == nil {
		return
	}
	l.seq++
	heap.Push(&l.due, answer{at: saturatedAdd(now, max(latency, 0)), seq: l.seq, ticket: t, response: response})
}

// Drain lets everything happen that is still due, and returns the last instant.
func (l *Loop) Drain() int64 {
	l.RunTo(never - 1)
	return l.now
}
