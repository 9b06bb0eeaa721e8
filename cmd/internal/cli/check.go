package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/validate"
)

// newCheckCommand is "tapyr check".
func newCheckCommand() *Command {
	return &Command{
		Name:      "check",
		Usage:     "send one request of an account: do the credentials work, and what do the headers teach",
		ArgsUsage: "ACCOUNT",
		ArgsMin:   1, ArgsMax: 1,
		Description: "Sends the request of the account's first job that needs no inventory, follows redirects as \"tapyr run\" would, " +
			"and tells which limits the call takes of, which of the answer's headers they read, and what they read there. Nothing " +
			"is kept. A redirect or a token request is a call of its own.",
		Examples: []Example{
			{Comment: "which request that would be", Line: "tapyr check acme-meraki -c examples/meraki --dry-run"},
			{Comment: "without the key this says which variable is missing", Line: "tapyr check acme-meraki -c examples/meraki", Status: 2},
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "job", Usage: "send the request of the job `NAME`"},
			&cli.BoolFlag{Name: "dry-run", Usage: "write the request, and do not send it"},
			setFlag(), formatFlag("table", "json"), outputFlag(),
		},
		Run: runCheck,
	}
}

func runCheck(c *Call) error {
	config, err := c.configuredDocuments()
	if err != nil {
		return err
	}
	job, err := daemon.CheckJob(config, c.Args().First(), c.String("job"))
	if err != nil {
		return err
	}
	options := daemon.Options{Log: c.Log, Getenv: c.Env.Getenv, Version: readVersion().Version}
	if c.Bool("dry-run") {
		line, err := daemon.DryLine(job)
		if err != nil {
			return err
		}
		c.Out.Printf("%s\n", line)
		return nil
	}
	result, err := daemon.New(options).Check(c.Ctx(), config, job)
	if err != nil {
		return err
	}
	if c.Format() == "json" {
		err = c.Out.JSON(result)
	} else {
		err = writeCheck(c.Out, result)
	}
	if err == nil && !result.OK {
		return &BadNewsError{Summary: fmt.Sprintf("account %q does not work", result.Account)}
	}
	return err
}

// configuredDocuments are those of --config or the defaults: the arguments are something else.
func (c *Call) configuredDocuments() (*validate.Config, error) {
	paths, err := c.configuredPaths()
	if err != nil {
		return nil, err
	}
	read, err := readPaths(c.Ctx(), c.Env.Stdin, paths)
	if err == nil {
		read, err = c.applySets(read)
	}
	if err != nil {
		return nil, err
	}
	return c.checkDocuments(read)
}

func writeCheck(out *Output, r *daemon.CheckResult) error {
	view := reportView{headline: cell{fmt.Sprintf("%s works: %s %s was answered with %d in %.0f ms", r.Account, r.Method, r.URL, r.Status, r.LatencySeconds*1000), styleGood}}
	if !r.OK {
		view.headline = cell{fmt.Sprintf("%s does not work: %s %s: %s", r.Account, r.Method, r.URL, r.Error), styleBad}
	}
	var remarks []cell
	for _, to := range r.Redirects {
		remarks = append(remarks, cell{text: "redirected to " + to})
	}
	if r.Items >= 0 {
		remarks = append(remarks, cell{text: fmt.Sprintf("the page holds %s", counted(r.Items, "item"))})
	}
	if len(remarks) > 0 {
		view.sections = append(view.sections, section{lines: remarks})
	}
	view.sections = append(view.sections, section{title: "Limits that the call takes of", table: checkLimits(r)})
	headers := &table{columns: []column{{title: "header", fit: fitCut}, {title: "value", fit: fitWrap}}}
	for _, name := range r.HeaderNames() {
		headers.rows = append(headers.rows, plain(name, r.Headers[name]))
	}
	if len(headers.rows) > 0 {
		view.sections = append(view.sections, section{title: "Headers that limits read", table: headers})
	} else {
		view.sections = append(view.sections, section{title: "Headers that limits read", lines: []cell{{text: "none was in the answer"}}})
	}
	if r.Reading != nil && len(r.Reading.Ignored) > 0 {
		view.sections = append(view.sections, section{title: "Not believed", lines: []cell{{strings.Join(r.Reading.Ignored, "; "), styleWarn}}})
	}
	return view.writeText(out)
}

// checkLimits lists the limits with what the answer says of them.
func checkLimits(r *daemon.CheckResult) *table {
	t := &table{columns: []column{
		{title: "limit", fit: fitCut},
		{title: "kind"},
		{title: "key", fit: fitCut},
		{title: "cost", right: true},
		{title: "max told", right: true},
		{title: "remaining told", right: true},
		{title: "reset told"},
	}}
	for _, met := range r.Limits {
		row := plain(met.Limit, met.Kind, plaintext.Key(met.Key), fmt.Sprint(met.Cost), "-", "-", "-")
		if r.Reading != nil {
			for _, told := range r.Reading.Limits {
				if told.Limit != met.Limit {
					continue
				}
				if told.Max != nil {
					row[4].text = fmt.Sprint(*told.Max)
				}
				if told.Remaining != nil {
					row[5].text = fmt.Sprint(*told.Remaining)
				}
				if told.ResetAt != nil {
					row[6].text = told.ResetAt.UTC().Format("2006-01-02T15:04:05Z")
				}
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}
