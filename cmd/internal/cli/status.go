package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
)

// watchInterval is how often --watch looks again.
const watchInterval = 2 * time.Second

// newStatusCommand is "tapyr status".
func newStatusCommand() *Command {
	return &Command{
		Name:  "status",
		Usage: "show what a running tapyr does",
		Description: "Asks the tapyr that runs at the address of status.listen, or of --address, for its accounts, quotas and jobs. " +
			"The exit status is 1 where an account fails, the plan does not hold, the state cannot be written, or new documents were " +
			"refused.",
		Examples: []Example{
			{Comment: "of the tapyr that runs with these documents; there is none here", Line: "tapyr status -c examples/meraki", Status: 2},
			{Comment: "at another address, for a script", Line: "tapyr status --address 127.0.0.1:1 --format json", Status: 2},
		},
		Flags: []cli.Flag{
			addressFlag(),
			&cli.BoolFlag{Name: "watch", Usage: "show it again every two seconds, until it is interrupted"},
			formatFlag("table", "json"), zoneFlag(), outputFlag(),
		},
		Run: runStatus,
	}
}

func addressFlag() cli.Flag {
	return &cli.StringFlag{Name: "address", Usage: "ask the tapyr at `HOST:PORT`", DefaultText: "status.listen of the documents, or 127.0.0.1:9469"}
}

// peer is a tapyr that runs.
type peer struct {
	address, token string
}

// findPeer tells where the daemon of the documents listens.
func (c *Call) findPeer() (*peer, error) {
	p := &peer{address: "127.0.0.1:9469"}
	_, err := c.configuredPaths()
	if err != nil && c.String("address") == "" && len(c.StringSlice(configFlagName)) > 0 {
		return nil, err
	}
	if err == nil {
		config, err := c.configuredDocuments()
		if err != nil {
			return nil, err
		}
		if p.address, p.token, err = daemon.Listen(config, c.Env.Getenv); err != nil {
			return nil, err
		}
	}
	if address := c.String("address"); address != "" {
		p.address = address
	}
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, c.Usagef("--address %q is not HOST:PORT", p.address)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		p.address = net.JoinHostPort("localhost", port)
	}
	return p, nil
}

// mostStatusBytes bounds an answer: whoever listens at the address may not be a tapyr.
const mostStatusBytes = 256 << 20

// ask sends a request to the daemon and decodes its answer.
func (p *peer) ask(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+path, nil)
	if err != nil {
		return err
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var problem *url.Error
		if errors.As(err, &problem) {
			err = problem.Err
		}
		return fmt.Errorf("no tapyr answers at %s (%w); start one with \"tapyr run\", or name its address with --address", p.address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostStatusBytes))
	if err != nil {
		return fmt.Errorf("the tapyr at %s broke off: %w", p.address, err)
	}
	if response.StatusCode > 299 {
		var told struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(body, &told) != nil || told.Error == "" {
			told.Error = strings.TrimSpace(string(body[:min(len(body), 200)]))
		}
		return fmt.Errorf("the tapyr at %s answers with status %d: %s", p.address, response.StatusCode, told.Error)
	}
	if into == nil || len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("what answers at %s is not this tapyr: %w", p.address, err)
	}
	return nil
}

func runStatus(c *Call) error {
	p, err := c.findPeer()
	if err != nil {
		return err
	}
	for {
		var s daemon.Snapshot
		if err := p.ask(c.Ctx(), http.MethodGet, "/api/v1/status", &s); err != nil {
			return err
		}
		if c.Bool("watch") && c.Out.colored {
			c.Out.Printf("\x1b[H\x1b[2J") // home, clear (ECMA-48)
		}
		if c.Format() == "json" {
			err = c.Out.JSON(&s)
		} else {
			err = statusView(&s, c.Zone()).writeText(c.Out)
		}
		if err != nil {
			return err
		}
		if !c.Bool("watch") {
			return statusVerdict(&s)
		}
		c.Out.Printf("\n")
		if err := c.Out.Flush(); err != nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-c.Ctx().Done():
			return c.Ctx().Err()
		}
	}
}

// statusVerdict is what a script must know.
func statusVerdict(s *daemon.Snapshot) error {
	var bad []string
	for _, a := range s.Accounts {
		if a.Health == daemon.HealthFailing {
			bad = append(bad, fmt.Sprintf("account %q fails", a.Account))
		}
	}
	if s.PlannedAt != nil && !s.PlanHolds {
		bad = append(bad, "the plan does not hold")
	}
	if !s.State.OK {
		bad = append(bad, "the state cannot be written")
	}
	if s.Config.Error != "" {
		bad = append(bad, "the new documents are not used")
	}
	bad = append(bad, deliveryVerdict(s.Deliveries)...)
	if len(bad) == 0 {
		return nil
	}
	return &BadNewsError{Summary: strings.Join(bad, ", ")}
}

// statusView is a snapshot for people.
func statusView(s *daemon.Snapshot, zone *time.Location) *reportView {
	view := &reportView{headline: cell{fmt.Sprintf("tapyr %s runs since %s: %s, %s, %s sent",
		s.Version, s.StartedAt.In(zone).Format("2006-01-02 15:04:05 MST"), counted(len(s.Jobs), "job"), counted(len(s.Accounts), "account"),
		counted(int(s.Totals.Granted), "request")), styleGood}}
	if statusVerdict(s) != nil {
		view.headline.style = styleBad
	}
	view.sections = append(view.sections, section{title: "Accounts", table: accountsTable(s)})
	if len(s.Scopes) > 0 {
		view.sections = append(view.sections, section{title: "Quotas", table: scopesTable(s, zone)})
	}
	if len(s.Jobs) > 0 {
		view.sections = append(view.sections, section{title: "Jobs", table: statusJobsTable(s, zone)})
	}
	if d := s.Deliveries; d != nil {
		view.sections = append(view.sections, deliverySections(d, s.At, zone)...)
	}
	var remarks []cell
	if s.WaitingTotal > 0 {
		remarks = append(remarks, cell{text: counted(s.WaitingTotal, "request") + " waiting for a budget"})
	}
	if s.Config.Error != "" {
		remarks = append(remarks, cell{"the new documents are not used: " + s.Config.Error, styleBad})
	}
	if !s.State.OK {
		remarks = append(remarks, cell{"the state cannot be written: " + s.State.Error, styleBad})
	}
	for _, c := range s.Learned {
		if c.Identifiers > 0 {
			remarks = append(remarks, cell{text: fmt.Sprintf("%s of %s: %s learned", c.Var, c.Provider, counted(c.Identifiers, c.Key))})
		}
	}
	for _, r := range s.Refusals[:min(len(s.Refusals), 5)] {
		remarks = append(remarks, cell{text: fmt.Sprintf("%s refused %s %s: %s %s %s", r.At.In(zone).Format("15:04:05"), r.Method, r.Endpoint, r.Reason, r.Limit, plaintext.Key(r.Key)), style: styleWarn})
	}
	for _, r := range s.RateLimited[:min(len(s.RateLimited), 5)] {
		remarks = append(remarks, cell{text: fmt.Sprintf("%s the provider refused %s %s: %s %s", r.At.In(zone).Format("15:04:05"), r.Method, r.Endpoint, r.Limit, plaintext.Key(r.Key)), style: styleWarn})
	}
	if len(remarks) > 0 {
		view.sections = append(view.sections, section{title: "Remarks", lines: remarks})
	}
	return view
}

var healthStyles = map[daemon.Health]style{
	daemon.HealthOK: styleGood, daemon.HealthDegraded: styleWarn, daemon.HealthFailing: styleBad, daemon.HealthUnknown: styleFaint,
}

func accountsTable(s *daemon.Snapshot) *table {
	t := &table{columns: []column{
		{title: "account", fit: fitCut},
		{title: "health"},
		{title: "requests", right: true},
		{title: "limited", right: true},
		{title: "failed", right: true},
		{title: "reasons", fit: fitWrap},
	}}
	for _, a := range s.Accounts {
		row := plain(a.Account, string(a.Health), fmt.Sprint(a.Requests), fmt.Sprint(a.RateLimited), fmt.Sprint(a.Failed), strings.Join(a.Reasons, "; "))
		row[1].style = healthStyles[a.Health]
		t.rows = append(t.rows, row)
	}
	return t
}

func scopesTable(s *daemon.Snapshot, zone *time.Location) *table {
	t := &table{columns: []column{
		{title: "quota", fit: fitCut},
		{title: "key", fit: fitCut},
		{title: "used", right: true},
		{title: "external", right: true},
		{title: "left", right: true},
		{title: "usable", right: true},
		{title: "projected", right: true},
		{title: "exhausted"},
		{title: "ends"},
	}}
	for _, one := range s.Scopes {
		exhausted, meaning := "-", stylePlain
		if one.ExhaustsAt != nil {
			exhausted, meaning = one.ExhaustsAt.In(zone).Format("01-02 15:04"), styleBad
		}
		row := plain(one.Limit, plaintext.Key(one.Key), fmt.Sprint(one.Used), fmt.Sprint(one.External), fmt.Sprint(one.Remaining), fmt.Sprint(one.Usable),
			plan.Figure(one.ProjectedEnd), exhausted, one.WindowEnd.In(zone).Format("01-02 15:04"))
		row[7].style = meaning
		t.rows = append(t.rows, row)
	}
	return t
}

func statusJobsTable(s *daemon.Snapshot, zone *time.Location) *table {
	t := &table{columns: []column{
		{title: "job", fit: fitCut},
		{title: "every", right: true},
		{title: "stretch", right: true},
		{title: "instances", right: true},
		{title: "last"},
		{title: "next"},
		{title: "state", fit: fitWrap},
	}}
	for _, j := range s.Jobs {
		last, next, state, meaning := "-", "-", "ok", styleGood
		if j.LastRun != nil {
			last = j.LastRun.StartedAt.In(zone).Format("15:04:05")
		}
		if j.NextRunAt != nil {
			next = j.NextRunAt.In(zone).Format("15:04:05")
		}
		switch {
		case !j.Kept:
			state, meaning = "makes no calls: nobody keeps what it finds", styleFaint
		case j.Paused:
			state, meaning = "paused", styleWarn
		case j.Error != "":
			state, meaning = j.Error, styleBad
		case j.LastRun == nil:
			state, meaning = "not run yet", styleFaint
		case !j.Fresh:
			state, meaning = "stale", styleWarn
		}
		row := plain(j.Job, spanText(math.Round(j.IntervalSeconds)), fmt.Sprintf("%.2f", j.Stretch), fmt.Sprint(j.Instances), last, next, state)
		row[6].style = meaning
		t.rows = append(t.rows, row)
	}
	return t
}
