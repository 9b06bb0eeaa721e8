package engine

// Force grants a request that has been sent, whatever the limits say: a row of a journal. allowed tells whether they would have
// let it go at once; a rate-limited answer to a request that they would not have is no surprise.
func (e *Engine) Force(now int64, p *Prepared, retry bool) (t Ticket, allowed bool) {
	now = e.tick(now)
	e.tidy(now)
	r := e.newRecord()
	r.prepared = p
	return e.force(now, r, retry)
}

// ForceRequest is Force for a request that was not prepared. The error is that of Prepare.
func (e *Engine) ForceRequest(now int64, q *Request, retry bool) (t Ticket, allowed bool, err error) {
	now = e.tick(now)
	e.tidy(now)
	r := e.newRecord()
	r.request = *q
	if err := e.resolve(now, &r.request, &r.own, r.room[:0]); err != nil {
		e.freeRecord(r)
		return 0, false, err
	}
	r.prepared = &r.own
	t, allowed = e.force(now, r, retry)
	return t, allowed, nil
}

func (e *Engine) force(now int64, r *record, retry bool) (Ticket, bool) {
	p := r.prepared
	cl := classOf(p.priority, retry)
	r.arrived, r.deadline, r.retry = now, now, retry
	r.allowed = p.breakersClosed() && p.fits(now, cl)
	if !r.allowed {
		e.freshen(now, p)
		r.allowed = e.allows(now, p, cl)
	}
	e.grant(now, r, cl)
	return r.ticket(), r.allowed
}

// allows tells whether a request would go at once. Its entries must be fresh.
func (e *Engine) allows(now int64, p *Prepared, cl class) bool {
	if b, _ := p.openBreaker(now); b != nil {
		return false
	}
	for i := range p.entries {
		en := &p.entries[i]
		if en.lack(now) != 0 {
			return false
		}
		if en.limit.kind == kindQuota && !en.limit.shadow {
			e.current(now, en)
			if en.scope.used+en.cost > en.scope.cap(cl) {
				return false
			}
		}
	}
	return true
}
