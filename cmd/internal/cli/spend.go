package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// newSpendCommand is "tapyr spend".
func newSpendCommand() *Command {
	return &Command{
		Name:  "spend",
		Usage: "admit paid calls inside the budgets of an account and its capabilities",
		Description: "Paid calls are admitted before they are made: by the first route that fits the account's limit and the capability's, " +
			"once for each event however often it is retried. Everything is kept in the state file (--state, else settings.state.path, " +
			"else tapyr.db), each step with an entry of a hash chain that proves it.",
		Examples: []Example{
			{Comment: "put a policy in force, and admit an event", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db"},
			{Comment: "what a policy would make of recorded events", Line: "tapyr spend dry-run examples/spend/policy.yaml examples/spend/events.jsonl"},
		},
		Subcommands: []*Command{
			newSpendAdmitCommand(), newSpendSettleCommand(), newSpendReleaseCommand(), newSpendAttemptCommand(), newSpendDeferredCommand(),
			newSpendPublishCommand(), newSpendPoliciesCommand(), newSpendExplainCommand(),
			newSpendVerifyCommand(), newSpendExportCommand(), newSpendPruneCommand(),
			newSpendReconcileCommand(), newSpendDryRunCommand(), newSpendReplayCommand(), newSpendReportCommand(), newSpendConformCommand(),
		},
	}
}

// publishExample makes a policy for the examples of the others.
const publishExample = "tapyr spend publish examples/spend/policy.yaml --change CR-1 --approve routing:ALICE --approve budget:BOB --state state.db -o /dev/null && "

// spendFlags are read by every command that works on a book.
func spendFlags(flags ...cli.Flag) []cli.Flag {
	return append(flags,
		&cli.StringFlag{Name: "policy", Usage: "the `NAME` of the policy; the only one, if not given"},
		stateFlag(), atFlag(), formatFlag("table", "json"), outputFlag())
}

// withBook opens the book of the state file, which must be there, and closes it afterwards.
func (c *Call) withBook(work func(store book.Store) error) error {
	path, err := c.statePath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil { // a mistyped name must not answer for an empty book
		return fmt.Errorf("cannot read %s: %w", path, cause(err))
	}
	return c.withBookAt(path, work)
}

// withBookAt is withBook for a file that is made where it is missing.
func (c *Call) withBookAt(path string, work func(store book.Store) error) error {
	store, err := sqlite.OpenSpend(c.Ctx(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	return errors.Join(work(store), store.Close())
}

// withMachine is withBook with the machine of --policy.
func (c *Call) withMachine(work func(m *spend.Machine, store book.Store, policy string) error) error {
	return c.withBook(func(store book.Store) error {
		name, err := c.policyName(store)
		if err != nil {
			return err
		}
		return work(spend.New(store, name), store, name)
	})
}

// policyName is --policy, else the only policy of the book.
func (c *Call) policyName(store book.Store) (string, error) {
	if name := c.String("policy"); name != "" {
		return name, nil
	}
	names, err := spend.Policies(c.Ctx(), store)
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", c.Usagef("no policy is published; publish one with \"tapyr spend publish FILE\"")
	case len(names) > 1:
		return "", c.Usagef("--policy is missing; there are %s", join(names, "and"))
	}
	return names[0], nil
}

// field is one line of a result that is a single thing.
type field struct{ name, value string }

// writeFields shows a single thing: its fields below each other, or as JSON.
func (c *Call) writeFields(value any, fields []field) error {
	if c.Format() == "json" {
		return c.Out.JSON(value)
	}
	width := 0
	for _, f := range fields {
		width = max(width, len(f.name))
	}
	for _, f := range fields {
		if f.value != "" {
			c.Out.Printf("%-*s  %s\n", width, f.name, f.value)
		}
	}
	return nil
}

// outcomeFields are the lines of what a step came to.
func outcomeFields(o spend.Outcome) []field {
	route := ""
	if o.Route != nil {
		route = *o.Route
	}
	fields := []field{
		{"event_id", o.EventID},
		{"capability", o.Capability},
		{"disposition", string(o.Disposition)},
		{"route", route},
		{"reserved_units", o.ReservedUnits.String()},
		{"policy_version", o.PolicyVersion},
		{"previous_hash", o.PreviousHash},
		{"state", string(o.State)},
		{"at", instantText(o.At)},
		{"entry_hash", o.EntryHash},
	}
	if o.ActualUnits != nil {
		fields = slices.Insert(fields, 5, field{"actual_units", o.ActualUnits.String()})
	}
	if o.Repeated {
		fields = append(fields, field{"repeated", "yes; nothing was changed"})
	}
	for _, other := range o.Others {
		fields = append(fields, field{"also", fmt.Sprintf("%s is now %s", other.EventID, other.State)})
	}
	for _, band := range o.Crossed {
		fields = append(fields, field{"crossed", "the band at " + band.Band + " of the account's limit"})
	}
	return fields
}

// step runs one step of the machine and shows its outcome.
func (c *Call) step(run func(ctx context.Context, now time.Time, m *spend.Machine) (spend.Outcome, error)) error {
	var outcome spend.Outcome
	err := c.withMachine(func(m *spend.Machine, _ book.Store, _ string) error {
		var err error
		outcome, err = run(c.Ctx(), c.Now(), m)
		return err
	})
	if err != nil {
		return c.spendError(err)
	}
	return c.writeFields(outcome, outcomeFields(outcome))
}

// spendError tells a wrong argument from a refusal of the book and from a failing store.
func (c *Call) spendError(err error) error {
	var input *spend.InputError
	var settled *spend.SettledError
	var state *book.StateError
	switch {
	case errors.As(err, &input):
		return c.Usagef("%s", err)
	case errors.As(err, &settled), errors.As(err, &state):
		return &BadNewsError{Summary: err.Error()}
	}
	return err
}

func newSpendAdmitCommand() *Command {
	return &Command{
		Name: "admit", Usage: "decide about a paid call, and reserve what it costs", ArgsUsage: "EVENT CAPABILITY", ArgsMin: 2, ArgsMax: 2,
		Description: "An event that was admitted before gets its decision again: a retry never spends twice. The status is 0 for dispatch, " +
			"defer and minimal, and 1 for reject.",
		Examples: []Example{
			{Comment: "one event", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db"},
			{Comment: "with what is known of it", Line: publishExample + "tapyr spend admit order-1 tracking --class parcel --size 3 --var country=FR --state state.db --format json"},
		},
		Flags: spendFlags(
			&cli.StringFlag{Name: "class", Usage: "the `CLASS` of input"},
			&cli.Int64Flag{Name: "size", Usage: "the size of the input"},
			&cli.StringSliceFlag{Name: "var", KeepSpace: true, Usage: "a variable of the event, `NAME=VALUE`; repeatable"},
			&cli.StringFlag{Name: "reference", Usage: "where the payload is"},
			&cli.StringFlag{Name: "content-hash", Usage: "a hash of the payload"},
		),
		Run: runSpendAdmit,
	}
}

func runSpendAdmit(call *Call) error {
	admission := spend.Admission{
		EventID: call.Args().Get(0), Capability: call.Args().Get(1), Class: call.String("class"), Size: call.Int64("size"),
		Reference: call.String("reference"), ContentHash: call.String("content-hash"),
	}
	var err error
	if admission.Vars, err = call.variables(); err != nil {
		return err
	}
	rejected := false
	err = call.step(func(ctx context.Context, now time.Time, m *spend.Machine) (spend.Outcome, error) {
		outcome, err := m.Admit(ctx, now, admission)
		rejected = outcome.Disposition == book.Reject
		return outcome, err
	})
	if err == nil && rejected {
		return &BadNewsError{Summary: fmt.Sprintf("event %q is rejected", admission.EventID)}
	}
	return err
}

func newSpendSettleCommand() *Command {
	return &Command{
		Name: "settle", Usage: "replace a reservation by what was really spent", ArgsUsage: "EVENT AMOUNT", ArgsMin: 2, ArgsMax: 2,
		Description: "Settling twice with the same amount changes nothing; with another one it is refused, with status 1.",
		Examples: []Example{
			{Comment: "less than was reserved", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend settle order-1 1.50 --state state.db"},
			{Comment: "as JSON", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend settle order-1 2 --state state.db --format json"},
		},
		Flags: spendFlags(),
		Run: func(call *Call) error {
			actual, err := book.ParseUnits(call.Args().Get(1))
			if err != nil {
				return call.Usagef("%s", err)
			}
			return call.step(func(ctx context.Context, now time.Time, m *spend.Machine) (spend.Outcome, error) {
				return m.Settle(ctx, now, call.Args().Get(0), actual)
			})
		},
	}
}

func newSpendReleaseCommand() *Command {
	return &Command{
		Name: "release", Usage: "give the units of an event back", ArgsUsage: "EVENT", ArgsMin: 1, ArgsMax: 1,
		Examples: []Example{
			{Comment: "an order that was cancelled", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend release order-1 --reason cancelled --state state.db"},
			{Comment: "as JSON", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend release order-1 --reason cancelled --state state.db --format json"},
		},
		Flags: spendFlags(&cli.StringFlag{Name: "reason", Value: "released", Usage: "why, in a few words"}),
		Run: func(call *Call) error {
			return call.step(func(ctx context.Context, now time.Time, m *spend.Machine) (spend.Outcome, error) {
				return m.Release(ctx, now, call.Args().Get(0), call.String("reason"))
			})
		},
	}
}

func newSpendAttemptCommand() *Command {
	return &Command{
		Name: "attempt", Usage: "record an attempt to deliver an event; it is never a charge", ArgsUsage: "EVENT RESULT", ArgsMin: 2, ArgsMax: 2,
		Description: "RESULT is the category of the outcome: lower-case letters, digits and dashes, such as ok, timeout or server-error. " +
			"The result unavailable lets the event wait for its route or take the next one, as its capability says.",
		Examples: []Example{
			{Comment: "a timeout", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend attempt order-1 timeout --state state.db"},
			{Comment: "the third attempt, with what came back", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend attempt order-1 ok --number 3 --response s3://bucket/order-1 --state state.db"},
		},
		Flags: spendFlags(
			&cli.Int64Flag{Name: "number", Usage: "the attempt's number, from 1", DefaultText: "the next"},
			&cli.StringFlag{Name: "response", Usage: "what came back, or where it is"},
		),
		Run: func(call *Call) error {
			delivery := spend.Delivery{Number: call.Int64("number"), Result: call.Args().Get(1), Response: call.String("response")}
			return call.step(func(ctx context.Context, now time.Time, m *spend.Machine) (spend.Outcome, error) {
				return m.Attempt(ctx, now, call.Args().Get(0), delivery)
			})
		},
	}
}

// entriesOf yields the chain of a book, outside a transaction of the caller's.
func entriesOf(ctx context.Context, store book.Store, work func(iter.Seq2[chain.Entry, error]) error) error {
	return store.View(ctx, func(tx book.Tx) error { return work(tx.Entries(1)) })
}
