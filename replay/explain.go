package replay

import (
	"fmt"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/schema"
)

// Explanation says, for one row, which limits were consulted, who was ahead, and why it went or not.
type Explanation struct {
	RowID
	Line int64
	// TS is when it arrived (or was granted, as recorded).
	TS time.Time
	// Job, Method and Endpoint are the request's, the endpoint as a template.
	Job, Method, Endpoint string
	Retry                 bool
	Priority              string
	// Patience is how long it may wait.
	Patience time.Duration
	// Limits are all of the provider, in declared order.
	Limits []ExplainedLimit
	// Ahead are the requests that were waiting before it, as far as they share a key with it.
	Ahead []Ahead
	// Outcome says what became of it, in words.
	Outcome string

	pending bool
}

// ExplainedLimit is one limit as the row met it.
type ExplainedLimit struct {
	Limit, Kind string
	Applies     bool
	Key         string
	Cost        int64
	// Why says why it applies or not, State how the key stood just before the row.
	Why, State string
	// Lacks tells that the key alone would have made the request wait or refused it.
	Lacks bool
}

// Ahead is a waiting request.
type Ahead struct {
	RowID
	// Since is when it had arrived; Key is one that both need.
	Since    time.Time
	Job      string
	Priority string
	Limit    string
	Key      string
}

// explain takes down how things stand before a row.
func (s *side) explain(b *journal.Batch, rec *journal.Record, q *request) {
	row := b.Request(rec)
	x := &Explanation{
		RowID: RowID{int(rec.File), rec.Number}, Line: rec.Line, TS: instantOf(rec.AtNanos), Job: row.Job, Method: q.request.Method,
		Endpoint: q.request.Endpoint, Retry: q.retry, Priority: q.request.Priority, Patience: time.Duration(q.patience), pending: true,
	}
	if x.Priority == "" {
		x.Priority = schema.PriorityNormal
	}
	s.explained = x
	if q.prepared == nil {
		x.Outcome, x.pending = "no limit was consulted: "+q.why.Error(), false
		return
	}
	snapshot := s.engine.Snapshot(rec.AtNanos)
	states := make(map[scopeID]*engine.ScopeState)
	for i := range snapshot.Scopes {
		st := &snapshot.Scopes[i]
		states[scopeID{st.Provider, st.Limit, st.Key}] = st
	}
	projections := make(map[scopeID]engine.Projection)
	s.engine.Projections(rec.AtNanos, func(p *engine.Projection) { projections[scopeID{p.Provider, p.Limit, p.Key}] = *p })
	request := s.engine.Matched(q.prepared)
	for _, l := range s.config.Provider(request.Provider).Limits {
		v := l.Match(&request)
		e := ExplainedLimit{Limit: l.Spec.Name, Kind: l.Spec.Kind, Applies: v.Applies, Key: v.Key, Cost: v.Cost, Why: v.Why}
		if v.Applies {
			id := scopeID{request.Provider, e.Limit, e.Key}
			p, hasProjection := projections[id]
			d := keyState{limit: l, cost: v.Cost, now: rec.AtNanos, scope: states[id], used: s.inFlight(id), vars: request.Vars}
			if hasProjection {
				d.projection = &p
			}
			e.State, e.Lacks = d.words(q.request.Priority, q.retry)
			e.Lacks = e.Lacks && !l.Shadow()
		}
		x.Limits = append(x.Limits, e)
	}
	if s.virtual != nil {
		x.Ahead = s.virtual.ahead(q)
	}
}

// inFlight counts the requests under way on a key.
func (s *side) inFlight(id scopeID) (n int64) {
	count := func(q *request) {
		for _, m := range s.engine.Met(q.prepared) {
			if m.Provider == id.provider && m.Limit == id.limit && m.Key == id.key {
				n++
			}
		}
	}
	for _, l := range s.flights.heap {
		count(s.flights.slots[l.slot].request)
	}
	for _, a := range s.virtual.underWay() {
		if a.due > s.engine.Now() {
			count(a.request)
		}
	}
	return n
}

// ahead are the waiting requests that go before one: of higher priority, or of the same and older, on a common key.
func (v *virtual) ahead(q *request) []Ahead {
	mine := make(map[scopeID]bool)
	for _, m := range v.side.engine.Met(q.prepared) {
		mine[scopeID{m.Provider, m.Limit, m.Key}] = true
	}
	var list []Ahead
	for a := range v.waiting {
		if rankOf(a.request.request.Priority) < rankOf(q.request.Priority) {
			continue
		}
		for _, m := range v.side.engine.Met(a.request.prepared) {
			if mine[scopeID{m.Provider, m.Limit, m.Key}] {
				name := ""
				if a.request.job != nil {
					name = a.request.job.name
				}
				list = append(list, Ahead{
					RowID: RowID{int(a.row.file), a.row.number}, Since: instantOf(a.at), Job: name, Priority: a.request.request.Priority,
					Limit: m.Limit, Key: m.Key,
				})
				break
			}
		}
	}
	sortAhead(list)
	return list
}

// rankOf orders priorities.
func rankOf(priority string) int {
	switch priority {
	case schema.PriorityCritical:
		return 3
	case schema.PriorityHigh:
		return 2
	case schema.PriorityLow:
		return 0
	}
	return 1
}

// recorded says what a recorded grant was.
func (x *Explanation) recorded(allowed bool) {
	x.pending = false
	if allowed {
		x.Outcome = "it was sent, and the engine would have let it go at once"
		return
	}
	x.Outcome = "it was sent, and the engine would not have let it go at once"
	for _, l := range x.Limits {
		if l.Lacks {
			x.Outcome += fmt.Sprintf(", because of %s on %s", l.Limit, l.Key)
			return
		}
	}
}

// decided says what became of an arrival.
func (x *Explanation) decided(now int64, refused *engine.RefusedError) {
	if !x.pending {
		return
	}
	x.pending = false
	wait := instantOf(now).Sub(x.TS)
	switch {
	case refused == nil && wait == 0:
		x.Outcome = "granted at once"
	case refused == nil:
		x.Outcome = fmt.Sprintf("granted at %s, after waiting %s", journalTime(now), wait)
	default:
		x.Outcome = fmt.Sprintf("refused at %s after %s: %s", journalTime(now), wait, refused.Error())
	}
}

func journalTime(nanos int64) string { return string(journal.AppendTime(nil, instantOf(nanos))) }
