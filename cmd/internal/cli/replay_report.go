package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/replay"
)

const (
	// shownScopes is how many keys a report for people shows, the fullest first; machine formats have all.
	shownScopes = 40
	// shownEvidence is how many rows stand below a disagreement.
	shownEvidence = 3
)

// write writes the report in the format asked for.
func (r *replayRun) write() error {
	call := r.call
	switch call.Format() {
	case "json":
		out := replayJSONOf(r.report, r.files)
		if r.baseReport != nil {
			base := replayJSONOf(r.baseReport, r.files)
			out.Base = &base
		}
		return call.Out.JSON(out)
	case "csv":
		return replayCSV(r.report, r.baseReport).writeCSV(call.Out)
	case "markdown":
		return r.view().writeMarkdown(call.Out)
	case "html":
		return writeHTML(call.Out, "Replay", r.view(), chart.Replay(r.report, call.Zone()))
	}
	return r.view().writeText(call.Out)
}

// view writes down a report for people.
func (r *replayRun) view() *reportView {
	report, zone := r.report, r.call.Zone()
	v := &reportView{headline: r.headline()}
	add := func(title string, t *table, lines []cell) {
		if t != nil && len(t.rows) > 0 || len(lines) > 0 {
			v.sections = append(v.sections, section{title: title, table: t, lines: lines})
		}
	}
	if x := report.Explanation; x != nil {
		add(fmt.Sprintf("Row %d", x.Number), explainTable(x), explainLines(x, zone))
	}
	if r.baseReport != nil {
		add("What the change does", changeTable(report, r.baseReport), nil)
	}
	shown, more := fullest(report.Scopes)
	var note []cell
	if more > 0 {
		note = []cell{{fmt.Sprintf("%s more, less full; --format csv or json has all", counted(more, "key")), styleFaint}}
	}
	add("Quotas", replayScopeTable(shown, zone), note)
	add("Jobs", replayJobTable(report), nil)
	add("Forecast", forecastTable(shown, zone), nil)
	add("Backtest", backtestTable(shown), nil)
	add("Where responses contradict the documents", nil, r.disagreementLines())
	add("Names that no document has", nil, unknownLines(report))
	add("Bad rows", nil, badRowLines(report))
	return v
}

func (r *replayRun) headline() cell {
	report, zone := r.report, r.call.Zone()
	text := counted64(report.Rows, "row")
	if !report.From.IsZero() && report.Rows > 0 {
		text += fmt.Sprintf(" from %s to %s", wallTime(report.From, zone), wallTime(report.To, zone))
	}
	overall := styleGood
	var notes []string
	note := func(n int64, what string, severity style) {
		if n > 0 {
			notes = append(notes, counted64(n, what))
			overall = worse(overall, severity)
		}
	}
	note(int64(exhaustedWindows(report)), "exhausted window", styleBad)
	note(unexpectedRefusals(report), "unexpected 429", styleBad)
	refused := int64(0)
	for _, j := range report.Jobs {
		refused += j.Refused
	}
	note(refused, "refusal", styleWarn)
	note(int64(len(report.Disagreements)), "disagreement", styleWarn)
	note(report.Journal.Duplicates, "duplicate", stylePlain)
	note(report.Journal.BadRows, "bad row", styleWarn)
	if report.Unresolved > 0 {
		notes = append(notes, counted64(report.Unresolved, "row")+" without a known account")
		overall = worse(overall, styleWarn)
	}
	if len(notes) == 0 {
		notes = append(notes, "every budget held")
	}
	return cell{text + ": " + strings.Join(notes, ", ") + ".", overall}
}

// worse is the more alarming of two styles.
func worse(a, b style) style {
	rank := map[style]int{stylePlain: 0, styleGood: 0, styleWarn: 1, styleBad: 2}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

func counted64(n int64, noun string) string {
	text := grouped(float64(n)) + " " + noun
	if n != 1 {
		text += "s"
	}
	return text
}

// fullest picks the keys with the fullest last windows; ties stay in the report's order.
func fullest(scopes []replay.Scope) (shown []replay.Scope, more int) {
	if len(scopes) <= shownScopes {
		return scopes, 0
	}
	list := slices.Clone(scopes)
	slices.SortStableFunc(list, func(a, b replay.Scope) int { return cmp.Compare(fullness(&b), fullness(&a)) })
	return list[:shownScopes], len(list) - shownScopes
}

// fullness is the highest part of a budget that any window used.
func fullness(s *replay.Scope) float64 {
	most := 0.0
	for i := range s.Windows {
		most = max(most, windowPart(&s.Windows[i]))
	}
	return most
}

func windowPart(w *replay.Window) float64 {
	if w.Usable <= 0 {
		return 1
	}
	return float64(w.Usable-w.Remaining) / float64(w.Usable)
}

func replayScopeTable(scopes []replay.Scope, zone *time.Location) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap},
		{title: "Fullest", right: true},
		{title: "Last until"},
		{title: "Used", right: true},
		{title: "Others", right: true},
		{title: "Left", right: true},
		{title: "Leads to", right: true},
		{title: "429s", right: true},
		{title: "Refused", right: true},
	}}
	for i := range scopes {
		s := &scopes[i]
		w := &s.Windows[len(s.Windows)-1]
		limited, unexpected, refused := int64(0), int64(0), int64(0)
		for j := range s.Windows {
			limited += s.Windows[j].RateLimited
			unexpected += s.Windows[j].UnexpectedRateLimited
			for _, n := range s.Windows[j].Refused {
				refused += n
			}
		}
		part := fullness(s)
		row := plain(s.Limit+" "+plaintext.Key(s.Key), fmt.Sprintf("%.0f%%", 100*part), w.End.In(zone).Format("02 Jan 15:04"),
			grouped(float64(w.Used)), grouped(float64(w.External)), grouped(float64(w.Remaining)), whole(w.ProjectedTotal), grouped(float64(limited)), grouped(float64(refused)))
		if part >= 1 {
			row[1].style = styleBad
		}
		if !w.ExhaustsAt.IsZero() {
			row[6].style = styleBad
			row[6].text += " ✗" + w.ExhaustsAt.In(zone).Format(" 15:04")
		}
		if unexpected > 0 {
			row[7].text += " (" + grouped(float64(unexpected)) + "!)"
			row[7].style = styleBad
		}
		t.rows = append(t.rows, row)
	}
	t.dropEmpty("Others", "429s", "Refused")
	return t
}

// dropEmpty takes out those of the columns that say nothing: all their cells are empty or 0. A narrow table is read, a wide one is
// not.
func (t *table) dropEmpty(titles ...string) {
	for i := len(t.columns) - 1; i >= 0; i-- {
		says := !slices.Contains(titles, t.columns[i].title)
		for _, row := range t.rows {
			says = says || row[i].text != "" && row[i].text != "0"
		}
		if says {
			continue
		}
		t.columns = slices.Delete(t.columns, i, i+1)
		for j := range t.rows {
			t.rows[j] = slices.Delete(t.rows[j], i, i+1)
		}
	}
}

func replayJobTable(r *replay.Report) *table {
	t := &table{columns: []column{
		{title: "Job", fit: fitCut},
		{title: "Account", fit: fitCut},
		{title: "Requests", right: true},
		{title: "Retries", right: true},
		{title: "Pages", right: true},
		{title: "429s", right: true},
		{title: "Refused", right: true},
		{title: "Latency", right: true},
		{title: "95%", right: true},
	}}
	oneAccount := true
	for i := range r.Jobs {
		oneAccount = oneAccount && r.Jobs[i].Account == r.Jobs[0].Account
	}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		retries := grouped(float64(j.Retries))
		if j.Retries > 0 {
			retries += fmt.Sprintf(" (%.0f%%)", 100*j.RetryRatio)
		}
		account := j.Account
		if oneAccount {
			account = ""
		}
		t.rows = append(t.rows, plain(j.Job, account, grouped(float64(j.Requests)), retries, grouped(j.PagesPerRun),
			grouped(float64(j.RateLimited)), grouped(float64(j.Refused)), latencyText(j.LatencyP50Seconds), latencyText(j.LatencyP95Seconds)))
	}
	t.dropEmpty("Account", "429s", "Refused")
	return t
}

func latencyText(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.2gs", seconds)
	}
	return fmt.Sprintf("%.3gs", seconds)
}

func forecastTable(scopes []replay.Scope, zone *time.Location) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap},
		{title: "Window ends"},
		{title: "Usable", right: true},
		{title: "P10", right: true},
		{title: "P50", right: true},
		{title: "P90", right: true},
		{title: "Chance over", right: true},
		{title: "Days", right: true},
	}}
	for i := range scopes {
		s := &scopes[i]
		f := s.Forecast
		if f == nil {
			continue
		}
		w := &s.Windows[len(s.Windows)-1]
		row := plain(s.Limit+" "+plaintext.Key(s.Key), w.End.In(zone).Format("02 Jan 15:04"), grouped(float64(w.Usable)), whole(f.P10), whole(f.P50), whole(f.P90),
			fmt.Sprintf("%.0f%%", 100*f.OverUsable), strconv.Itoa(f.HistoryDays))
		if f.OverUsable >= 0.5 {
			row[6].style = styleBad
		} else if f.OverUsable >= 0.1 {
			row[6].style = styleWarn
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// whole writes an estimate without decimals.
func whole(f float64) string { return grouped(float64(int64(f + 0.5))) }

func backtestTable(scopes []replay.Scope) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap},
		{title: "Forecasts", right: true},
		{title: "Inside P10-P90", right: true},
		{title: "Below", right: true},
		{title: "Above", right: true},
		{title: "Error of P50", right: true},
	}}
	for i := range scopes {
		s := &scopes[i]
		if b := s.Backtest; b != nil {
			t.rows = append(t.rows, plain(s.Limit+" "+plaintext.Key(s.Key), strconv.Itoa(b.Forecasts), fmt.Sprintf("%.0f%%", 100*b.Coverage()), strconv.Itoa(b.Below),
				strconv.Itoa(b.Above), fmt.Sprintf("%.1f%%", b.MedianErrorPercent)))
		}
	}
	return t
}

// changeTable holds the two sides of --set against each other.
func changeTable(head, base *replay.Report) *table {
	t := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap}, {title: "Usable", right: true}, {title: "Fullest", right: true}, {title: "Exhausted", right: true}, {title: "Refused", right: true},
	}}
	type figures struct {
		usable             int64
		fullest            float64
		exhausted, refused int64
	}
	type id struct{ provider, limit, key string }
	sides := [2]map[id]figures{}
	var order []id
	for side, report := range []*replay.Report{base, head} {
		sides[side] = make(map[id]figures)
		for i := range report.Scopes {
			s := &report.Scopes[i]
			k := id{s.Provider, s.Limit, s.Key}
			f := figures{usable: s.Windows[len(s.Windows)-1].Usable, fullest: fullness(s)}
			for j := range s.Windows {
				if s.Windows[j].Exhausted() {
					f.exhausted++
				}
				for _, n := range s.Windows[j].Refused {
					f.refused += n
				}
			}
			sides[side][k] = f
			if !slices.Contains(order, k) {
				order = append(order, k)
			}
		}
	}
	pair := func(a, b string) string {
		if a == b {
			return a
		}
		return a + " → " + b
	}
	for _, k := range order {
		b, h := sides[0][k], sides[1][k]
		if len(t.rows) >= shownScopes {
			break
		}
		row := plain(k.limit+" "+k.key, pair(grouped(float64(b.usable)), grouped(float64(h.usable))),
			pair(fmt.Sprintf("%.0f%%", 100*b.fullest), fmt.Sprintf("%.0f%%", 100*h.fullest)),
			pair(grouped(float64(b.exhausted)), grouped(float64(h.exhausted))), pair(grouped(float64(b.refused)), grouped(float64(h.refused))))
		if h.exhausted > b.exhausted || h.refused > b.refused {
			row[3].style, row[4].style = styleBad, styleBad
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// disagreementLines name what contradicts the documents, with the line to change and the rows that show it.
func (r *replayRun) disagreementLines() []cell {
	var lines []cell
	for i := range r.report.Disagreements {
		d := &r.report.Disagreements[i]
		place := ""
		if d.Place.Line > 0 {
			place = fmt.Sprintf("%s:%d: ", d.Place.File, d.Place.Line)
		}
		style := styleWarn
		if d.Kind == replay.KindUnexpected {
			style = styleBad
		}
		lines = append(lines, cell{fmt.Sprintf("%s%s [%s]", place, d.Message, d.Kind), style})
		var rows []string
		for _, e := range d.Evidence[:min(len(d.Evidence), shownEvidence)] {
			where := wallTime(e.At, r.call.Zone())
			if e.Line > 0 {
				where = fmt.Sprintf("%s:%d", fileName(r.files, e.File), e.Line)
			}
			rows = append(rows, fmt.Sprintf("%s (%d on %s)", where, e.Status, plaintext.Key(e.Key)))
		}
		lines = append(lines, cell{fmt.Sprintf("seen %s on %s, first at %s", counted64(d.Count, "time"), counted64(d.Keys, "key"), strings.Join(rows, ", ")), styleFaint})
	}
	return lines
}

func unknownLines(r *replay.Report) []cell {
	var lines []cell
	for i, u := range r.Unknown {
		if i == 10 {
			lines = append(lines, cell{fmt.Sprintf("and %d more; --format json lists them", int64(len(r.Unknown)-i)+r.MoreUnknown), styleFaint})
			break
		}
		lines = append(lines, cell{fmt.Sprintf("%s %q in %s", u.Kind, u.Name, counted64(u.Rows, "row")), stylePlain})
	}
	return lines
}

func badRowLines(r *replay.Report) []cell {
	var lines []cell
	for _, bad := range r.Journal.Bad {
		lines = append(lines, cell{bad.Error(), styleWarn})
	}
	if more := r.Journal.BadRows - int64(len(r.Journal.Bad)); more > 0 {
		lines = append(lines, cell{"and " + counted64(more, "more row"), styleFaint})
	}
	for _, warning := range r.Journal.Warnings {
		lines = append(lines, cell{warning, styleWarn})
	}
	for _, other := range []struct {
		n    int64
		what string
	}{{r.Journal.OutsideInterval, "outside of --from and --to"}, {r.AfterAt, "after --at"}, {r.Journal.OtherHosts, "of hosts that no document has"}} {
		if other.n > 0 {
			lines = append(lines, cell{counted64(other.n, "row") + " " + other.what, styleFaint})
		}
	}
	return lines
}

func explainTable(x *replay.Explanation) *table {
	t := &table{columns: []column{{title: "Limit"}, {title: "Key", fit: fitCut}, {title: "Cost", right: true}, {title: "Room"}, {title: "Just before", fit: fitWrap}}}
	for _, l := range x.Limits {
		if !l.Applies {
			t.rows = append(t.rows, plain(l.Limit, "", "", "", "does not apply: "+l.Why))
			continue
		}
		row := plain(l.Limit, plaintext.Key(l.Key), strconv.FormatInt(l.Cost, 10), "yes", l.State)
		if l.Lacks {
			row[3] = cell{"no", styleBad}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func explainLines(x *replay.Explanation, zone *time.Location) []cell {
	what := "first attempt"
	if x.Retry {
		what = "retry"
	}
	job := x.Job
	if job == "" {
		job = "no job"
	}
	lines := []cell{{fmt.Sprintf("%s %s of %s, %s, %s, at %s; may wait %s", x.Method, x.Endpoint, job, x.Priority, what, x.TS.In(zone).Format("2006-01-02 15:04:05.000 MST"),
		spanText(x.Patience.Seconds())), stylePlain}}
	for _, a := range x.Ahead {
		lines = append(lines, cell{fmt.Sprintf("ahead: row %d of %s (%s), waiting since %s on %s %s", a.Number, a.Job, a.Priority,
			a.Since.In(zone).Format("15:04:05.000"), a.Limit, plaintext.Key(a.Key)), stylePlain})
	}
	if len(x.Ahead) == 0 {
		lines = append(lines, cell{"nobody was ahead", stylePlain})
	}
	return append(lines, cell{x.Outcome, styleTitle})
}
