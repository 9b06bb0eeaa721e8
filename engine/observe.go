package engine

// shown is what one response's headers say of one quota, not yet held against what is known.
type shown struct {
	maximum, reset, remaining, used                   int64
	percent                                           decimal
	hasMaximum, hasReset, hasRemaining, hasUsed, hasP bool
}

// note is a header that was not believed.
type note struct{ header, text string }

// read takes a response's headers apart. What makes no sense in itself is appended to the notes.
func (y *syncHeaders) read(from *Response, now int64, notes []note) (shown, []note) {
	var out shown
	fields := from.Fields
	if y.whenName != "" && findField(fields, y.whenName) != y.whenEquals {
		return out, notes
	}
	number := func(r *reader, header string, careful func(a, b decimal) decimal) (decimal, bool) {
		d, found, ok := r.number(from, careful)
		if found && (!ok || d.negative()) {
			notes = append(notes, note{header, findField(fields, r.name)})
			return d, false
		}
		return d, found
	}
	if d, ok := number(y.limit, "limit", smallest); ok {
		if out.maximum = min(d.floor(), maxUnits); out.maximum > 0 {
			out.hasMaximum = true
		} else {
			notes = append(notes, note{"limit", findField(fields, y.limit.name)})
		}
	}
	if d, ok := number(y.remaining, "remaining", smallest); ok {
		out.remaining, out.hasRemaining = min(d.floor(), 2*maxUnits), true
	}
	if d, ok := number(y.used, "used", largest); ok {
		out.used, out.hasUsed = min(d.ceil(), maxUnits), true
	}
	out.percent, out.hasP = number(y.percent, "percent", smallest)
	if text, found := y.reset.text(fields); found {
		if out.reset, out.hasReset = parseReset(text, y.reset.format, now); !out.hasReset {
			notes = append(notes, note{"reset", findField(fields, y.reset.name)})
		}
	}
	if y.policy != "" {
		notes = y.readPolicy(fields, now, &out, notes)
	}
	return out, notes
}

// readPolicy adds what the IETF fields say.
func (y *syncHeaders) readPolicy(fields []Field, now int64, out *shown, notes []note) []note {
	item := func(field, param string) (int64, bool) {
		value, found, ok := policyItem(fields, field, y.policy, param)
		if found && !ok {
			notes = append(notes, note{"policy", findField(fields, field)})
		}
		return value, ok
	}
	if q, ok := item("RateLimit-Policy", "q"); ok {
		if q = min(q, maxUnits); q > 0 && (!out.hasMaximum || q < out.maximum) {
			out.maximum, out.hasMaximum = q, true
		}
	}
	if r, ok := item("RateLimit", "r"); ok && (!out.hasRemaining || r < out.remaining) {
		out.remaining, out.hasRemaining = r, true
	}
	if t, ok := item("RateLimit", "t"); ok && !out.hasReset {
		out.reset, out.hasReset = saturatedAdd(now, decimal{mantissa: t}.timesCeil(1e9)), true
	}
	return notes
}

// left is what remains by the smallest of what was shown; ok is false where nothing was. What is above the maximum is not
// believed.
func (x *shown) left(maximum int64) (remaining int64, ok bool, tooMuch string) {
	remaining = never
	if x.hasRemaining {
		if x.remaining > maximum {
			tooMuch = "remaining"
		} else {
			remaining, ok = x.remaining, true
		}
	}
	if x.hasUsed {
		remaining, ok = min(remaining, max(0, maximum-x.used)), true
	}
	if x.hasP {
		if hundred := (decimal{mantissa: 100}); hundred.less(x.percent) {
			tooMuch = "percent"
		} else {
			remaining, ok = min(remaining, x.percent.percentOf(maximum)), true
		}
	}
	return remaining, ok, tooMuch
}

// observe reads what a response shows of one quota.
func (e *Engine) observe(now int64, l *landing, en *entry) {
	x, notes := en.limit.sync.read(l.response, now, e.notes[:0])
	s, c, q := en.scope, en.cold, en.cold.quota
	e.current(now, en)
	if x.hasMaximum {
		e.learnMaximum(en, x.maximum)
	}
	void := false
	if x.hasReset && !en.limit.rolling {
		var believed bool
		if void, believed = c.learnReset(now, x.reset); !believed {
			notes = append(notes, note{header: "reset"})
		}
	}
	if !void && c.grantedIn(now, l.record.granted) {
		maximum := c.maximum(now, en.variant)
		remaining, ok, tooMuch := x.left(maximum)
		if tooMuch != "" {
			notes = append(notes, note{header: tooMuch})
		}
		if ok {
			q.hold(now, l, en, remaining, maximum)
		}
	}
	e.refresh(now, s, c, en.variant)
	for i := range notes {
		e.ignored++
		if e.observer != nil {
			e.observer.Ignored(en.limit.provider.name, en.limit.name, e.key(en.cold), notes[i].header, notes[i].text)
		}
		notes[i] = note{}
	}
	e.notes = notes[:0]
}

// learnMaximum believes a limit header.
func (e *Engine) learnMaximum(en *entry, maximum int64) {
	q := en.cold.quota
	v := &en.limit.variants[en.variant]
	if maximum != v.declared && !v.auto && !q.disagreed {
		q.disagreed = true
		e.disagreements++
		if e.observer != nil {
			e.observer.Disagrees(en.limit.provider.name, en.limit.name, e.key(en.cold), v.declared, maximum)
		}
	}
	q.learned = maximum
}

// learnReset believes a reset header. It is void where the reset is not after the response: its counters are of a window that is
// over. believed is false where it is more than two periods away.
func (c *coldScope) learnReset(now, reset int64) (void, believed bool) {
	q := c.quota
	if reset <= now {
		return true, true
	}
	span := c.limit.schedule.AtNanos(now)
	period := span.EndNanos - span.StartNanos
	if saturatedSub(reset, now) > saturatedAdd(period, period) {
		return false, false
	}
	if reset > q.latestReset {
		q.latestReset, q.periodNanos, q.end = reset, period, reset
	}
	return false, true
}

// hold takes an observation in, where it does not come too late.
func (q *quota) hold(now int64, l *landing, en *entry, remaining, maximum int64) {
	r := l.record
	limited := l.outcome == outcomeLimited
	s, rolling := en.scope, en.limit.rolling
	o := q.seen
	own, number := q.flights.find(r.granted, r.id)
	if own != nil && !limited && !rolling {
		o.show(own, number, en.cost, remaining)
	}
	admitUntil := int64(never)
	switch {
	case rolling:
		admitUntil = saturatedAdd(now, en.limit.length)
	case now < q.earlyEnd():
		admitUntil = q.earlyEnd()
	}
	if limited && remaining == 0 && !rolling {
		q.exhaustedUntil = max(q.exhaustedUntil, admitUntil)
	}
	if own == nil || !o.replaces(r.granted, now, remaining) {
		return
	}
	if o == nil {
		o = new(seen)
		q.seen = o
	}
	o.held, o.admitUntil = true, admitUntil
	o.remaining, o.usedThen = remaining, s.used
	o.uncertain = q.flights.overlap(own, now, remaining, !rolling)
	o.granted, o.answered = r.granted, now
	o.flightsThen = q.flights.next()
	o.external = max(0, maximum-remaining-(s.used-q.carried))
}
