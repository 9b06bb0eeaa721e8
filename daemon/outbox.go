package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/validate"
)

// outbox delivers the paid calls that the book holds for tapyr. One goroutine asks the queue what is next, and starts a goroutine
// for each delivery. It reads the book again when its chain has grown, whoever wrote: that is looked for several times a second.
type outbox struct {
	daemon *Daemon
	// wake asks for a look at the book; it has room for one.
	wake  chan struct{}
	group sync.WaitGroup // of the deliveries

	// The rest but what mu guards belongs to the goroutine of run.
	head     int64                // of the chain, when the book was last read
	ticks    map[string]time.Time // when time alone changes something, by policy
	readFrom time.Time            // the earliest instant of the next reading
	failed   bool                 // that the book could not be read, and the log says so

	mu       sync.Mutex // guards what follows
	queue    *dispatch.Queue
	pending  map[string]*pending
	counts   map[deliveryCount]int64
	doubts   map[string]int64         // events that were given up, by policy
	said     map[[2]string]bool       // the routes that the log says cannot be used
	programs map[string]*expr.Program // of actual, by their text
	err      string
}

// pending are the events of a policy that hold units and wait to be delivered, when the book was last read.
type pending struct {
	events, waiting int64
	oldest          time.Time
	// more tells that there are more than were read.
	more bool
}

type deliveryCount struct{ policy, route, result string }

func newOutbox(d *Daemon) *outbox {
	return &outbox{
		daemon: d, wake: make(chan struct{}, 1), head: -1, ticks: make(map[string]time.Time), queue: dispatch.NewQueue(),
		pending: make(map[string]*pending), counts: make(map[deliveryCount]int64), said: make(map[[2]string]bool), doubts: make(map[string]int64),
		programs: make(map[string]*expr.Program),
	}
}

// poke asks for a look at the book, without a wait.
func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

const (
	// lookEvery is how often the book is asked whether another process has written.
	lookEvery = 250 * time.Millisecond
	// idleLook is the same while no policy is declared.
	idleLook = 5 * time.Second
	// readPause is the least time between two readings of the book; a reading that took long is followed by a pause of
	// readShare times that.
	readPause = 20 * time.Millisecond
	readShare = 4
)

// run delivers until the daemon stops, and then waits for what is under way. work outlives that by the grace.
func (o *outbox) run(work context.Context) {
	defer o.group.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-o.daemon.stopping:
			return
		case <-o.wake:
		case <-timer.C:
		}
		timer.Reset(o.step(work))
	}
}

// step does what is due, and tells how long there is nothing to do.
func (o *outbox) step(work context.Context) time.Duration {
	machines := o.daemon.Machines()
	if len(machines) == 0 {
		return idleLook
	}
	wait := lookEvery
	err := o.look(work, machines)
	if err == nil {
		err = o.tick(work, machines)
	}
	if err == nil {
		err = o.read(work, machines)
	}
	o.report(err)
	now := time.Now()
	for _, at := range o.ticks {
		wait = min(wait, at.Sub(now))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		task, ok := o.queue.Next(now)
		if !ok {
			break
		}
		o.group.Go(func() { o.deliver(work, machines[task.Policy], task) })
	}
	if at, ok := o.queue.Wake(now); ok {
		wait = min(wait, at.Sub(now))
	}
	if o.queue.Wants(now) {
		wait = min(wait, o.readFrom.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// report says in the log when the book cannot be read, and when it can again.
func (o *outbox) report(err error) {
	text := ""
	if err != nil {
		text = o.daemon.redactor.Text(err.Error())
	}
	o.mu.Lock()
	o.err = text
	o.mu.Unlock()
	switch {
	case err != nil && !o.failed:
		o.daemon.log.Error("THE BOOK OF PAID CALLS CANNOT BE USED: nothing is delivered until it can", "error", text)
	case err == nil && o.failed:
		o.daemon.log.Info("the book of paid calls can be used again")
	}
	o.failed = err != nil
}

// look notices that the chain has grown: every decision is an entry of it, and so is a new version of a policy.
func (o *outbox) look(ctx context.Context, machines map[string]*dispatch.Machine) error {
	var head int64
	err := o.daemon.Book().View(ctx, func(tx book.Tx) error {
		h, err := tx.Head()
		head = h.Count
		return err
	})
	if err != nil || head == o.head {
		return err
	}
	o.head = head
	o.mu.Lock()
	o.queue.Dirty()
	o.mu.Unlock()
	return o.plan(ctx, machines)
}

// plan finds out when time alone changes something.
func (o *outbox) plan(ctx context.Context, machines map[string]*dispatch.Machine) error {
	clear(o.ticks)
	for name, m := range machines {
		next, ok, err := m.Next(ctx, time.Now())
		var none *spend.NoPolicyError
		if err != nil && !errors.As(err, &none) {
			o.head = -1 // asked again with the next look
			return err
		}
		if ok {
			o.ticks[name] = next
		}
	}
	return nil
}

// tick lets time pass where a deadline is reached or a window has opened.
func (o *outbox) tick(ctx context.Context, machines map[string]*dispatch.Machine) error {
	ticked := false
	for name, at := range o.ticks {
		if now := time.Now(); !now.Before(at) {
			if _, err := machines[name].Tick(ctx, now); err != nil {
				return err
			}
			ticked = true
		}
	}
	if !ticked {
		return nil
	}
	return o.plan(ctx, machines)
}

// enough is how many events a reading looks at once every capability has as many as it holds.
const enough = 10_000

// read offers the events of the book to the queue, where that wants them.
func (o *outbox) read(ctx context.Context, machines map[string]*dispatch.Machine) error {
	began := time.Now()
	o.mu.Lock()
	wants := o.queue.Wants(began) && !began.Before(o.readFrom)
	if wants {
		o.queue.Begin()
	}
	o.mu.Unlock()
	if !wants {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		if err := o.readPolicy(ctx, name, machines[name]); err != nil {
			o.mu.Lock()
			o.queue.Dirty()
			o.mu.Unlock()
			o.readFrom = time.Now().Add(time.Second)
			return err
		}
	}
	o.readFrom = time.Now().Add(max(readPause, readShare*time.Since(began)))
	return nil
}

func (o *outbox) readPolicy(ctx context.Context, name string, m *dispatch.Machine) error {
	found := &pending{}
	now := time.Now()
	err := m.Outbox(ctx, func(e *book.Event, route schema.SpendRoute) bool {
		found.events++
		if e.Waiting {
			found.waiting++
		}
		if found.oldest.IsZero() {
			found.oldest = e.AdmittedAt
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.queue.Offer(now, dispatch.Event{
			Policy: name, ID: e.ID, Capability: e.Capability, Route: e.Route, Account: route.Account, Seq: e.AdmissionSeq,
			Told: e.Waiting || e.InDoubt, // one in doubt waits for no other route
		})
		found.more = found.events >= enough && o.queue.Full()
		return !found.more
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[name] = found
	return nil
}

// state is where the delivery stands.
func (o *outbox) state(policies []*validate.Policy) *dispatch.State {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &dispatch.State{Error: o.err, Policies: []dispatch.PolicyState{}, Routes: o.queue.Routes(time.Now())}
	for _, p := range policies {
		one := dispatch.PolicyState{Policy: p.Name, InDoubt: o.doubts[p.Name]}
		if found := o.pending[p.Name]; found != nil {
			one.Pending, one.Waiting, one.More, one.OldestAt = found.events, found.waiting, found.more, instant(found.oldest)
		}
		s.Policies = append(s.Policies, one)
	}
	slices.SortFunc(s.Policies, func(a, b dispatch.PolicyState) int { return strings.Compare(a.Policy, b.Policy) })
	for i := range s.Routes {
		r := &s.Routes[i]
		r.Why = o.daemon.redactor.Text(r.Why)
		for c, n := range o.counts {
			if c.policy == r.Policy && c.route == r.Route {
				r.Attempts[c.result] = n
			}
		}
	}
	return s
}

// routed are the accounts that the routes of policies send through.
func routed(config *validate.Config) map[string]bool {
	accounts := make(map[string]bool)
	for _, p := range config.Policies {
		for _, r := range p.Spec.Routes {
			if r.Request != nil {
				accounts[r.Account] = true
			}
		}
	}
	return accounts
}
