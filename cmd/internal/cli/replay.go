package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/replay"
	"github.com/tapyr/tapyr/validate"
)

// newReplayCommand is "tapyr replay".
func newReplayCommand() *Command {
	return &Command{
		Name:      "replay",
		Usage:     "say what recorded requests did to the quotas, or what other limits would have done to them",
		ArgsUsage: "FILE...",
		ArgsMin:   1,
		ArgsMax:   -1,
		Description: "Feeds journals through the same engine as the daemon and reports, for each quota and window, what was used, by " +
			"tapyr and by others, where it led, and which responses contradict the documents, with the line to change.\n\n" +
			"FILE is any mix of journals as JSONL or CSV, state files, HAR 1.2 from a browser or proxy, Parquet, and, with --map, any " +
			"CSV or JSONL access log; plain or compressed (gzip, zstd); - is standard input. Rows may be out of order.\n\n" +
			"With --enforce the rows arrive in virtual time and the engine decides anew: which would have waited, and which would have " +
			"been refused. With --set the documents are changed first, and the report shows both sides.\n\n" +
			"The documents are those of --config, ./tapyr.yaml or ./tapyr/. Bad rows are counted and the first ten shown; --strict " +
			"makes the first one fatal. The status is 1 only for what --fail-on names.",
		Examples: []Example{
			{Comment: "a day of requests, and what they did to the quotas", Line: "tapyr replay -c examples/meraki examples/meraki/journal.jsonl"},
			{Comment: "what half the daily quota would have refused", Line: "tapyr replay -c examples/meraki examples/meraki/journal.jsonl --enforce --set provider.meraki.limits.daily.max=400"},
			{Comment: "why one row had to wait", Line: "tapyr replay -c examples/meraki examples/meraki/journal.jsonl --enforce --explain 120"},
		},
		Flags: []cli.Flag{
			instantFlag("from", "leave out rows before `TIME`"), instantFlag("to", "leave out rows at `TIME` and after"),
			&cli.GenericFlag{Name: "at", Value: &instant{}, Usage: "take `TIME` (RFC 3339) as the present", DefaultText: "the last response"},
			zoneFlag(), setFlag(), onlyFlag(),
			&cli.BoolFlag{Name: "enforce", Usage: "let the engine decide anew, in virtual time"},
			&cli.StringFlag{Name: "decisions", Usage: "with --enforce, write a line of JSON for each row into `FILE`"},
			&cli.StringFlag{Name: "explain", Usage: "explain the row `N`, or FILE:N: every limit consulted, who was ahead, and why"},
			&cli.BoolFlag{Name: "backtest", Usage: "tell how often forecasts would have held over the rows themselves"},
			&cli.StringFlag{Name: "plot", Usage: "draw the quotas into `FILE`, .svg or .png"},
			&cli.StringSliceFlag{Name: "fail-on", Usage: "exit with 1 on `WHAT`: exhausted, unexpected-429 or disagreement; repeatable"},
			&cli.StringSliceFlag{Name: "map", KeepSpace: true, Usage: "read a field of foreign files from a column: `FIELD=COLUMN`, or FIELD=\"text\"; repeatable"},
			&cli.StringFlag{Name: "provider", Usage: "the `NAME` for rows that name no provider"},
			&cli.StringFlag{Name: "account", Usage: "the `NAME` for rows that name no account; the only one, if not given"},
			&cli.GenericFlag{Name: "file-tz", Value: &zone{}, Usage: "take times without an offset to be in `ZONE`", DefaultText: "UTC"},
			&cli.BoolFlag{Name: "dedupe", Usage: "drop rows without an id that equal another in everything"},
			&cli.BoolFlag{Name: "strict", Usage: "stop at the first bad row"},
			formatFlag("table", "json", "csv", "markdown", "html"), outputFlag(),
		},
		Run: runReplay,
	}
}

// instantFlag is a flag for an instant, read with Call.instant.
func instantFlag(name, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: &instant{}, Usage: usage + " (RFC 3339)"}
}

// instant is the value of such a flag; the zero time where it was not given.
func (c *Call) instant(name string) time.Time {
	if at, ok := c.Generic(name).(*instant); ok {
		return at.time
	}
	return time.Time{}
}

// failOnChoices are the values of --fail-on.
var failOnChoices = []string{"exhausted", "unexpected-429", "disagreement"}

// curvePoints is how many points a scope's curve has in a picture.
const curvePoints = 600

// replayRun is one run of the command: its files, its sides, and what comes of them.
type replayRun struct {
	call  *Call
	files []string
	// config is that of --set; base that of the documents as they are, nil without --set.
	config, base *validate.Config
	explain      *replay.RowID
	report       *replay.Report
	baseReport   *replay.Report
}

func runReplay(call *Call) error {
	r := &replayRun{call: call, files: call.Args().Slice()}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.read(); err != nil {
		return err
	}
	if r.explain != nil && r.report.Explanation == nil {
		return call.Usagef("--explain: there is no row %d in %s, or it lies outside the interval", r.explain.Number, r.files[r.explain.File])
	}
	if err := r.write(); err != nil {
		return err
	}
	if err := call.plot(func() *chart.Figure { return chart.Replay(r.report, call.Zone()) }); err != nil {
		return err
	}
	return r.status()
}

// prepare checks the flags and reads the documents.
func (r *replayRun) prepare() error {
	call := r.call
	if call.IsSet("decisions") && !call.Bool("enforce") {
		return call.Usagef("--decisions needs --enforce: as recorded, nothing is decided")
	}
	for _, word := range call.StringSlice("fail-on") {
		if !slices.Contains(failOnChoices, word) {
			return call.Usagef("--fail-on: %q is not one of %s%s", word, strings.Join(failOnChoices, ", "), didYouMean(nearest(word, failOnChoices)))
		}
	}
	if err := r.readExplain(); err != nil {
		return err
	}
	paths, err := call.configuredPaths()
	if err != nil {
		return err
	}
	read, err := readPaths(call.Ctx(), call.Env.Stdin, paths)
	if err != nil {
		return err
	}
	if len(call.StringSlice("set")) > 0 {
		if r.base, err = call.checkDocuments(read); err != nil {
			return err
		}
		if read, err = call.applySets(read); err != nil {
			return err
		}
	}
	r.config, err = call.checkDocuments(read)
	return err
}

// readExplain reads --explain: N, or FILE:N where there are several files.
func (r *replayRun) readExplain() error {
	text := r.call.String("explain")
	if text == "" {
		return nil
	}
	id := &replay.RowID{}
	number := text
	if i := strings.LastIndex(text, ":"); i >= 0 {
		number = text[i+1:]
		if id.File = slices.Index(r.files, text[:i]); id.File < 0 {
			return r.call.Usagef("--explain: %q is not among the files%s", text[:i], didYouMean(nearest(text[:i], r.files)))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return r.call.Usagef("--explain: %q is not the number of a row, from 1, such as 120 or %s:120", text, r.files[0])
	}
	id.Number, r.explain = n, id
	return nil
}

// options say how to read the files.
func (r *replayRun) options() (journal.Options, error) {
	call := r.call
	o := journal.Options{
		From: call.instant("from"), To: call.instant("to"), Provider: call.String("provider"), Account: call.String("account"),
		Locate: replay.Locate(r.config), KeepHeader: replay.KeepHeader(r.config), State: sqlite.JournalRows,
		Dedupe: call.Bool("dedupe"), Strict: call.Bool("strict"),
	}
	if slices.Contains(r.files, "-") {
		o.Stdin = call.Stdin()
	}
	if z, ok := call.Generic("file-tz").(*zone); ok {
		o.Zone = z.location
	}
	for _, text := range call.StringSlice("map") {
		m, err := journal.ParseMapping(text)
		if err != nil {
			return o, call.Usagef("--map: %s", err)
		}
		o.Map = append(o.Map, m)
	}
	return o, r.fillAccount(&o)
}

// fillAccount stands in the only account, or that of the flags, for rows that name none.
func (r *replayRun) fillAccount(o *journal.Options) error {
	if o.Account == "" && len(r.config.Accounts) == 1 && (o.Provider == "" || o.Provider == r.config.Accounts[0].Provider.Name) {
		o.Account = r.config.Accounts[0].Name
	}
	if o.Provider != "" && r.config.Provider(o.Provider) == nil {
		return r.call.Usagef("--provider: there is no provider %q", o.Provider)
	}
	if o.Account == "" {
		return nil
	}
	a := r.config.Account(o.Account)
	if a == nil {
		return r.call.Usagef("--account: there is no account %q", o.Account)
	}
	if o.Provider == "" {
		o.Provider = a.Provider.Name
	}
	return nil
}

// read replays the files. Where rows turn out to be further out of order than fits into memory, everything begins again, sorted on
// disk.
func (r *replayRun) read() (err error) {
	options, err := r.options()
	if err != nil {
		return err
	}
	rows, err := journal.Open(r.files, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	_, total := rows.Progress()
	bar := r.call.followProgress("bytes", max(total, 0), func() int64 { done, _ := rows.Progress(); return done })
	defer bar.finish()
	var late *journal.LateRowError
	err = r.replay(r.call.Ctx(), rows)
	if errors.As(err, &late) {
		r.call.Log.Info("sorting on disk", "because", late.Error())
		if err := rows.Restart(); err != nil {
			return err
		}
		err = r.replay(r.call.Ctx(), rows)
	}
	return err
}

// replay runs all sides over the rows.
func (r *replayRun) replay(ctx context.Context, rows *journal.Reader) error {
	call := r.call
	side := replay.Options{
		Config: r.config, Files: len(r.files), From: call.instant("from"), At: call.instant("at"), Enforce: call.Bool("enforce"),
		Explain: r.explain, Forecast: true, Backtest: call.Bool("backtest"),
	}
	if call.IsSet("plot") || call.Format() == "html" {
		side.CurvePoints = curvePoints
	}
	var sink *decisionFile
	if name := call.String("decisions"); name != "" {
		var err error
		if sink, err = openDecisions(call, name, r.files); err != nil {
			return err
		}
		side.Decide = sink.write
	}
	sides := []replay.Options{side}
	if r.base != nil {
		base := side
		base.Config, base.Decide, base.Explain, base.CurvePoints = r.base, nil, nil, 0
		sides = append(sides, base)
	}
	reports, err := replay.Run(ctx, rows, sides...)
	if sink != nil {
		err = sink.close(err)
	}
	if err != nil {
		return err
	}
	r.report = reports[0]
	if len(reports) > 1 {
		r.baseReport = reports[1]
	}
	return nil
}

// status is the bad news that --fail-on asks for, or nil.
func (r *replayRun) status() error {
	for _, word := range r.call.StringSlice("fail-on") {
		switch word {
		case "exhausted":
			if n := exhaustedWindows(r.report); n > 0 {
				return &BadNewsError{Summary: counted(n, "window") + " used up the budget"}
			}
		case "unexpected-429":
			if n := unexpectedRefusals(r.report); n > 0 {
				return &BadNewsError{Summary: fmt.Sprintf("%s that no limit predicts", counted(int(n), "429"))}
			}
		case "disagreement":
			if n := len(r.report.Disagreements); n > 0 {
				return &BadNewsError{Summary: "responses contradict the documents in " + counted(n, "point")}
			}
		}
	}
	return nil
}

// exhaustedWindows counts windows in which a budget was used up.
func exhaustedWindows(report *replay.Report) (n int) {
	for i := range report.Scopes {
		for j := range report.Scopes[i].Windows {
			if report.Scopes[i].Windows[j].Exhausted() {
				n++
			}
		}
	}
	return n
}

// unexpectedRefusals counts rate-limited responses that no limit predicted.
func unexpectedRefusals(report *replay.Report) (n int64) {
	for i := range report.Disagreements {
		if d := &report.Disagreements[i]; d.Kind == replay.KindUnexpected {
			n += d.Count
		}
	}
	return n
}
