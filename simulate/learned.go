package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
)

// The vendor of a scenario charges the owner of what a path names; our side has to learn it, as run does: from inventories, and from
// answers where the documents look for the variable in them. Until then requests take only of limits that need no variable, and what
// the vendor then refuses is nobody's mistake.

// lessons is what there is to learn for an instance; nil where its provider has nothing.
type lessons struct {
	book  *learn.Book
	place learn.Place
	path  string
	// given are its variables, truth those with the owner's.
	given, truth map[string]string
}

// learns finds out what there is to learn for an instance with these variables.
func (w *world) learns(i *schedule.Instance, vars map[string]string) *lessons {
	provider := i.Job.Account.Provider
	book := w.library.Book(provider.Name)
	if book == nil {
		return nil
	}
	l := &lessons{book: book, place: learn.Place{Account: i.Job.Account.Name, Target: i.Target}, given: vars}
	l.path, _ = i.Job.Endpoint.Expand(vars)
	l.truth = w.owners[provider.Name].complete(l.path, vars)
	return l
}

// complete resolves what is known by now of a state's request.
func (w *world) complete(now int64, state *instanceState) {
	l, r := state.lessons, &state.request
	if l == nil {
		return
	}
	vars, unresolved := l.book.Complete(now, l.place, l.path, l.given)
	if unresolved == r.Unresolved && maps.Equal(vars, r.Vars) {
		return
	}
	r.Vars, r.Unresolved = vars, unresolved
	prepared, err := w.engine.Prepare(now, r)
	if err != nil {
		panic("simulate: a valid configuration has a request that can never be granted: " + err.Error())
	}
	state.prepared, state.actor.call.Prepared = prepared, prepared
}

// teach takes in a good answer of a request whose owner was not known. It names the owner where the documents look for it.
func (w *world) teach(now int64, state *instanceState) {
	l := state.lessons
	if l == nil || !state.request.Unresolved {
		return
	}
	for i := range state.job.job.Account.Provider.Spec.Learn {
		if len(state.job.job.Account.Provider.Spec.Learn[i].Body) > 0 {
			l.book.Learn(now, &learn.Seen{Place: l.place, Path: l.path, Vars: l.truth})
		}
	}
}

// listed takes in what an inventory shows: first is the first time, when the vendor's own knowledge is made.
func (w *world) listed(now int64, state *instanceState, i *schedule.Instance, items []map[string]string, first bool) {
	l := state.lessons
	if l == nil {
		return
	}
	for _, item := range items {
		vars := maps.Clone(l.given)
		maps.Copy(vars, item)
		l.book.LearnVars(now, l.place, vars)
		if first {
			w.owners[i.Job.Account.Provider.Name].add(vars)
		}
	}
}

// excuse takes the blame for a refusal from the engine where requests were sent lately whose owner nobody could know: the vendor has
// counted them against a key, and the engine has not.
func (w *world) excuse(now int64, a *actor) {
	provider := a.state.job.job.Account.Provider
	if a.state.request.Unresolved {
		w.unlearned[provider.Name] = now
	}
	last, any := w.unlearned[provider.Name]
	refused := a.answer.ownRefused
	if !any || refused == nil {
		return
	}
	limit := provider.Limit(refused.Limit)
	learned := slices.ContainsFunc(provider.Spec.Learn, func(l schema.Learn) bool {
		return limit != nil && slices.Contains(limit.By(), match.VariablePrefix+l.Var)
	})
	if !learned {
		return
	}
	switch limit.Spec.Kind {
	case schema.KindRate: // until a bucket is full again
		filled := time.Duration(float64(limit.Burst)/limit.Spec.Rate.PerSecond()*float64(time.Second)) + time.Second
		if now-last > int64(filled) {
			return
		}
	case schema.KindConcurrency:
		if now-last > int64(longestFlight) {
			return
		}
	}
	a.answer.ownRefused, a.answer.cause = nil, CauseUnlearned
}

// longestFlight is longer than any answer takes.
const longestFlight = 10 * time.Minute
