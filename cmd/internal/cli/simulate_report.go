package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/simulate"
)

// shownChanges is how many changes of intervals a report for people shows; machine formats have all.
const shownChanges = 12

// simulationView writes down a simulation for people.
func simulationView(r *simulate.Report, zone *time.Location) *reportView {
	v := &reportView{headline: simulationHeadline(r)}
	add := func(title string, t *table, lines ...cell) {
		if t != nil && len(t.rows) == 0 {
			t = nil
		}
		if t != nil || len(lines) > 0 {
			v.sections = append(v.sections, section{title: title, table: t, lines: lines})
		}
	}
	add("", nil, simulationFacts(r, zone)...)
	add("Broken invariants", nil, violationLines(r, zone)...)
	add("Plan against outcome", outcomeTable(r))
	add("Waits for the budget", waitTable(r))
	add("Refused by tapyr", refusalTable(r))
	add("Answered as rate limited", limitedTable(r))
	add("Quotas", simulatedQuotaTable(r))
	add("Changes of intervals", nil, changeLines(r, zone)...)
	return v
}

func simulationHeadline(r *simulate.Report) cell {
	limited := int64(0)
	for _, l := range r.RateLimited {
		if l.Cause != simulate.CauseSpurious {
			limited += l.Answers
		}
	}
	text := fmt.Sprintf("%s in %s", counted(int(r.Requests), "request"), spanText(r.End.Sub(r.Start).Seconds()))
	switch {
	case r.Broken > 0:
		return cell{text + fmt.Sprintf(": %s broken.", counted(int(r.Broken), "invariant")), styleBad}
	case r.Last != nil && !r.Last.Feasible:
		return cell{text + ", but the plan is infeasible.", styleBad}
	case limited > 0:
		return cell{text + fmt.Sprintf("; the vendor refused %s.", grouped(float64(limited))), styleWarn}
	}
	return cell{text + "; the vendor refused none.", styleGood}
}

// simulationFacts are what the tables do not say.
func simulationFacts(r *simulate.Report, zone *time.Location) []cell {
	const layout = "2006-01-02 15:04 MST"
	facts := []cell{{fmt.Sprintf("From %s to %s, seed %d.", r.Start.In(zone).Format(layout), r.End.In(zone).Format(layout), r.Seed), stylePlain}}
	if text := r.Faults.String(); text != "" {
		facts = append(facts, cell{"Faults: " + text + ".", stylePlain})
	}
	plans := fmt.Sprintf("%s made", counted(int(r.Plans), "plan"))
	if r.Infeasible > 0 {
		plans += fmt.Sprintf(", %s of them infeasible", grouped(float64(r.Infeasible)))
	}
	facts = append(facts, cell{plans + fmt.Sprintf("; %s of the requests were retries.", grouped(float64(r.Retries))), stylePlain})
	if r.ExternalRequests > 0 {
		facts = append(facts, cell{fmt.Sprintf("Another client sent %s, %s of them in vain.", counted(int(r.ExternalRequests), "request"), grouped(float64(r.ExternalRefused))), stylePlain})
	}
	var answers string
	for _, status := range slices.Sorted(maps.Keys(r.Answers)) {
		name := strconv.Itoa(status)
		if status == 0 {
			name = "none"
		}
		if answers != "" {
			answers += ", "
		}
		answers += name + " ×" + grouped(float64(r.Answers[status]))
	}
	if answers != "" {
		facts = append(facts, cell{"Answers: " + answers + ".", stylePlain})
	}
	return facts
}

func violationLines(r *simulate.Report, zone *time.Location) []cell {
	var lines []cell
	for _, v := range r.Violations {
		lines = append(lines, cell{fmt.Sprintf("%s %s: %s", v.At.In(zone).Format("2006-01-02 15:04:05"), v.Invariant, v.Message), styleBad})
	}
	return lines
}

func outcomeTable(r *simulate.Report) *table {
	t := &table{columns: []column{
		{title: "Job", fit: fitCut},
		{title: "Priority"},
		{title: "Runs", right: true},
		{title: "Failed", right: true},
		{title: "Wants", right: true},
		{title: "Plan", right: true},
		{title: "Got", right: true},
		{title: "Longest", right: true},
		{title: "Sent", right: true},
	}}
	for _, j := range r.Jobs {
		row := plain(j.Job, j.Priority, grouped(float64(j.Runs)), grouped(float64(j.Failed)), shortSpan(j.DesiredSeconds), shortSpan(j.PlannedSeconds),
			shortSpan(j.MeanSeconds), shortSpan(j.LongestSeconds), grouped(float64(j.Requests)))
		if j.Failed > 0 {
			row[3].style = styleWarn
		}
		if j.PlannedSeconds > j.DesiredSeconds {
			row[5].style, row[6].style = styleWarn, styleWarn
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// shortSpan writes a span of a simulation with the digits that mean something; "" for none.
func shortSpan(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d == 0:
		return ""
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	}
	round := time.Second
	if d >= time.Hour {
		round = time.Minute
	}
	return schema.Duration(d.Round(round)).String()
}

func waitTable(r *simulate.Report) *table {
	t := &table{columns: []column{
		{title: "Priority"},
		{title: "Requests", right: true},
		{title: "Waited", right: true},
		{title: "Mean", right: true},
		{title: "Median", right: true},
		{title: "95%", right: true},
		{title: "99%", right: true},
		{title: "Longest", right: true},
	}}
	for _, w := range r.Waits {
		t.rows = append(t.rows, plain(w.Priority, grouped(float64(w.Requests)), grouped(float64(w.Waited)), waitText(w.Mean), waitText(w.Median),
			waitText(w.P95), waitText(w.P99), waitText(w.Longest)))
	}
	return t
}

// waitText is a wait, 0 where there was none.
func waitText(s float64) string {
	if text := shortSpan(s); text != "" && text != "0s" {
		return text
	}
	return "0"
}

func refusalTable(r *simulate.Report) *table {
	t := &table{columns: []column{{title: "Reason"}, {title: "Limit", fit: fitCut}, {title: "Priority"}, {title: "Times", right: true}}}
	for _, one := range r.Refusals {
		t.rows = append(t.rows, plain(string(one.Reason), one.Limit, one.Priority, grouped(float64(one.Requests))))
	}
	return t
}

// causeText says why a vendor refused.
func causeText(c simulate.Cause) string {
	switch c {
	case simulate.CauseOwn:
		return "tapyr's requests alone exceed it"
	case simulate.CauseUnlearned:
		return "whose they are was not learned yet"
	case simulate.CauseOthers:
		return "others' requests, the vendor's clock, or a lowered limit"
	}
	return "no limit was met: a fault"
}

func limitedTable(r *simulate.Report) *table {
	t := &table{columns: []column{{title: "Provider", fit: fitCut}, {title: "Limit", fit: fitCut}, {title: "Cause", fit: fitWrap}, {title: "Answers", right: true}}}
	for _, one := range r.RateLimited {
		row := plain(one.Provider, one.Limit, causeText(one.Cause), grouped(float64(one.Answers)))
		if one.Cause == simulate.CauseOwn {
			row[2].style = styleBad
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// simulatedQuotaTable shows each quota at its fullest.
func simulatedQuotaTable(r *simulate.Report) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap}, {title: "Maximum", right: true}, {title: "Usable", right: true}, {title: "Most used", right: true}, {title: "Others", right: true}, {title: "Use", right: true},
	}}
	quotas := slices.Clone(r.Quotas)
	slices.SortStableFunc(quotas, func(a, b simulate.QuotaReport) int { return compareFullest(fullestPoint(b), fullestPoint(a)) })
	for i, q := range quotas {
		if i == shownScopes {
			break
		}
		p := fullestPoint(q)
		use := "0%"
		if p.MaxUnits > 0 {
			use = fmt.Sprintf("%.0f%%", 100*float64(p.UsedUnits+p.ExternalUnits)/float64(p.MaxUnits))
		}
		t.rows = append(t.rows, plain(q.Limit+" "+plaintext.Key(q.Key), grouped(float64(p.MaxUnits)), grouped(float64(p.UsableUnits)), grouped(float64(p.UsedUnits)),
			grouped(float64(p.ExternalUnits)), use))
	}
	return t
}

func fullestPoint(q simulate.QuotaReport) simulate.QuotaPoint {
	return slices.MaxFunc(q.Points, compareFullest)
}

func compareFullest(a, b simulate.QuotaPoint) int {
	part := func(p simulate.QuotaPoint) float64 {
		return float64(p.UsedUnits+p.ExternalUnits) / float64(max(1, p.MaxUnits))
	}
	switch x, y := part(a), part(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// changeLines lists how plans changed the intervals, the first ones apart.
func changeLines(r *simulate.Report, zone *time.Location) []cell {
	var lines []cell
	for _, c := range r.Changes {
		if c.From == 0 {
			continue
		}
		if len(lines) == shownChanges {
			return append(lines, cell{fmt.Sprintf("and %s more", grouped(float64(len(r.Changes)-shownChanges))), styleFaint})
		}
		lines = append(lines, cell{fmt.Sprintf("%s %s: %s → %s", c.At.In(zone).Format("02 Jan 15:04:05"), c.Job,
			spanText(c.From.Seconds()), spanText(c.To.Seconds())), stylePlain})
	}
	return lines
}
