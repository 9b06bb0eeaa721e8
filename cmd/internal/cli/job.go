package cli

import (
	"net/http"
	"net/url"

	"github.com/urfave/cli/v2"
)

// newJobCommand is "tapyr job".
func newJobCommand() *Command {
	return &Command{
		Name:  "job",
		Usage: "pause, resume or trigger a job of a running tapyr",
		Examples: []Example{
			{Comment: "keep a job from starting; there is no tapyr here", Line: "tapyr job pause meraki-clients --address 127.0.0.1:1", Status: 2},
			{Comment: "run one now", Line: "tapyr job trigger meraki-devices --address 127.0.0.1:1", Status: 2},
		},
		Subcommands: []*Command{
			newJobOperation("pause", "keep a job from starting, until resume or the end of that tapyr",
				"Runs that are under way go on. A job that others wait for keeps its last inventory."),
			newJobOperation("resume", "let a paused job start again", "What was missed meanwhile is made up for by one run."),
			newJobOperation("trigger", "start a job now, without waiting for its turn",
				"All its instances start, apart from those that run, inside the limits like any other run. A paused job does not start."),
		},
	}
}

// newJobOperation is one of the three.
func newJobOperation(name, usage, description string) *Command {
	return &Command{
		Name: name, Usage: usage, ArgsUsage: "JOB", ArgsMin: 1, ArgsMax: 1, Description: description,
		Examples: []Example{
			{Comment: "of the tapyr that runs with these documents; there is none here", Line: "tapyr job " + name + " meraki-devices -c examples/meraki", Status: 2},
			{Comment: "at another address", Line: "tapyr job " + name + " meraki-devices --address 127.0.0.1:1", Status: 2},
		},
		Flags: []cli.Flag{addressFlag()},
		Run: func(c *Call) error {
			p, err := c.findPeer()
			if err != nil {
				return err
			}
			var started struct {
				Instances *int `json:"instances"`
			}
			job := c.Args().First()
			if err := p.ask(c.Ctx(), http.MethodPost, "/api/v1/jobs/"+url.PathEscape(job)+"/"+name, &started); err != nil {
				return err
			}
			if started.Instances != nil {
				c.Out.Printf("%s: %s started\n", job, counted(*started.Instances, "instance"))
			} else {
				c.Out.Printf("%s: %sd\n", job, name)
			}
			return nil
		},
	}
}
