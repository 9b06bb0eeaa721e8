package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plaintext"
)

// maxQuotas bounds the keys on one page: more make it slow, and nobody reads them. The filter finds the others.
const maxQuotas = 400

// openQuotas is how many keys of a limit are open at once; the rest is folded away behind the worst.
const openQuotas = 6

// quotaGroup is a limit and its keys, the worst first.
type quotaGroup struct {
	Title, Summary string
	Open, Folded   []quotaView
	FoldedText     string
	ID             string
}

// quotaView is one key.
type quotaView struct {
	ID, Key, Kind string
	Level         level
	State         string
	Flags         []string
	Figures       []quotaFigure
	Chart         *timeline
	// Words describe the drawing to who does not see it; LimitText and the others stand in it.
	Words                                     string
	LimitText, UsableText                     string
	StartText, ResetText, EndText, NowAtClock string
}

type quotaFigure struct{ Name, Value string }

// quotaLevel is how bad a key's state is, and the state in a few words.
func quotaLevel(s *daemon.ScopeState, now time.Time) (level, string) {
	shown := bad
	if s.Shadow {
		shown = warn // it only watches
	}
	switch {
	case s.Max <= 0 && s.Usable <= 0:
		return none, "no maximum known yet"
	case s.Remaining <= 0:
		return shown, "used up"
	case s.ExhaustsAt != nil && isRolling(s, now):
		return shown, "runs out in " + duration(s.ExhaustsAt.Sub(now).Seconds())
	case s.ExhaustsAt != nil && s.ExhaustsAt.Before(s.WindowEnd):
		return shown, fmt.Sprintf("runs out in %s, %s before the reset",
			duration(s.ExhaustsAt.Sub(now).Seconds()), duration(s.WindowEnd.Sub(*s.ExhaustsAt).Seconds()))
	case paceOf(s, now) > 1.25 && usedPart(s) > 0.25:
		return warn, "used faster than the window passes"
	}
	if isRolling(s, now) {
		return good, "has room"
	}
	return good, "lasts to the reset"
}

// usedPart is the part of the usable units that tapyr has used.
func usedPart(s *daemon.ScopeState) float64 {
	if s.Usable <= 0 {
		return 0
	}
	return float64(s.Used) / float64(s.Usable)
}

// paceOf is the used part over the elapsed part of the window; 0 for a rolling one, and in the first twentieth, where a handful of
// requests would look like a storm.
func paceOf(s *daemon.ScopeState, now time.Time) float64 {
	elapsed := float64(now.Sub(s.WindowStart)) / float64(s.WindowEnd.Sub(s.WindowStart))
	if isRolling(s, now) || !(elapsed > 0.05) {
		return 0
	}
	return usedPart(s) / elapsed
}

// byUrgency orders keys: the worst first, then those that run out first, then the fullest.
func byUrgency(now time.Time) func(a, b *daemon.ScopeState) int {
	far := now.AddDate(100, 0, 0)
	return func(a, b *daemon.ScopeState) int {
		la, _ := quotaLevel(a, now)
		lb, _ := quotaLevel(b, now)
		ea, eb := far, far
		if a.ExhaustsAt != nil {
			ea = *a.ExhaustsAt
		}
		if b.ExhaustsAt != nil {
			eb = *b.ExhaustsAt
		}
		return cmp.Or(cmp.Compare(la.rank(), lb.rank()), ea.Compare(eb), cmp.Compare(usedPart(b), usedPart(a)), cmp.Compare(a.Key, b.Key))
	}
}

// addQuotas groups the keys by limit, in the snapshot's order of limits.
func (v *pageView) addQuotas(s *daemon.Snapshot, query string) {
	type name struct{ provider, limit string }
	groups := make(map[name][]*daemon.ScopeState)
	var order []name
	for i := range s.Scopes {
		scope := &s.Scopes[i]
		if !contains(query, scope.Provider, scope.Limit, scope.Key, plaintext.Key(scope.Key)) {
			v.FilteredOut++
			continue
		}
		n := name{scope.Provider, scope.Limit}
		if groups[n] == nil {
			order = append(order, n)
		}
		groups[n] = append(groups[n], scope)
	}
	left := maxQuotas
	for i, n := range order {
		scopes := groups[n]
		slices.SortStableFunc(scopes, byUrgency(s.At))
		shown := scopes[:min(left, len(scopes))]
		left -= len(shown)
		v.HiddenQuotas += len(scopes) - len(shown)
		if len(shown) > 0 {
			v.Quotas = append(v.Quotas, quotaGroupOf(n.provider+" · "+n.limit, i, scopes, shown, s.At))
		}
	}
	v.Legend = len(v.Quotas) > 0
}

// contains tells whether a filter finds something; the empty one finds all.
func contains(query string, texts ...string) bool {
	return query == "" || slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), query) })
}

func quotaGroupOf(title string, number int, all, shown []*daemon.ScopeState, now time.Time) quotaGroup {
	g := quotaGroup{Title: title, ID: fmt.Sprintf("limit-%d", number)}
	counts := make(map[level]int)
	for _, scope := range all {
		l, _ := quotaLevel(scope, now)
		counts[l]++
	}
	parts := []string{counted(len(all), "key", "keys")}
	for _, part := range []struct {
		level level
		text  string
	}{{bad, "in trouble"}, {warn, "to watch"}, {none, "not known yet"}} {
		if n := counts[part.level]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, part.text))
		}
	}
	g.Summary = strings.Join(parts, ", ")
	open := min(openQuotas, len(shown))
	if len(shown) == open+1 {
		open++ // folding one away saves nothing
	}
	for i, scope := range shown {
		steps := 96
		if i >= open {
			steps = 40
		}
		quota := quotaViewOf(scope, fmt.Sprintf("%s-%d", g.ID, i), now, steps)
		if i < open {
			g.Open = append(g.Open, quota)
		} else {
			g.Folded = append(g.Folded, quota)
		}
	}
	if len(g.Folded) > 0 {
		first, last := usedPart(shown[open]), usedPart(shown[len(shown)-1])
		g.FoldedText = fmt.Sprintf("%d more keys, %s to %s used", len(g.Folded), percent(min(first, last)), percent(max(first, last)))
	}
	return g
}

func quotaViewOf(s *daemon.ScopeState, id string, now time.Time, steps int) quotaView {
	q := quotaView{ID: id, Key: plaintext.Key(s.Key), Kind: s.Kind, Chart: drawTimeline(s, now, steps)}
	if q.Key == "" {
		q.Key = "(all requests)"
	}
	q.Level, q.State = quotaLevel(s, now)
	if s.Shadow {
		q.Flags = append(q.Flags, "only watched")
	}
	if s.Assumed {
		q.Flags = append(q.Flags, "assumed maximum")
	}
	if s.Declared > 0 && s.Declared != s.Max {
		q.Flags = append(q.Flags, "the documents say "+units(s.Declared))
	}
	q.Figures = quotaFigures(s, now)
	q.LimitText = "limit " + units(s.Max)
	q.UsableText = "for tapyr " + units(s.Usable)
	q.StartText, q.ResetText, q.EndText = clock(s.WindowStart, now), "reset "+clock(s.WindowStart, now), "reset "+clock(s.WindowEnd, now)
	q.NowAtClock = "now"
	if q.Chart != nil && q.Chart.Rolling {
		q.ResetText, q.EndText = clock(s.WindowStart, now), "now"
	}
	q.Words = quotaWords(s, q.State, now)
	return q
}

// quotaFigures are those beside the drawing.
func quotaFigures(s *daemon.ScopeState, now time.Time) []quotaFigure {
	figures := []quotaFigure{
		{"Used", fmt.Sprintf("%s of %s (%s)", units(s.Used), units(s.Usable), percent(usedPart(s)))},
		{"By others", units(s.External)},
		{"Left", units(s.Remaining)},
	}
	if !isRolling(s, now) {
		low, high := bandOf(s, now)
		projected := figure(math.Round(s.ProjectedTotal))
		if high-low >= 1 {
			projected += fmt.Sprintf(" (%s to %s)", figure(math.Round(low)), figure(math.Round(high)))
		}
		end := s.WindowEnd
		figures = append(figures, quotaFigure{"At the reset", projected}, quotaFigure{"Resets", in(&end, now).Text + ", " + clock(end, now)})
	}
	figures = append(figures, quotaFigure{"Pace", fmt.Sprintf("%s/h, others %s/h", figure(tenth(s.RecentPerHour)), figure(tenth(s.ExternalPerHour)))})
	if s.RateLimited > 0 || s.Refused > 0 {
		figures = append(figures, quotaFigure{"Refused", fmt.Sprintf("%s by the provider (%s unexpected), %s held back",
			units(s.RateLimited), units(s.UnexpectedRateLimited), units(s.Refused))})
	}
	return figures
}

// tenth keeps one decimal.
func tenth(f float64) float64 { return math.Round(f*10) / 10 }

// quotaWords is the drawing in words.
func quotaWords(s *daemon.ScopeState, state string, now time.Time) string {
	text := fmt.Sprintf("Use of %s %s", s.Limit, plaintext.Key(s.Key))
	if isRolling(s, now) {
		text += fmt.Sprintf(" in the last %s", duration(s.WindowEnd.Sub(s.WindowStart).Seconds()))
	} else {
		text += fmt.Sprintf(" from %s to the reset at %s", clock(s.WindowStart, now), clock(s.WindowEnd, now))
	}
	text += fmt.Sprintf(": %s of %s used by tapyr, %s by others", units(s.Used), units(s.Max), units(s.External))
	if !isRolling(s, now) {
		text += fmt.Sprintf(", %s projected in all", figure(math.Round(s.ProjectedTotal)))
	}
	return text + "; " + state + "."
}

// quotaProblem is a key that needs somebody.
type quotaProblem struct {
	level      level
	text, href string
}

// quotaProblems lists them, those of one limit together where they are many.
func quotaProblems(s *daemon.Snapshot) []quotaProblem {
	const most = 3
	type group struct {
		provider, limit string
		level           level
	}
	found := make(map[group][]*daemon.ScopeState)
	var order []group
	for i := range s.Scopes {
		l, _ := quotaLevel(&s.Scopes[i], s.At)
		if l != bad && l != warn {
			continue
		}
		g := group{s.Scopes[i].Provider, s.Scopes[i].Limit, l}
		if found[g] == nil {
			order = append(order, g)
		}
		found[g] = append(found[g], &s.Scopes[i])
	}
	var out []quotaProblem
	for _, g := range order {
		scopes := found[g]
		slices.SortStableFunc(scopes, byUrgency(s.At))
		for _, scope := range scopes[:min(most, len(scopes))] {
			_, state := quotaLevel(scope, s.At)
			out = append(out, quotaProblem{g.level, fmt.Sprintf("Quota %s of %s, %s: %s.", g.limit, g.provider, plaintext.Key(scope.Key), state), "#quotas"})
		}
		if more := len(scopes) - most; more > 0 {
			out = append(out, quotaProblem{g.level, fmt.Sprintf("Quota %s of %s: %s like these.", g.limit, g.provider, counted(more, "other key", "other keys")), "#quotas"})
		}
	}
	return out
}
