package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/audit"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

func newSpendVerifyCommand() *Command {
	return &Command{
		Name: "verify", Usage: "walk the audit chain and name the first entry that is not as it was", ArgsUsage: "[FILE]", ArgsMax: 1,
		Description: "Without FILE, an export, the chain of the state file is walked; where it is whole, every decision is made again, and the " +
			"events, counters and policies of the file are compared with what follows from the chain. A chain proves what it holds and in " +
			"which order, but not that its tail is there: for that, keep the head of an earlier export elsewhere and give it with " +
			"--anchor. The status is 1 if an entry is altered, missing, reordered or inserted, an anchor is not part of the chain, or the " +
			"file says something else than its chain.",
		Examples: []Example{
			{Comment: "the chain of a state file", Line: publishExample + "tapyr spend verify --state state.db"},
			{Comment: "an export, with the head that was kept", Line: publishExample + "tapyr spend export --state state.db -o chain.jsonl --anchor-file anchor.json && tapyr spend verify chain.jsonl --anchor-file anchor.json"},
		},
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "anchor", Usage: "an earlier head, `HASH` or COUNT:HASH; repeatable"},
			&cli.StringFlag{Name: "anchor-file", Usage: "an earlier head, from the `FILE` that export wrote"},
			stateFlag(), formatFlag("table", "json"), outputFlag(),
		},
		Run: runSpendVerify,
	}
}

func runSpendVerify(call *Call) error {
	anchors, err := call.anchors()
	if err != nil {
		return err
	}
	var result verification
	verify := func(entries iter.Seq2[chain.Entry, error]) (err error) {
		result.Result, err = chain.Verify(entries, anchors...)
		return err
	}
	if file := call.Args().First(); file != "" {
		data, err := readFile(call.Ctx(), call.Env.Stdin, file)
		if err != nil {
			return err
		}
		err = verify(chain.Read(bytes.NewReader(data)))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else if err := call.withBook(func(store book.Store) error {
		if err := entriesOf(call.Ctx(), store, verify); err != nil || !result.Valid() {
			return err
		}
		compared, err := spend.Audit(call.Ctx(), store, call.Now())
		result.Book = &compared
		return err
	}); err != nil {
		return err
	}
	if err := call.writeFields(result, verifyFields(result, len(anchors))); err != nil {
		return err
	}
	switch {
	case !result.Valid():
		return &BadNewsError{Summary: "the chain is broken"}
	case result.Book != nil && result.Book.Difference != nil:
		return &BadNewsError{Summary: "the book is not what its chain says"}
	}
	return nil
}

// verification is what is known of a chain and of the book beside it, which an export does not have.
type verification struct {
	chain.Result
	Book *audit.Result `json:"book,omitempty"`
}

func verifyFields(r verification, anchors int) []field {
	fields := []field{{"entries", strconv.FormatInt(r.Entries, 10)}, {"pruned", strconv.FormatInt(r.Pruned, 10)}, {"head", r.Head}}
	if b := r.Break; b != nil {
		return append(fields, field{"broken at", fmt.Sprintf("entry %d: %s: %s", b.Position, b.Fault, b.Reason)}, field{"event", b.Event})
	}
	verdict := "whole"
	if anchors == 0 {
		verdict += "; without an anchor it cannot be seen whether its tail was cut off"
	}
	fields = append(fields, field{"chain", verdict})
	switch a := r.Book; {
	case a == nil:
	case a.Difference != nil:
		fields = append(fields, field{"book", a.Difference.String()})
	default:
		fields = append(fields, field{"book", fmt.Sprintf("as the chain says: %s, %s", counted64(a.Events+a.PrunedEvents, "event"), counted64(a.Totals, "total"))})
	}
	return fields
}

// anchors are those of --anchor and --anchor-file.
func (c *Call) anchors() ([]chain.Anchor, error) {
	var anchors []chain.Anchor
	for _, text := range c.StringSlice("anchor") {
		count, hash, found := strings.Cut(text, ":")
		if !found {
			count, hash = "0", text
		}
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || len(hash) != 64 {
			return nil, c.Usagef("--anchor: %q is not a hash of 64 digits, with or without COUNT: before it", text)
		}
		anchors = append(anchors, chain.Anchor{Count: n, Hash: hash})
	}
	if file := c.String("anchor-file"); file != "" {
		data, err := readFile(c.Ctx(), c.Env.Stdin, file)
		if err != nil {
			return nil, err
		}
		var anchor chain.Anchor
		if err := json.Unmarshal(data, &anchor); err != nil || anchor.Hash == "" {
			return nil, fmt.Errorf("%s: not an anchor: want {\"count\":N,\"head\":HASH}, as \"tapyr spend export --anchor-file\" writes", file)
		}
		anchors = append(anchors, anchor)
	}
	return anchors, nil
}

func newSpendExportCommand() *Command {
	return &Command{
		Name: "export", Usage: "write the audit chain, one entry a line",
		Description: "--bare writes the admissions alone, each with nothing but the decision: the form in which other implementations can be " +
			"compared. --anchor-file keeps the head: put it where the keeper of the state file cannot reach it.",
		Examples: []Example{
			{Comment: "the chain, and its head", Line: publishExample + "tapyr spend export --state state.db -o chain.jsonl --anchor-file anchor.json"},
			{Comment: "the decisions alone", Line: publishExample + "tapyr spend export --bare --state state.db"},
		},
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "bare", Usage: "write the decisions alone"},
			&cli.StringFlag{Name: "anchor-file", Usage: "write the head into `FILE`"},
			stateFlag(), outputFlag(),
		},
		Run: runSpendExport,
	}
}

func runSpendExport(call *Call) error {
	var head chain.Head
	err := call.withBook(func(store book.Store) error {
		return entriesOf(call.Ctx(), store, func(entries iter.Seq2[chain.Entry, error]) (err error) {
			if call.Bool("bare") {
				entries = chain.Bare(entries)
			}
			head, err = chain.Write(call.Out, entries)
			return err
		})
	})
	if err != nil {
		return err
	}
	file := call.String("anchor-file")
	if file == "" {
		return nil
	}
	out, err := call.Env.openOutput(file, false)
	if err != nil {
		return err
	}
	if err := out.JSON(head); err != nil {
		_ = out.Discard() // the first error is the one to report
		return err
	}
	return out.Close()
}

func newSpendPruneCommand() *Command {
	return &Command{
		Name: "prune", Usage: "take away what is kept of events beyond its horizon, without breaking the chain",
		Description: "References, responses and decisions have horizons of their own (retain in the policy). A pruned entry keeps its hash.",
		Examples: []Example{
			{Comment: "what is due now", Line: publishExample + "tapyr spend prune --state state.db"},
			{Comment: "what will be due in a year", Line: publishExample + "tapyr spend prune --at 2027-11-30T00:00:00Z --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			var pruned spend.Pruned
			err := call.withMachine(func(m *spend.Machine, _ book.Store, _ string) (err error) {
				pruned, err = m.Prune(call.Ctx(), call.Now())
				return err
			})
			if err != nil {
				return call.spendError(err)
			}
			count := func(n int64) string { return strconv.FormatInt(n, 10) }
			return call.writeFields(pruned, []field{
				{"references", count(pruned.References)}, {"responses", count(pruned.Responses)}, {"decisions", count(pruned.Decisions)}, {"entries", count(pruned.Entries)},
			})
		},
	}
}

func newSpendExplainCommand() *Command {
	return &Command{
		Name: "explain", Usage: "say which version, route, counters and entry decided about an event", ArgsUsage: "EVENT", ArgsMin: 1, ArgsMax: 1,
		Examples: []Example{
			{Comment: "why it got its route", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend explain order-1 --state state.db"},
			{Comment: "with all its entries", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend explain order-1 --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			var e spend.Explanation
			err := call.withMachine(func(m *spend.Machine, _ book.Store, _ string) (err error) {
				e, err = m.Explain(call.Ctx(), call.Args().First())
				return err
			})
			if err != nil {
				return call.spendError(err)
			}
			if call.Format() == "json" {
				return call.Out.JSON(e)
			}
			return explanationReport(e, call.Zone()).writeText(call.Out)
		},
	}
}

// explanationReport writes down for people why an event got its decision.
func explanationReport(e spend.Explanation, zone *time.Location) *reportView {
	d := e.Decision
	route := "no route"
	if d.Route != nil {
		route = "route " + *d.Route
	}
	r := &reportView{headline: cell{fmt.Sprintf("%s: %s by %s, now %s", d.EventID, d.Disposition, route, d.State), stylePlain}}
	facts := []cell{
		{fmt.Sprintf("policy %s, version %s, in force since %s", e.Policy, e.Version.Version, wallTime(e.Version.PublishedAt, zone)), stylePlain},
		{fmt.Sprintf("before it, the account had %s of %s, %s %s of %s, and %s were protected for others", e.AccountUnits, e.AccountLimit, d.Capability, e.CapabilityUnits, e.CapabilityLimit, e.ProtectedUnits), stylePlain},
		{"entry " + d.EntryHash, styleFaint},
	}
	if e.WindowStart != nil {
		facts = append(facts, cell{"counted in the window from " + wallTime(*e.WindowStart, zone), stylePlain})
	}
	if e.Attempts > 0 {
		facts = append(facts, cell{fmt.Sprintf("%s to deliver it, the last with the result %s", counted(int(e.Attempts), "attempt"), e.Result), stylePlain})
	}
	if e.InDoubt {
		facts = append(facts, cell{"the vendor may have charged for it: it keeps its units until it is settled or released", styleBad})
	}
	if e.Response != "" {
		facts = append(facts, cell{"answered with " + e.Response, stylePlain})
	}
	t := &table{columns: []column{{title: "Route", fit: fitCut}, {title: "Class", fit: fitCut}, {title: "Cost", right: true}, {title: "Outcome", fit: fitWrap}}}
	for _, a := range e.Alternatives {
		outcome := "not needed"
		switch {
		case a.Taken:
			outcome = "taken"
		case a.Obstacle != "":
			outcome = "does not fit the limit of the " + a.Obstacle
		}
		t.rows = append(t.rows, plain(a.Route, a.Class, a.Cost.String(), outcome))
	}
	r.sections = append(r.sections, section{title: "Decided by", lines: facts}, section{title: "Routes, in the order of preference", table: t})
	return r
}

func newSpendConformCommand() *Command {
	return &Command{
		Name: "conform", Usage: "run conformance vectors of spend admission", ArgsUsage: "FILE", ArgsMin: 1, ArgsMax: 1,
		Description: "The status is 1 if anything differs.",
		Examples: []Example{
			{Comment: "the golden vectors", Line: "tapyr spend conform testdata/vectors/spend.json"},
			{Comment: "as a table", Line: "tapyr spend conform testdata/vectors/spend.json --format table"},
		},
		Flags: []cli.Flag{formatFlag("json", "table"), outputFlag()},
		Run: func(call *Call) error {
			file := call.Args().First()
			data, err := readFile(call.Ctx(), call.Env.Stdin, file)
			if err != nil {
				return err
			}
			result, err := spend.Conform(data)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return writeConformance(call, result)
		},
	}
}

func writeConformance(call *Call, c spend.Conformance) error {
	if call.Format() == "json" {
		if err := call.Out.JSON(c); err != nil {
			return err
		}
	} else {
		call.Out.Printf("%d cases, %d steps, %s\n", c.Cases, c.Steps, counted(len(c.Failures), "failure"))
		t := &table{columns: []column{{title: "Case", fit: fitCut}, {title: "Step", right: true}, {title: "Field"}, {title: "Want", fit: fitWrap}, {title: "Got", fit: fitWrap}}}
		for _, f := range c.Failures {
			t.rows = append(t.rows, plain(f.Case, strconv.Itoa(f.Step), f.Field, f.Want, f.Got))
		}
		if len(t.rows) > 0 {
			if err := t.writeText(call.Out); err != nil {
				return err
			}
		}
	}
	if len(c.Failures) > 0 {
		return &BadNewsError{Summary: counted(len(c.Failures), "expectation") + " not met"}
	}
	return nil
}

// newSpendDeferredCommand lists what waits.
func newSpendDeferredCommand() *Command {
	return &Command{
		Name: "deferred", Usage: "list the events that wait, the oldest first, after letting time pass",
		Description: "What is due expires, and where a window has opened since, waiting events are offered again before the list is made.",
		Examples: []Example{
			{Comment: "what waits now", Line: publishExample + "tapyr spend deferred --state state.db"},
			{Comment: "what would wait next month", Line: publishExample + "tapyr spend deferred --at 2026-12-31T00:00:00Z --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			var waiting []*book.Event
			err := call.withMachine(func(m *spend.Machine, store book.Store, policy string) error {
				if _, err := m.Tick(call.Ctx(), call.Now()); err != nil {
					return err
				}
				var err error
				waiting, err = deferredEvents(call.Ctx(), store, policy)
				return err
			})
			if err != nil {
				return call.spendError(err)
			}
			return writeDeferred(call, waiting)
		},
	}
}

func deferredEvents(ctx context.Context, store book.Store, policy string) ([]*book.Event, error) {
	var waiting []*book.Event
	err := store.View(ctx, func(tx book.Tx) error {
		waiting = nil
		for e, err := range tx.Events(book.Query{Policy: policy, States: []book.State{book.Deferred}}) {
			if err != nil {
				return err
			}
			waiting = append(waiting, e)
		}
		return nil
	})
	return waiting, err
}

type deferredJSON struct {
	EventID    string     `json:"eventId"`
	Capability string     `json:"capability"`
	Since      time.Time  `json:"since"`
	AgeSeconds float64    `json:"ageSeconds"`
	Deadline   *time.Time `json:"deadline"`
}

func writeDeferred(call *Call, waiting []*book.Event) error {
	now := call.Now()
	out := []deferredJSON{}
	t := &table{columns: []column{{title: "Event", fit: fitCut}, {title: "Capability", fit: fitCut}, {title: "Since"}, {title: "Age", right: true}, {title: "Deadline"}}}
	for _, e := range waiting {
		age := now.Sub(e.AdmittedAt).Truncate(time.Second).Seconds()
		out = append(out, deferredJSON{e.ID, e.Capability, e.AdmittedAt.UTC(), age, instantOrNil(e.Deadline)})
		deadline := ""
		if !e.Deadline.IsZero() {
			deadline = wallTime(e.Deadline, call.Zone())
		}
		t.rows = append(t.rows, plain(e.ID, e.Capability, wallTime(e.AdmittedAt, call.Zone()), spanText(age), deadline))
	}
	if call.Format() == "json" {
		return call.Out.JSON(map[string]any{"deferred": out})
	}
	if len(waiting) == 0 {
		call.Out.Printf("no event waits\n")
		return nil
	}
	return t.writeText(call.Out)
}
