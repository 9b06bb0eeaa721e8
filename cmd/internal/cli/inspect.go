package cli

import (
	"fmt"
	"maps"
	"net/url"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// newInspectCommand is "tapyr inspect".
func newInspectCommand() *Command {
	return &Command{
		Name:  "inspect",
		Usage: "ask how documents are understood: windows, matching limits, responses",
		Examples: []Example{
			{Comment: "the next resets of a quota", Line: "tapyr inspect windows examples/meraki --provider meraki --limit daily"},
			{Comment: "the limits of one request", Line: "tapyr inspect match examples/meraki --provider meraki --method GET --path /organizations/1/networks"},
		},
		Subcommands: []*Command{newInspectWindowsCommand(), newInspectMatchCommand(), newInspectResponseCommand()},
	}
}

func newInspectWindowsCommand() *Command {
	return &Command{
		Name:      "windows",
		Usage:     "list when a quota's windows start and end",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Lists the window that holds the present and those that follow. A rolling window, and one that a request " +
			"opens, has no fixed ends: shown is the one that would open now.",
		Examples: []Example{
			{Comment: "the next five days of a daily quota", Line: "tapyr inspect windows examples/meraki --provider meraki --limit daily"},
			{Comment: "around a change of the clock, as JSON", Line: "tapyr inspect windows examples/aruba-central --provider aruba-central --limit daily --at 2027-03-28T00:30:00Z -n 2 --format json"},
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "provider", Usage: "the `NAME` of the provider"},
			&cli.StringFlag{Name: "limit", Usage: "the `NAME` of the limit"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 5, Usage: "how many windows, at most 100000"},
			atFlag(), zoneFlag(), setFlag(), formatFlag("table", "json", "csv", "markdown"), outputFlag(),
		},
		Run: runInspectWindows,
	}
}

// oneProvider is the provider of --provider; it may be left out where there is only one.
func (c *Call) oneProvider(config *validate.Config) (*validate.Provider, error) {
	name := c.String("provider")
	var names []string
	for _, p := range config.Providers {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	switch {
	case name != "":
		return nil, c.Usagef("--provider: there is no provider %q%s", name, schema.DidYouMean(name, names))
	case len(names) == 1:
		return config.Providers[0], nil
	}
	return nil, c.Usagef("--provider is missing; the documents have %s", join(names, "and"))
}

func runInspectWindows(call *Call) error {
	config, err := call.loadChanged()
	if err != nil {
		return err
	}
	limit, err := call.oneQuota(config)
	if err != nil {
		return err
	}
	n := call.Int("count")
	if n < 1 || n > 100_000 {
		return call.Usagef("-n: %d is not a number from 1 to 100000", n)
	}
	return writeWindows(call, windowsFrom(limit.Window, call.Now(), n))
}

// oneQuota is the quota of --provider and --limit.
func (c *Call) oneQuota(config *validate.Config) (*validate.Limit, error) {
	provider, err := c.oneProvider(config)
	if err != nil {
		return nil, err
	}
	name := c.String("limit")
	limit := provider.Limit(name)
	if limit == nil {
		var names []string
		for _, l := range provider.Limits {
			if l.Window != nil {
				names = append(names, l.Spec.Name)
			}
		}
		return nil, c.Usagef("--limit: provider %s has no limit %q%s; its quotas are %s", provider.Name, name, schema.DidYouMean(name, names), join(names, "and"))
	}
	if limit.Window == nil {
		return nil, c.Usagef("--limit: %s/%s is a limit of kind %s, which has no window", provider.Name, name, limit.Spec.Kind)
	}
	return limit, nil
}

// windowsFrom lists n windows, the first of which holds at. One that a request opens would open now.
func windowsFrom(s *window.Schedule, at time.Time, n int) []window.Window {
	first := s.At(at)
	if s.Kind() == window.Rolling || s.Kind() == window.FirstRequest {
		return []window.Window{s.Opened(at)}
	}
	list := []window.Window{first}
	for len(list) < n {
		next := s.Next(list[len(list)-1])
		if !next.End.After(list[len(list)-1].End) {
			break // the end of the calendar
		}
		list = append(list, next)
	}
	return list
}

type windowJSON struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

func writeWindows(call *Call, list []window.Window) error {
	if call.Format() == "json" {
		out := make([]windowJSON, 0, len(list))
		for _, w := range list {
			out = append(out, windowJSON{w.Start.UTC(), w.End.UTC()})
		}
		return call.Out.JSON(map[string]any{"windows": out})
	}
	t := &table{columns: []column{{title: "Start"}, {title: "End"}, {title: "Length", right: true}}}
	for _, w := range list {
		if call.Format() == "csv" {
			t.rows = append(t.rows, plain(w.Start.UTC().Format(time.RFC3339Nano), w.End.UTC().Format(time.RFC3339Nano), figure(w.Length().Seconds())))
			continue
		}
		t.rows = append(t.rows, plain(wallTime(w.Start, call.Zone()), wallTime(w.End, call.Zone()), spanText(w.Length().Seconds())))
	}
	switch call.Format() {
	case "csv":
		t.columns = []column{{title: "start"}, {title: "end"}, {title: "length_seconds"}}
		return t.writeCSV(call.Out)
	case "markdown":
		return t.writeMarkdown(call.Out)
	}
	return t.writeText(call.Out)
}

// wallTime is an instant as a person reads it, with the zone's name: the hour that a clock change repeats has two.
func wallTime(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
}

func newInspectMatchCommand() *Command {
	return &Command{
		Name:      "match",
		Usage:     "say which limits a request meets, with keys and costs, and why",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Examples: []Example{
			{Comment: "a request that a job declares", Line: "tapyr inspect match examples/meraki --provider meraki --method GET --path /organizations/1/networks"},
			{Comment: "with a variable that the path does not tell", Line: "tapyr inspect match examples/meraki --provider meraki --path /networks/N_1/clients --var organizationId=1 --format json"},
		},
		Flags: append(requestFlags(""), atFlag(), setFlag(), formatFlag("table", "json", "csv", "markdown"), outputFlag()),
		Run:   runInspectMatch,
	}
}

type matchJSON struct {
	Endpoint string            `json:"endpoint"`
	Job      string            `json:"job,omitempty"`
	Vars     map[string]string `json:"vars"`
	// Learned are the variables among them that learn supplies, as name=value, Unknown those that it does not know yet.
	Learned []string         `json:"learned,omitempty"`
	Unknown []string         `json:"unknown,omitempty"`
	Limits  []matchLimitJSON `json:"limits"`
}

type matchLimitJSON struct {
	Limit   string `json:"limit"`
	Kind    string `json:"kind"`
	Applies bool   `json:"applies"`
	Key     string `json:"key"`
	Cost    int64  `json:"cost"`
	Why     string `json:"why"`
}

func runInspectMatch(call *Call) error {
	config, provider, request, job, err := call.inspectedRequest()
	if err != nil {
		return err
	}
	path, _, _ := strings.Cut(call.String("path"), "?")
	learned, unknown, err := call.completeLearned(config, provider, match.CleanPath(path), request)
	if err != nil {
		return err
	}
	out := matchJSON{Endpoint: request.Endpoint, Job: job, Vars: request.Vars, Learned: learned, Unknown: unknown}
	for _, l := range provider.Limits {
		v := l.Match(request)
		out.Limits = append(out.Limits, matchLimitJSON{l.Spec.Name, l.Spec.Kind, v.Applies, v.Key, v.Cost, v.Why})
	}
	return writeMatch(call, out)
}

// requestFlags say which request is looked at, the path being the given one where it is left out; read with Call.inspectedRequest.
func requestFlags(path string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "provider", Usage: "the `NAME` of the provider"},
		&cli.StringFlag{Name: "account", Usage: "the `NAME` of the account; the provider's only one, if not given"},
		&cli.StringFlag{Name: "target", Usage: "the `NAME` of the target"},
		&cli.StringFlag{Name: "method", Value: "GET", Usage: "the HTTP `METHOD`"},
		&cli.StringFlag{Name: "path", Value: path, Usage: "the `PATH` after the base URL, concrete or templated, with a query if the limits look at it"},
		&cli.StringSliceFlag{Name: "var", KeepSpace: true, Usage: "a variable, `NAME=VALUE`; repeatable"},
		&cli.BoolFlag{Name: "auth", Usage: "it is a token or login request"},
	}
}

// inspectedRequest reads the documents and the request that the flags describe.
func (c *Call) inspectedRequest() (config *validate.Config, provider *validate.Provider, r *match.Request, job string, err error) {
	if config, err = c.loadChanged(); err != nil {
		return nil, nil, nil, "", err
	}
	if provider, err = c.oneProvider(config); err != nil {
		return nil, nil, nil, "", err
	}
	r, job, err = c.matchRequest(provider)
	return config, provider, r, job, err
}

// matchRequest makes the request of the flags. A concrete path is matched to the jobs' endpoints, which gives variables.
func (c *Call) matchRequest(provider *validate.Provider) (r *match.Request, job string, err error) {
	if c.String("path") == "" {
		return nil, "", c.Usagef("--path is missing; write the path after the base URL, as /organizations/1/networks")
	}
	account, err := c.oneAccount(provider)
	if err != nil {
		return nil, "", err
	}
	path, query, _ := strings.Cut(c.String("path"), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, "", c.Usagef("--path: the query cannot be read: %s", err)
	}
	r = &match.Request{
		Provider: provider.Name, Target: c.String("target"), Method: strings.ToUpper(c.String("method")), Endpoint: match.CleanPath(path),
		Query: make(map[string]string), Vars: make(map[string]string), Auth: c.Bool("auth"),
	}
	for name, list := range values {
		r.Query[name] = list[0]
	}
	if account != nil {
		r.Account, r.Credential = account.Name, "*"
		maps.Copy(r.Vars, account.Spec.Vars)
	}
	if j, vars := jobOf(provider, account, r); j != nil {
		job, r.Endpoint = j.Name, j.Endpoint.Path
		maps.Copy(r.Vars, vars)
		for name, value := range j.Query {
			if _, given := r.Query[name]; !given {
				r.Query[name] = value
			}
		}
	}
	given, err := c.variables()
	if err != nil {
		return nil, "", err
	}
	maps.Copy(r.Vars, given)
	return r, job, nil
}

// variables are those of --var; nil where there are none.
func (c *Call) variables() (map[string]string, error) {
	var vars map[string]string
	for _, text := range c.StringSlice("var") {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, c.Usagef("--var: %q is not NAME=VALUE", text)
		}
		if vars == nil {
			vars = make(map[string]string)
		}
		if _, twice := vars[name]; twice {
			return nil, c.Usagef("--var: %q is given twice", name)
		}
		vars[name] = value
	}
	return vars, nil
}

// oneAccount is the account of --account; the provider's only one where it is not given, nil where there are several or none.
func (c *Call) oneAccount(provider *validate.Provider) (*validate.Account, error) {
	name := c.String("account")
	var names []string
	for _, a := range provider.Accounts {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	if name != "" {
		return nil, c.Usagef("--account: provider %s has no account %q%s", provider.Name, name, schema.DidYouMean(name, names))
	}
	switch len(names) {
	case 0:
		return nil, nil
	case 1:
		return provider.Accounts[0], nil
	}
	return nil, c.Usagef("--account is missing; provider %s has %s", provider.Name, join(names, "and"))
}

// jobOf finds the job of the account whose method and endpoint a request has.
func jobOf(provider *validate.Provider, account *validate.Account, r *match.Request) (*validate.Job, map[string]string) {
	var jobs []*validate.Job
	var templates []*match.Template
	for _, j := range provider.Jobs {
		if j.Method == r.Method && j.Account == account {
			jobs, templates = append(jobs, j), append(templates, j.Endpoint)
		}
	}
	i, vars := match.Best(templates, r.Endpoint)
	if i < 0 {
		return nil, nil
	}
	return jobs[i], vars
}

func writeMatch(call *Call, m matchJSON) error {
	if call.Format() == "json" {
		return call.Out.JSON(m)
	}
	key := plaintext.Key
	if call.Format() == "csv" { // for machines
		key = func(key string) string { return key }
	}
	t := &table{columns: []column{{title: "Limit", fit: fitCut}, {title: "Kind"}, {title: "Applies"}, {title: "Key", fit: fitCut}, {title: "Cost", right: true}, {title: "Why", fit: fitWrap}}}
	for _, l := range m.Limits {
		row := plain(l.Limit, l.Kind, "no", "", "", l.Why)
		if l.Applies {
			row[2], row[3].text, row[4].text = cell{"yes", styleGood}, key(l.Key), fmt.Sprint(l.Cost)
		}
		t.rows = append(t.rows, row)
	}
	switch call.Format() {
	case "csv":
		return t.writeCSV(call.Out)
	case "markdown":
		return t.writeMarkdown(call.Out)
	}
	call.Out.Printf("Endpoint %s", m.Endpoint)
	if m.Job != "" {
		call.Out.Printf(" of job %s", m.Job)
	}
	if len(m.Vars) > 0 {
		var vars []string
		for name, value := range m.Vars {
			vars = append(vars, name+"="+value)
		}
		sort.Strings(vars)
		call.Out.Printf(", with %s", strings.Join(vars, ", "))
	}
	call.Out.Printf("\n")
	if len(m.Learned) > 0 {
		call.Out.Printf("Learned: %s\n", strings.Join(m.Learned, ", "))
	}
	if len(m.Unknown) > 0 {
		call.Out.Printf("Not known yet: %s, which is learned while tapyr runs; until then the request takes of the other limits only\n", join(m.Unknown, "and"))
	}
	call.Out.Printf("\n")
	return t.writeText(call.Out)
}
