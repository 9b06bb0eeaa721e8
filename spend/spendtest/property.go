package spendtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// RunTwin drives a machine and its twin through the same random steps and compares everything they know after each.
func RunTwin(t *testing.T, open Factory) {
	rapid.Check(t, func(rt *rapid.T) {
		store, _ := open(t)
		length := rapid.SampledFrom([]int64{0, 60, 600}).Draw(rt, "window")
		p := &pair{rt: rt, t: t, store: store, machine: spend.New(store, "twin"), twin: &twin{}}
		p.publish(length)
		for i := range rapid.IntRange(5, 40).Draw(rt, "steps") {
			p.step(i, length)
			p.compare()
		}
		CheckBook(t, store, "twin")
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// pair is a machine with its twin.
type pair struct {
	rt      *rapid.T
	t       *testing.T
	store   book.Store
	machine *spend.Machine
	twin    *twin
	// seconds is the time since t0.
	seconds  int64
	versions int
	ids      []string
}

func (p *pair) now() time.Time { return t0.Add(time.Duration(p.seconds) * time.Second) }

// hundredths writes an amount of the twin.
func hundredths(n int64) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }

// publish draws a policy for both.
func (p *pair) publish(length int64) {
	p.versions++
	tp := twinPolicy{version: fmt.Sprintf("v%d", p.versions), windowLength: length, capabilities: make(map[string]*twinCapability)}
	amount := func(most int64, name string) int64 { return rapid.Int64Range(0, most).Draw(p.rt, name) }
	tp.limit = amount(2000, "limit")
	text := fmt.Sprintf("apiVersion: tapyr/v1alpha1\nkind: SpendPolicy\nmetadata: { name: twin }\nspec:\n  version: %s\n  unit: u\n  account: { limit: %q",
		tp.version, hundredths(tp.limit))
	if length > 0 {
		text += fmt.Sprintf(", window: { every: %ds }", length)
	}
	text += " }\n  routes:\n"
	costs := make(map[string]int64)
	for _, name := range []string{"r0", "r1", "r2"} {
		costs[name] = amount(600, "cost")
		text += fmt.Sprintf("    %s: { cost: %q }\n", name, hundredths(costs[name]))
	}
	text += "  capabilities:\n"
	left := tp.limit
	var essential, others []string
	for _, name := range rapid.SampledFrom([][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}}).Draw(p.rt, "capabilities") {
		c := &twinCapability{limit: amount(2000, "own limit")}
		c.protected = min(left, c.limit, amount(500, "protected"))
		left -= c.protected
		c.fallback = rapid.SampledFrom([]book.Disposition{book.Defer, book.Defer, book.Minimal, book.Reject}).Draw(p.rt, "fallback")
		c.onDeadline = book.Reject
		if c.fallback == book.Defer {
			c.onDeadline = rapid.SampledFrom([]book.Disposition{book.Minimal, book.Reject}).Draw(p.rt, "onDeadline")
			c.deadline = rapid.SampledFrom([]int64{0, 30, 90, 700}).Draw(p.rt, "deadline")
		}
		c.takesNext = rapid.Bool().Draw(p.rt, "next")
		names := rapid.SampledFrom([]string{"r0", "r1 r0", "r0 r1 r2", "r2 r1"}).Draw(p.rt, "routes")
		for _, r := range strings.Fields(names) {
			c.routes = append(c.routes, twinRoute{r, costs[r]})
		}
		text += fmt.Sprintf("    %s: { limit: %q, protected: %q, routes: [%s], fallback: %s",
			name, hundredths(c.limit), hundredths(c.protected), strings.ReplaceAll(names, " ", ", "), c.fallback)
		if c.deadline > 0 {
			text += fmt.Sprintf(", deadline: %ds, onDeadline: %s", c.deadline, c.onDeadline)
		}
		if c.takesNext {
			text += ", onUnavailable: next"
		}
		if rapid.Bool().Draw(p.rt, "essential") {
			text += ", essential: true"
			essential = append(essential, name)
		} else {
			others = append(others, name)
		}
		text += " }\n"
		tp.capabilities[name] = c
	}
	tp.order = slices.Concat(essential, others)
	_, err := p.machine.Publish(context.Background(), p.now(), Policy(p.t, text), Approved())
	p.must(err)
	p.twin.publish(tp, p.seconds)
}

func (p *pair) must(err error) {
	if err != nil {
		p.rt.Fatal(err)
	}
}

// step draws one step for both. Errors must come from both or from none.
func (p *pair) step(i int, length int64) {
	ctx := context.Background()
	p.seconds += rapid.SampledFrom([]int64{0, 0, 0, 1, 7, 29, 30, 60, 601}).Draw(p.rt, "pause")
	old := "nobody"
	if len(p.ids) > 0 {
		old = rapid.SampledFrom(p.ids).Draw(p.rt, "event")
	}
	var err error
	var done bool
	switch kind := rapid.SampledFrom([]string{"admit", "admit", "admit", "admit", "retry", "settle", "settle", "release", "attempt", "down", "tick", "publish"}).Draw(p.rt, "step"); kind {
	case "admit":
		id := fmt.Sprintf("e%d", i)
		capability := rapid.SampledFrom(slices.Sorted(maps.Keys(p.twin.policy.capabilities))).Draw(p.rt, "capability")
		p.ids = append(p.ids, id)
		_, err = p.machine.Admit(ctx, p.now(), spend.Admission{EventID: id, Capability: capability})
		done = p.twin.admit(id, capability, p.seconds) != nil
	case "retry":
		if done = old != "nobody"; done {
			_, err = p.machine.Admit(ctx, p.now(), spend.Admission{EventID: old, Capability: "a"})
			p.twin.admit(old, "a", p.seconds)
		} else {
			_, err = p.machine.Explain(ctx, old)
		}
	case "settle":
		actual := rapid.Int64Range(0, 700).Draw(p.rt, "actual")
		_, err = p.machine.Settle(ctx, p.now(), old, Units(p.t, hundredths(actual)))
		done = p.settleTwin(old, actual, err)
	case "release":
		_, err = p.machine.Release(ctx, p.now(), old, "test")
		done = p.twinIfKnown(old, func() bool { return p.twin.release(old, p.seconds) })
	case "attempt", "down":
		result := map[string]string{"attempt": "timeout", "down": spend.ResultUnavailable}[kind]
		_, err = p.machine.Attempt(ctx, p.now(), old, spend.Delivery{Result: result})
		done = p.settled(err, func() bool { return p.twin.attempt(old, kind == "down", p.seconds) })
	case "tick":
		_, err = p.machine.Tick(ctx, p.now())
		p.twin.pass(p.seconds)
		done = true
	case "publish":
		p.publish(length)
		done = true
	}
	if (err == nil) != done {
		p.rt.Fatalf("step %d: machine says %v, twin %v", i, err, done)
	}
}

// A step that fails is undone with everything that the time which passed has changed: the machine is one transaction. The twin
// is asked on a copy, and keeps it only where the machine went on.
func (p *pair) settled(err error, ask func() bool) bool {
	before := p.twin
	copied := *p.twin
	copied.events = nil
	for _, e := range before.events {
		c := *e
		copied.events = append(copied.events, &c)
	}
	p.twin = &copied
	done := ask()
	if err != nil {
		p.twin = before
	}
	return done
}

func (p *pair) settleTwin(id string, actual int64, err error) bool {
	return p.settled(err, func() bool { return p.twin.settle(id, actual, p.seconds) })
}

func (p *pair) twinIfKnown(id string, ask func() bool) bool {
	return p.twin.find(id) != nil && ask()
}

// compare checks each event and each counter.
func (p *pair) compare() {
	view(p.t, p.store, func(tx book.Tx) {
		found := events(p.t, tx, book.Query{Policy: "twin"})
		if len(found) != len(p.twin.events) {
			p.rt.Fatalf("machine has %d events, twin %d", len(found), len(p.twin.events))
		}
		windows := make(map[int64]bool)
		for i, e := range found {
			want := p.twin.events[i]
			got := fmt.Sprint(e.ID, e.State, e.Disposition, e.Route, e.Version, e.Waiting)
			if text := fmt.Sprint(want.id, want.state, want.disposition, want.route, want.version, want.waiting); got != text {
				p.rt.Fatalf("machine has %s, twin %s", got, text)
			}
			if e.Units().Cmp(Units(p.t, hundredths(want.units()))) != 0 {
				p.rt.Fatalf("event %s takes %s, twin says %s", e.ID, e.Units(), hundredths(want.units()))
			}
			windows[want.window] = true
		}
		for window := range windows {
			start := time.Time{}
			if length := p.twin.policy.windowLength; length > 0 {
				start = t0.Add(time.Duration(window*length) * time.Second)
			}
			for _, capability := range []string{"", "a", "b", "c"} {
				r, err := tx.Get(book.CounterKey("twin", capability, start))
				p.must(err)
				used := book.Units{}
				if c, ok := r.(*book.Counter); ok {
					used = c.Used
				}
				if want := Units(p.t, hundredths(p.twin.used(capability, window))); used.Cmp(want) != 0 {
					p.rt.Fatalf("%q has used %s in window %d, twin says %s", capability, used, window, want)
				}
			}
		}
	})
}
