package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
)

// reportView is a result for people: a headline, tables with titles, and lists of remarks. It knows text, Markdown and HTML.
type reportView struct {
	headline cell
	sections []section
}

// section is one part of a report: a table, or lines.
type section struct {
	title string
	table *table
	lines []cell
}

// writeText writes the report for a terminal.
func (r *reportView) writeText(out *Output) error {
	out.Printf("%s\n", out.paint(r.headline.style, r.headline.text))
	for _, s := range r.sections {
		out.Printf("\n")
		if s.title != "" {
			out.Printf("%s\n", out.paint(styleTitle, s.title))
		}
		if s.table != nil {
			if err := s.table.writeText(out); err != nil {
				return err
			}
		}
		for _, l := range s.lines {
			for i, line := range wrapText(plaintext.Printable(l.text), out.Columns()-2) {
				indent := "  "
				if i > 0 {
					indent = "    "
				}
				out.Printf("%s%s\n", indent, out.paint(l.style, line))
			}
		}
	}
	return nil
}

// writeMarkdown writes the report as GitHub's Markdown, for a pull request.
func (r *reportView) writeMarkdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "**%s**\n", plaintext.Markdown(r.headline.text)); err != nil {
		return err
	}
	for _, s := range r.sections {
		if _, err := fmt.Fprintf(w, "\n### %s\n\n", plaintext.Markdown(s.title)); err != nil {
			return err
		}
		if s.table != nil {
			if err := s.table.writeMarkdown(w); err != nil {
				return err
			}
		}
		for _, l := range s.lines {
			if _, err := fmt.Fprintf(w, "- %s\n", plaintext.Markdown(l.text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// planReportOf writes down a plan for people.
func planReportOf(p *plan.Plan, remedies []plan.Remedy, zone *time.Location) *reportView {
	r := &reportView{headline: planHeadline(p, zone)}
	r.sections = append(r.sections, section{title: "Jobs", table: planJobTable(p)}, section{title: "Budgets", table: planScopeTable(p, zone)})
	if lines := planAssertionLines(p); len(lines) > 0 {
		r.sections = append(r.sections, section{title: "Broken promises", lines: lines})
	}
	if lines := planRemedyLines(remedies); len(lines) > 0 {
		r.sections = append(r.sections, section{title: "What would help", lines: lines})
	}
	if lines := planUnusedLines(p); len(lines) > 0 {
		r.sections = append(r.sections, section{title: "Room", lines: lines})
	}
	if len(p.Warnings) > 0 {
		var lines []cell
		for _, w := range p.Warnings {
			lines = append(lines, cell{w.Message + " [" + w.Code + "]", styleWarn})
		}
		r.sections = append(r.sections, section{title: "Warnings", lines: lines})
	}
	return r
}

func planHeadline(p *plan.Plan, zone *time.Location) cell {
	stretched := 0
	for _, j := range p.Jobs {
		if j.Stretch > 1 {
			stretched++
		}
	}
	at := p.At.In(zone).Format("2006-01-02 15:04 MST")
	switch {
	case !p.Feasible:
		over := 0
		for _, s := range p.Scopes {
			if !s.Feasible {
				over++
			}
		}
		return cell{fmt.Sprintf("Infeasible at %s: %s over budget.", at, counted(over, "scope")), styleBad}
	case !p.Holds():
		return cell{fmt.Sprintf("Feasible at %s, but a promise is broken; %d of %s stretched.", at, stretched, counted(len(p.Jobs), "job")), styleBad}
	case stretched > 0:
		return cell{fmt.Sprintf("Feasible at %s: %d of %s stretched.", at, stretched, counted(len(p.Jobs), "job")), styleWarn}
	}
	return cell{fmt.Sprintf("Feasible at %s: no job is stretched.", at), styleGood}
}

func planJobTable(p *plan.Plan) *table {
	t := &table{columns: []column{
		{title: "Job", fit: fitCut},
		{title: "Priority"},
		{title: "Runs", right: true},
		{title: "Wants", right: true},
		{title: "Gets", right: true},
		{title: "Stretch", right: true},
		{title: "Limited by", fit: fitCut},
	}}
	for _, j := range p.Jobs {
		stretch, limited := stylePlain, ""
		if j.Stretch > 1 {
			stretch = styleWarn
		}
		if l := j.LimitedBy; l != nil {
			limited = l.Limit + " " + plaintext.Key(l.Key)
		}
		row := plain(j.Job, j.Priority, "×"+grouped(float64(j.Instances)), spanText(j.DesiredSeconds), spanText(j.EffectiveSeconds), fmt.Sprintf("%.2f", j.Stretch), limited)
		row[4].style, row[5].style = stretch, stretch
		t.rows = append(t.rows, row)
	}
	return t
}

func planScopeTable(p *plan.Plan, zone *time.Location) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap},
		{title: "Budget", right: true},
		{title: "Wanted", right: true},
		{title: "Planned", right: true},
		{title: "Use", right: true},
		{title: "Wanted until"},
	}}
	for _, s := range p.Scopes {
		use, until := stylePlain, "the end"
		if !s.Feasible {
			use = styleBad
		}
		switch {
		case !s.ExhaustsAt.IsZero():
			until = untilText(&s, p.At, zone)
		case s.Kind != schema.KindQuota || s.WindowStart.IsZero():
			until = ""
		}
		name := s.Limit + " " + plaintext.Key(s.Key)
		if s.Keys > 1 {
			name += fmt.Sprintf(" ×%s", grouped(float64(s.Keys)))
		}
		row := plain(name, amountText(s.Budget, s), amountText(s.Demand, s), amountText(s.Projected, s), percentText(s), until)
		row[3].style, row[4].style = use, use
		t.rows = append(t.rows, row)
	}
	return t
}

// shortWindow is the length below which a minute says too little.
const shortWindow = time.Hour

// untilText is when the budget would be gone. Without state the whole window is planned, and a time in the part of it that is over
// would read like a fact: then it is said how far into the window that is.
func untilText(s *plan.Scope, at time.Time, zone *time.Location) string {
	switch {
	case s.ExhaustsAt.Before(at):
		return "after " + spanText(s.ExhaustsAt.Sub(s.WindowStart).Round(time.Millisecond).Seconds())
	case s.WindowEnd.Sub(s.WindowStart) < shortWindow:
		return s.ExhaustsAt.In(zone).Format("02 Jan 15:04:05")
	}
	return s.ExhaustsAt.In(zone).Format("02 Jan 15:04")
}

// amountText writes units, with the rate's "/s"; a small rate with two digits, which is all that an estimate means.
func amountText(units float64, s plan.Scope) string {
	if s.Kind == schema.KindRate {
		if units > 0 && units < 10 {
			return fmt.Sprintf("%.2g/s", units)
		}
		return grouped(units) + "/s"
	}
	if units >= 100 {
		return grouped(float64(int64(units + 0.5)))
	}
	return grouped(units)
}

func percentText(s plan.Scope) string {
	switch {
	case s.Projected == 0:
		return "0%"
	case s.Budget <= 0:
		return "over"
	}
	return fmt.Sprintf("%.0f%%", 100*s.Projected/s.Budget)
}

func planAssertionLines(p *plan.Plan) []cell {
	var lines []cell
	for _, a := range p.Assertions {
		switch {
		case a.OK:
		case a.Kind == "maxInterval":
			lines = append(lines, cell{fmt.Sprintf("job %s promises a run every %s at least, and gets one every %s (maxInterval)", a.Job, spanText(a.Want), spanText(a.Got)), styleBad})
		default:
			lines = append(lines, cell{fmt.Sprintf("%s/%s on %s must keep %.0f%% free, and keeps %.1f%% (settings.assert)", a.Provider, a.Limit, plaintext.Key(a.Key), 100*a.Want, 100*a.Got), styleBad})
		}
	}
	return lines
}

func planRemedyLines(remedies []plan.Remedy) []cell {
	var lines []cell
	for _, r := range remedies {
		note := ""
		if !r.Feasible {
			note = "; helps this scope, others stay over budget"
		}
		lines = append(lines, cell{fmt.Sprintf("%s (%s)%s", r.Message, r.Flag, note), stylePlain})
	}
	return lines
}

// planUnusedLines shows unused budget as plainly as overuse.
func planUnusedLines(p *plan.Plan) []cell {
	var lines []cell
	for _, s := range p.Scopes {
		if s.Quota == nil || !s.Feasible {
			continue
		}
		name := fmt.Sprintf("%s/%s on %s", s.Provider, s.Limit, plaintext.Key(s.Key))
		if s.Demand > s.Budget && s.Unused.QuotaForNoStretch > 0 {
			lines = append(lines, cell{fmt.Sprintf("%s would stretch no job with a quota of %s", name, grouped(float64(s.Unused.QuotaForNoStretch))), stylePlain})
		}
		if s.Headroom() > 0.01 {
			lines = append(lines, cell{fmt.Sprintf("%s has %.0f%% unused%s", name, 100*s.Headroom(), fasterText(s.Unused.Faster)), stylePlain})
		}
	}
	return lines
}

// mostFaster is the factor above which nobody asks how much faster a class could go.
const mostFaster = 100

// fasterText says how much more often each class could run, were the unused part its own.
func fasterText(faster map[string]float64) string {
	var parts []string
	for _, priority := range []string{schema.PriorityCritical, schema.PriorityHigh, schema.PriorityNormal, schema.PriorityLow} {
		if times := faster[priority]; times > 1.005 && times < mostFaster {
			parts = append(parts, fmt.Sprintf("%.3g times (%s)", times, priority))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; one class alone could run as much more often: " + join(parts, "or")
}

// spanText writes seconds as people write intervals.
func spanText(seconds float64) string {
	return schema.DurationOf(seconds).String()
}

// grouped writes a figure with its thousands apart and no more digits than it means.
func grouped(f float64) string { return plan.Figure(f) }

// instantText is an instant for machine formats, "" for the zero time.
func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}
