package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
)

// spendView is where a policy stands.
type spendView struct {
	ID, Title string
	Figures   []quotaFigure
	Oldest    string
	Problem   string
	Lines     table
	Mix, Days table
}

// meter is a bar of a limit: what is settled, what is reserved behind it, and marks where bands begin. All are parts in percent.
type meter struct {
	Settled, Reserved float64
	Marks             []float64
	Words             string
}

// maxSpendRows bounds the tables of days: a policy may have many capabilities, and a book many years.
const maxSpendRows = 60

func spendViewOf(r *report.Report, now time.Time) spendView {
	v := spendView{ID: "spend-" + r.Policy, Title: r.Policy, Figures: spendFigures(r, now)}
	v.Lines = table{
		ID: v.ID + "-budgets", Caption: "Budgets of " + r.Policy + " in " + r.Unit,
		Columns: columns("For", "Use", "Limit#", "Settled#", "Reserved#", "Left#", "Protected#", "Deferred#"),
	}
	lines := append([]report.Line{r.Account}, r.Capabilities...)
	for i := range lines {
		v.Lines.Rows = append(v.Lines.Rows, spendLine(&lines[i], r))
	}
	if w := r.OldestDeferred; w != nil {
		v.Oldest = fmt.Sprintf("The oldest deferred event has waited for %s, for %s.", duration(w.AgeSeconds), w.Capability)
	}
	if r.Reconcile != nil && r.Reconcile.Problem != "" {
		v.Problem = "Settled files: " + r.Reconcile.Problem
	}
	v.addMix(r)
	v.addDays(r)
	return v
}

// spendFigures are those above the tables.
func spendFigures(r *report.Report, now time.Time) []quotaFigure {
	figures := []quotaFigure{{"Version in force", r.Version}, {"Window", "limits hold for ever"}}
	if r.WindowStart != nil && r.WindowEnd != nil {
		const layout = "2 Jan 2006 15:04" // the same for both ends, whatever day it is
		figures[1].Value = r.WindowStart.UTC().Format(layout) + " to " + r.WindowEnd.UTC().Format(layout) + " UTC"
	}
	deferred := "none"
	if r.Account.Deferred > 0 {
		deferred = fmt.Sprintf("%s, oldest %s", units(r.Account.Deferred), duration(r.Account.OldestSeconds))
	}
	figures = append(figures, quotaFigure{"Deferred events", deferred})
	if len(r.Thresholds) > 0 {
		var bands []string
		for _, t := range r.Thresholds {
			state := "not reached"
			if t.ReachedAt != nil {
				state = "reached " + clock(*t.ReachedAt, now)
			}
			bands = append(bands, t.Band+" "+state)
		}
		figures = append(figures, quotaFigure{"Bands", strings.Join(bands, ", ")})
	}
	if c := r.Reconcile; c != nil {
		files := counted(int(c.Files), "file", "files") + " compared"
		if c.BadFiles > 0 {
			files += ", " + units(c.BadFiles) + " unreadable"
		}
		if c.Last != nil {
			files += fmt.Sprintf("; last %s %s, %s left to look at", c.Last.Name, ago(&c.Last.At, now).Text, units(int64(c.Last.Open())))
		}
		figures = append(figures, quotaFigure{"Settled files", files})
	}
	if r.Chain.Count > 0 {
		figures = append(figures, quotaFigure{"Audit chain", fmt.Sprintf("%s, head %s…", counted(int(r.Chain.Count), "entry", "entries"), r.Chain.Hash[:min(12, len(r.Chain.Hash))])})
	}
	return figures
}

// spendLine is the row of an account or a capability.
func spendLine(l *report.Line, r *report.Report) []cell {
	name := cell{Text: cmp.Or(l.Capability, "the account")}
	if l.Essential {
		name.Note = "essential"
	}
	deferred := text(units(l.Deferred))
	if l.Deferred > 0 {
		deferred.Note = "oldest " + duration(l.OldestSeconds)
	}
	left := text(l.Headroom.String())
	if l.Headroom.Sign() <= 0 && l.Limit.Sign() > 0 {
		left.Badge = bad
	}
	return []cell{
		name,
		{Meter: meterOf(l, r)},
		text(l.Limit.String()), text(l.Settled.String()), text(l.Reserved.String()), left,
		text(l.Protected.String()), deferred,
	}
}

// meterOf draws a line. Where more was settled than the limit, the bar is full.
func meterOf(l *report.Line, r *report.Report) *meter {
	limit := float(l.Limit)
	part := func(u book.Units) float64 {
		if limit <= 0 {
			return 0
		}
		return float(u) / limit
	}
	settled, reserved := part(l.Settled), part(l.Reserved)
	m := &meter{Settled: 100 * min(1, settled), Words: percent(part(l.Used)) + " used"}
	m.Reserved = 100 * min(1-min(1, settled), reserved)
	if reserved > 0 {
		m.Words += ", " + percent(reserved) + " reserved"
	}
	if limit <= 0 {
		m.Words = "no budget"
	}
	if l.Capability == "" {
		for _, t := range r.Thresholds {
			m.Marks = append(m.Marks, 100*part(t.Units))
		}
	}
	return m
}

// addMix adds up the window, or all days where the limits hold for ever, by capability, route class and disposition.
func (v *spendView) addMix(r *report.Report) {
	type group struct{ capability, class, disposition string }
	sums := make(map[group]*report.Day)
	var order []group
	for _, day := range r.Days {
		if day.Day < r.FirstDay {
			continue
		}
		g := group{day.Capability, day.RouteClass, string(day.Disposition)}
		if sums[g] == nil {
			sums[g] = &report.Day{}
			order = append(order, g)
		}
		sum := sums[g]
		sum.Events += day.Events
		sum.Reserved, sum.Settled = sum.Reserved.Add(day.Reserved), sum.Settled.Add(day.Settled)
	}
	slices.SortFunc(order, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.capability, b.capability), cmp.Compare(a.class, b.class), cmp.Compare(a.disposition, b.disposition))
	})
	since := "since the beginning"
	if r.FirstDay != "" {
		since = "admitted since " + r.FirstDay
	}
	v.Mix = table{
		ID: v.ID + "-mix", Caption: "Events " + since + ", by what holds for them now",
		Columns: columns("Capability", "Route class", "Disposition", "Events#", "Reserved#", "Settled#"), Empty: "No event yet.",
	}
	for i, g := range order {
		if i == maxSpendRows {
			v.Mix.Caption += fmt.Sprintf("; the first %d of %d", maxSpendRows, len(order))
			break
		}
		v.Mix.Rows = append(v.Mix.Rows, []cell{
			text(g.capability), text(cmp.Or(g.class, "–")), text(g.disposition), text(units(sums[g].Events)), text(sums[g].Reserved.String()), text(sums[g].Settled.String()),
		})
	}
}

// addDays lists the latest days, the last one first.
func (v *spendView) addDays(r *report.Report) {
	days := slices.Clone(r.Days)
	slices.SortStableFunc(days, func(a, b report.Day) int { return cmp.Compare(b.Day, a.Day) })
	v.Days = table{
		ID: v.ID + "-days", Caption: "By the day of the admission",
		Columns: columns("Day", "Capability", "Route class", "Disposition", "Events#", "Reserved#", "Settled#"),
	}
	for i, d := range days {
		if i == maxSpendRows {
			v.Days.Caption += fmt.Sprintf("; the latest %d rows of %d", maxSpendRows, len(days))
			break
		}
		v.Days.Rows = append(v.Days.Rows, []cell{
			text(d.Day), text(d.Capability), text(cmp.Or(d.RouteClass, "–")), text(string(d.Disposition)), text(units(d.Events)), text(d.Reserved.String()), text(d.Settled.String()),
		})
	}
}

// spendProblems are what of paid calls needs somebody.
func spendProblems(reports []*report.Report, now time.Time) []problem {
	var out []problem
	add := func(l level, format string, args ...any) {
		out = append(out, problem{l, fmt.Sprintf(format, args...), "#spend"})
	}
	for _, r := range reports {
		if w := r.OldestEssential; w != nil {
			add(bad, "Paid calls, %s: an essential event of %s has waited for %s.", r.Policy, w.Capability, duration(w.AgeSeconds))
		}
		if r.Account.Headroom.Sign() <= 0 {
			add(bad, "Paid calls, %s: nothing is left of the limit of %s %s.", r.Policy, r.Account.Limit, r.Unit)
		} else if n := len(r.Bands); n > 0 {
			add(warn, "Paid calls, %s: the band at %s of the limit was reached %s.", r.Policy, r.Bands[n-1].Band, clock(r.Bands[n-1].At, now))
		}
		if c := r.Reconcile; c != nil && c.Problem != "" {
			add(warn, "Paid calls, %s: settled files: %s", r.Policy, c.Problem)
		} else if c != nil && c.Last != nil && c.Last.Open() > 0 {
			add(warn, "Paid calls, %s: %s left %s to look at.", r.Policy, c.Last.Name, counted(c.Last.Open(), "item", "items"))
		}
	}
	return out
}
