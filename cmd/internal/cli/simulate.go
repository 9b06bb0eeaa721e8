package cli

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate"
)

// newSimulateCommand is "tapyr simulate".
func newSimulateCommand() *Command {
	return &Command{
		Name:  "simulate",
		Usage: "rehearse a day in a second, or serve a vendor that enforces its limits",
		Examples: []Example{
			{Comment: "a day of a folder of documents", Line: "tapyr simulate run examples/meraki --fanout meraki-organizations=3"},
			{Comment: "a vendor to point any client at, for a moment", Line: "tapyr simulate serve examples/meraki --listen 127.0.0.1:0 --for 100ms"},
		},
		Subcommands: []*Command{newSimulateRunCommand(), newSimulateServeCommand()},
	}
}

func newSimulateRunCommand() *Command {
	return &Command{
		Name:      "run",
		Usage:     "play planner, scheduler, engine and the vendor's limits in virtual time",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Plays what tapyr run would do from --at on, against a vendor with the declared limits, and reports what was sent, " +
			"how long requests waited, what was refused and why, and what became of the plan. The same seed gives the same report, to " +
			"the byte.\n\n" +
			"With --seeds, many scenarios are played, each with random faults unless faults are given, until one breaks an invariant: " +
			"that no limit is exceeded by what tapyr sends, nothing is lost, nobody starves. It is then made as short as it gets.\n\n" +
			"The status is 1 if an invariant breaks, or if the last plan is infeasible.",
		Examples: []Example{
			{Comment: "a day, with somebody else on the same quota", Line: "tapyr simulate run examples/aruba-central --external 1/m --seed 7"},
			{Comment: "what if the vendor halves the quota at noon", Line: "tapyr simulate run examples/aruba-central --at 2026-11-30T00:00:00Z --limit-change 12h:provider.aruba-central.limits.daily.max=4000"},
			{Comment: "look for trouble in many ways", Line: "tapyr simulate run examples/meraki --duration 1h --seeds 20"},
		},
		Flags: append([]cli.Flag{
			fanoutFlag(), atFlag(), zoneFlag(), setFlag(), onlyFlag(),
			&cli.StringFlag{Name: "duration", Value: "24h", Usage: "play `SPAN` of time, such as 24h or 7d"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "the `NUMBER` that decides everything random"},
			&cli.IntFlag{Name: "seeds", Usage: "play `N` scenarios, from --seed on, until one breaks an invariant"},
			&cli.StringFlag{Name: "plot", Usage: "draw the use of the quotas and the intervals into `FILE`, .svg or .png"},
			formatFlag("table", "json", "csv", "markdown", "html"), outputFlag(),
		}, faultFlags()...),
		Run: runSimulateRun,
	}
}

// faultFlags are what may go wrong, read with Call.faults.
func faultFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "latency", Usage: "how long answers take: `D±J`, such as 50ms±20ms (or 50ms+-20ms)"},
		&cli.StringFlag{Name: "errors", Usage: "answer this `PART` with 503, such as 1%"},
		&cli.StringFlag{Name: "external", Usage: "another client uses the same credentials at this `RATE`, such as 30/m"},
		&cli.StringFlag{Name: "clock-skew", Usage: "the vendor's clock is ahead by `D`; -2s: behind"},
		&cli.StringSliceFlag{Name: "limit-change", KeepSpace: true, Usage: "the vendor replaces a maximum or a rate: `TIME:PATH=N`, such as 12h:provider.meraki.limits.daily.max=5000 or 1m:provider.meraki.limits.org-rate.rate=5/s; repeatable"},
		&cli.StringFlag{Name: "faults", Usage: "a `LIST` of these and of resets, slow, missing, lying, curt, spurious (parts) and pages (a factor), such as resets=1%,missing=20%"},
	}
}

// faults reads the flags of faultFlags.
func (c *Call) faults(config *validate.Config, begin time.Time) (simulate.Faults, error) {
	f, err := simulate.ParseFaults(c.String("faults"), begin)
	if err != nil {
		return f, c.Usagef("--faults: %s", err)
	}
	for _, one := range []struct{ flag, fault string }{{"latency", "latency"}, {"errors", "errors"}, {"external", "external"}, {"clock-skew", "skew"}} {
		if c.IsSet(one.flag) {
			if err := f.Set(one.fault, c.String(one.flag)); err != nil {
				return f, c.Usagef("--%s: %s", one.flag, err)
			}
		}
	}
	for _, text := range c.StringSlice("limit-change") {
		change, err := simulate.ParseLimitChange(text, begin)
		if err != nil {
			return f, c.Usagef("--limit-change: %s", err)
		}
		f.Changes = append(f.Changes, change)
	}
	if err := f.Check(config); err != nil {
		return f, c.Usagef("%s", err)
	}
	return f, nil
}

// longestSimulation keeps a slip of the pen from filling the memory.
const longestSimulation = 366 * 24 * time.Hour

// mostSimulated is of how many instances, each of which takes some five kilobytes while it is played: so at most about a gigabyte.
const mostSimulated = 200_000

// simulated is how many instances a scenario plays, and items that no job runs over, which are held just as well.
func simulated(s simulate.Scenario) int64 {
	n := int64(0)
	instances := make(map[string]int64)
	p := plan.Make(plan.Input{Config: s.Config, At: s.Start, Fanout: s.Fanout})
	for i := range p.Jobs {
		instances[p.Jobs[i].Job] = p.Jobs[i].Instances
		n += min(p.Jobs[i].Instances, schema.MostItems) // of which a sum cannot overflow
	}
	parents := make(map[*validate.Job]bool)
	for _, j := range s.Config.Jobs {
		parents[j.Parent] = true
	}
	for _, j := range s.Config.Jobs {
		if j.Spec.Inventory == nil || parents[j] {
			continue
		}
		items, given := s.Fanout[j.Name]
		if e := j.Spec.Estimate; !given && e != nil && e.Items != nil {
			items = schema.MostItems // where the product is even more
			if of := max(1, instances[j.Name]); *e.Items < items/of {
				items = *e.Items * of
			}
		}
		n += items
	}
	return n
}

// scenario reads what is to be played.
func (c *Call) scenario() (simulate.Scenario, error) {
	config, err := c.loadChanged()
	if err != nil {
		return simulate.Scenario{}, err
	}
	s := simulate.Scenario{Config: config, Start: c.Now(), Seed: c.Uint64("seed")}
	d, err := schema.ParseDuration(c.String("duration"))
	if err != nil {
		return s, c.Usagef("--duration: %s", err)
	}
	s.Duration = time.Duration(d)
	if s.Duration < time.Second || s.Duration > longestSimulation {
		return s, c.Usagef("--duration: %s is not between 1s and 366d", d)
	}
	if s.Fanout, err = c.fanout(config); err != nil {
		return s, err
	}
	if n := simulated(s); n > mostSimulated {
		return s, c.Usagef("the documents and --fanout make %s instances and items, at most %s can be simulated; narrow them with --only or a smaller --fanout",
			grouped(float64(n)), grouped(mostSimulated))
	}
	s.Faults, err = c.faults(config, s.Start)
	return s, err
}

func runSimulateRun(call *Call) error {
	s, err := call.scenario()
	if err != nil {
		return err
	}
	if call.IsSet("seeds") {
		return runSimulateSeeds(call, s)
	}
	r := simulate.Run(s)
	if err := writeSimulation(call, r); err != nil {
		return err
	}
	if err := call.plot(func() *chart.Figure { return chart.Simulation(r, call.Zone()) }); err != nil {
		return err
	}
	switch {
	case r.Broken > 0:
		return &BadNewsError{Summary: fmt.Sprintf("an invariant broke: %s", r.Violations[0].Message)}
	case r.Last != nil && !r.Last.Feasible:
		return &BadNewsError{Summary: "the last plan is infeasible"}
	}
	return nil
}

// writeSimulation writes a report in the format asked for.
func writeSimulation(call *Call, r *simulate.Report) error {
	switch call.Format() {
	case "json":
		return call.Out.JSON(simulationJSONOf(r))
	case "csv":
		return simulationCSV(r).writeCSV(call.Out)
	case "markdown":
		return simulationView(r, call.Zone()).writeMarkdown(call.Out)
	case "html":
		return writeHTML(call.Out, "Simulation", simulationView(r, call.Zone()), chart.Simulation(r, call.Zone()))
	}
	return simulationView(r, call.Zone()).writeText(call.Out)
}

// mostSeeds bounds --seeds.
const mostSeeds = 1_000_000

// runSimulateSeeds looks for a scenario that breaks an invariant.
func runSimulateSeeds(call *Call, s simulate.Scenario) error {
	n := call.Int("seeds")
	if n < 1 || n > mostSeeds {
		return call.Usagef("--seeds: %d is not a number from 1 to %d", n, mostSeeds)
	}
	if f := call.Format(); f != "table" && f != "json" || call.IsSet("plot") {
		return call.Usagef("--seeds writes table or json, and draws nothing")
	}
	bar := call.startProgress("scenarios", int64(n))
	found := simulate.Hunt(s, n, func() { bar.Add(1) })
	bar.finish()
	if call.Format() == "json" {
		if err := call.Out.JSON(huntJSONOf(s, n, found)); err != nil {
			return err
		}
	} else {
		writeHunt(call, s, n, found)
	}
	if found != nil {
		return &BadNewsError{Summary: fmt.Sprintf("seed %d breaks an invariant", found.Scenario.Seed)}
	}
	return nil
}

func writeHunt(call *Call, s simulate.Scenario, n int, found *simulate.Found) {
	if found == nil {
		call.Out.Printf("%s\n", call.Out.paint(styleGood, fmt.Sprintf("%s from %d on break no invariant.", counted(n, "seed"), s.Seed)))
		return
	}
	one := found.Scenario
	call.Out.Printf("%s\n", call.Out.paint(styleBad, fmt.Sprintf("Seed %d breaks an invariant: %s.", one.Seed, found.Violation.Invariant)))
	call.Out.Printf("  at %s: %s\n\n", found.Violation.At.In(call.Zone()).Format(time.RFC3339Nano), found.Violation.Message)
	call.Out.Printf("The shortest that still does, beside the same documents, --set and --fanout:\n")
	call.Out.Printf("  tapyr simulate run --at %s --duration %s --seed %d%s\n", one.Start.UTC().Format(time.RFC3339Nano),
		schema.Duration(one.Duration), one.Seed, faultsFlag(&one.Faults))
}

func faultsFlag(f *simulate.Faults) string {
	if text := f.String(); text != "" {
		return " --faults '" + text + "'"
	}
	return ""
}
