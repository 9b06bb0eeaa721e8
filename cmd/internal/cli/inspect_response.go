package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/plaintext"
)

func newInspectResponseCommand() *Command {
	return &Command{
		Name:      "response",
		Usage:     "say what the engine reads from a response: limits, resets, penalties",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Reads the status, headers and body as the engine would, for a request that was granted in the same window: what they " +
			"teach about each quota, whether they mean that a limit was exceeded, how long and where the penalty falls, and what is " +
			"not believed.",
		Examples: []Example{
			{Comment: "a refusal", Line: "tapyr inspect response examples/meraki --status 429 --header 'Retry-After: 30' --path /organizations/1/networks"},
			{Comment: "what a success teaches, as JSON", Line: "tapyr inspect response examples/aruba-central --path /monitoring/v1/clients --status 200 --header 'X-RateLimit-Limit-day: 5000' --header 'X-RateLimit-Remaining-day: 1200' --format json"},
		},
		Flags: append(requestFlags("/"),
			&cli.IntFlag{Name: "status", Value: 200, Usage: "the response's `STATUS`; 0 for no answer"},
			&cli.StringSliceFlag{Name: "header", KeepSpace: true, Usage: "a response header, `NAME: VALUE`; repeatable"},
			&cli.StringFlag{Name: "body", Usage: "the response's body, `TEXT`"},
			atFlag(), zoneFlag(), setFlag(), formatFlag("table", "json", "markdown"), outputFlag(),
		),
		Run: runInspectResponse,
	}
}

func runInspectResponse(call *Call) error {
	config, provider, request, _, err := call.inspectedRequest()
	if err != nil {
		return err
	}
	if request.Account == "" {
		return call.Usagef("provider %s has no account; a response belongs to a request of one", provider.Name)
	}
	status := call.Int("status")
	if status < 0 || status > 999 {
		return call.Usagef("--status: %d is not a status of HTTP, or 0 for no answer", status)
	}
	response := &engine.Response{Status: status, Body: call.String("body")}
	for _, text := range call.StringSlice("header") {
		name, value, found := strings.Cut(text, ":")
		if !found || strings.TrimSpace(name) == "" {
			return call.Usagef("--header: %q is not NAME: VALUE", text)
		}
		response.Fields = append(response.Fields, engine.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	reading, err := engine.New(config, engine.Options{}).Read(call.Now().UnixNano(), &engine.Request{Request: *request}, response)
	if err != nil {
		return err
	}
	return writeReading(call, reading)
}

func writeReading(call *Call, r *engine.Reading) error {
	switch call.Format() {
	case "json":
		return call.Out.JSON(r)
	case "markdown":
		return readingReport(r, call.Zone()).writeMarkdown(call.Out)
	}
	return readingReport(r, call.Zone()).writeText(call.Out)
}

func readingReport(r *engine.Reading, zone *time.Location) *reportView {
	v := &reportView{headline: cell{"Not rate limited.", styleGood}}
	if r.RateLimited {
		v.headline = cell{fmt.Sprintf("Rate limited: no request for %s.", spanText(r.PenaltySeconds)), styleBad}
		t := &table{columns: []column{{title: "Penalty on"}, {title: "Key"}}}
		for _, p := range r.PenaltyOn {
			name := p.Limit
			if name == "" {
				name = "the account's requests that no limit covers"
			}
			t.rows = append(t.rows, plain(name, plaintext.Key(p.Key)))
		}
		v.sections = append(v.sections, section{title: "Penalty", table: t})
	}
	t := &table{columns: []column{{title: "Limit"}, {title: "Maximum", right: true}, {title: "Remaining", right: true}, {title: "Reset"}}}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return grouped(float64(*n))
	}
	for _, l := range r.Limits {
		reset := ""
		if l.ResetAt != nil {
			reset = wallTime(*l.ResetAt, zone)
		}
		t.rows = append(t.rows, plain(l.Limit, number(l.Max), number(l.Remaining), reset))
	}
	if len(t.rows) > 0 {
		v.sections = append(v.sections, section{title: "What it teaches", table: t})
	} else {
		v.sections = append(v.sections, section{title: "What it teaches", lines: []cell{{"nothing about any quota", stylePlain}}})
	}
	if len(r.Ignored) > 0 {
		var lines []cell
		for _, text := range r.Ignored {
			lines = append(lines, cell{text, styleWarn})
		}
		v.sections = append(v.sections, section{title: "Not believed", lines: lines})
	}
	return v
}
