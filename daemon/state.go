package daemon

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// count takes down what came of a run's request.
func (d *Daemon) count(r *run, outcome schedule.Outcome, got *sent, retry bool) {
	d.countAnswer(r.instance.Job.Account.Name, outcome, got, func() error { return failure(r, got, 1) })
	d.mu.Lock()
	defer d.mu.Unlock()
	job := d.job(r.instance.Job.Name)
	job.requests++
	if retry {
		job.retries++
	}
}

// countAnswer takes down what came of a request of an account, be it a run's or an event's.
func (d *Daemon) countAnswer(name string, outcome schedule.Outcome, got *sent, why func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	account := d.account(name)
	account.requests++
	switch outcome {
	case schedule.Succeeded:
		account.succeeded++
		account.failing, account.refusedAuth, account.lastFailure = 0, false, ""
		account.lastSuccess = time.Unix(0, d.now()).UTC()
		return
	case schedule.RateLimited:
		account.limited++
		return
	}
	account.failed++
	account.failing++
	account.refusedAuth = got.answer != nil && got.answer.Status == 401
	account.lastFailure = d.redactor.Text(why().Error())
}

// waits lists a request among those that wait, until the function that it returns is called.
func (d *Daemon) waits(r *run, deadlineNanos int64) (forget func()) {
	job := r.instance.Job
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[r] = WaitingRequest{
		Job: job.Name, Instance: r.instance.Name, Account: job.Account.Name, Priority: job.Priority,
		Since: time.Unix(0, d.now()).UTC(), Deadline: time.Unix(0, deadlineNanos).UTC(),
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, r)
	}
}

// Snapshot is all that a page, an API or a metric shows, as of now.
func (d *Daemon) Snapshot() Snapshot {
	s := Snapshot{
		At: time.Now().UTC(), StartedAt: d.startedAt.UTC(), Version: d.options.Version, Ready: d.Ready() == nil,
		Totals: d.watch.totals(), Changes: []IntervalChange{}, Accounts: []AccountHealth{}, Scopes: []ScopeState{}, Jobs: []JobState{},
		Waiting: []WaitingRequest{}, Inventories: []InventoryState{},
		Learned: []learn.Count{},
	}
	s.Refusals, s.RateLimited = d.watch.recent()
	select {
	case <-d.stopping:
		s.Stopping = true
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Config = d.config
	if d.world == nil {
		return s
	}
	now := d.world.gate.Now()
	s.At = time.Unix(0, now).UTC()
	if s.StartedAt.After(s.At) { // by a clock that has been set back since
		s.StartedAt = s.At
	}
	s.State = d.stateHealth()
	s.Changes, s.Replans = d.changes.newestFirst(), d.replans
	if d.plan != nil {
		at := d.plan.At
		s.Plan, s.PlanFeasible, s.PlanHolds, s.PlannedAt = d.plan, d.plan.Feasible, d.plan.Holds(), &at
	}
	if len(d.world.config.Policies) > 0 {
		s.Deliveries = d.outbox.state(d.world.config.Policies)
	}
	state := d.scopes(&s)
	d.jobStates(&s, now)
	d.listWaiting(&s)
	d.listInventories(&s)
	d.listLearned(&s)
	for _, a := range d.world.config.Accounts {
		s.Accounts = append(s.Accounts, d.health(a, &s, state, now))
	}
	return s
}

// stateHealth requires mu.
func (d *Daemon) stateHealth() StateHealth {
	h := d.keeper.Health()
	out := StateHealth{
		Path: d.world.settings.statePath, OK: h.Err == nil, Fault: h.Fault(), Flushes: h.Flushes, Failures: h.Failures,
		PendingRows: h.Pending, DroppedRows: h.Dropped, FlushedAt: instant(h.Flushed), Since: instant(h.Since),
	}
	if h.Err != nil {
		out.Error = h.Err.Error()
	}
	return out
}

// instant is nil for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func at(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }

// scopes lists the quotas' keys, and returns what else the engine holds. It requires mu.
func (d *Daemon) scopes(s *Snapshot) *engine.Snapshot {
	w := d.world
	var state *engine.Snapshot
	var projections []engine.Projection
	w.gate.Do(func(e *engine.Engine, now int64) {
		state = e.Snapshot(now)
		e.Projections(now, func(p *engine.Projection) { projections = append(projections, *p) })
	})
	type name struct{ provider, limit, key string }
	held := make(map[name]*engine.ScopeState, len(state.Scopes))
	for i := range state.Scopes {
		one := &state.Scopes[i]
		held[name{one.Provider, one.Limit, one.Key}] = one
	}
	for i := range projections {
		p := &projections[i]
		limit := w.config.Provider(p.Provider).Limit(p.Limit)
		one := scopeState(p, limit)
		counts := d.watch.of(p.Provider, p.Limit, p.Key)
		one.RateLimited, one.UnexpectedRateLimited = counts.limited, counts.unexpected
		one.Refused, one.Disagreements = counts.refused, counts.disagreements
		if h := held[name{p.Provider, p.Limit, p.Key}]; h != nil {
			for _, slot := range h.Timeline {
				one.Timeline = append(one.Timeline, Slot{at(slot.StartNanos), slot.Units})
			}
		}
		s.Scopes = append(s.Scopes, one)
	}
	order := make(map[[2]string]int)
	for _, p := range w.config.Providers {
		for i, l := range p.Limits {
			order[[2]string{p.Name, l.Spec.Name}] = i
		}
	}
	slices.SortFunc(s.Scopes, func(a, b ScopeState) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider),
			cmp.Compare(order[[2]string{a.Provider, a.Limit}], order[[2]string{b.Provider, b.Limit}]), cmp.Compare(a.Key, b.Key))
	})
	return state
}

func scopeState(p *engine.Projection, limit *validate.Limit) ScopeState {
	const hour = 3600
	one := ScopeState{
		Provider: p.Provider, Limit: p.Limit, Kind: limit.Spec.Kind, Key: p.Key, Shadow: limit.Shadow(),
		Assumed:     limit.Spec.Source != nil && limit.Spec.Source.Kind == "assumed",
		WindowStart: at(p.StartNanos), WindowEnd: at(p.EndNanos), Max: p.Max, Usable: p.Usable, Reserve: p.Reserve,
		Used: p.Used, External: p.External, Remaining: p.Remaining, RecentPerHour: p.Recent * hour, OwnPerHour: p.Own * hour,
		ExternalPerHour: p.ExternalRate * hour, ProjectedEnd: p.ProjectedEnd, ProjectedTotal: p.ProjectedTotal,
		Timeline: []Slot{}, SlotSeconds: 60,
	}
	if m := limit.Spec.Max; m != nil && !m.Auto {
		one.Declared = m.Number
	}
	if p.Exhausts {
		end := at(p.ExhaustsAtNanos)
		one.ExhaustsAt = &end
	}
	if p.EndNanos-p.StartNanos > int64(26*time.Hour) {
		one.SlotSeconds = hour
	}
	return one
}

// jobStates requires mu.
func (d *Daemon) jobStates(s *Snapshot, now int64) {
	running := make(map[string]int)
	for _, r := range d.running {
		running[r.instance.Job.Name]++
	}
	planned := make(map[string]*plan.Job)
	if d.plan != nil {
		for i := range d.plan.Jobs {
			planned[d.plan.Jobs[i].Job] = &d.plan.Jobs[i]
		}
	}
	for _, j := range d.world.config.Jobs {
		record := d.job(j.Name)
		one := JobState{
			Job: j.Name, Account: j.Account.Name, Provider: j.Account.Provider.Name, Priority: j.Priority,
			Kept: d.world.kept.Job(j.Name) != nil, Paused: d.paused[j.Name], DesiredSeconds: j.Interval.Seconds(), Running: running[j.Name],
			Missed: record.missed, Requests: record.requests, Retries: record.retries, LastSuccessAt: instant(record.lastSuccess),
			Error: record.err, Lines: record.lines, Runs: make(map[string]int64),
		}
		if j.Parent != nil {
			one.ForEach = j.Parent.Name
		}
		for status, n := range record.runs {
			one.Runs[status] = n
		}
		if record.last != nil {
			last := *record.last
			one.LastRun = &last
		}
		if one.Error != "" {
			one.ErrorAt = instant(record.errAt)
		}
		one.Series, one.SeriesCut = d.series.Count(j.Name)
		d.timing(&one, j, now, planned[j.Name])
		s.Jobs = append(s.Jobs, one)
	}
}

// timing requires mu.
func (d *Daemon) timing(one *JobState, j *validate.Job, now int64, planned *plan.Job) {
	interval := d.world.schedule.Interval(j.Name)
	one.IntervalSeconds = interval.Seconds()
	if interval > 0 {
		one.Stretch = interval.Seconds() / j.Interval.Seconds()
	}
	if planned != nil && planned.LimitedBy != nil {
		by := planned.LimitedBy
		one.LimitedBy = "the " + by.Reason + " " + by.Limit + " of " + by.Key
	}
	if !one.Kept {
		return
	}
	instances := d.world.schedule.Instances(j.Name)
	one.Instances = len(instances)
	for _, i := range instances {
		next := i.NextNanos()
		if i.Running() || one.Paused || next == 1<<63-1 {
			continue
		}
		if t := at(max(next, now)); one.NextRunAt == nil || t.Before(*one.NextRunAt) {
			one.NextRunAt = &t
		}
	}
	if one.LastSuccessAt == nil {
		return
	}
	age := max(0, at(now).Sub(*one.LastSuccessAt)).Seconds()
	one.AgeSeconds = &age
	limit := 3 * max(interval, j.Interval)
	if j.Spec.MaxInterval != nil {
		limit = j.Spec.MaxInterval.Or(limit) + time.Minute // the run itself takes a while
	}
	one.Fresh = age <= limit.Seconds()
}

// listWaiting requires mu.
func (d *Daemon) listWaiting(s *Snapshot) {
	// A request that goes at once is listed for a moment, too: only one that has waited is shown.
	const moment = 50 * time.Millisecond
	for _, one := range d.waiting {
		if s.At.Sub(one.Since) >= moment {
			s.Waiting = append(s.Waiting, one)
		}
	}
	slices.SortFunc(s.Waiting, func(a, b WaitingRequest) int {
		return cmp.Or(cmp.Compare(priorityRank(a.Priority), priorityRank(b.Priority)), a.Since.Compare(b.Since), cmp.Compare(a.Instance, b.Instance))
	})
	s.WaitingTotal = len(s.Waiting)
	s.Waiting = s.Waiting[:min(len(s.Waiting), MaxListed)]
}

// listInventories requires mu.
func (d *Daemon) listInventories(s *Snapshot) {
	for _, j := range d.world.kept.Jobs {
		if len(j.Children) == 0 {
			continue
		}
		one := InventoryState{Job: j.Name}
		var oldest time.Time
		for _, i := range d.world.schedule.Instances(j.Name) {
			one.Instances++
			known, ok := d.listed[i.Name]
			if !ok {
				continue
			}
			one.Listed++
			one.Items += len(known.Items)
			if oldest.IsZero() || known.At.Before(oldest) {
				oldest = known.At
			}
		}
		if one.RefreshedAt = instant(oldest); one.RefreshedAt != nil {
			age := max(0, s.At.Sub(oldest)).Seconds()
			one.AgeSeconds = &age
		}
		s.Inventories = append(s.Inventories, one)
	}
}

// health tells how an account fares, and why. It requires mu.
func (d *Daemon) health(a *validate.Account, s *Snapshot, state *engine.Snapshot, now int64) AccountHealth {
	record := d.account(a.Name)
	out := AccountHealth{
		Account: a.Name, Provider: a.Provider.Name, Health: HealthOK, Reasons: []string{}, Requests: record.requests,
		Succeeded: record.succeeded, RateLimited: record.limited, Failed: record.failed, LastSuccessAt: instant(record.lastSuccess),
	}
	var failing, degraded []string
	if record.refusedAuth {
		failing = append(failing, "the provider does not accept the credentials (status 401)")
	}
	for _, b := range state.Breakers {
		if b.Account != a.Name || !b.Open {
			continue
		}
		if b.Target == "" {
			failing = append(failing, "the circuit breaker is open until "+at(b.OpenUntilNanos).Format(time.RFC3339))
		} else {
			degraded = append(degraded, "the circuit breaker of target "+b.Target+" is open until "+at(b.OpenUntilNanos).Format(time.RFC3339))
		}
	}
	if record.failing >= 3 && len(failing) == 0 {
		failing = append(failing, "the last requests failed: "+record.lastFailure)
	}
	degraded = append(degraded, d.shortages(a, s, state, now)...)
	bad, runs := 0, 0
	for _, j := range s.Jobs {
		if j.Account != a.Name || j.LastRun == nil {
			continue
		}
		runs++
		if j.Error != "" {
			bad++
			degraded = append(degraded, "job "+j.Job+" fails: "+j.Error)
		} else if j.LastSuccessAt != nil && !j.Fresh && !j.Paused {
			degraded = append(degraded, "job "+j.Job+" is stale")
		}
	}
	switch {
	case len(failing) > 0 || runs > 0 && bad == runs:
		out.Health = HealthFailing
	case len(degraded) > 0:
		out.Health = HealthDegraded
	case record.requests == 0:
		out.Health = HealthUnknown
	}
	out.Reasons = append(append(out.Reasons, failing...), degraded...)
	return out
}

// shortages are the quotas that are used up, the penalties that hold, and the keys that the plan is over, as far as they concern an
// account.
func (d *Daemon) shortages(a *validate.Account, s *Snapshot, state *engine.Snapshot, now int64) []string {
	var out []string
	for i := range state.Scopes {
		one := &state.Scopes[i]
		if one.PenaltyEndNanos > now && one.Provider == a.Provider.Name && concerns(a, one.Limit, one.Key) {
			out = append(out, "the provider said to wait until "+at(one.PenaltyEndNanos).Format(time.RFC3339)+" ("+cmp.Or(one.Limit, "no limit")+" "+one.Key+")")
		}
	}
	for i := range s.Scopes {
		one := &s.Scopes[i]
		if !one.Shadow && one.Remaining <= 0 && one.Provider == a.Provider.Name && concerns(a, one.Limit, one.Key) {
			out = append(out, "the quota "+one.Limit+" of "+one.Key+" is used up until "+one.WindowEnd.Format(time.RFC3339))
		}
	}
	if s.Plan == nil {
		return out
	}
	for i := range s.Plan.Scopes {
		one := &s.Plan.Scopes[i]
		if !one.Feasible && one.Provider == a.Provider.Name && concerns(a, one.Limit, one.Key) {
			out = append(out, "the plan is infeasible: "+one.Limit+" of "+one.Key+" cannot carry the jobs")
		}
	}
	return out
}

// concerns tells whether a scope key counts requests of an account.
func concerns(a *validate.Account, limit, key string) bool {
	l := a.Provider.Limit(limit)
	if l == nil {
		return key == a.Name // a penalty of what no limit covers
	}
	place := slices.Index(l.By(), match.DimensionAccount)
	words := strings.Split(key, "/")
	return place < 0 || place >= len(words) || words[place] == a.Name
}
