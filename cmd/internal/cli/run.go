package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// newRunCommand is "tapyr run".
func newRunCommand() *Command {
	return &Command{
		Name:      "run",
		Usage:     "run the jobs, inside every limit, until it is stopped",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Starts each job at its interval, or at the one that the plan gives it, asks the limits before every request, " +
			"and keeps metrics, files, counts and a journal. SIGTERM or Ctrl-C ends it: running requests may finish, counts are " +
			"written, and the exit status is 0. SIGHUP, or a changed file, reads the documents again; where they have errors, the " +
			"old ones go on.\n\n" +
			"The status page listens on the address of status.listen, by default 127.0.0.1:9469. The state is the file of " +
			"state.path, by default ./tapyr.db; one process owns it.\n\n" +
			"A job without metrics, outputs and jobs that run over its inventory makes no calls.",
		Examples: []Example{
			{Comment: "which requests the jobs would send", Line: "tapyr run examples/meraki --dry-run"},
			{Comment: "the same of one job, and of those whose inventories it needs", Line: "tapyr run examples/aruba-central --dry-run --job central-clients"},
			{Comment: "every job once, for cron; without the key, what is missing", Line: "tapyr run examples/meraki --once", Status: 2},
		},
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "once", Usage: "run every job once, those with an inventory first, and exit with 1 if a run failed"},
			&cli.BoolFlag{Name: "dry-run", Usage: "write the requests, and send none"},
			&cli.StringSliceFlag{Name: "job", Usage: "run only the job `NAME`, and those whose inventories it needs; repeatable"},
			setFlag(), onlyFlag(), outputFlag(),
		},
		Run: runRun,
	}
}

func runRun(c *Call) error {
	if c.Bool("once") && c.Bool("dry-run") {
		return c.Usagef("--once and --dry-run exclude each other")
	}
	paths, err := c.ConfigPaths()
	if err != nil {
		return err
	}
	options := daemon.Options{
		Load: c.documentsLoader(), Log: c.Log, Getenv: c.Env.Getenv, Version: readVersion().Version, Jobs: c.StringSlice("job"),
	}
	for _, path := range paths {
		if path != "-" {
			options.Watch = append(options.Watch, path)
		}
	}
	switch {
	case c.Bool("dry-run"):
		return daemon.New(options).DryRun(c.Ctx(), printableLines{c.Out})
	case c.Bool("once"):
		err := daemon.New(options).Once(c.Ctx())
		var failed *daemon.FailedRunsError
		if errors.As(err, &failed) {
			return &BadNewsError{Summary: failed.Error()}
		}
		return err
	}
	options.Handler = statusHandler(c.Log)
	d := daemon.New(options)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, cancel := context.WithCancel(c.Ctx())
	defer cancel()
	go func() {
		for {
			select {
			case <-hangups:
				d.Reload()
			case <-ctx.Done():
				return
			}
		}
	}()
	return d.Run(c.Ctx())
}

// documentsLoader reads the documents: at the start like any command, with all findings on standard error, and for a reload with
// the first of them in the error.
func (c *Call) documentsLoader() func(context.Context) (*validate.Config, error) {
	started := false
	return func(context.Context) (*validate.Config, error) {
		if !started {
			started = true
			return c.loadChanged()
		}
		read, err := c.readDocuments()
		if err == nil {
			read, err = c.applySets(read)
		}
		if err != nil {
			return nil, err
		}
		config, problems := read.check()
		if config != nil {
			return onlyConfig(config, c.Only())
		}
		return nil, firstProblem(problems)
	}
}

// firstProblem is the first error of documents, and how many more there are.
func firstProblem(problems []schema.Problem) error {
	var first *schema.Problem
	count := 0
	for i := range problems {
		if problems[i].Severity == schema.SeverityError {
			if first == nil {
				first = &problems[i]
			}
			count++
		}
	}
	more := ""
	if count > 1 {
		more = fmt.Sprintf(" (and %s more; see \"tapyr validate\")", counted(count-1, "error"))
	}
	return fmt.Errorf("%s:%d:%d: %s [%s]%s", first.File, first.Line, first.Column, first.Message, first.Rule, more)
}
