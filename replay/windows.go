package replay

import (
	"cmp"
	"slices"

	"github.com/tapyr/tapyr/engine"
)

// scopeID names a quota's key.
type scopeID struct{ provider, limit, key string }

// windowList collects what the engine reports.
type windowList struct {
	byScope map[scopeID]*scopeWindows
}

type scopeWindows struct{ windows []Window }

// mostWindows bounds the windows of one scope, and with it what a journal of years of minutes takes: the oldest without anything
// to tell are dropped first.
const mostWindows = 20_000

// add takes a window that is over.
func (l *windowList) add(r *engine.WindowReport) { l.put(r, false) }

// addOpen takes a window as it is at the report's present.
func (l *windowList) addOpen(r *engine.WindowReport) { l.put(r, true) }

func (l *windowList) put(r *engine.WindowReport, open bool) {
	id := scopeID{r.Provider, r.Limit, r.Key}
	s := l.byScope[id]
	if s == nil {
		if l.byScope == nil {
			l.byScope = make(map[scopeID]*scopeWindows)
		}
		s = new(scopeWindows)
		l.byScope[id] = s
	}
	w := Window{
		Start: instantOf(r.StartNanos), End: instantOf(r.EndNanos), At: instantOf(r.AtNanos), Open: open,
		Max: r.Max, Usable: r.Usable, Reserve: r.Reserve, Used: r.Used, External: r.External, Remaining: r.Remaining,
		RecentPerSecond: r.Recent, OwnPerSecond: r.Own, ExternalPerSecond: r.ExternalRate,
		ProjectedEnd: r.ProjectedEnd, ProjectedTotal: r.ProjectedTotal,
		RateLimited: r.RateLimited, UnexpectedRateLimited: r.UnexpectedRateLimited,
	}
	if r.Exhausts {
		w.ExhaustsAt = instantOf(r.ExhaustsAtNanos)
	}
	if len(r.Refused) > 0 {
		w.Refused = make(map[string]int64, len(r.Refused))
		for reason, n := range r.Refused {
			w.Refused[string(reason)] = n
		}
	}
	s.windows = append(s.windows, w)
	if len(s.windows) > mostWindows {
		s.thin()
	}
}

// thin drops the quiet windows of the older half.
func (s *scopeWindows) thin() {
	kept := s.windows[:0]
	for i, w := range s.windows {
		if i >= mostWindows/2 || w.Exhausted() || w.RateLimited > 0 || len(w.Refused) > 0 {
			kept = append(kept, w)
		}
	}
	if len(kept) > mostWindows/2+mostWindows/4 { // all of them have something to tell
		kept = append(kept[:0], kept[len(kept)-mostWindows/2:]...)
	}
	s.windows = kept
}

// Exhausted tells whether the window's budget was used up, or a request was refused for it.
func (w *Window) Exhausted() bool {
	return w.Remaining <= 0 || w.Refused[string(engine.QuotaExhausted)] > 0
}

// order is the place of each quota in the documents.
func (s *side) order() map[[2]string]int {
	places := make(map[[2]string]int)
	for _, p := range s.config.Providers {
		for _, l := range p.Limits {
			places[[2]string{p.Name, l.Spec.Name}] = l.Index
		}
	}
	return places
}

// scopes lists the keys by provider, declared limit and key, with their windows in order of time.
func (s *side) scopes() []Scope {
	places := s.order()
	var list []Scope
	for id, found := range s.windows.byScope {
		slices.SortStableFunc(found.windows, func(a, b Window) int { return a.Start.Compare(b.Start) })
		list = append(list, Scope{Provider: id.provider, Limit: id.limit, Key: id.key, Windows: found.windows})
	}
	slices.SortFunc(list, func(a, b Scope) int {
		return cmp.Or(
			cmp.Compare(a.Provider, b.Provider),
			cmp.Compare(places[[2]string{a.Provider, a.Limit}], places[[2]string{b.Provider, b.Limit}]),
			cmp.Compare(a.Key, b.Key))
	})
	return list
}
