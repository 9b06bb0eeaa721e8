package cli

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/smartflow"
)

// newSmartflowCommand is "tapyr smartflow".
func newSmartflowCommand() *Command {
	return &Command{
		Name:  "smartflow",
		Usage: "check the Meraki Smart Flow limiter, and ask what it learned",
		Examples: []Example{
			{Comment: "the limiter against the published vectors", Line: "tapyr smartflow conform testdata/vectors/smartflow-vectors.json"},
			{Comment: "which organization pays for a URL", Line: "tapyr smartflow resolve /networks/N_24329156/clients --cache examples/meraki/smartflow-cache.json"},
		},
		Subcommands: []*Command{newSmartflowConformCommand(), newSmartflowResolveCommand()},
	}
}

func newSmartflowConformCommand() *Command {
	return &Command{
		Name:      "conform",
		Usage:     "run conformance vectors of the limiter",
		ArgsUsage: "FILE...",
		ArgsMin:   1,
		ArgsMax:   -1,
		Description: "Reads the vectors that are published with the specification, and recorded sequences; which form a file has is " +
			"found out. Nothing is skipped: what is not known is a failure. The status is 1 if anything differs.",
		Examples: []Example{
			{Comment: "both forms", Line: "tapyr smartflow conform testdata/vectors/smartflow-vectors.json testdata/vectors/smartflow-sequences.json"},
			{Comment: "as a table", Line: "tapyr smartflow conform testdata/vectors/smartflow-vectors.json --format table"},
		},
		Flags: []cli.Flag{formatFlag("json", "table"), outputFlag()},
		Run:   runSmartflowConform,
	}
}

func runSmartflowConform(call *Call) error {
	total := smartflow.Report{Failures: []smartflow.Failure{}}
	for _, name := range call.Args().Slice() {
		data, err := readFile(call.Ctx(), call.Env.Stdin, name)
		if err != nil {
			return err
		}
		report := smartflow.Conform(name, data)
		total.Cases += report.Cases
		total.Failures = append(total.Failures, report.Failures...)
	}
	if err := writeSmartflowReport(call, total); err != nil {
		return err
	}
	if len(total.Failures) > 0 {
		return &BadNewsError{Summary: counted(len(total.Failures), "failure") + ": a case differs from what the limiter does, or cannot be run"}
	}
	return nil
}

func writeSmartflowReport(call *Call, r smartflow.Report) error {
	if call.Format() == "json" {
		return call.Out.JSON(r)
	}
	call.Out.Printf("%d cases, %s\n", r.Cases, counted(len(r.Failures), "failure"))
	if len(r.Failures) == 0 {
		return nil
	}
	t := &table{columns: []column{{title: "File", fit: fitCut}, {title: "Case", fit: fitCut}, {title: "Differs", fit: fitWrap}}}
	for _, f := range r.Failures {
		t.rows = append(t.rows, plain(f.File, f.Case, f.Message))
	}
	return t.writeText(call.Out)
}

func newSmartflowResolveCommand() *Command {
	return &Command{
		Name:      "resolve",
		Usage:     "say which organization a URL belongs to, by what a cache file holds",
		ArgsUsage: "URL",
		ArgsMin:   1,
		ArgsMax:   1,
		Description: "The organization is read out of the URL, or looked up for the network or device that the URL names. The status " +
			"is 1 if it is not known. The cache file is not changed.",
		Examples: []Example{
			{Comment: "a network that the cache knows", Line: "tapyr smartflow resolve /networks/N_24329156/clients --cache examples/meraki/smartflow-cache.json"},
			{Comment: "the URL says it itself", Line: "tapyr smartflow resolve https://api.meraki.com/api/v1/organizations/549236/networks --format json"},
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cache", Usage: "the cache `FILE`"},
			formatFlag("table", "json"), outputFlag(),
		},
		Run: runSmartflowResolve,
	}
}

func runSmartflowResolve(call *Call) error {
	config := smartflow.Config{CacheTTL: -1, Warn: func(err error) { call.Note("warning: %s", err) }}
	if path := call.String("cache"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("cannot read %s: %w", path, cause(err))
		}
		config.Cache = smartflow.FileCache{Path: path}
	}
	limiter, err := smartflow.New(config)
	if err != nil {
		return err
	}
	organization, known := limiter.Resolve(call.Args().First())
	if closeErr := limiter.Close(); closeErr != nil {
		return closeErr
	}
	if call.Format() == "json" {
		err = call.Out.JSON(map[string]any{"url": call.Args().First(), "organization": organization, "known": known})
	} else if known {
		call.Out.Printf("%s\n", organization)
	}
	if err == nil && !known {
		return &BadNewsError{Summary: fmt.Sprintf("the organization of %q is not known", call.Args().First())}
	}
	return err
}
