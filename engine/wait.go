package engine

// event is what became of a request that waited; refused is nil where it was granted.
type event struct {
	ticket  Ticket
	refused *RefusedError
}

// line is the waiters of one priority, the oldest first.
type line struct{ first, last uint32 }

// wait queues a request.
func (e *Engine) wait(now int64, r *record) {
	r.becomeWaiting()
	p := r.prepared
	for i := range p.entries {
		en := &p.entries[i]
		en.scope.pins++
		if !en.limit.shadow {
			en.cold.waiters++
			en.scope.set(flagWaited)
		}
	}
	l := &e.lines[p.priority]
	r.prev, r.next = l.last, 0
	if l.last != 0 {
		e.records[l.last].next = r.id
	} else {
		l.first = r.id
	}
	l.last = r.id
	e.waiting++
	e.wakeAt = min(e.wakeAt, r.deadline, e.wakeOf(now, r))
}

// unwait takes a request out of its line, without a trace.
func (e *Engine) unwait(r *record) {
	p := r.prepared
	for i := range p.entries {
		en := &p.entries[i]
		en.scope.pins--
		if en.limit.shadow {
			continue
		}
		en.cold.waiters--
		if en.cold.waiters == 0 {
			en.scope.clear(flagWaited)
		}
	}
	l := &e.lines[p.priority]
	if r.prev != 0 {
		e.records[r.prev].next = r.next
	} else {
		l.first = r.next
	}
	if r.next != 0 {
		e.records[r.next].prev = r.prev
	} else {
		l.last = r.prev
	}
	e.waiting--
}

// eachWaiter calls f with all waiters in order: by priority, then by age. f may end the one it is given. false stops.
func (e *Engine) eachWaiter(f func(*record) bool) {
	for priority := priorities - 1; priority >= 0; priority-- {
		for id := e.lines[priority].first; id != 0; {
			r := e.records[id]
			id = r.next
			if !f(r) {
				return
			}
		}
	}
}

// reach is what a waiter blocks: all its pairs, or those it lacks and its slots of at least so many dimensions.
type reach struct {
	all        bool
	dimensions int
}

// reachOf a waiter at now. Its entries must be fresh.
func (e *Engine) reachOf(now int64, p *Prepared) reach {
	out := reach{all: true}
	for i := range p.entries {
		en := &p.entries[i]
		if en.lack(now)&(lackSlot|lackPeace) == 0 {
			continue
		}
		if out.all || en.limit.dimensions < out.dimensions {
			out = reach{dimensions: en.limit.dimensions}
		}
	}
	return out
}

// blocks tells whether a waiter with this reach blocks one of its pairs.
func (r reach) blocks(now int64, en *entry) bool {
	if en.limit.shadow {
		return false
	}
	return r.all || en.lack(now)&(lackSlot|lackPeace) != 0 || en.limit.kind == kindConcurrency && en.limit.dimensions >= r.dimensions
}

// blocked tells whether a waiter that comes before r blocks one of its pairs.
func (e *Engine) blocked(now int64, r *record) bool { return e.blockedAt(now, r) >= 0 }

// blockedAt is the first of r's pairs that an earlier waiter blocks, -1 where none does.
func (e *Engine) blockedAt(now int64, r *record) int {
	shared := false
	for i := range r.prepared.entries {
		shared = shared || r.prepared.entries[i].scope.has(flagWaited)
	}
	if !shared || e.waiting == 0 {
		return -1
	}
	first := len(r.prepared.entries)
	e.eachWaiter(func(w *record) bool {
		if w == r || w.prepared.priority < r.prepared.priority {
			return false
		}
		if e.full(w.prepared.account) { // whatever else is there, it cannot go
			return true
		}
		first = min(first, e.firstBlocked(now, w, r.prepared, first))
		return first > 0
	})
	if first == len(r.prepared.entries) {
		return -1
	}
	return first
}

// firstBlocked is the first of p's pairs, before the one at below, that the waiter blocks; below where it blocks none.
func (e *Engine) firstBlocked(now int64, w *record, p *Prepared, below int) int {
	known := false
	var out reach
	for i := range below {
		for j := range w.prepared.entries {
			en := &w.prepared.entries[j]
			if en.scope != p.entries[i].scope || en.limit.shadow {
				continue
			}
			if !known {
				e.freshen(now, w.prepared)
				out, known = e.reachOf(now, w.prepared), true
			}
			if out.blocks(now, en) {
				return i
			}
		}
	}
	return below
}

// refuseWaiters refuses those that Reserve would now refuse, late tokens apart.
func (e *Engine) refuseWaiters(now int64) (any bool) {
	e.eachWaiter(func(r *record) bool {
		e.freshen(now, r.prepared)
		if refused := e.refusal(now, r, r.class()); refused != nil {
			e.endWaiter(r, refused)
			any = true
		}
		return true
	})
	return any
}

// passWaiters goes over the waiters once: it refuses those that Reserve would refuse, then lets those go that may, in order.
func (e *Engine) passWaiters(now int64) (any bool) {
	if e.waiting == 0 {
		e.wakeAt = never
		return false
	}
	any = e.refuseWaiters(now)
	e.pass++
	e.wakeAt = never
	e.eachWaiter(func(r *record) bool {
		p := r.prepared
		e.freshen(now, p)
		if e.full(p.account) { // until a release, which is another pass; meanwhile it holds up nobody
			e.wakeAt = min(e.wakeAt, r.deadline)
			return true
		}
		if !e.marked(p) && e.lacking(now, p) == 0 && e.refusal(now, r, r.class()) == nil {
			e.unwait(r)
			e.countShadows(now, p, r.class())
			e.grant(now, r, r.class())
			e.events = append(e.events, event{ticket: r.ticket()})
			any = true
			return true
		}
		e.mark(now, p)
		e.wakeAt = min(e.wakeAt, r.deadline, e.wakeOf(now, r))
		return true
	})
	return any
}

// marked tells whether an earlier waiter of this pass blocks one of the pairs.
func (e *Engine) marked(p *Prepared) bool {
	for i := range p.entries {
		if en := &p.entries[i]; !en.limit.shadow && en.cold.mark == e.pass {
			return true
		}
	}
	return false
}

// mark marks what a waiter blocks.
func (e *Engine) mark(now int64, p *Prepared) {
	out := e.reachOf(now, p)
	for i := range p.entries {
		if en := &p.entries[i]; out.blocks(now, en) {
			en.cold.mark = e.pass
		}
	}
}

// wakeOf is the next instant at which time alone may change what becomes of a waiter: one of its tokens is there, one of its
// penalties over, or an override begins or ends.
func (e *Engine) wakeOf(now int64, r *record) int64 {
	at := int64(never)
	for i := range r.prepared.entries {
		en := &r.prepared.entries[i]
		if en.limit.shadow {
			continue
		}
		at = min(at, en.limit.nextEdge(now))
		what := en.lack(now)
		if what&lackTokens != 0 {
			at = min(at, en.nextTokens(now))
		}
		if what&lackPeace != 0 {
			at = min(at, en.cold.penalty.end)
		}
	}
	return at
}

// endWaiters refuses the waiters whose deadline has come.
func (e *Engine) endWaiters(now int64) (any bool) {
	if e.waiting == 0 || e.wakeAt > now {
		return false
	}
	e.eachWaiter(func(r *record) bool {
		if r.deadline <= now {
			e.freshen(now, r.prepared)
			e.endWaiter(r, e.tooLate(now, r))
			any = true
		}
		return true
	})
	return any
}

func (e *Engine) endWaiter(r *record, refused *RefusedError) {
	e.events = append(e.events, event{r.ticket(), refused})
	e.unwait(r)
	e.refuse(r, refused)
}

// tooLate says what a waiter still lacks at its deadline, or what it was blocked on.
func (e *Engine) tooLate(now int64, r *record) *RefusedError {
	p := r.prepared
	at := -1
	for i := range p.entries {
		if p.entries[i].lack(now) != 0 {
			at = i
			break
		}
	}
	if at < 0 && e.full(p.account) {
		return &RefusedError{Reason: DeadlineExceeded, Provider: p.account.provider.name, Key: p.account.name}
	}
	if at < 0 {
		at = max(0, e.blockedAt(now, r))
	}
	en := &p.entries[at]
	instant := int64(0)
	if en.limit.kind == kindRate {
		instant = en.nextTokens(now)
	}
	if en.penalized(now) {
		instant = max(instant, en.cold.penalty.end)
	}
	return e.refusedBy(DeadlineExceeded, en, instant)
}

func (r *record) class() class { return classOf(r.prepared.priority, r.retry) }

// Advance lets the waiters go for which the time has come, and refuses those that it has run out for. It calls decided with each,
// after all is done: refused is nil where the request was granted, else its ticket is void.
func (e *Engine) Advance(now int64, decided func(t Ticket, refused *RefusedError)) {
	now = e.tick(now)
	if e.waiting == 0 {
		return
	}
	e.passWaiters(now)
	e.endWaiters(now)
	e.calm(now)
	for _, event := range e.events {
		decided(event.ticket, event.refused)
	}
	clear(e.events)
	e.events = e.events[:0]
}

// calm passes over the waiters until nothing changes, and ends those that could not wait at all.
func (e *Engine) calm(now int64) {
	for e.waiting > 0 {
		if !e.passWaiters(now) && !e.endWaiters(now) {
			return
		}
	}
}

// Next is the next instant at which Advance may have something to do, if nothing else happens; ok is false where there is none.
func (e *Engine) Next() (nanos int64, ok bool) {
	if e.waiting == 0 || e.wakeAt == never {
		return 0, false
	}
	return e.wakeAt, true
}

// Waiting is the number of requests that wait.
func (e *Engine) Waiting() int { return e.waiting }

// Cancel ends a request that waits, without a trace. It does nothing to one that does not.
func (e *Engine) Cancel(t Ticket) {
	if r := e.find(t); r != nil && r.state == stateWaiting {
		e.unwait(r)
		e.freeRecord(r)
		e.wakeAt = e.now // others may go that it blocked
	}
}
