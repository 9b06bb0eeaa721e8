package web

import (
	"cmp"
	"fmt"
	"sort"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan/planjson"
)

func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

// addEvents lists what waits and what happened lately.
func (v *pageView) addEvents(s *daemon.Snapshot) {
	v.Waiting = table{
		ID: "waiting-table", Caption: "Waiting requests, the most urgent and oldest first", Empty: "No request waits for a budget.",
		Columns: columns("Job", "Priority", "Waits since", "Gives up", "Why"),
	}
	for _, w := range s.Waiting {
		job := cell{Text: w.Job, Note: w.Account}
		if w.Instance != "" && w.Instance != w.Job {
			job.Note = w.Instance + ", " + w.Account
		}
		v.Waiting.Rows = append(v.Waiting.Rows, []cell{
			job, text(w.Priority), instant(ago(&w.Since, s.At)), instant(in(&w.Deadline, s.At)), text(cmp.Or(words(w.Reason), "its turn comes")),
		})
	}
	v.WaitingMore = max(0, s.WaitingTotal-len(s.Waiting))

	v.Refusals = table{
		ID: "refusals-table", Caption: "Requests that were held back, the newest first", Empty: "No request was held back lately.",
		Columns: columns("When", "Request", "Why", "Again"),
	}
	for _, r := range s.Refusals {
		v.Refusals.Rows = append(v.Refusals.Rows, []cell{
			instant(at(r.At, s.At)),
			{Text: r.Method + " " + r.Endpoint, Note: r.Account},
			{Text: words(r.Reason), Note: scopeName(r.Limit, r.Key)},
			instant(in(r.RetryAt, s.At)),
		})
	}
	v.RateLimited = table{
		ID: "rate-limited-table", Caption: "Requests that a provider refused for a limit, the newest first", Empty: "No provider has refused a request for a limit lately.",
		Columns: columns("When", "Request", "Limit", "Expected"),
	}
	for _, r := range s.RateLimited {
		expected := cell{Text: "expected", Badge: none}
		if r.Unexpected {
			expected = cell{Text: "unexpected", Badge: warn, Note: "within all declared limits"}
		}
		if r.Parked != "" {
			expected.Note = fmt.Sprintf("asked for a longer pause than maxPenalty: %q", r.Parked)
		}
		v.RateLimited.Rows = append(v.RateLimited.Rows, []cell{
			instant(at(r.At, s.At)), {Text: r.Method + " " + r.Endpoint, Note: r.Account}, text(cmp.Or(scopeName(r.Limit, r.Key), "none covers it")), expected,
		})
	}
	v.addInventories(s)
	v.addLearned(s)
	v.addChanges(s)
}

// words are the reasons of the engine, for people.
func words(reason string) string {
	switch reason {
	case "quota_exhausted":
		return "quota used up"
	case "circuit_open":
		return "circuit breaker open"
	case "penalized":
		return "the provider asked for a pause"
	case "deadline":
		return "would have waited beyond its deadline"
	}
	return reason
}

func scopeName(limit, key string) string {
	if limit == "" {
		return ""
	}
	return limit + ", " + plaintext.Key(key)
}

func (v *pageView) addInventories(s *daemon.Snapshot) {
	v.Inventories = table{ID: "inventories-table", Caption: "Inventories that other jobs run over", Columns: columns("Listed by", "Items#", "Instances", "Refreshed")}
	for _, i := range s.Inventories {
		v.Inventories.Rows = append(v.Inventories.Rows, []cell{
			text(i.Job), text(units(int64(i.Items))), text(fmt.Sprintf("%d of %d listed", i.Listed, i.Instances)), instant(ago(i.RefreshedAt, s.At)),
		})
	}
}

func (v *pageView) addLearned(s *daemon.Snapshot) {
	v.Learned = table{ID: "learned-table", Caption: "Identifiers that were learned", Columns: columns("Provider", "Stand for", "Kind", "Known#")}
	for _, c := range s.Learned {
		v.Learned.Rows = append(v.Learned.Rows, []cell{text(c.Provider), text(c.Var), text(c.Key), text(units(int64(c.Identifiers)))})
	}
}

// addChanges says which intervals the last plans have changed, and what runs the daemon.
func (v *pageView) addChanges(s *daemon.Snapshot) {
	v.Changes = table{
		ID: "changes-table", Caption: "Intervals that plans have changed, the newest first", Empty: "No plan has changed an interval lately.",
		Columns: columns("When", "Job", "From", "To", "Because of"),
	}
	for _, c := range s.Changes {
		from := duration(c.FromSeconds)
		if c.FromSeconds == 0 {
			from = "–"
		}
		v.Changes.Rows = append(v.Changes.Rows, []cell{instant(at(c.At, s.At)), text(c.Job), text(from), text(duration(c.ToSeconds)), text(changeWords(c.Why))})
	}
}

func changeWords(why string) string {
	switch why {
	case "start":
		return "the start"
	case "interval":
		return "a new plan"
	case "reload":
		return "changed documents"
	case "inventory":
		return "a changed inventory"
	case "learned-max":
		return "a maximum that a response told"
	}
	return why
}

// planView is the plan in force.
type planView struct {
	Made     string
	Level    level
	Verdict  string
	Scopes   table
	Folded   table
	Promises table
	Warnings []string
	// Remedies would help a plan that is infeasible; Searching tells that they are not found yet.
	Remedies  []remedyView
	Searching bool
}

// remedyView is a change that would help: in words, as a flag of tapyr plan, and that it does not help everywhere.
type remedyView struct{ Message, Flag, But string }

// openScopes is how many scopes of the plan are open at once.
const openScopes = 12

// planViewOf makes the view; it sorts the scopes of p.
func planViewOf(p *planjson.Plan, s *daemon.Snapshot) planView {
	v := planView{Level: good, Verdict: "feasible", Made: ago(&p.At, s.At).Text}
	switch {
	case !p.Feasible:
		v.Level, v.Verdict = bad, "infeasible"
	case !s.PlanHolds:
		v.Level, v.Verdict = bad, "breaks a promise"
	}
	titles := columns("Limit", "Budget#", "Wanted#", "Planned#", "Headroom#", "Fits")
	v.Scopes = table{ID: "plan-table", Caption: "The plan by budget, the tightest first", Columns: titles, Empty: "The plan has no budgets: no job meets a limit."}
	v.Folded = table{ID: "plan-more-table", Caption: "Budgets with more headroom", Columns: titles}
	sort.SliceStable(p.Scopes, func(i, j int) bool { return p.Scopes[i].Headroom < p.Scopes[j].Headroom })
	for i, scope := range p.Scopes {
		state := cell{Text: "fits", Badge: good}
		if !scope.Feasible {
			state = cell{Text: "exceeded", Badge: bad}
		}
		key := plaintext.Key(scope.Key)
		if scope.Keys > 1 {
			key += fmt.Sprintf(" (%s keys)", units(scope.Keys))
		}
		row := []cell{
			{Text: scope.Provider + " · " + scope.Limit, Note: key},
			{Text: figure(tenth(scope.Budget)), Note: "in " + duration(scope.HorizonSeconds)},
			text(figure(tenth(scope.Demand))), text(figure(tenth(scope.Projected))), text(percent(scope.Headroom)), state,
		}
		if i < openScopes {
			v.Scopes.Rows = append(v.Scopes.Rows, row)
		} else {
			v.Folded.Rows = append(v.Folded.Rows, row)
		}
	}
	v.Promises = table{ID: "promises-table", Caption: "Promises of the documents", Columns: columns("Promise", "Wanted#", "Planned#", "Kept")}
	for _, a := range p.Assertions {
		kept, name, format := cell{Text: "kept", Badge: good}, a.Job+": maxInterval", duration
		if a.Kind == "headroom" {
			name, format = fmt.Sprintf("%s · %s, %s: headroom", a.Provider, a.Limit, plaintext.Key(a.Key)), percent
		}
		if !a.OK {
			kept = cell{Text: "broken", Badge: bad}
		}
		v.Promises.Rows = append(v.Promises.Rows, []cell{text(name), text(format(a.Want)), text(format(a.Got)), kept})
	}
	for _, w := range p.Warnings {
		v.Warnings = append(v.Warnings, w.Message)
	}
	for _, r := range p.Remedies {
		one := remedyView{Message: r.Message, Flag: r.Flag}
		if !r.Feasible {
			one.But = "; others stay over their budgets"
		}
		v.Remedies = append(v.Remedies, one)
	}
	return v
}
