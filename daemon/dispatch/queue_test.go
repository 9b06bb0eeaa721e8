package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func event(capability string, seq int64) Event {
	return Event{Policy: "p", ID: fmt.Sprint(capability, seq), Capability: capability, Route: "r-" + capability, Account: "a", Seq: seq}
}

// take takes all that is to be done now.
func take(q *Queue, now time.Time) (tasks []Task) {
	for {
		task, ok := q.Next(now)
		if !ok {
			return tasks
		}
		tasks = append(tasks, task)
	}
}

func ids(tasks []Task) (out []string) {
	for _, t := range tasks {
		word := t.ID
		if t.Tell {
			word = "tell " + word
		}
		out = append(out, word)
	}
	slices.Sort(out)
	return out
}

func TestOldestFirstAndCapabilitiesInTurn(t *testing.T) {
	q := NewQueue()
	for _, seq := range []int64{5, 1, 3} {
		q.Offer(t0, event("x", seq))
	}
	for _, seq := range []int64{9, 8} {
		q.Offer(t0, event("y", seq))
	}
	q.Offer(t0, event("y", 8)) // known
	var order []string
	for _, task := range take(q, t0) {
		order = append(order, task.ID)
	}
	if got := fmt.Sprint(order); got != "[y8 x1 y9 x3 x5]" && got != "[x1 y8 x3 y9 x5]" {
		t.Errorf("order %v", got)
	}
}

// A crowd at one capability holds no other back, nor does a route that is down.
func TestACrowdHoldsNobodyBack(t *testing.T) {
	q := NewQueue()
	for seq := range int64(3 * room) {
		q.Offer(t0, event("crowd", seq))
	}
	q.Offer(t0, event("lone", 3*room))
	tasks := take(q, t0)
	if len(tasks) != firstSlots || !slices.Contains(ids(tasks), fmt.Sprint("lone", 3*room)) {
		t.Errorf("took %v", ids(tasks))
	}
	if q.dirty = false; q.Wants(t0) || q.Full() {
		t.Error("the queue wants events though the crowd's lane is full, or is full though the lone one has room")
	}
	for range room {
		for _, task := range tasks {
			q.Done(t0, task, Result{Kind: Over})
		}
		tasks = take(q, t0)
		if q.Wants(t0) {
			return
		}
	}
	t.Error("the queue never wants the rest of the crowd")
}

func TestARouteThatIsDownIsToldToEachEventOnceAndTriedByOne(t *testing.T) {
	q := NewQueue()
	for seq := range int64(4) {
		q.Offer(t0, event("x", seq))
	}
	first := take(q, t0)
	until := t0.Add(time.Minute)
	for _, task := range first {
		q.Done(t0, task, Result{Kind: Down, Until: until, Why: "broken"})
	}
	told := take(q, t0)
	if fmt.Sprint(ids(told)) != "[tell x0 tell x1 tell x2 tell x3]" || told[0].Why != "broken" {
		t.Fatalf("want all to be told, got %v", ids(told))
	}
	for _, task := range told {
		q.Done(t0, task, Result{Kind: Waits, Until: t0, Told: true})
	}
	q.Begin()
	later := event("x", 9)
	later.Told = true
	q.Offer(t0, later)
	if tasks := take(q, t0); len(tasks) != 0 || q.Wants(t0) {
		t.Fatalf("nothing is to be done while it is down, got %v", ids(tasks))
	}
	if wake, ok := q.Wake(t0); !ok || !wake.Equal(until) {
		t.Errorf("wakes at %v %v, want %v", wake, ok, until)
	}
	if s := q.Routes(t0)[0]; !s.Down || s.Why != "broken" || s.Until == nil || !s.Until.Equal(until) || s.InFlight != 0 {
		t.Errorf("state %+v", s)
	}
	if !q.Wants(until) {
		t.Fatal("the events in the book are not wanted though the route is to be tried")
	}
	q.Begin()
	for seq := range int64(4) {
		e := event("x", seq)
		e.Told = true
		q.Offer(until, e)
	}
	probe := take(q, until)
	if fmt.Sprint(ids(probe)) != "[x0]" {
		t.Fatalf("want one to try, got %v", ids(probe))
	}
	q.Done(until, probe[0], Result{Kind: Over})
	if tasks := take(q, until); fmt.Sprint(ids(tasks)) != "[x1 x2 x3]" || q.Routes(until)[0].Down {
		t.Errorf("want the others to follow, got %v", ids(tasks))
	}
}

func TestAnEventThatFailsAloneHoldsNoOther(t *testing.T) {
	q := NewQueue()
	q.Offer(t0, event("x", 1))
	q.Offer(t0, event("x", 2))
	tasks := take(q, t0)
	q.Done(t0, tasks[0], Result{Kind: Again, Until: t0.Add(time.Second)})
	q.Done(t0, tasks[1], Result{Kind: Over})
	q.Offer(t0, event("x", 3))
	if got := ids(take(q, t0)); fmt.Sprint(got) != "[x3]" {
		t.Errorf("took %v", got)
	}
	again := take(q, t0.Add(time.Second))
	if len(again) != 1 || again[0].ID != "x1" || again[0].Tries != 1 {
		t.Errorf("again %+v", again)
	}
}

// Behind a limit that is short, fewer and fewer wait for it, and more again once it lets them through.
func TestSlotsFollowWhatALimitLetsThrough(t *testing.T) {
	q := NewQueue()
	for seq := range int64(room) {
		q.Offer(t0, event("x", seq))
	}
	now := t0.Add(time.Second)
	for _, task := range take(q, t0) {
		q.Done(t0, task, Result{Kind: Held, Until: now})
	}
	if a := q.account("a"); a.slots != 1 {
		t.Errorf("%d slots after %d had waited too long", a.slots, firstSlots)
	}
	if early := take(q, t0); len(early) != 0 {
		t.Errorf("%v before the limit is free", ids(early))
	}
	probe := take(q, now)
	if len(probe) != 1 {
		t.Fatalf("%d try at once", len(probe))
	}
	q.Done(now, probe[0], Result{Kind: Over})
	held := q.account("a").slots
	for range 2 * mostSlots {
		for _, task := range take(q, now) {
			q.Done(now, task, Result{Kind: Over})
		}
	}
	if a := q.account("a"); a.slots <= held || a.slots > mostSlots {
		t.Errorf("%d slots after %d", a.slots, held)
	}
}

// Whatever happens: no event is under way twice, none is sent by a route that is blocked, but for one that tries it, no account has
// more under way than its slots, in a lane no event is sent before an older one that is free; and once everything works, every
// event is done.
func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{rt: rt, q: NewQueue(), now: t0, book: make(map[string]*Event), flying: make(map[string]Task)}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			m.step()
		}
		m.drain()
	})
}

// model is the book, and what is under way.
type model struct {
	rt     *rapid.T
	q      *Queue
	now    time.Time
	seq    int64
	book   map[string]*Event
	flying map[string]Task
}

func (m *model) step() {
	switch rapid.SampledFrom([]string{"admit", "admit", "read", "take", "take", "done", "done", "pass", "forget"}).Draw(m.rt, "step") {
	case "admit":
		m.seq++
		e := event(rapid.SampledFrom([]string{"x", "y"}).Draw(m.rt, "capability"), m.seq)
		e.Route = rapid.SampledFrom([]string{"r1", "r2"}).Draw(m.rt, "route")
		m.book[e.ID] = &e
		m.q.Dirty()
	case "read":
		m.read()
	case "take":
		m.take()
	case "done":
		m.done(rapid.SampledFrom([]Kind{Over, Again, Waits, Held, Down, Gone}).Draw(m.rt, "kind"))
	case "pass":
		m.now = m.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(m.rt, "seconds")) * time.Second)
	case "forget":
		m.q.Forget()
	}
}

func (m *model) read() {
	if !m.q.Wants(m.now) {
		return
	}
	m.q.Begin()
	events := make([]*Event, 0, len(m.book))
	for _, e := range m.book {
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b *Event) int { return int(a.Seq - b.Seq) })
	for _, e := range events {
		m.q.Offer(m.now, *e)
	}
}

func (m *model) take() {
	blocked := make(map[string]bool)
	for _, r := range m.q.Routes(m.now) {
		blocked[r.Route] = r.Until != nil
	}
	task, ok := m.q.Next(m.now)
	if !ok {
		return
	}
	if _, twice := m.flying[task.ID]; twice {
		m.rt.Fatalf("%s is under way twice", task.ID)
	}
	if !task.Tell && blocked[task.Route] || task.Tell && (!blocked[task.Route] || task.Told) {
		m.rt.Fatalf("%+v by a route that is blocked: %v", task, blocked[task.Route])
	}
	for _, i := range m.q.lanes[laneName{"p", task.Capability}].items {
		if i.Seq < task.Seq && i.Route == task.Route && !m.now.Before(i.notBefore) && (!task.Tell || !i.Told) {
			m.rt.Fatalf("%s goes before %s", task.ID, i.ID)
		}
	}
	m.flying[task.ID] = task
	for name, a := range m.q.accounts {
		if a.flying > mostSlots || a.flying < 0 {
			m.rt.Fatalf("account %s has %d under way", name, a.flying)
		}
	}
}

func (m *model) done(kind Kind) {
	for id, task := range m.flying {
		delete(m.flying, id)
		result := Result{Kind: kind, Until: m.now.Add(5 * time.Second)}
		switch {
		case task.Tell && (kind != Over || task.Route == "r2"):
			result.Kind, result.Told = Waits, true
		case kind == Waits:
			result.Told = true
		case kind == Held, kind == Gone, kind == Down:
			result.Told = task.Told
		}
		switch {
		case result.Kind == Over && task.Tell: // it took another route
			m.book[id].Route = "r2"
			m.q.Dirty()
		case result.Kind == Over:
			delete(m.book, id)
		default:
			m.book[id].Told = result.Told
		}
		m.q.Done(m.now, task, result)
		return
	}
}

// drain lets everything work from now on.
func (m *model) drain() {
	for range 10_000 {
		if len(m.book) == 0 {
			return
		}
		m.read()
		m.take()
		if len(m.flying) > 0 {
			m.done(Over)
			continue
		}
		if wake, ok := m.q.Wake(m.now); ok {
			m.now = wake
		}
	}
	m.rt.Fatalf("%d events are never sent: %+v", len(m.book), m.q.Routes(m.now))
}
