package engine

import (
	"math"
	"math/big"
	"slices"
	"sort"
)

// lacks: tokens, a slot, peace.
func (t *twin) lacks(p *twinPair, c *twinCall) (tokens, slot, peace bool) {
	k := p.key
	if k.shadow() {
		return
	}
	peace = k.penaltyEnd > t.now
	switch k.kind() {
	case "rate":
		tokens = t.nextToken(p) > t.now
	case "concurrency":
		n := int64(0)
		for _, f := range k.flights {
			if f.settled == never {
				n++
			}
		}
		slot = n >= k.max(c, t.now)
	}
	return tokens, slot, peace
}

// blocks lists the keys that a waiter blocks.
func (t *twin) blocks(c *twinCall) map[*twinKey]bool {
	out, fewest := map[*twinKey]bool{}, math.MaxInt
	for _, p := range c.pairs {
		if _, slot, peace := t.lacks(p, c); slot || peace {
			out[p.key] = true
			fewest = min(fewest, p.key.dimensions())
		}
	}
	for _, p := range c.pairs {
		if !p.key.shadow() && (fewest == math.MaxInt || p.key.kind() == "concurrency" && p.key.dimensions() >= fewest) {
			out[p.key] = true
		}
	}
	return out
}

func (k *twinKey) dimensions() int {
	if k.limit == nil {
		return 1
	}
	return len(k.limit.By())
}

// blockedOn is the first of a request's pairs that an earlier waiter blocks.
func (t *twin) blockedOn(c *twinCall) *twinPair {
	blocked := map[*twinKey]bool{}
	for _, w := range t.waiting {
		if w != c && (w.priority > c.priority || w.priority == c.priority && t.older(w, c)) {
			for k := range t.blocks(w) {
				blocked[k] = true
			}
		}
	}
	for _, p := range c.pairs {
		if blocked[p.key] && !p.key.shadow() {
			return p
		}
	}
	return nil
}

func (t *twin) older(a, b *twinCall) bool {
	i, j := slices.Index(t.waiting, a), slices.Index(t.waiting, b)
	return j < 0 || i < j
}

func (t *twin) named(reason Reason, p *twinPair, at int64) *RefusedError {
	out := &RefusedError{Reason: reason, Key: p.key.name, RetryAtNanos: at, RetryKnown: at != 0}
	if p.key.limit != nil {
		out.Limit = p.key.limit.Spec.Name
	}
	return out
}

// refusal at once, late tokens apart.
func (t *twin) refusal(c *twinCall) *RefusedError {
	for _, b := range t.breakersOf(c) {
		if b.open && t.now >= b.until {
			b.open, b.halfOpen = false, true
		}
		if b.open {
			return &RefusedError{Reason: CircuitOpen, Key: b.name, RetryAtNanos: b.until, RetryKnown: true}
		}
		if b.halfOpen && b.probing {
			return &RefusedError{Reason: CircuitOpen, Key: b.name}
		}
	}
	for _, p := range c.pairs {
		if !p.key.shadow() && p.key.penaltyEnd > max(t.now, c.deadline) {
			return t.named(Penalized, p, p.key.penaltyEnd)
		}
	}
	for _, p := range c.pairs {
		if p.key.kind() == "quota" && !p.key.shadow() {
			t.undip(p.key, c)
			if !t.fits(p, c, t.now, p.key.used(t.now), p.key.dipped) {
				return t.named(QuotaExhausted, p, t.retryAt(p, c))
			}
		}
	}
	return nil
}

func (t *twin) undip(k *twinKey, c *twinCall) {
	k.turn(t.now)
	if u, r := t.usable(k, c, t.now); k.rolling() && k.used(t.now) <= u-r {
		k.dipped = false
	}
}

func (t *twin) mayGo(c *twinCall) bool {
	if t.refusal(c) != nil || t.blockedOn(c) != nil {
		return false
	}
	for _, p := range c.pairs {
		if tokens, slot, peace := t.lacks(p, c); tokens || slot || peace {
			return false
		}
	}
	return true
}

func (t *twin) grant(c *twinCall) {
	t.verdicts[c.row.index] = decision{at: t.now}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *twinCall) bool { return w == c })
	c.granted, c.settled = t.now, never
	for _, p := range c.pairs {
		k := p.key
		switch k.kind() {
		case "rate":
			if !k.shadow() {
				k.tokens.Sub(k.tokens, new(big.Rat).SetInt64(p.cost))
			}
		case "quota":
			if u, r := t.usable(k, c, t.now); c.priority == priorityCritical && !c.retry && k.used(t.now)+p.cost > u-r {
				k.dipped = true
			}
		}
		k.flights = append(k.flights, c)
	}
	for _, b := range t.breakersOf(c) {
		if b.halfOpen && !b.probing {
			b.probing, c.probe[b] = true, true
		}
	}
	t.landing = append(t.landing, c)
	sort.SliceStable(t.landing, func(i, j int) bool {
		return t.landing[i].granted+t.landing[i].row.latency < t.landing[j].granted+t.landing[j].row.latency
	})
}

func (t *twin) refuse(c *twinCall, r *RefusedError) {
	t.verdicts[c.row.index] = decision{at: t.now, refused: r}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *twinCall) bool { return w == c })
}

// order of the waiters.
func (t *twin) order() []*twinCall {
	all := slices.Clone(t.waiting)
	sort.SliceStable(all, func(i, j int) bool { return all[i].priority > all[j].priority })
	return all
}

func (t *twin) pass() (changed bool) {
	for _, c := range t.order() {
		if r := t.refusal(c); r != nil {
			t.refuse(c, r)
			changed = true
		}
	}
	for _, c := range t.order() {
		if t.mayGo(c) {
			t.grant(c)
			changed = true
		}
	}
	return changed
}

func (t *twin) deadlines() (changed bool) {
	for _, c := range t.order() {
		if c.deadline > t.now {
			continue
		}
		var at *twinPair
		for _, p := range c.pairs {
			if tokens, slot, peace := t.lacks(p, c); at == nil && (tokens || slot || peace) {
				at = p
			}
		}
		if at == nil {
			at = t.blockedOn(c)
		}
		if at == nil {
			at = c.pairs[0]
		}
		instant := int64(0)
		if at.key.kind() == "rate" {
			instant = t.nextToken(at)
		}
		if at.key.penaltyEnd > t.now {
			instant = max(instant, at.key.penaltyEnd)
		}
		t.refuse(c, t.named(DeadlineExceeded, at, instant))
		changed = true
	}
	return changed
}

func (t *twin) arrive(c *twinCall) {
	r := t.refusal(c)
	for _, p := range c.pairs {
		if r == nil && p.key.kind() == "rate" && !p.key.shadow() {
			if next := t.nextToken(p); next > max(c.deadline, t.now) {
				r = t.named(DeadlineExceeded, p, next)
			}
		}
	}
	switch {
	case r != nil:
		t.refuse(c, r)
	case t.mayGo(c):
		t.grant(c)
	default:
		t.waiting = append(t.waiting, c)
	}
}

// next instant at which something may happen by itself.
func (t *twin) next() (at int64) {
	at = never
	for _, c := range t.landing {
		at = min(at, c.granted+c.row.latency)
	}
	for _, c := range t.waiting {
		at = min(at, c.deadline)
		for _, p := range c.pairs {
			if p.key.shadow() {
				continue
			}
			if p.key.kind() == "rate" {
				if next := t.nextToken(p); next > t.now {
					at = min(at, next)
				}
			}
			if p.key.penaltyEnd > t.now {
				at = min(at, p.key.penaltyEnd)
			}
			for _, edge := range p.key.overrideEdges(t.now) {
				at = min(at, edge)
			}
		}
	}
	return at
}

// instant lets everything happen that is due now, in its order.
func (t *twin) instant(now int64, arrivals []*twinCall) {
	t.now = now
	for _, k := range t.keys {
		k.turn(now)
	}
	for {
		t.settle()
		t.pass()
		t.deadlines()
		t.pass()
		for _, c := range arrivals {
			t.arrive(c)
		}
		arrivals = nil
		for t.pass() || t.deadlines() {
			continue // until neither changes anything
		}
		if len(t.landing) == 0 || t.landing[0].granted+t.landing[0].row.latency > now {
			return
		}
	}
}
