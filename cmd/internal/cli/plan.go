package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/plan/planjson"
	"github.com/tapyr/tapyr/validate"
)

// newPlanCommand is "tapyr plan".
func newPlanCommand() *Command {
	return &Command{
		Name:      "plan",
		Usage:     "say which interval each job can have, why, and when quotas would run out",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Divides the budget of every limit among the jobs that use it. Where it is not enough, the lowest priority " +
			"gives way first: its intervals are stretched until the rest fits. Critical jobs are never stretched by a quota; if " +
			"they alone do not fit, the plan is infeasible, and it says what would help.\n\n" +
			"The status is 1 if the plan is infeasible or breaks a promise of the documents (maxInterval, settings.assert); with " +
			"--base, only if it is worse than the base as well.",
		Examples: []Example{
			{Comment: "the plan of a folder of documents", Line: "tapyr plan examples/meraki --fanout meraki-organizations=3"},
			{Comment: "how many organizations would fit", Line: "tapyr plan examples/meraki --sweep fanout.meraki-organizations=1..12"},
			{Comment: "why a job gets the interval that it gets", Line: "tapyr plan examples/meraki --fanout meraki-organizations=3 --explain meraki-clients"},
			{Comment: "what another quota would change", Line: "tapyr plan examples/meraki --fanout meraki-organizations=3 --set provider.meraki.limits.daily.max=20000"},
		},
		Flags: []cli.Flag{
			fanoutFlag(), atFlag(), zoneFlag(), setFlag(), onlyFlag(),
			&cli.StringFlag{Name: "ledger", Usage: "begin with the counters of `FILE`, a state file or counters as CSV"},
			&cli.StringFlag{Name: "base", Usage: "compare with the documents at `PATH`, or at git:REV of the same paths"},
			&cli.StringFlag{Name: "sweep", Usage: "plan along `PATH=FROM..TO`, such as fanout.NAME=10..500, and say what still fits"},
			&cli.StringFlag{Name: "explain", Usage: "write down the arithmetic of `JOB`"},
			&cli.StringFlag{Name: "schedule", Usage: "list the start times in `T1..T2` (RFC 3339)"},
			&cli.BoolFlag{Name: "worst-window", Usage: "plan for the longest window of the coming year: 31 days, 25 hours"},
			&cli.BoolFlag{Name: "no-reclaim", Usage: "leave out the second pass, which gives unused room back"},
			&cli.StringFlag{Name: "plot", Usage: "draw the plan into `FILE`, .svg or .png"},
			formatFlag("table", "json", "csv", "markdown", "html"), outputFlag(),
		},
		Run: runPlan,
	}
}

func runPlan(call *Call) error {
	if err := call.onlyOneOf("base", "sweep", "explain", "schedule"); err != nil {
		return err
	}
	if err := call.checkPlot(); err != nil {
		return err
	}
	config, err := call.loadChanged()
	if err != nil {
		return err
	}
	in, err := call.planInput(config)
	if err != nil {
		return err
	}
	switch {
	case call.IsSet("base"):
		return runPlanDiff(call, in)
	case call.IsSet("sweep"):
		return runPlanSweep(call, in)
	case call.IsSet("explain"):
		return runPlanExplain(call, in)
	case call.IsSet("schedule"):
		return runPlanSchedule(call, in)
	}
	p := plan.Make(in)
	var remedies []plan.Remedy
	if !p.Feasible {
		bar := call.startProgress("plans", 0)
		remedies = plan.Remedies(in, p, func() { bar.Add(1) })
		bar.finish()
	}
	if err := writePlan(call, p, remedies); err != nil {
		return err
	}
	if err := call.plot(func() *chart.Figure { return chart.Plan(p) }); err != nil {
		return err
	}
	return planStatus(p)
}

// onlyOneOf refuses flags that each make a report of their own.
func (c *Call) onlyOneOf(names ...string) error {
	var set []string
	for _, name := range names {
		if c.IsSet(name) {
			set = append(set, "--"+name)
		}
	}
	if len(set) > 1 {
		return c.Usagef("%s do not go together; give one of them", join(set, "and"))
	}
	return nil
}

func (c *Call) planInput(config *validate.Config) (plan.Input, error) {
	sizes, err := c.fanout(config)
	if err != nil {
		return plan.Input{}, err
	}
	in := plan.Input{Config: config, At: c.Now(), Fanout: sizes, NoReclaim: c.Bool("no-reclaim"), WorstWindow: c.Bool("worst-window"), Zone: c.Zone()}
	if file := c.String("ledger"); file != "" {
		var counters []foreignCounter
		if in.State, counters, err = readPlanState(c.Ctx(), file, config, in.At); err != nil {
			return plan.Input{}, err
		}
		if counters != nil {
			c.noteDoubtful(file, counters, plan.Make(in), config)
		}
	}
	return in, nil
}

// planStatus is the bad news of a plan, or nil.
func planStatus(p *plan.Plan) error {
	if p.Holds() {
		return nil
	}
	if !p.Feasible {
		return &BadNewsError{Summary: "the plan is infeasible"}
	}
	return &BadNewsError{Summary: "the plan breaks a promise of the documents"}
}

// checkPlot refuses a name of --plot that says no format, before anything is printed.
func (c *Call) checkPlot() error {
	if name := c.String("plot"); name != "" {
		if _, err := chart.FormatOf(name); err != nil {
			return c.Usagef("--plot: %s", err)
		}
	}
	return nil
}

// plot draws into the file of --plot, where it is given.
func (c *Call) plot(figure func() *chart.Figure) error {
	name := c.String("plot")
	if name == "" {
		return nil
	}
	format, err := chart.FormatOf(name)
	if err != nil {
		return c.Usagef("--plot: %s", err)
	}
	out, err := c.Env.openOutput(name, false)
	if err != nil {
		return err
	}
	if err := figure().Write(out, format); err != nil {
		_ = out.Discard() // the first error is the one to report
		return fmt.Errorf("cannot draw %s: %w", name, err)
	}
	return out.Close()
}

// writePlan writes a plan in the format asked for.
func writePlan(call *Call, p *plan.Plan, remedies []plan.Remedy) error {
	switch call.Format() {
	case "json":
		return call.Out.JSON(planjson.Of(p, remedies))
	case "csv":
		return planCSV(p).writeCSV(call.Out)
	case "markdown":
		return planReportOf(p, remedies, call.Zone()).writeMarkdown(call.Out)
	case "html":
		return writePlanHTML(call, p, remedies)
	}
	return planReportOf(p, remedies, call.Zone()).writeText(call.Out)
}
