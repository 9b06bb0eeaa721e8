// Package dispatch decides which event of the outbox of paid calls is sent next, and what follows from what came of it. It has no
// clock and sends nothing: the daemon asks it, sends, and tells it.
package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// Event is what the queue needs to know of an event that holds units and is for tapyr to deliver.
type Event struct {
	// Policy and ID name the event, Capability is what it asked for, Route how it is to be delivered.
	Policy, ID, Capability, Route string
	// Account is the one that the route sends through.
	Account string
	// Seq is the event's place in the order of admissions.
	Seq int64
	// Told tells that the book knows that the event waits for its route, or need not: it is in doubt and can take no other.
	Told bool
}

type eventKey struct{ policy, id string }

func (e *Event) key() eventKey { return eventKey{e.Policy, e.ID} }

// Task is what is to be done with an event. It must be ended with Done.
type Task struct {
	Event
	// Tell means that nothing is to be sent: the route is down, for the reason of Why, and the book is to know.
	Tell bool
	Why  string
	// Tries is how often the event was sent since its route was last known to be up for it.
	Tries int
}

// Kind is what became of a task.
type Kind string

const (
	// Over: the event is no more for the queue: settled, released, given up, or it has another route.
	Over Kind = "over"
	// Gone: as Over, but nothing was sent, so that nothing is known of the route.
	Gone Kind = "gone"
	// Again: the event is to be sent again, from Until on.
	Again Kind = "again"
	// Waits: all tries are used up and the book knows that the event waits; it is tried afresh from Until on.
	Waits Kind = "waits"
	// Held: nothing was sent, because the route is not free before Until. That is no failure of the route.
	Held Kind = "held"
	// Down: the route is down until Until, for the reason of Why.
	Down Kind = "down"
)

// Result is how a task ended.
type Result struct {
	Kind  Kind
	Until time.Time
	// Why is for people.
	Why string
	// Told tells that the book knows that the event waits; Moved that it has another route, and is no more for the queue.
	Told, Moved bool
}

// The bounds of a queue.
const (
	// room bounds the events that a lane holds; the others stay in the book until there is room.
	room = 1024
	// firstSlots is how many requests of an account may wait or be under way at the beginning, and mostSlots ever.
	firstSlots = 16
	mostSlots  = 64
	// mostTells bounds the entries that are written at once about events that wait.
	mostTells = 16
)

// Queue holds the events that wait to be sent: in each capability the oldest first, and the capabilities in turn. It is not for
// use by several goroutines.
type Queue struct {
	lanes    map[laneName]*lane
	order    []*lane // by name
	turn     int     // the lane that is asked next
	routes   map[routeName]*route
	accounts map[string]*account
	known    map[eventKey]bool // queued or under way
	tells    int
	dirty    bool
}

type (
	laneName  struct{ policy, capability string }
	routeName struct{ policy, route string }
)

// lane is a capability's events, by their admission.
type lane struct {
	name  laneName
	items []*item
	// more tells that the book holds events that did not fit.
	more bool
}

type item struct {
	Event
	tries     int
	notBefore time.Time
}

// route is a way to a vendor.
type route struct {
	account string
	// blockedUntil is the instant before which nothing is sent; zero where the route is free. down tells that it failed, which
	// events that wait for it are told. After that instant one event tries, and the others follow if it gets through.
	blockedUntil time.Time
	down         bool
	probing      bool
	why          string
	// skipped tells that the book holds events that wait for the route.
	skipped bool
	flying  int
}

// account bounds what is under way.
type account struct{ slots, flying int }

// NewQueue is an empty queue, which wants events.
func NewQueue() *Queue {
	return &Queue{
		lanes: make(map[laneName]*lane), routes: make(map[routeName]*route), accounts: make(map[string]*account),
		known: make(map[eventKey]bool), dirty: true,
	}
}

// Dirty tells the queue that the book has changed.
func (q *Queue) Dirty() { q.dirty = true }

// Wants tells whether the events of the book are to be offered: it has changed, there is room again, or a route is to be tried.
func (q *Queue) Wants(now time.Time) bool {
	if q.dirty {
		return true
	}
	for _, l := range q.order {
		if l.more && len(l.items) < room/2 {
			return true
		}
	}
	for _, r := range q.routes {
		if r.skipped && !r.blocked(now) {
			return true
		}
	}
	return false
}

// Begin starts the offers of one reading of the book.
func (q *Queue) Begin() {
	q.dirty = false
	for _, l := range q.order {
		l.more = false
	}
	for _, r := range q.routes {
		r.skipped = false
	}
}

// Offer takes an event of the book, unless it is known, or there is no room, or it waits for a route that is down.
func (q *Queue) Offer(now time.Time, e Event) {
	if q.known[e.key()] {
		return
	}
	r := q.route(&e)
	if e.Told && r.blocked(now) {
		r.skipped = true
		return
	}
	l := q.lane(&e)
	if len(l.items) >= room {
		l.more = true
		return
	}
	q.known[e.key()] = true
	l.insert(&item{Event: e})
}

// Full tells that no lane takes another event.
func (q *Queue) Full() bool {
	return !slices.ContainsFunc(q.order, func(l *lane) bool { return len(l.items) < room })
}

func (q *Queue) lane(e *Event) *lane {
	name := laneName{e.Policy, e.Capability}
	if l := q.lanes[name]; l != nil {
		return l
	}
	l := &lane{name: name}
	q.lanes[name] = l
	q.order = append(q.order, l)
	slices.SortFunc(q.order, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.name.policy, b.name.policy), cmp.Compare(a.name.capability, b.name.capability))
	})
	return l
}

func (q *Queue) route(e *Event) *route {
	name := routeName{e.Policy, e.Route}
	if q.routes[name] == nil {
		q.routes[name] = &route{}
	}
	q.routes[name].account = e.Account // a new version of the policy may have moved it
	return q.routes[name]
}

func (q *Queue) account(name string) *account {
	if q.accounts[name] == nil {
		q.accounts[name] = &account{slots: firstSlots}
	}
	return q.accounts[name]
}

func (l *lane) insert(i *item) {
	at, _ := slices.BinarySearchFunc(l.items, i.Seq, func(one *item, seq int64) int { return cmp.Compare(one.Seq, seq) })
	l.items = slices.Insert(l.items, at, i)
}

func (r *route) blocked(now time.Time) bool { return now.Before(r.blockedUntil) }

// Next is what is to be done now, the lanes in turn; ok is false where there is nothing.
func (q *Queue) Next(now time.Time) (task Task, ok bool) {
	for range q.order {
		q.turn++
		if q.turn >= len(q.order) {
			q.turn = 0
		}
		l := q.order[q.turn]
		for at, i := range l.items {
			if task, ok := q.take(now, i); ok {
				l.items = slices.Delete(l.items, at, at+1)
				return task, true
			}
		}
	}
	return Task{}, false
}

// take makes a task of an item that is free to go.
func (q *Queue) take(now time.Time, i *item) (Task, bool) {
	r := q.route(&i.Event)
	task := Task{Event: i.Event, Tries: i.tries}
	if r.blocked(now) {
		if !r.down || i.Told || q.tells >= mostTells || now.Before(i.notBefore) {
			return task, false
		}
		q.tells++
		task.Tell, task.Why = true, r.why
		return task, true
	}
	a := q.account(i.Account)
	if now.Before(i.notBefore) || a.flying >= a.slots || r.probing {
		return task, false
	}
	if !r.blockedUntil.IsZero() {
		r.probing = true
	}
	a.flying++
	r.flying++
	return task, true
}

// Done ends a task.
func (q *Queue) Done(now time.Time, task Task, result Result) {
	if task.Tell {
		q.tells--
	} else {
		q.landed(&task, result)
	}
	if result.Kind == Over || result.Kind == Gone || result.Moved {
		delete(q.known, task.key())
		q.dirty = q.dirty || result.Kind == Gone || result.Moved // it may have another route
		return
	}
	task.Told = result.Told
	i := &item{Event: task.Event, tries: task.Tries}
	switch result.Kind {
	case Again:
		i.tries++
		i.notBefore = result.Until
	case Waits:
		i.tries, i.notBefore = 0, result.Until
	case Held, Down:
		if task.Tell {
			i.notBefore = result.Until // the book could not be told
		}
	}
	if r := q.route(&i.Event); i.Told && r.blocked(now) {
		delete(q.known, task.key()) // it is in the book, and the route is not tried before that is read again
		r.skipped = true
		return
	}
	q.lane(&i.Event).insert(i)
}

// landed takes in what a sent, or unsent, request tells of its route.
func (q *Queue) landed(task *Task, result Result) {
	r, a := q.route(&task.Event), q.account(task.Account)
	a.flying--
	r.flying--
	switch result.Kind {
	case Held:
		// Too many of ours wait: fewer do from now on. What waited does not count as a try of the route.
		a.slots = max(1, a.slots/2)
		r.probing = false
		if !r.down {
			r.blockedUntil, r.why = later(r.blockedUntil, result.Until), result.Why
		}
	case Down:
		r.blockedUntil, r.down, r.why, r.probing = later(r.blockedUntil, result.Until), true, result.Why, false
	case Gone:
		r.probing = false
	default:
		a.slots = min(mostSlots, a.slots+1)
		if r.probing || r.blockedUntil.IsZero() {
			r.blockedUntil, r.down, r.why, r.probing = time.Time{}, false, "", false
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Wake is the first instant after now at which there may be something to do; ok is false where nothing waits for time.
func (q *Queue) Wake(now time.Time) (wake time.Time, ok bool) {
	see := func(t time.Time) {
		if t.After(now) && (!ok || t.Before(wake)) {
			wake, ok = t, true
		}
	}
	for _, l := range q.order {
		for _, i := range l.items {
			see(i.notBefore)
		}
	}
	for _, r := range q.routes {
		see(r.blockedUntil)
	}
	return wake, ok
}

// Routes lists the routes that the queue has met, by policy and name.
func (q *Queue) Routes(now time.Time) []RouteState {
	states := make([]RouteState, 0, len(q.routes))
	for name, r := range q.routes {
		s := RouteState{
			Policy: name.policy, Route: name.route, Account: r.account, Down: r.down, Why: r.why, InFlight: r.flying, Attempts: map[string]int64{},
		}
		if r.blocked(now) {
			until := r.blockedUntil.UTC()
			s.Until = &until
		} else if !r.down {
			s.Why = ""
		}
		states = append(states, s)
	}
	slices.SortFunc(states, func(a, b RouteState) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Route, b.Route))
	})
	return states
}

// Forget lifts every block: what stood against the routes may have changed with the documents.
func (q *Queue) Forget() {
	for _, r := range q.routes {
		r.blockedUntil, r.down, r.why, r.probing = time.Time{}, false, "", false
	}
	q.dirty = true
}
