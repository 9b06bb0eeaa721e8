package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

const (
	// patience is how long an event waits for a limit. A route that is not free by then because of a quota, a penalty or a breaker
	// is down; behind a rate, the event is queued again.
	patience = 30 * time.Second
	// recheck is how long a route that cannot be used is left alone, where nobody says how long.
	recheck = time.Minute
	// moment is the same for what passes soon.
	moment = time.Second
)

// delivery is one attempt to deliver an event. It has a goroutine of its own.
type delivery struct {
	outbox  *outbox
	daemon  *Daemon
	machine *dispatch.Machine
	task    dispatch.Task

	route schema.SpendRoute
	world *world
	host  *host
	ask   ask
	// event is as it was before the request left, nil until then. doubt tells that a request of this attempt may be charged though
	// the answer to it was not the last: a redirect that says that it is done.
	event *book.Event
	doubt bool
}

// deliver does a task, and tells the queue what became of it.
func (o *outbox) deliver(work context.Context, machine *dispatch.Machine, task dispatch.Task) {
	result := dispatch.Result{Kind: dispatch.Held, Until: time.Now().Add(recheck), Why: "a mistake in tapyr"}
	defer func() {
		if cause := recover(); cause != nil {
			o.daemon.log.Error("a delivery panicked", "policy", task.Policy, "event", task.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.queue.Done(time.Now(), task, result)
		o.sayRoute(&task, &result)
		o.poke()
	}()
	if machine == nil { // the documents declare the policy no more
		result = dispatch.Result{Kind: dispatch.Held, Until: time.Now().Add(recheck), Why: "the documents do not declare the policy"}
		return
	}
	d := &delivery{outbox: o, daemon: o.daemon, machine: machine, task: task}
	if task.Tell {
		result = d.tell(work)
		return
	}
	if result = d.do(work); d.event == nil {
		result.Told = task.Told // as before
	}
}

// sayRoute logs when a route cannot be used, and when it can again. It requires mu.
func (o *outbox) sayRoute(task *dispatch.Task, result *dispatch.Result) {
	name := [2]string{task.Policy, task.Route}
	said := o.said[name]
	switch {
	case task.Tell, result.Kind == dispatch.Gone:
	case result.Kind == dispatch.Down, result.Kind == dispatch.Held && time.Until(result.Until) > patience:
		o.said[name] = true
		if !said {
			o.daemon.log.Warn("a route of paid calls cannot be used", "policy", task.Policy, "route", task.Route, "account", task.Account,
				"until", result.Until.UTC().Format(time.RFC3339), "why", result.Why)
		}
	case said && result.Kind != dispatch.Held:
		delete(o.said, name)
		o.daemon.log.Info("a route of paid calls is used again", "policy", task.Policy, "route", task.Route)
	}
}

// held waits for what is not a failure of the route.
func held(wait time.Duration, why string) dispatch.Result {
	return dispatch.Result{Kind: dispatch.Held, Until: time.Now().Add(wait), Why: why}
}

// tell lets the book know that an event waits for a route that is down: its deadline counts from then on, or it takes the next.
func (d *delivery) tell(ctx context.Context) dispatch.Result {
	out, err := d.machine.Attempt(ctx, time.Now(), d.task.ID, spend.Delivery{
		Result: spend.ResultUnavailable, Route: d.task.Route, Down: true,
	})
	if err != nil {
		return d.unwritten(err)
	}
	d.outbox.count(&d.task, spend.ResultUnavailable)
	return d.waits(&out, time.Now().Add(moment), d.task.Why)
}

// waits is what follows once the book knows that the route is down: the event waits for it, or has another one.
func (d *delivery) waits(out *spend.Outcome, until time.Time, why string) dispatch.Result {
	if out.Route == nil || *out.Route != d.task.Route || !out.State.Holds() {
		route := ""
		if out.Route != nil {
			route = *out.Route
		}
		d.daemon.log.Info("a paid call takes the next route", "policy", d.task.Policy, "event", d.task.ID, "from", d.task.Route, "to", route, "why", why)
		return dispatch.Result{Kind: dispatch.Over}
	}
	return dispatch.Result{Kind: dispatch.Waits, Until: until, Why: why, Told: true}
}

// unwritten is what follows when a step of the book failed.
func (d *delivery) unwritten(err error) dispatch.Result {
	var storage *book.StorageError
	if errors.As(err, &storage) || errors.Is(err, context.Canceled) {
		return held(moment, d.daemon.redactor.Text(err.Error()))
	}
	// Somebody else has ended the event meanwhile, or has given it another route.
	d.daemon.log.Info("a paid call is no more for tapyr to deliver", "policy", d.task.Policy, "event", d.task.ID, "why", err)
	return dispatch.Result{Kind: dispatch.Gone}
}

// do sends the event once, and does what follows.
func (d *delivery) do(ctx context.Context) dispatch.Result {
	request, stop := d.prepare(ctx)
	if stop != nil {
		return *stop
	}
	return d.send(ctx, request)
}

// prepare finds everything that a request needs. A result ends the delivery.
func (d *delivery) prepare(ctx context.Context) (*client.Request, *dispatch.Result) {
	stop := func(r dispatch.Result) (*client.Request, *dispatch.Result) { return nil, &r }
	w, err := d.daemon.door.enter(ctx)
	if err != nil {
		return stop(held(moment, err.Error()))
	}
	d.daemon.door.leave()
	event, err := d.load(ctx)
	switch {
	case err != nil:
		return stop(d.unwritten(err))
	case event == nil:
		return stop(dispatch.Result{Kind: dispatch.Gone})
	}
	a := w.config.Account(d.route.Account)
	if a == nil {
		return stop(held(recheck, fmt.Sprintf("the documents have no account %q", d.route.Account)))
	}
	if d.host = w.hosts[hostName{a.Name, onlyTarget(a)}]; d.host == nil {
		return stop(held(recheck, fmt.Sprintf("no route and no job of the documents uses account %q, so its credentials are not known", a.Name)))
	}
	d.world = w
	request, asked, err := routeRequest(a, &d.route, event, d.host)
	if err == nil {
		d.ask = ask{request: asked}
		if err := d.ask.prepare(w); err != nil {
			return stop(held(recheck, err.Error()))
		}
		return request, nil
	}
	// No attempt will ever succeed, and nothing has left.
	return stop(d.unsendable(ctx, event, err))
}

// load reads the event and its route.
func (d *delivery) load(ctx context.Context) (event *book.Event, err error) {
	err = d.daemon.Book().View(ctx, func(tx book.Tx) error {
		record, err := tx.Get(book.EventKey(d.task.Policy, d.task.ID))
		event, _ = record.(*book.Event)
		return err
	})
	if err != nil || event == nil || !event.Outbox || event.Route != d.task.Route {
		return nil, err
	}
	d.route, err = d.machine.RouteOf(ctx, event)
	return event, err
}

// send asks the limits, sends the request, follows where it is redirected, and ends the attempt.
func (d *delivery) send(ctx context.Context, request *client.Request) dispatch.Result {
	renewed := false
	for {
		credential, err := d.host.client.Credential(ctx)
		if err != nil {
			return d.refused(ctx, err)
		}
		p, err := d.daemon.acquire(ctx, &d.ask, d.task.Tries > 0, d.daemon.now()+int64(patience))
		if err != nil {
			return d.refused(ctx, err)
		}
		if p.world != d.world { // reloaded meanwhile: the account may be another now
			p.end()
			return d.unsent(ctx, dispatch.Result{Kind: dispatch.Gone})
		}
		if stop := d.begin(ctx, p); stop != nil {
			return *stop
		}
		got := d.daemon.send(ctx, p, "", d.host, request, credential)
		verdict := judge(d.ask.request.Account, d.world, &got)
		d.daemon.countAnswer(d.ask.request.Account, verdict.Outcome, &got, func() error { return d.why(&got) })
		if got.answer != nil && got.err == nil {
			next, err := d.host.client.Redirect(request, got.answer)
			switch {
			case err != nil:
				got.err = err
			case next != nil:
				d.doubt = d.doubt || next.Method != request.Method
				request = next
				continue
			}
		}
		if got.answer != nil && got.answer.Status == 401 && !renewed {
			if _, ok, _ := d.host.client.Renew(ctx, credential); ok {
				renewed = true
				continue
			}
		}
		return d.conclude(ctx, &got, &verdict)
	}
}

// begin notes in the book that a request is about to leave. A result ends the delivery, and the pass.
func (d *delivery) begin(ctx context.Context, p *pass) *dispatch.Result {
	if d.event != nil {
		return nil // a redirect, or a new token: it is noted already
	}
	before, err := d.machine.Send(ctx, time.Now(), d.task.ID, d.task.Route)
	switch {
	case err != nil:
		p.end()
		result := d.unwritten(err)
		return &result
	case before == nil:
		p.end()
		return &dispatch.Result{Kind: dispatch.Gone}
	case before.InDoubt && !d.route.Idempotent:
		// A request had left when tapyr was ended. The vendor may have done it, and could do it twice.
		p.end()
		d.event = before
		result := d.giveUp(ctx, resultInterrupted, "tapyr was ended while a request was under way")
		return &result
	}
	d.event = before
	return nil
}

// refused is what follows when the limits, or the account's token, do not let a request go.
func (d *delivery) refused(ctx context.Context, err error) dispatch.Result {
	why := d.daemon.redactor.Text(err.Error())
	var refused *engine.RefusedError
	var auth *client.AuthError
	switch {
	case errors.As(err, &refused):
		until := time.Now().Add(moment)
		if refused.RetryKnown {
			until = time.Now().Add(time.Duration(refused.RetryAtNanos - d.daemon.now()))
		}
		soon := time.Until(until) <= patience
		if refused.Reason == engine.DeadlineExceeded || refused.Reason != engine.CircuitOpen && soon {
			return d.unsent(ctx, dispatch.Result{Kind: dispatch.Held, Until: until, Why: why})
		}
		return d.unsent(ctx, dispatch.Result{Kind: dispatch.Down, Until: until, Why: why})
	case errors.As(err, &auth):
		return d.unsent(ctx, dispatch.Result{Kind: dispatch.Down, Until: d.later(), Why: why})
	}
	return d.unsent(ctx, held(moment, why))
}

// later is when a route, or an event, that failed is tried again: after the time for which a breaker would be open.
func (d *delivery) later() time.Time {
	wait := recheck
	if b := d.world.config.Account(d.route.Account).Provider.Spec.CircuitBreaker; b != nil {
		wait = b.OpenFor.Or(recheck)
	}
	return time.Now().Add(wait)
}

// unsent ends a delivery whose next request did not go. Where one has gone before, a redirect or one with an old token, the book
// hears of it.
func (d *delivery) unsent(ctx context.Context, result dispatch.Result) dispatch.Result {
	if d.event == nil {
		return result
	}
	doubt := d.doubt || d.event.InDoubt
	if doubt && !d.route.Idempotent {
		return d.giveUp(ctx, dispatch.ResultRedirected, result.Why)
	}
	if _, err := d.record(ctx, spend.Delivery{Result: dispatch.ResultRedirected, InDoubt: doubt}); err != nil {
		return d.unwritten(err)
	}
	return result
}
