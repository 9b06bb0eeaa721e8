package simulate

import (
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// Scenario is what Run plays.
type Scenario struct {
	// Config are the documents.
	Config *validate.Config
	// Start is the first instant, Duration how long new runs start. Requests under way then come to their end.
	Start    time.Time
	Duration time.Duration
	// Fanout are the total numbers of items in jobs' inventories, by the job's name; estimates hold for the others.
	Fanout map[string]int64
	// Seed decides everything that is random.
	Seed uint64
	// Faults are what goes wrong.
	Faults Faults
	// Points is how many instants the use of quotas is shown at, evenly spaced; 0 means 96.
	Points int
}

// defaultPoints is a quarter of an hour of a day.
const defaultPoints = 96

// What the random numbers are for: what one purpose draws does not move what another gets.
const (
	forRetries  = 0x7265747279
	forExternal = 0x65787465726e
)

// world is a scenario as it is played. Everything happens in step.
type world struct {
	Scenario
	now, end int64
	engine   *engine.Engine
	loop     *engine.Loop
	vendor   *vendor
	schedule *schedule.Schedule
	history  *schedule.History
	states   map[*schedule.Instance]*instanceState
	retries  *rand.Rand
	external *externalClient
	logins   map[*validate.Account]*login
	events   events
	seq      uint64
	calls    []*engine.Call
	// pointEvery is how far the points of the report are apart.
	pointEvery, nextPoint int64
	report                *Report
	watch                 watch
	// library is what our side has learned, owners what the vendors know, by provider; unlearned is when a request was sent last whose
	// owner was not known.
	library   *learn.Library
	owners    map[string]*owners
	unlearned map[string]int64
}

// instanceState is what the simulation knows of an instance beside its schedule.
type instanceState struct {
	prepared *engine.Prepared
	request  engine.Request
	// visitor is the request as the vendor sees it.
	visitor *visitor
	job     *jobState
	login   bool // it asks for a token
	// actor plays the runs, one at a time.
	actor  actor
	fields []engine.Field
	// pagesOwed is the part of a page that the runs so far have not had: a mean of 1.5 pages is 1, 2, 1, 2.
	pagesOwed float64
	items     []map[string]string
	// lessons are nil where there is nothing to learn.
	lessons *lessons
}

// actor plays one run of an instance.
type actor struct {
	w     *world
	run   schedule.Run
	state *instanceState
	pages int
	call  engine.Call

	asked, sent  int64
	askedOrder   uint64
	answer       answer
	response     engine.Response
	latencyNanos int64 // of all requests
}

// Run plays a scenario. The same scenario gives the same report.
func Run(s Scenario) *Report { return run(s, nil) }

// run plays a scenario until violated, if not nil, wants no more.
func run(s Scenario, violated func(Violation) (stop bool)) *Report {
	w := newWorld(s)
	w.watch.violated = violated
	for !w.watch.stopped {
		at, ok := w.next()
		if !ok {
			break
		}
		w.step(at)
	}
	w.close()
	return w.report
}

func newWorld(s Scenario) *world {
	if s.Points <= 0 {
		s.Points = defaultPoints
	}
	start := s.Start.UnixNano()
	w := &world{
		Scenario: s, now: start, end: start + int64(s.Duration), vendor: newVendor(s.Config, s.Faults, s.Seed),
		schedule: schedule.New(s.Config), history: schedule.NewHistory(), states: make(map[*schedule.Instance]*instanceState),
		retries: rand.New(rand.NewPCG(s.Seed, forRetries)), nextPoint: start,
	}
	w.pointEvery = max(1, int64(s.Duration)/int64(s.Points))
	w.report = newReport(&w.Scenario)
	w.engine = engine.New(s.Config, engine.Options{})
	w.loop = w.engine.Loop()
	w.watch.world = w
	w.library, w.owners, w.unlearned = learn.New(s.Config, learn.Options{}), make(map[string]*owners), make(map[string]int64)
	for _, p := range s.Config.Providers {
		w.owners[p.Name] = newOwners(s.Config, p)
	}
	w.logins = newLogins(w)
	for _, c := range s.Faults.Changes {
		w.later(start+int64(c.After), func(now int64) { w.vendor.change(now, c) })
	}
	if s.Faults.External > 0 {
		w.external = newExternalClient(w)
	}
	return w
}

func (w *world) later(at int64, f func(now int64)) { w.push(event{at: at, other: f}) }

func (w *world) push(e event) {
	w.seq++
	e.seq = w.seq
	w.events.push(e)
}

// next is the next instant at which anything happens; ok is false at the end of the scenario, when nothing is under way any more.
func (w *world) next() (at int64, ok bool) {
	at = w.end
	ok = w.now < w.end
	if ok {
		at = min(at, w.nextPoint, w.schedule.PlanAt(w.now))
		if start, any := w.schedule.Next(); any {
			at = min(at, start)
		}
	}
	if len(w.events) > 0 && (!ok || w.events[0].at < at) {
		at, ok = w.events[0].at, true
	}
	if engineAt, any := w.loop.Next(); any && (!ok || engineAt < at) {
		at, ok = engineAt, true
	}
	return max(at, w.now), ok
}

// step lets everything happen that happens at one instant: answers first, then a new plan, then new runs and repeated requests.
func (w *world) step(now int64) {
	w.now = now
	w.calls = w.calls[:0]
	for len(w.events) > 0 && w.events[0].at <= now {
		e := w.events.pop()
		switch {
		case e.other != nil:
			e.other(now)
		case e.send:
			e.actor.ask(now)
		default:
			e.actor.answered(now)
		}
	}
	if now < w.end {
		if now >= w.schedule.PlanAt(now) {
			w.plan(now)
		}
		if now >= w.nextPoint {
			w.report.point(w, now)
			w.nextPoint += w.pointEvery
		}
		for {
			due, missed := w.schedule.Due(now)
			if due == nil {
				break
			}
			w.begin(now, due, missed)
		}
	}
	if len(w.calls) > 0 {
		w.loop.Arrive(now, w.calls...)
	} else {
		w.loop.RunTo(now)
	}
}

// plan makes a new plan from what is known, as the daemon does.
func (w *world) plan(now int64) {
	known := w.schedule.Inventories()
	in := plan.Input{
		Config: w.Config, At: time.Unix(0, now).UTC(), Fanout: make(map[string]int64),
		State: &plan.State{Counters: schedule.Counters(w.engine, now, w.Config.Settings.ReplanInterval), Inventories: known, History: w.history.Plan()},
	}
	for job, n := range w.Fanout {
		if _, listed := known[job]; !listed {
			in.Fanout[job] = n
		}
	}
	p := plan.Make(in)
	w.report.planned(now, p, w.schedule.Adopt(now, p))
}

// begin starts a run.
func (w *world) begin(now int64, i *schedule.Instance, missed int64) {
	state := w.states[i]
	if state == nil {
		state = w.newState(now, i)
		w.states[i] = state
	}
	a := &state.actor
	a.run, a.pages, a.latencyNanos = schedule.Begin(now, i), state.nextPages(w.Faults.Pages), 0
	state.job.started(now, i, missed)
	w.watch.started++
	a.ask(now)
}

func (w *world) newState(now int64, i *schedule.Instance) *instanceState {
	j := i.Job
	vars := maps.Clone(i.Vars)
	if vars == nil {
		vars = make(map[string]string)
	}
	maps.Copy(vars, j.Account.Spec.Vars)
	for _, t := range j.Account.Spec.Targets {
		if t.Name == i.Target {
			maps.Copy(vars, t.Vars)
		}
	}
	query := make(map[string]string, len(j.Query))
	for name, value := range j.Query {
		query[name] = fill(value, vars)
	}
	state := &instanceState{job: w.report.job(j.Name)}
	state.request = engine.Request{Priority: j.Priority, Request: match.Request{
		Provider: j.Account.Provider.Name, Account: j.Account.Name, Target: i.Target, Credential: j.Account.Name,
		Method: j.Method, Endpoint: j.Endpoint.Path, Query: query, Vars: vars,
	}}
	state.lessons = w.learns(i, vars)
	w.resolve(now, state)
	return state
}

// resolve prepares a state's request on both sides.
func (w *world) resolve(now int64, state *instanceState) {
	var err error
	if state.prepared, err = w.engine.Prepare(now, &state.request); err == nil {
		seen := state.request.Request
		if state.lessons != nil {
			seen.Vars = state.lessons.truth
		}
		state.visitor, err = w.vendor.visitor(now, &seen)
	}
	if err != nil {
		panic("simulate: a valid configuration has a request that can never be granted: " + err.Error())
	}
	state.actor = actor{w: w, state: state, call: engine.Call{Prepared: state.prepared}}
	state.actor.call.Done = state.actor.decided
}

// fill puts variables into a text.
func fill(text string, vars map[string]string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	for name, value := range vars {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// nextPages is how many pages the next run has.
func (s *instanceState) nextPages(factor float64) int {
	mean := 1.0
	if e := s.job.job.Spec.Estimate; e != nil && e.PagesPerRun != nil {
		mean = e.PagesPerRun.Float64()
	}
	if factor > 0 {
		mean *= factor
	}
	s.pagesOwed += mean
	pages := max(1, int(s.pagesOwed))
	s.pagesOwed -= float64(pages)
	return pages
}

// ask asks the engine for the run's next request, once there is a token for it.
func (a *actor) ask(now int64) {
	if a.w.logins[a.run.Instance.Job.Account].hold(now, a) {
		return
	}
	a.w.complete(now, a.state)
	a.asked = now
	a.w.seq++
	a.askedOrder = a.w.seq
	a.call.Retry, a.call.DeadlineNanos = a.run.Retry(), a.run.DeadlineNanos()
	a.w.watch.asked++
	a.w.calls = append(a.w.calls, &a.call)
}

// decided hears the engine's decision.
func (a *actor) decided(now int64, _ engine.Ticket, refused *engine.RefusedError) (*engine.Response, int64) {
	w := a.w
	w.watch.decided(now, a, refused)
	if refused != nil {
		w.report.refused(a, refused)
		a.follow(a.run.Refused(now, refused))
		return nil, 0
	}
	a.sent = now
	a.answer = w.vendor.arrive(now, a.state.visitor, true, a.state.fields)
	a.state.fields = a.answer.fields
	w.excuse(now, a)
	w.report.sent(now, a)
	w.watch.sent(now, a)
	a.response = engine.Response{Status: a.answer.status, Fields: a.answer.fields}
	w.push(event{at: now + int64(a.answer.latency), actor: a})
	return &a.response, int64(a.answer.latency)
}

// answered hears the vendor's answer.
func (a *actor) answered(now int64) {
	w := a.w
	w.watch.answered++
	w.vendor.finish(now, &a.answer)
	a.latencyNanos += now - a.sent
	outcome := schedule.OutcomeOf(a.state.job.job.Account.Provider, a.answer.status, a.answer.limited)
	w.report.answered(a, outcome)
	if outcome == schedule.Succeeded {
		w.teach(now, a.state)
	}
	a.follow(a.run.Answered(now, outcome, a.run.Page < a.pages, w.retries.Float64()))
}

// follow does what comes next. After the scenario's end nothing more is sent.
func (a *actor) follow(step schedule.Step, at int64) {
	w := a.w
	if step == schedule.Send && w.now < w.end {
		w.push(event{at: at, actor: a, send: true})
		return
	}
	i := a.run.Instance
	w.schedule.Finish(i)
	w.watch.finished++
	a.state.job.finished(step)
	if a.state.login {
		w.logins[i.Job.Account].ended(w.now, step)
		return
	}
	if step == schedule.Done {
		w.history.Add(&a.run, a.latencyNanos)
		if len(i.Job.Children) > 0 {
			first := a.state.items == nil
			items := a.state.found(w, i)
			w.listed(w.now, a.state, i, items, first)
			w.schedule.SetItems(i, items)
		}
	}
}
