package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/validate"
)

func newSpendPublishCommand() *Command {
	return &Command{
		Name: "publish", Usage: "put a version of a policy in force", ArgsUsage: "FILE", ArgsMin: 1, ArgsMax: 1,
		Description: "A version needs two approvals under one change id, for routing and for budget, by two different names. Its content is " +
			"immutable from then on: the same version with other content is refused, with status 1. Deferred events are offered under " +
			"the new version at once.",
		Examples: []Example{
			{Comment: "the first version", Line: "tapyr spend publish examples/spend/policy.yaml --change CR-1 --approve routing:ALICE --approve budget:BOB --state state.db"},
			{Comment: "as JSON", Line: "tapyr spend publish examples/spend/policy.yaml --change CR-1 --approve routing:ALICE --approve budget:BOB --state state.db --format json"},
		},
		Flags: spendFlags(
			&cli.StringFlag{Name: "change", Usage: "the `ID` under which the approvals were given"},
			&cli.StringSliceFlag{Name: "approve", KeepSpace: true, Usage: "an approval, `ROLE:NAME`, ROLE being routing or budget; repeatable"},
			&cli.StringFlag{Name: "test", Usage: "what a representative call came to, a JSON `FILE` with inputClass, routeClass and outcome"},
		),
		Run: runSpendPublish,
	}
}

func runSpendPublish(call *Call) error {
	policy, err := call.policyOf(call.Args().First())
	if err != nil {
		return err
	}
	publication, err := call.publication()
	if err != nil {
		return err
	}
	var outcome spend.Outcome
	var version spend.ExplainedVersion
	path, err := call.statePath()
	if err != nil {
		return err
	}
	err = call.withBookAt(path, func(store book.Store) error {
		m := spend.New(store, policy.Name)
		if outcome, err = m.Publish(call.Ctx(), call.Now(), policy, publication); err != nil {
			return err
		}
		versions, err := m.Versions(call.Ctx())
		for _, v := range versions {
			if v.Active {
				version = v
			}
		}
		return err
	})
	var refused *spend.PolicyError
	if errors.As(err, &refused) {
		return &BadNewsError{Summary: err.Error()}
	} else if err != nil {
		return call.spendError(err)
	}
	fields := []field{{"policy", policy.Name}, {"version", version.Version}, {"content hash", version.ContentHash}, {"in force since", instantText(version.PublishedAt)}}
	if outcome.Repeated {
		fields = append(fields, field{"repeated", "yes; it is in force already"})
	}
	for _, other := range outcome.Others {
		fields = append(fields, field{"also", fmt.Sprintf("%s is now %s", other.EventID, other.State)})
	}
	return call.writeFields(map[string]any{"policy": policy.Name, "version": version, "repeated": outcome.Repeated, "others": outcome.Others}, fields)
}

// policyOf reads the only policy of a file or folder, or that of --policy.
func (c *Call) policyOf(path string) (*spend.Policy, error) {
	config, err := c.configAt(path)
	if err != nil {
		return nil, err
	}
	var found *validate.Policy
	var names []string
	for _, p := range config.Policies {
		names = append(names, p.Name)
		if p.Name == c.String("policy") || len(config.Policies) == 1 {
			found = p
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s holds no SpendPolicy document", path)
	case found == nil:
		return nil, c.Usagef("--policy must be one of %s", join(names, "and"))
	}
	return spend.Compile(found)
}

// configAt reads and checks the documents at a path.
func (c *Call) configAt(path string) (*validate.Config, error) {
	files, err := findFiles([]string{path})
	if err != nil {
		return nil, err
	}
	read, err := decodeFiles(c.Ctx(), c.Env.Stdin, files)
	if err != nil {
		return nil, err
	}
	return c.checkDocuments(read)
}

func (c *Call) publication() (spend.Publication, error) {
	p := spend.Publication{Change: c.String("change")}
	for _, text := range c.StringSlice("approve") {
		role, name, found := strings.Cut(text, ":")
		if !found {
			return p, c.Usagef("--approve: %q is not ROLE:NAME, as routing:ALICE", text)
		}
		p.Approvals = append(p.Approvals, spend.Approval{Role: role, By: name})
	}
	file := c.String("test")
	if file == "" {
		return p, nil
	}
	data, err := readFile(c.Ctx(), c.Env.Stdin, file)
	if err != nil {
		return p, err
	}
	p.Test = new(spend.Test)
	if err := json.Unmarshal(data, p.Test); err != nil {
		return p, fmt.Errorf("%s: want {\"inputClass\",\"routeClass\",\"outcome\"}: %w", file, err)
	}
	return p, nil
}

func newSpendPoliciesCommand() *Command {
	return &Command{
		Name: "policies", Usage: "list the policies and their versions",
		Examples: []Example{
			{Comment: "all of a state file", Line: publishExample + "tapyr spend policies --state state.db"},
			{Comment: "with their publications", Line: publishExample + "tapyr spend policies --state state.db --format json"},
		},
		Flags: []cli.Flag{stateFlag(), atFlag(), formatFlag("table", "json"), outputFlag()},
		Run:   runSpendPolicies,
	}
}

type policyJSON struct {
	Policy   string                   `json:"policy"`
	Versions []spend.ExplainedVersion `json:"versions"`
}

func runSpendPolicies(call *Call) error {
	out := []policyJSON{}
	err := call.withBook(func(store book.Store) error {
		names, err := spend.Policies(call.Ctx(), store)
		if err != nil {
			return err
		}
		for _, name := range names {
			versions, err := spend.New(store, name).Versions(call.Ctx())
			if err != nil {
				return err
			}
			out = append(out, policyJSON{name, versions})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if call.Format() == "json" {
		return call.Out.JSON(map[string]any{"policies": out})
	}
	t := &table{columns: []column{{title: "Policy", fit: fitCut}, {title: "Version", fit: fitCut}, {title: "In force"}, {title: "Published"}, {title: "Content", fit: fitCut}}}
	for _, p := range out {
		for _, v := range p.Versions {
			active := ""
			if v.Active {
				active = "yes"
			}
			t.rows = append(t.rows, plain(p.Policy, v.Version, active, v.PublishedAt.UTC().Format("2006-01-02 15:04 MST"), v.ContentHash))
		}
	}
	if len(t.rows) == 0 {
		call.Out.Printf("no policy is published\n")
		return nil
	}
	return t.writeText(call.Out)
}

func newSpendDryRunCommand() *Command {
	return &Command{
		Name: "dry-run", Usage: "say what a policy would make of recorded events", ArgsUsage: "FILE EVENTS", ArgsMin: 2, ArgsMax: 2,
		Description: "The machine that decides in earnest runs on a book that is thrown away. Where the state file has a version of the policy " +
			"in force, the mixes of routes of both are set side by side. The status is 1 if a line is no event.",
		Examples: []Example{
			{Comment: "a new policy", Line: "tapyr spend dry-run examples/spend/policy.yaml examples/spend/events.jsonl"},
			{Comment: "against the one in force", Line: publishExample + "tapyr spend dry-run examples/spend/policy.yaml examples/spend/events.jsonl --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			policy, err := call.policyOf(call.Args().Get(0))
			if err != nil {
				return err
			}
			active, err := call.activePolicy(policy.Name)
			if err != nil {
				return err
			}
			return runRehearsal(call, policy, active, call.Args().Get(1))
		},
	}
}

func newSpendReplayCommand() *Command {
	return &Command{
		Name: "replay", Usage: "run recorded events against the policy in force, on a book that is thrown away", ArgsUsage: "EVENTS", ArgsMin: 1, ArgsMax: 1,
		Examples: []Example{
			{Comment: "what last week would have cost", Line: publishExample + "tapyr spend replay examples/spend/events.jsonl --state state.db"},
			{Comment: "as JSON", Line: publishExample + "tapyr spend replay examples/spend/events.jsonl --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			var active *spend.Policy
			err := call.withMachine(func(m *spend.Machine, store book.Store, _ string) error {
				return store.View(call.Ctx(), func(tx book.Tx) (err error) {
					active, _, err = m.Active(tx)
					return err
				})
			})
			if err != nil {
				return call.spendError(err)
			}
			return runRehearsal(call, active, nil, call.Args().First())
		},
	}
}

// activePolicy is the version in force of the state file, or nil where there is none: a rehearsal must not make the file.
func (c *Call) activePolicy(name string) (*spend.Policy, error) {
	path, err := c.statePath()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil //nolint:nilerr // no file, no version: that is the answer
	}
	var active *spend.Policy
	err = c.withBook(func(store book.Store) error {
		return store.View(c.Ctx(), func(tx book.Tx) (err error) {
			active, _, err = spend.New(store, name).Active(tx)
			return err
		})
	})
	var none *spend.NoPolicyError
	if errors.As(err, &none) {
		return nil, nil // as above
	}
	return active, err
}

type rehearsalJSON struct {
	Policy   string            `json:"policy"`
	Version  string            `json:"version"`
	Result   *report.Rehearsal `json:"result"`
	Previous *report.Rehearsal `json:"previous"`
	Changes  []report.Change   `json:"changes"`
	BadLines []string          `json:"badLines"`
}

func runRehearsal(call *Call, policy, before *spend.Policy, file string) error {
	events, bad, err := readSpendEvents(call, file)
	if err != nil {
		return err
	}
	out := rehearsalJSON{Policy: policy.Name, Version: policy.Version, Changes: []report.Change{}, BadLines: bad}
	if out.Result, err = report.DryRun(call.Ctx(), policy, events); err != nil {
		return err
	}
	if before != nil && before.Version != policy.Version {
		if out.Previous, err = report.DryRun(call.Ctx(), before, events); err != nil {
			return err
		}
		out.Changes = report.Compare(out.Previous, out.Result)
	}
	if call.Format() == "json" {
		err = call.Out.JSON(out)
	} else {
		err = rehearsalReport(out).writeText(call.Out)
	}
	if err == nil && len(bad) > 0 {
		return &BadNewsError{Summary: counted(len(bad), "line") + " of " + file + " could not be read"}
	}
	return err
}

func readSpendEvents(call *Call, file string) (events []report.Event, bad []string, err error) {
	in, err := call.openInput(file)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	bad = []string{}
	for e, err := range report.ReadEvents(in) {
		var line *report.EventError
		switch {
		case errors.As(err, &line):
			bad = append(bad, fmt.Sprintf("%s:%d: %s", file, line.Line, line.Reason))
		case err != nil:
			return nil, nil, err
		default:
			events = append(events, e)
		}
	}
	return events, bad, nil
}

func rehearsalReport(out rehearsalJSON) *reportView {
	res := out.Result
	r := &reportView{headline: cell{fmt.Sprintf("%s under %s %s; %s repeated, %d refused", counted(int(res.Events), "event"), out.Policy, out.Version, counted(int(res.Repeated), "line"), res.Refused), stylePlain}}
	mix := &table{columns: []column{{title: "Capability", fit: fitCut}, {title: "Route class", fit: fitCut}, {title: "Events", right: true}, {title: "Part", right: true}, {title: "Units", right: true}}}
	for _, s := range res.Mix {
		mix.rows = append(mix.rows, plain(s.Capability, s.RouteClass, fmt.Sprint(s.Events), percentOf(s.Part), s.Units.String()))
	}
	if len(mix.rows) > 0 {
		r.sections = append(r.sections, section{title: "Mix of routes", table: mix})
	}
	if len(out.Changes) > 0 {
		changes := &table{columns: []column{{title: "Capability", fit: fitCut}, {title: "Route class", fit: fitCut}, {title: "Before", right: true}, {title: "After", right: true}, {title: "Units", right: true}}}
		for _, c := range out.Changes {
			changes.rows = append(changes.rows, plain(c.Capability, c.RouteClass, percentOf(c.OldPart), percentOf(c.NewPart), c.Units.String()))
		}
		r.sections = append(r.sections, section{title: "Against the version in force", table: changes})
	}
	var notes []cell
	if w := res.Wait; w != nil {
		notes = append(notes, cell{fmt.Sprintf("the essential event that waited longest is %s (%s), for %s; in the end: %s", w.EventID, w.Capability, spanText(w.WaitSeconds), w.Ended), styleWarn})
	}
	for _, e := range res.Exhausted {
		notes = append(notes, cell{fmt.Sprintf("%s came to its limit (%s of %s) at %s with %s, while the account had %s left", e.Capability, e.Used, e.Limit, e.At.UTC().Format(time.RFC3339), e.EventID, e.AccountHeadroom), styleWarn})
	}
	for name, n := range res.Unknown {
		notes = append(notes, cell{fmt.Sprintf("the policy has no capability %q, which %s asked for", name, counted(int(n), "event")), styleWarn})
	}
	for _, line := range out.BadLines {
		notes = append(notes, cell{line, styleBad})
	}
	if len(notes) > 0 {
		r.sections = append(r.sections, section{title: "To look at", lines: notes})
	}
	return r
}
