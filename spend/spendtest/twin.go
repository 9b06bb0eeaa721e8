package spendtest

import (
	"cmp"
	"slices"

	"github.com/tapyr/tapyr/spend/book"
)

// twin decides as the machine should, by the definitions: it keeps a list of events and adds up everything anew for each
// question. Amounts are whole hundredths and times whole seconds. It knows nothing of stores, chains and counters.
type twin struct {
	policy twinPolicy
	events []*twinEvent // in the order of admission
	// opened is the number of the latest window.
	opened int64
}

type twinPolicy struct {
	version      string
	limit        int64
	windowLength int64 // 0 for none
	capabilities map[string]*twinCapability
	order        []string // of offers
}

type twinCapability struct {
	limit, protected int64
	routes           []twinRoute
	fallback         book.Disposition
	deadline         int64 // 0 for none
	onDeadline       book.Disposition
	takesNext        bool
}

type twinRoute struct {
	name string
	cost int64
}

type twinEvent struct {
	id, capability string
	state          book.State
	disposition    book.Disposition
	route          string
	reserved       int64
	actual         int64
	version        string
	window         int64
	deadline       int64 // 0 for none
	onDeadline     book.Disposition
	waiting        bool
}

func (t *twin) window(now int64) int64 {
	if t.policy.windowLength == 0 {
		return 0
	}
	return now / t.policy.windowLength
}

// units is what an event takes.
func (e *twinEvent) units() int64 {
	switch e.state {
	case book.Reserved, book.Dispatched:
		return e.reserved
	case book.Settled:
		return e.actual
	}
	return 0
}

// used adds up; an empty capability means all.
func (t *twin) used(capability string, window int64) int64 {
	var sum int64
	for _, e := range t.events {
		if e.window == window && (capability == "" || e.capability == capability) {
			sum += e.units()
		}
	}
	return sum
}

// fits is the definition of what may be reserved.
func (t *twin) fits(capability string, cost, now int64) bool {
	w := t.window(now)
	held := int64(0)
	for name, c := range t.policy.capabilities {
		if name != capability {
			held += max(0, c.protected-t.used(name, w))
		}
	}
	return t.used("", w)+cost+held <= t.policy.limit && t.used(capability, w)+cost <= t.policy.capabilities[capability].limit
}

// reserve takes the first route that fits.
func (t *twin) reserve(e *twinEvent, routes []twinRoute, now int64) bool {
	for _, r := range routes {
		if t.fits(e.capability, r.cost, now) {
			e.state, e.disposition, e.route, e.reserved = book.Reserved, book.Dispatch, r.name, r.cost
			e.window, e.version, e.waiting = t.window(now), t.policy.version, false
			return true
		}
	}
	return false
}

// pass lets time pass.
func (t *twin) pass(now int64) {
	var due []*twinEvent
	for _, e := range t.events {
		if e.deadline != 0 && e.deadline <= now && (e.state == book.Deferred || e.waiting) {
			due = append(due, e)
		}
	}
	slices.SortStableFunc(due, func(a, b *twinEvent) int { return cmp.Compare(a.deadline, b.deadline) })
	gaveBack := false
	for _, e := range due {
		gaveBack = gaveBack || e.units() > 0 && e.window == t.window(now)
		e.state, e.disposition, e.route, e.reserved, e.version = book.Expired, e.onDeadline, "", 0, t.policy.version
		e.waiting = false
	}
	if t.window(now) > t.opened || gaveBack {
		t.opened = max(t.opened, t.window(now))
		t.offer(now)
	}
}

// offer gives every capability's deferred events a chance, the oldest first, up to the first that does not fit.
func (t *twin) offer(now int64) {
	for _, name := range t.policy.order {
		for _, e := range t.events {
			if e.capability == name && e.state == book.Deferred && !t.reserve(e, t.policy.capabilities[name].routes, now) {
				break
			}
		}
	}
}

func (t *twin) find(id string) *twinEvent {
	for _, e := range t.events {
		if e.id == id {
			return e
		}
	}
	return nil
}

func (t *twin) admit(id, capability string, now int64) *twinEvent {
	t.pass(now)
	if e := t.find(id); e != nil {
		return e
	}
	c := t.policy.capabilities[capability]
	e := &twinEvent{
		id: id, capability: capability, state: book.Accepted, disposition: book.Minimal,
		version: t.policy.version, onDeadline: c.onDeadline,
	}
	if c.deadline > 0 {
		e.deadline = now + c.deadline
	}
	if !t.reserve(e, c.routes, now) {
		switch c.fallback {
		case book.Defer:
			e.state, e.disposition = book.Deferred, book.Defer
		case book.Reject:
			e.state, e.disposition = book.Rejected, book.Reject
		}
	}
	t.events = append(t.events, e)
	return e
}

// freed offers after an event came to take less of the open window than before.
func (t *twin) freed(e *twinEvent, before, window, now int64) {
	if window == t.window(now) && (e.units() < before || e.window != window) {
		t.offer(now)
	}
}

// settle, release and attempt are true where the event allows it.

func (t *twin) settle(id string, actual, now int64) bool {
	t.pass(now)
	e := t.find(id)
	switch {
	case e == nil:
		return false
	case e.state == book.Settled:
		return e.actual == actual
	case e.state != book.Reserved && e.state != book.Dispatched:
		return false
	}
	before := e.units()
	e.state, e.actual, e.waiting = book.Settled, actual, false
	t.freed(e, before, e.window, now)
	return true
}

func (t *twin) release(id string, now int64) bool {
	t.pass(now)
	e := t.find(id)
	if e == nil {
		return false
	}
	switch e.state {
	case book.Reserved, book.Dispatched:
		before := e.units()
		e.state, e.waiting = book.Released, false
		t.freed(e, before, e.window, now)
	case book.Deferred:
		e.state = book.Released
	}
	return true
}

func (t *twin) attempt(id string, unavailable bool, now int64) bool {
	t.pass(now)
	e := t.find(id)
	if e == nil || e.state != book.Reserved && e.state != book.Dispatched {
		return false
	}
	e.state, e.waiting = book.Dispatched, unavailable
	c := t.policy.capabilities[e.capability]
	if !unavailable || c == nil || !c.takesNext {
		return true
	}
	routes := c.routes
	for i, r := range c.routes {
		if r.name == e.route {
			routes = c.routes[i+1:]
		}
	}
	// Its own units are free for the next route, and stay its own if there is none.
	before, window := e.units(), e.window
	e.state = book.Accepted
	if t.reserve(e, routes, now) {
		t.freed(e, before, window, now)
	} else {
		e.state = book.Dispatched
	}
	return true
}

// publish changes the policy; the length of the window stays.
func (t *twin) publish(p twinPolicy, now int64) {
	t.pass(now)
	t.policy = p
	t.offer(now)
}
