package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// sweepPoints is how many plans a sweep shows; what still fits is found exactly, whatever the points are.
const sweepPoints = 21

// runPlanExplain writes down the arithmetic of one job.
func runPlanExplain(call *Call, in plan.Input) error {
	name := call.String("explain")
	if call.Format() == "json" {
		in.Zone = nil // machine formats are in UTC
	}
	lines, ok := plan.Explain(in, name)
	if !ok {
		return call.Usagef("--explain: there is no job %q%s", name, schema.DidYouMeanOneOf(name, jobNames(in.Config)))
	}
	switch call.Format() {
	case "json":
		return call.Out.JSON(map[string]any{"job": name, "lines": lines})
	case "table":
		for _, line := range lines {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			for i, part := range wrapText(strings.TrimLeft(line, " "), call.Out.Columns()-len(indent)-2) {
				if i > 0 {
					part = "  " + part
				}
				call.Out.Printf("%s\n", strings.TrimRight(indent+part, " "))
			}
		}
		return nil
	}
	return call.Usagef("--explain writes table or json, not %s", call.Format())
}

// runPlanSweep plans along one figure.
func runPlanSweep(call *Call, in plan.Input) error {
	variable, from, to, err := plan.ParseSweep(call.String("sweep"))
	if err != nil {
		return call.Usagef("--%s", err)
	}
	if err := checkSweep(call, in, variable); err != nil {
		return err
	}
	bar := call.startProgress("plans", 0)
	s := variable.Run(in, from, to, sweepPoints, func() { bar.Add(1) })
	bar.finish()
	if err := call.plot(func() *chart.Figure { return chart.Sweep(s) }); err != nil {
		return err
	}
	switch call.Format() {
	case "json":
		err = call.Out.JSON(sweepJSONOf(s))
	case "csv":
		err = sweepTable(s).writeCSV(call.Out)
	case "markdown":
		err = sweepReportOf(s).writeMarkdown(call.Out)
	case "html":
		return call.Usagef("--sweep writes table, json, csv or markdown, not html")
	default:
		err = sweepReportOf(s).writeText(call.Out)
	}
	if err == nil && math.IsNaN(s.Fits) {
		return &BadNewsError{Summary: "no value in the range fits"}
	}
	return err
}

// checkSweep refuses a variable that names what is not there.
func checkSweep(call *Call, in plan.Input, v plan.Variable) error {
	parts := strings.Split(v.Path, ".")
	switch parts[0] {
	case "fanout":
		if problem := noInventory(in.Config, parts[1]); problem != "" {
			return call.Usagef("--sweep: %s", problem)
		}
		if _, given := in.Fanout[parts[1]]; given {
			return call.Usagef("--sweep varies the size that --fanout %s fixes; leave one of them out", parts[1])
		}
	case "job":
		if in.Config.Job(parts[1]) == nil {
			return call.Usagef("--sweep: there is no job %q%s", parts[1], schema.DidYouMeanOneOf(parts[1], jobNames(in.Config)))
		}
	case "account":
		if in.Config.Account(parts[1]) == nil {
			var names []string
			for _, a := range in.Config.Accounts {
				names = append(names, a.Name)
			}
			return call.Usagef("--sweep: there is no account %q%s", parts[1], schema.DidYouMeanOneOf(parts[1], names))
		}
	case "provider":
		if p := in.Config.Provider(parts[1]); p == nil || p.Limit(parts[3]) == nil {
			return call.Usagef("--sweep: there is no limit %q%s", parts[1]+"/"+parts[3], schema.DidYouMeanOneOf(parts[1]+"/"+parts[3], limitNames(in.Config)))
		}
	}
	return nil
}

// limitNames are all limits, as PROVIDER/LIMIT.
func limitNames(config *validate.Config) []string {
	var names []string
	for _, p := range config.Providers {
		for _, l := range p.Limits {
			names = append(names, p.Name+"/"+l.Spec.Name)
		}
	}
	return names
}

type sweepJSON struct {
	Path        string           `json:"path"`
	Fits        *float64         `json:"fits"`
	Unstretched *float64         `json:"unstretched"`
	Points      []sweepPointJSON `json:"points"`
}

type sweepPointJSON struct {
	Value        float64            `json:"value"`
	Feasible     bool               `json:"feasible"`
	Holds        bool               `json:"holds"`
	Stretch      float64            `json:"stretch"`
	StretchByJob map[string]float64 `json:"stretchByJob"`
	Headroom     float64            `json:"headroom"`
}

func sweepJSONOf(s *plan.Sweep) sweepJSON {
	out := sweepJSON{Path: s.Variable.Path, Fits: numberOrNil(s.Fits), Unstretched: numberOrNil(s.Unstretched)}
	for _, p := range s.Points {
		out.Points = append(out.Points, sweepPointJSON{rounded(p.Value), p.Feasible, p.Holds, rounded(p.Stretch), p.StretchByJob, rounded(p.Headroom)})
	}
	return out
}

func sweepReportOf(s *plan.Sweep) *reportView {
	end := "largest"
	if !s.Variable.MoreIsWorse {
		end = "smallest"
	}
	headline := cell{fmt.Sprintf("No value of %s in the range fits.", s.Variable.Path), styleBad}
	if !math.IsNaN(s.Fits) {
		headline = cell{fmt.Sprintf("The %s %s that fits is %s", end, s.Variable.Path, sweepValue(s.Variable, s.Fits)), styleGood}
		if math.IsNaN(s.Unstretched) {
			headline.text += "; without stretch none fits."
		} else {
			headline.text += fmt.Sprintf("; without stretch %s.", sweepValue(s.Variable, s.Unstretched))
		}
	}
	return &reportView{headline: headline, sections: []section{{title: "Plans along " + s.Variable.Path, table: sweepTable(s)}}}
}

func sweepTable(s *plan.Sweep) *table {
	t := &table{columns: []column{{title: "Value", right: true}, {title: "Fits"}, {title: "Largest stretch", right: true}, {title: "Smallest headroom", right: true}}}
	for _, p := range s.Points {
		row := plain(sweepValue(s.Variable, p.Value), "yes", twoDigits(p.Stretch), percentOf(p.Headroom))
		switch {
		case !p.Feasible:
			row[1] = cell{"no, over budget", styleBad}
		case !p.Holds:
			row[1] = cell{"no, breaks a promise", styleBad}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func sweepValue(v plan.Variable, value float64) string {
	if strings.HasSuffix(v.Path, ".interval") {
		return spanText(value)
	}
	return grouped(value)
}

const (
	// mostStarts is how many start times are listed.
	mostStarts = 10_000
	// mostScheduled is of how many instances: all phases must be known before the first start is.
	mostScheduled = 1_000_000
)

// runPlanSchedule lists when runs would start.
func runPlanSchedule(call *Call, in plan.Input) error {
	first, last, ok := strings.Cut(call.String("schedule"), "..")
	from, err := time.Parse(time.RFC3339Nano, first)
	var to time.Time
	if err == nil {
		to, err = time.Parse(time.RFC3339Nano, last)
	}
	if !ok || err != nil || !to.After(from) {
		return call.Usagef("--schedule: %q is not T1..T2, as 2026-11-30T00:00:00Z..2026-11-30T01:00:00Z", call.String("schedule"))
	}
	p := plan.Make(in)
	instances := int64(0)
	for i := range p.Jobs {
		instances += p.Jobs[i].Instances
	}
	if instances > mostScheduled {
		return call.Usagef("--schedule: the plan has %s instances, at most %s can be scheduled; narrow it with --only or --fanout", grouped(float64(instances)), grouped(mostScheduled))
	}
	starts, more := p.Starts(from, to, mostStarts)
	if more {
		call.Note("only the first %d starts are listed; name a shorter span", mostStarts)
	}
	t := &table{columns: []column{{title: "Start"}, {title: "Job", fit: fitCut}, {title: "Instance", fit: fitCut}}}
	for _, s := range starts {
		t.rows = append(t.rows, plain(s.At.In(call.Zone()).Format("2006-01-02 15:04:05.000 MST"), s.Job, s.Instance))
	}
	switch call.Format() {
	case "json":
		return call.Out.JSON(map[string]any{"starts": startsJSON(starts), "more": more})
	case "csv":
		for i, s := range starts {
			t.rows[i][0].text = s.At.UTC().Format(time.RFC3339Nano)
		}
		return t.writeCSV(call.Out)
	case "markdown":
		return t.writeMarkdown(call.Out)
	case "table":
		return t.writeText(call.Out)
	}
	return call.Usagef("--schedule writes table, json, csv or markdown, not %s", call.Format())
}

type startJSON struct {
	At       time.Time `json:"at"`
	Job      string    `json:"job"`
	Instance string    `json:"instance"`
}

func startsJSON(starts []plan.Start) []startJSON {
	out := make([]startJSON, 0, len(starts))
	for _, s := range starts {
		out = append(out, startJSON{s.At.UTC(), s.Job, s.Instance})
	}
	return out
}
