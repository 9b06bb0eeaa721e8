package daemon

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
)

// Run does the daemon's work until ctx ends; then it lets running requests finish, writes everything down, and returns nil. An
// error means that it could not begin: documents, secrets, the state or the address.
func (d *Daemon) Run(ctx context.Context) error {
	// What the daemon does outlives ctx by the grace at the end.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer runtime.KeepAlive(ballast())
	if err := d.open(ctx); err != nil {
		d.closeStore()
		return err
	}
	defer d.closeStore()
	var listener net.Listener
	if d.options.Handler != nil {
		var err error
		if listener, err = d.listen(); err != nil {
			d.end(cancel)
			return err
		}
	}
	if listener != nil {
		defer d.serve(listener)()
	}
	defer d.watchFiles()()
	defer d.keepWriting(work)()
	d.deliverPaid(ctx, work)
	d.log.Info("tapyr runs", "version", d.options.Version, "jobs", len(d.world.kept.Jobs), "state", d.world.settings.statePath)
	d.loop(ctx, work)
	notify(stoppingState)
	d.end(cancel)
	return nil
}

// loop starts what is due until ctx ends.
func (d *Daemon) loop(ctx, work context.Context) {
	watchdog, stopWatchdog := watchdogTicks()
	defer stopWatchdog()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for first := true; ; first = false {
		d.followClock(ctx)
		timer.Reset(d.step(work))
		if first {
			notify(readyState)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		case <-watchdog:
			notify(watchdogState)
		case <-d.reloads:
			d.reload(ctx)
		}
	}
}

// longestWait bounds how long the loop does not look.
const longestWait = 15 * time.Second

// step makes a plan where one is wanted, starts what is due, and tells how long there is nothing to do.
func (d *Daemon) step(work context.Context) time.Duration {
	d.mu.Lock()
	now := d.world.gate.Now()
	wanted := d.world.schedule.PlanAt(now) <= now
	d.mu.Unlock()
	if wanted {
		d.replan()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now = d.world.gate.Now()
	for {
		instance, missed := d.world.schedule.Due(now)
		if instance == nil {
			break
		}
		d.job(instance.Job.Name).missed += missed
		d.start(work, instance, now)
	}
	next := d.world.schedule.PlanAt(now)
	if due, ok := d.world.schedule.Next(); ok {
		next = min(next, due)
	}
	return min(max(time.Duration(next-now), 0), longestWait)
}

// start begins a run of an instance whose turn has come. It requires mu.
func (d *Daemon) start(work context.Context, instance *schedule.Instance, now int64) {
	if before := d.running[instance.Name]; before != nil {
		// A run of the last generation is still under way, and at most one is.
		before.heir = instance
		return
	}
	r, err := d.newRun(d.world, instance, now)
	if err != nil {
		d.log.Error("a run could not begin", "instance", instance.Name, "error", err)
		d.world.schedule.Finish(instance)
		return
	}
	d.running[instance.Name], d.started[instance.Name] = r, now
	d.group.Go(func() {
		defer d.finish(r)
		defer func() {
			if cause := recover(); cause != nil {
				r.status, r.err = statusFailed, fmt.Errorf("a mistake in tapyr: %v", cause)
				d.log.Error("a run panicked", "instance", instance.Name, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			}
		}()
		r.do(work)
	})
}

// finish publishes what a run has brought, and writes down how it went.
func (d *Daemon) finish(r *run) {
	defer r.harvest.Drop()
	var written int64
	good := r.status == statusOK || r.status == statusPartial
	if good {
		var err error
		if written, err = d.files.Publish(r.harvest, time.Unix(0, r.core.StartedNanos)); err != nil {
			r.status, r.err = statusFailed, fmt.Errorf("an output could not be written: %w", err)
		}
		d.series.Publish(r.harvest)
		r.world.learnItems(r.core.StartedNanos, r.instance, r.harvest.Items)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.poke()
	now := time.Unix(0, d.now()).UTC()
	job := r.instance.Job
	delete(d.running, r.instance.Name)
	if r.status == statusOK {
		d.history.Add(&r.core, int64(r.latency))
	}
	if good {
		d.takeItems(r, now)
	}
	text := ""
	if r.err != nil {
		text = d.redactor.Text(r.err.Error())
	}
	pages := int64(r.core.Requests - r.core.Retries)
	d.keeper.Run(ledger.Run{
		Job: job.Name, Instance: r.instance.Name, Account: job.Account.Name, Started: time.Unix(0, r.core.StartedNanos).UTC(),
		Duration: max(0, now.Sub(time.Unix(0, r.core.StartedNanos))), Pages: pages, Requests: int64(r.core.Requests),
		Items: r.harvest.Count, Status: r.status, Error: text,
	})
	d.note(r, now, text, pages, written)
	if d.world.schedule == r.world.schedule {
		d.world.schedule.Finish(r.instance)
	} else if r.heir != nil {
		d.world.schedule.Finish(r.heir)
	}
}

// note takes down how a run went. It requires mu.
func (d *Daemon) note(r *run, now time.Time, text string, pages, written int64) {
	record := d.job(r.instance.Job.Name)
	record.runs[r.status]++
	record.lines += written
	record.last = &RunState{
		Instance: r.instance.Name, StartedAt: time.Unix(0, r.core.StartedNanos).UTC(), Status: r.status, Pages: pages,
		DurationSeconds: max(0, now.Sub(time.Unix(0, r.core.StartedNanos))).Seconds(), Requests: int64(r.core.Requests),
		Items: r.harvest.Count, Error: text,
	}
	attributes := []any{
		"job", r.instance.Job.Name, "instance", r.instance.Name, "status", r.status, "pages", pages,
		"requests", r.core.Requests, "items", r.harvest.Count, "seconds", record.last.DurationSeconds,
	}
	switch r.status {
	case statusOK:
		record.lastSuccess, record.err = now, ""
		d.log.Debug("a run ended", attributes...)
	case statusInterrupted:
		d.log.Info("a run was interrupted", attributes...)
	default:
		record.err, record.errAt = text, now
		if record.firstBad == nil {
			record.firstBad = record.last
		}
		d.log.Warn("a run failed", append(attributes, "error", text)...)
	}
}

// takeItems makes what a run has listed the inventory for others. It requires mu.
func (d *Daemon) takeItems(r *run, now time.Time) {
	present := d.world.kept.Job(r.instance.Job.Name)
	if present == nil || len(present.Children) == 0 ||
		d.world != r.world && !reflect.DeepEqual(present.Spec.Inventory, r.instance.Job.Spec.Inventory) {
		return
	}
	instance := d.world.schedule.Instance(r.instance.Name)
	if instance == nil {
		return // its own item has gone
	}
	items := r.harvest.Items
	if items == nil {
		items = []map[string]string{}
	}
	stored := ledger.Inventory{Job: present.Name, Instance: instance.Name, At: now, Items: items}
	d.listed[instance.Name] = stored
	d.keeper.Inventory(stored)
	before := len(d.world.schedule.Instances(present.Children[0].Name))
	if d.world.schedule.SetItems(instance, items) {
		d.forgetGone(now)
		d.planWhy = "inventory"
		d.log.Info("an inventory changed", "instance", instance.Name, "items", len(items),
			"instances", len(d.world.schedule.Instances(present.Children[0].Name)), "before", before)
	}
}

// forgetGone forgets what instances have listed whose own item has gone. It requires mu.
func (d *Daemon) forgetGone(now time.Time) {
	for name, one := range d.listed {
		if d.world.kept.Job(one.Job) != nil && d.world.schedule.Instance(name) == nil {
			delete(d.listed, name)
			d.keeper.Inventory(ledger.Inventory{Job: one.Job, Instance: name, At: now, Gone: true})
		}
	}
	for name := range d.started {
		if d.world.schedule.Instance(name) == nil {
			delete(d.started, name)
		}
	}
}

// replan makes a plan of what is known now, and takes over what it changes.
func (d *Daemon) replan() {
	d.mu.Lock()
	w, now := d.world, d.world.gate.Now()
	state := &plan.State{Inventories: w.schedule.Inventories(), History: d.history.Plan()}
	d.mu.Unlock()
	w.gate.Do(func(e *engine.Engine, at int64) {
		state.Counters = schedule.Counters(e, at, w.kept.Settings.ReplanInterval)
	})
	in := plan.Input{Config: w.kept, At: time.Unix(0, now).UTC(), State: state}
	made := plan.Make(in)

	d.mu.Lock()
	defer d.mu.Unlock()
	changes := w.schedule.Adopt(w.gate.Now(), made)
	why := d.planWhy
	d.planWhy, d.plan, d.advice = "interval", made, newAdvice(in, made)
	d.replans++
	d.publishIntervals()
	for _, c := range changes {
		d.changes.add(IntervalChange{
			At: time.Unix(0, now).UTC(), Job: c.Job, FromSeconds: c.From.Seconds(), ToSeconds: c.To.Seconds(), Why: why,
		})
		if c.From != 0 || c.To != w.kept.Job(c.Job).Interval {
			d.log.Info("the plan gives a job another interval", "job", c.Job, "from", c.From.String(), "to", c.To.String(),
				"asked", w.kept.Job(c.Job).Interval.String(), "why", why)
		}
	}
	d.warn(made)
}

// warn is loud about a plan that does not hold, once each time that begins. It requires mu.
func (d *Daemon) warn(made *plan.Plan) {
	holds := made.Holds()
	defer func() { d.warned = !holds }()
	switch {
	case holds && d.warned:
		d.log.Info("the plan holds again")
	case !holds && !d.warned:
		for i := range made.Scopes {
			if s := &made.Scopes[i]; !s.Feasible {
				d.log.Warn("THE PLAN IS INFEASIBLE: a quota cannot carry the jobs, and requests will be refused; run tapyr plan for what would help",
					"provider", s.Provider, "limit", s.Limit, "key", s.Key, "budget", plan.Figure(s.Budget), "needed", plan.Figure(s.Projected))
			}
		}
		for _, a := range made.Assertions {
			if !a.OK {
				d.log.Warn("THE PLAN BREAKS A PROMISE", "kind", a.Kind, "job", a.Job, "limit", a.Limit, "want", a.Want, "got", a.Got)
			}
		}
	}
}

// end lets running requests finish, and writes everything down.
func (d *Daemon) end(cancel context.CancelFunc) {
	d.stopOnce.Do(func() { close(d.stopping) })
	d.door.shut(true)
	done := make(chan struct{})
	go func() {
		d.group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(d.options.Grace):
		d.log.Warn("requests that are still running are given up", "grace", d.options.Grace.String())
		cancel()
		<-done
	}
	cancel()
	d.flush(context.Background(), true)
	d.world.close()
	d.log.Info("tapyr has stopped", "requests", d.watch.totals().Granted)
}

func (d *Daemon) closeStore() {
	d.closeBook()
	if d.store != nil {
		if err := d.store.Close(); err != nil {
			d.log.Error("the state was not closed", "error", err)
		}
	}
}
