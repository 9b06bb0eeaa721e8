package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plan/planjson"
	"github.com/tapyr/tapyr/spend/report"
)

// The view is what the template shows: words, figures and drawings, and no more decisions.

// level is how bad something is. The page says it in words too: colours alone tell some readers nothing.
type level string

const (
	good level = "good"
	warn level = "warn"
	bad  level = "bad"
	none level = "none"
)

// rank orders levels, the worst first.
func (l level) rank() int { return slices.Index([]level{bad, warn, none, good}, l) }

// pageView is the whole page.
type pageView struct {
	Now      moment
	Version  string
	Uptime   string
	Query    string
	Refresh  int
	Choices  []refreshChoice
	Headline string
	Level    level
	// Problems are all that needs somebody, the worst first.
	Problems []problem
	Cards    []card
	Quotas   []quotaGroup
	// Legend tells that there are drawings to explain.
	Legend bool
	// HiddenQuotas is how many did not fit, FilteredOut how many the filter leaves out.
	HiddenQuotas, FilteredOut int

	Jobs        table
	QuietJobs   table
	Plan        planView
	Accounts    table
	Waiting     table
	WaitingMore int
	Refusals    table
	RateLimited table
	Inventories table
	Learned     table
	Changes     table
	Spend       []spendView
	// Standing are figures of documents and state.
	Standing []quotaFigure
	// Unpublished are policies that are declared and have no version yet.
	Unpublished []string
	// SpendError is why paid calls cannot be shown.
	SpendError string
}

// refreshChoice is a link that sets how often the page renews itself.
type refreshChoice struct {
	Text, Href string
	Current    bool
}

// problem is one thing that needs somebody, and where on the page there is more about it.
type problem struct {
	Level level
	Text  string
	Href  string
}

// Word is the level in words.
func (p problem) Word() string {
	if p.Level == bad {
		return "problem"
	}
	return "to know"
}

// card is one figure of the overview.
type card struct {
	Title, Value, Note, Href string
	Level                    level
}

// table is a table as the template lays it out: on a narrow screen each row becomes a block with the columns' titles in it.
type table struct {
	ID, Caption string
	Columns     []column
	Rows        [][]cell
	// Empty is said instead of a table without rows.
	Empty string
}

type column struct {
	Title   string
	Numeric bool
}

// cell is a text, with an instant or a badge if it is one, and a second line.
type cell struct {
	Text    string
	Machine string // of an instant
	Badge   level
	Note    string
	NoteBad bool
	// Meter is a bar before the text, nil for none.
	Meter *meter
}

func text(s string) cell { return cell{Text: s} }

func instant(m moment) cell { return cell{Text: m.Text, Machine: m.Machine} }

func columns(titles ...string) []column {
	out := make([]column, len(titles))
	for i, title := range titles {
		name, numeric := strings.CutSuffix(title, "#")
		out[i] = column{name, numeric}
	}
	return out
}

// viewOf makes the page of a snapshot. query is the filter, lower case.
func viewOf(s *daemon.Snapshot, reports []*report.Report, planned *planjson.Plan, query string) *pageView {
	v := &pageView{
		Now: moment{s.At.UTC().Format("Mon 2 Jan 2006, 15:04:05") + " UTC", s.At.UTC().Format(time.RFC3339)}, Version: s.Version,
		Uptime: duration(s.At.Sub(s.StartedAt).Seconds()), Query: query,
	}
	v.addQuotas(s, query)
	v.addJobs(s, query)
	v.addAccounts(s)
	v.addEvents(s)
	v.addStanding(s)
	if planned != nil {
		v.Plan = planViewOf(planned, s)
	}
	for _, r := range reports {
		v.Spend = append(v.Spend, spendViewOf(r, s.At))
	}
	v.Problems = problemsOf(s, reports)
	v.Cards = cardsOf(s)
	v.Level, v.Headline = headlineOf(s, v.Problems)
	return v
}

// headlineOf is the page in a sentence.
func headlineOf(s *daemon.Snapshot, problems []problem) (level, string) {
	switch {
	case s.Stopping:
		return warn, "Stopping: nothing starts any more."
	case !s.Ready:
		return warn, "Starting: there is no plan yet."
	case len(problems) == 0:
		return good, "All is well."
	}
	grave := 0
	for _, p := range problems {
		if p.Level == bad {
			grave++
		}
	}
	if grave == 0 {
		return warn, counted(len(problems), "thing", "things") + " to know."
	}
	text := counted(grave, "problem", "problems")
	if rest := len(problems) - grave; rest > 0 {
		text += " and " + counted(rest, "thing", "things") + " to know"
	}
	return bad, text + "."
}

// maxProblems bounds the list at the top; what is left out is below.
const maxProblems = 12

// problemsOf lists what needs somebody: first what stops work, then what costs some.
func problemsOf(s *daemon.Snapshot, reports []*report.Report) []problem {
	var out []problem
	add := func(l level, href, format string, args ...any) {
		out = append(out, problem{l, fmt.Sprintf(format, args...), href})
	}
	if s.Config.Error != "" {
		add(bad, "#configuration", "The files could not be loaded; the configuration of %s goes on: %s", clock(s.Config.LoadedAt, s.At), s.Config.Error)
	}
	if !s.State.OK {
		add(bad, "#configuration", "The state cannot be written (%s); counts go on in memory: %s", cmp.Or(s.State.Fault, "unknown"), s.State.Error)
	}
	if s.Ready && !s.PlanFeasible {
		add(bad, "#plan", "The plan is infeasible: some budget is exceeded at every interval that is allowed.")
	} else if s.Ready && !s.PlanHolds {
		add(bad, "#plan", "The plan breaks a promise of the documents.")
	}
	for _, a := range s.Accounts {
		if l := healthLevel(a.Health); l == bad || l == warn {
			add(l, "#accounts", "Account %s is %s: %s", a.Account, a.Health, strings.Join(a.Reasons, "; "))
		}
	}
	for _, state := range quotaProblems(s) {
		add(state.level, state.href, "%s", state.text)
	}
	for i := range s.Jobs {
		if l, why := jobProblem(&s.Jobs[i]); l != good && l != none {
			add(l, "#jobs", "Job %s: %s", s.Jobs[i].Job, why)
		}
	}
	if n := s.Totals.UnexpectedRateLimited; n > 0 {
		add(warn, "#rate-limited", "%s within all declared limits since the start: a limit that is not declared, or another client.",
			counted(int(n), "unexpected refusal by a provider", "unexpected refusals by providers"))
	}
	out = append(out, spendProblems(reports, s.At)...)
	out = append(out, deliveryProblems(s.Deliveries)...)
	slices.SortStableFunc(out, func(a, b problem) int { return a.Level.rank() - b.Level.rank() })
	if more := len(out) - maxProblems; more > 1 {
		rest := out[maxProblems]
		out = append(out[:maxProblems], problem{rest.Level, fmt.Sprintf("and %d more, below.", more), "#overview"})
	}
	return out
}

// cardsOf are the figures of the overview.
func cardsOf(s *daemon.Snapshot) []card {
	plan := card{Title: "Plan", Value: "feasible", Href: "#plan", Level: good, Note: "made " + ago(s.PlannedAt, s.At).Text}
	switch {
	case s.PlannedAt == nil:
		plan.Value, plan.Level, plan.Note = "none yet", warn, ""
	case !s.PlanFeasible:
		plan.Value, plan.Level = "infeasible", bad
	case !s.PlanHolds:
		plan.Value, plan.Level = "promise broken", bad
	}
	waiting := card{Title: "Waiting", Value: units(int64(s.WaitingTotal)), Href: "#waiting", Level: none, Note: "requests for a budget"}
	refused := int64(0)
	for n := range maps.Values(s.Totals.Refused) {
		refused += n
	}
	limited := card{
		Title: "Refused by providers", Value: units(s.Totals.RateLimited), Href: "#rate-limited", Level: none,
		Note: units(s.Totals.UnexpectedRateLimited) + " unexpected",
	}
	if s.Totals.UnexpectedRateLimited > 0 {
		limited.Level = warn
	}
	return []card{
		plan, accountCard(s), jobCard(s), quotaCard(s), waiting,
		{Title: "Requests", Value: units(s.Totals.Granted), Href: "#refusals", Level: none, Note: units(refused) + " held back"},
		limited,
	}
}

// tally makes a card of how many of several are well.
func tally(title, href, what string, levels []level) card {
	c := card{Title: title, Href: href, Level: good, Value: fmt.Sprintf("%d of %d", 0, len(levels)), Note: what}
	fine := 0
	for _, l := range levels {
		if l == good || l == none {
			fine++
		}
		if l.rank() < c.Level.rank() {
			c.Level = l
		}
	}
	c.Value = fmt.Sprintf("%d of %d", fine, len(levels))
	if len(levels) == 0 {
		c.Value, c.Level = "none", none
	}
	return c
}

func accountCard(s *daemon.Snapshot) card {
	levels := make([]level, len(s.Accounts))
	for i := range s.Accounts {
		levels[i] = healthLevel(s.Accounts[i].Health)
	}
	return tally("Accounts", "#accounts", "well", levels)
}

func jobCard(s *daemon.Snapshot) card {
	levels := make([]level, len(s.Jobs))
	for i := range s.Jobs {
		levels[i], _ = jobProblem(&s.Jobs[i])
	}
	return tally("Jobs", "#jobs", "on time", levels)
}

func quotaCard(s *daemon.Snapshot) card {
	levels := make([]level, len(s.Scopes))
	for i := range s.Scopes {
		levels[i], _ = quotaLevel(&s.Scopes[i], s.At)
	}
	return tally("Quotas", "#quotas", "last to their reset", levels)
}

// healthLevel is how bad a health is.
func healthLevel(h daemon.Health) level {
	switch h {
	case daemon.HealthOK:
		return good
	case daemon.HealthDegraded:
		return warn
	case daemon.HealthFailing:
		return bad
	}
	return none
}
