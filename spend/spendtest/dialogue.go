package spendtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// Dialogues runs the files of a folder: commands to a machine, each with the answer that is expected. go test -rewrite writes
// the answers that came; read the difference before you keep it. Each file has a store of its own. After every command the
// book must add up and the chain must hold.
//
//	policy                          YAML of a SpendPolicy follows; it is compiled and published next
//	publish [change=, - for none] [approve=(role:name, ...)] [outcome=] [class=]
//	now 1h30m                       the time since the start of November 2026
//	admit EVENT CAPABILITY [class=] [size=] [reference=] [hash=]
//	settle EVENT UNITS   release EVENT [reason=]   attempt EVENT RESULT [number=] [response=]
//	tick   used   event EVENT   explain EVENT   chain [from=]   outbox   versions   prune   reopen
func Dialogues(t *testing.T, folder string, open Factory) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		store, reopen := open(t)
		d := &dialogue{t: t, store: store, reopen: reopen, now: t0, machine: spend.New(store, "logistics")}
		datadriven.RunTest(t, path, func(t *testing.T, cmd *datadriven.TestData) string {
			d.t = t
			answer := d.run(cmd)
			d.checkBook()
			return answer
		})
	})
}

// dialogue is the state of a file.
type dialogue struct {
	t       *testing.T
	store   book.Store
	reopen  func() book.Store
	now     time.Time
	policy  *spend.Policy
	machine *spend.Machine
}

// word is the n-th word behind the command.
func word(cmd *datadriven.TestData, n int) string {
	if n < len(cmd.CmdArgs) {
		return cmd.CmdArgs[n].Key
	}
	return ""
}

// value is that of name=value.
func value(cmd *datadriven.TestData, name string) string {
	for _, arg := range cmd.CmdArgs {
		if arg.Key == name && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return ""
}

func (d *dialogue) run(cmd *datadriven.TestData) string {
	ctx := context.Background()
	switch cmd.Cmd {
	case "policy":
		return d.compile(cmd.Input)
	case "now":
		span, err := schema.ParseDuration(word(cmd, 0))
		if err != nil {
			return err.Error() + "\n"
		}
		d.now = t0.Add(time.Duration(span))
		return d.now.Format(time.RFC3339) + "\n"
	case "publish":
		return d.answer(d.publish(cmd))
	case "admit":
		size, _ := strconv.ParseInt(value(cmd, "size"), 10, 64)
		return d.answer(d.machine.Admit(ctx, d.now, spend.Admission{
			EventID: word(cmd, 0), Capability: word(cmd, 1), Class: value(cmd, "class"), Size: size,
			Reference: value(cmd, "reference"), ContentHash: value(cmd, "hash"),
		}))
	case "settle":
		actual, err := book.ParseUnits(word(cmd, 1))
		if err != nil {
			return err.Error() + "\n"
		}
		return d.answer(d.machine.Settle(ctx, d.now, word(cmd, 0), actual))
	case "release":
		return d.answer(d.machine.Release(ctx, d.now, word(cmd, 0), value(cmd, "reason")))
	case "attempt":
		return d.attempt(cmd)
	case "send":
		e, err := d.machine.Send(ctx, d.now, word(cmd, 0), word(cmd, 1))
		switch {
		case err != nil:
			return "error: " + err.Error() + "\n"
		case e == nil:
			return "not to be sent\n"
		}
		return fmt.Sprintf("%s %s in_doubt=%v\n", e.State, e.Route, e.InDoubt)
	case "tick":
		return d.answer(d.machine.Tick(ctx, d.now))
	case "reopen":
		if d.reopen != nil {
			d.store = d.reopen()
			d.machine = spend.New(d.store, d.policy.Name)
		}
		return ""
	case "prune":
		pruned, err := d.machine.Prune(ctx, d.now)
		return fmt.Sprintf("%+v %v\n", pruned, err)
	}
	return d.ask(cmd)
}

// attempt takes the fields of a delivery as name=value; a flag is one that is there.
func (d *dialogue) attempt(cmd *datadriven.TestData) string {
	number, _ := strconv.ParseInt(value(cmd, "number"), 10, 64)
	delivery := spend.Delivery{
		Number: number, Result: word(cmd, 1), Response: value(cmd, "response"), Route: value(cmd, "route"), Reason: value(cmd, "reason"),
		Down: cmd.HasArg("down"), InDoubt: cmd.HasArg("doubt"), GiveUp: cmd.HasArg("giveup"),
	}
	if text := value(cmd, "actual"); text != "" {
		actual, err := book.RestoreUnits(text)
		if err != nil {
			return err.Error() + "\n"
		}
		delivery.Actual = &actual
	}
	return d.answer(d.machine.Attempt(context.Background(), d.now, word(cmd, 0), delivery))
}

func (d *dialogue) compile(yaml string) string {
	text := "apiVersion: tapyr/v1alpha1\nkind: SpendPolicy\nmetadata: { name: logistics }\nspec:\n"
	for line := range strings.Lines(yaml) {
		text += "  " + line
	}
	d.policy = Policy(d.t, text+"\n")
	return fmt.Sprintf("%s %s\n", d.policy.Version, d.policy.Hash()[:8])
}

func (d *dialogue) publish(cmd *datadriven.TestData) (spend.Outcome, error) {
	pub := Approved()
	for _, arg := range cmd.CmdArgs {
		switch arg.Key {
		case "change":
			pub.Change = strings.TrimPrefix(strings.Join(arg.Vals, ""), "-")
		case "approve":
			pub.Approvals = nil
			for _, v := range arg.Vals {
				role, by, _ := strings.Cut(v, ":")
				pub.Approvals = append(pub.Approvals, spend.Approval{Role: role, By: by})
			}
		case "outcome":
			pub.Test = &spend.Test{InputClass: "small", RouteClass: value(cmd, "class"), Outcome: arg.Vals[0]}
		}
	}
	return d.machine.Publish(context.Background(), d.now, d.policy, pub)
}

// answer writes an outcome in words.
func (d *dialogue) answer(out spend.Outcome, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	switch {
	case out.EventID != "":
		fmt.Fprintf(&b, "%s", decisionText(out.Decision))
	case out.PolicyVersion != "":
		b.WriteString(out.PolicyVersion)
	default:
		b.WriteString("ok")
	}
	if out.Repeated {
		b.WriteString(", as before")
	}
	b.WriteString("\n")
	for _, other := range out.Others {
		fmt.Fprintf(&b, "  %s: %s\n", other.EventID, decisionText(other))
	}
	for _, c := range out.Crossed {
		fmt.Fprintf(&b, "  band %s\n", c.Band)
	}
	return b.String()
}

func decisionText(x spend.Decision) string {
	text := string(x.Disposition)
	if x.Route != nil {
		text += fmt.Sprintf(" %s %s", *x.Route, x.ReservedUnits)
	}
	return fmt.Sprintf("%s by %s (%s)", text, x.PolicyVersion, x.State)
}

// ask answers the commands that change nothing.
func (d *dialogue) ask(cmd *datadriven.TestData) string {
	var b strings.Builder
	ctx := context.Background()
	switch cmd.Cmd {
	case "used":
		d.used(&b)
	case "event":
		view(d.t, d.store, func(tx book.Tx) {
			r, err := tx.Get(book.EventKey("logistics", word(cmd, 0)))
			if e, ok := r.(*book.Event); ok && err == nil {
				fmt.Fprintf(&b, "%s attempts=%d result=%s reserved=%s actual=%s waiting=%v reference=%q response=%q pruned=%v\n",
					e.State, e.Attempts, e.Result, e.Reserved, e.Actual, e.Waiting, e.Reference, e.Response, e.Pruned)
				if e.Outbox || e.InDoubt {
					fmt.Fprintf(&b, "  outbox=%v in_doubt=%v\n", e.Outbox, e.InDoubt)
				}
			} else {
				fmt.Fprintf(&b, "none %v\n", err)
			}
		})
	case "versions":
		versions, err := d.machine.Versions(ctx)
		for _, v := range versions {
			fmt.Fprintf(&b, "%s active=%v seq=%d\n", v.Version, v.Active, v.Seq)
		}
		names, err2 := spend.Policies(ctx, d.store)
		fmt.Fprintf(&b, "of %v (%v, %v)\n", names, err, err2)
	case "explain":
		x, err := d.machine.Explain(ctx, word(cmd, 0))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		x.Version.ContentHash = x.Version.ContentHash[:8]
		entries := len(x.Entries)
		x.Entries = nil
		text, _ := json.MarshalIndent(x, "", " ")
		fmt.Fprintf(&b, "%s\n%d entries\n", text, entries)
	case "chain":
		d.chain(&b, value(cmd, "from"))
	case "outbox":
		count := 0
		err := d.machine.Outbox(ctx, func(e *book.Event, route schema.SpendRoute) bool {
			fmt.Fprintf(&b, "%s %s by %s %s\n", e.ID, e.State, route.Account, route.Request.Endpoint)
			count++
			return count < 10
		})
		fmt.Fprintf(&b, "%d events %v\n", count, err)
	case "next":
		next, ok, err := d.machine.Next(ctx, d.now)
		fmt.Fprintf(&b, "%s %v %v\n", next.UTC().Format(time.RFC3339), ok, err)
	default:
		d.t.Fatalf("unknown command %q", cmd.Cmd)
	}
	return b.String()
}

func (d *dialogue) used(b *strings.Builder) {
	view(d.t, d.store, func(tx book.Tx) {
		for r, err := range tx.List(book.KindCounter, "logistics") {
			if err != nil {
				d.t.Fatal(err)
			}
			c := r.(*book.Counter)
			name, start := c.Capability, "ever"
			if name == "" {
				name = "account"
			}
			if !c.Start.IsZero() {
				start = c.Start.Format(time.RFC3339)
			}
			fmt.Fprintf(b, "%s since %s: %s used, %s of it settled\n", name, start, c.Used, c.Settled)
		}
		r, err := tx.Get(book.StatusKey("logistics"))
		if err != nil {
			d.t.Fatal(err)
		}
		if s := r.(*book.Status); len(s.Deferred) > 0 {
			fmt.Fprintf(b, "deferred: %v\n", s.Deferred)
		}
	})
}

// chain writes the entries without their hashes and the members that every entry has.
func (d *dialogue) chain(b *strings.Builder, from string) {
	first, _ := strconv.ParseInt(from, 10, 64)
	view(d.t, d.store, func(tx book.Tx) {
		for e, err := range tx.Entries(max(first, 1)) {
			if err != nil {
				d.t.Fatal(err)
			}
			var members map[string]any
			if e.Body == nil {
				fmt.Fprintf(b, "%d pruned\n", e.Seq)
				continue
			}
			if err := json.Unmarshal(e.Body, &members); err != nil {
				d.t.Fatal(err)
			}
			fmt.Fprintf(b, "%d %v:", e.Seq, members["kind"])
			var names []string
			for name := range members {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				switch name {
				case "seq", "kind", "previous_hash", "policy", "at", "policy_content", "policy_hash":
				default:
					fmt.Fprintf(b, " %s=%v", name, members[name])
				}
			}
			b.WriteString("\n")
		}
	})
}

// checkBook adds everything up again.
func (d *dialogue) checkBook() {
	d.t.Helper()
	CheckBook(d.t, d.store, "logistics")
}

// CheckBook compares what a book counts with its events, and verifies its chain: counters are the sums of their events, tallies
// and the deferred are what is there, no waiting event's deadline is before the next one that is noted.
func CheckBook(t testing.TB, store book.Store, policy string) {
	t.Helper()
	view(t, store, func(tx book.Tx) {
		used, settled := make(map[book.Key]book.Units), make(map[book.Key]book.Units)
		tallies := make(map[string]int64)
		deferred := make(map[string]int64)
		var first time.Time
		anyPruned := false
		for _, e := range events(t, tx, book.Query{Policy: policy}) {
			anyPruned = anyPruned || e.Pruned
			for _, capability := range []string{"", e.Capability} {
				key := book.CounterKey(policy, capability, e.WindowStart)
				used[key] = used[key].Add(e.Units())
				if e.State == book.Settled {
					settled[key] = settled[key].Add(e.Actual)
				}
			}
			tallies[e.Day+" "+e.Capability+" "+string(e.Disposition)]++
			if e.State == book.Deferred {
				deferred[e.Capability]++
			}
			if e.Due() && (first.IsZero() || e.Deadline.Before(first)) {
				first = e.Deadline
			}
		}
		for r, err := range tx.List(book.KindCounter, policy) {
			c := r.(*book.Counter)
			if err != nil || !anyPruned && (c.Used.Cmp(used[c.Key()]) != 0 || c.Settled.Cmp(settled[c.Key()]) != 0) {
				t.Errorf("counter %+v: %s used and %s settled, its events sum to %s and %s (%v)",
					c.Key(), c.Used, c.Settled, used[c.Key()], settled[c.Key()], err)
			}
		}
		for r, err := range tx.List(book.KindTally, policy) {
			if err != nil {
				t.Fatal(err)
			}
			x := r.(*book.Tally)
			tallies[x.Day+" "+x.Capability+" "+string(x.Disposition)] -= x.Events
		}
		for key, n := range tallies {
			if n != 0 {
				t.Errorf("tally %s is off by %d", key, n)
			}
		}
		checkStatus(t, tx, policy, deferred, first)
		result, err := chain.Verify(tx.Entries(1))
		if err != nil || !result.Valid() {
			t.Errorf("chain: %+v %+v, %v", result, result.Break, err)
		}
	})
	audit, err := spend.Audit(context.Background(), store, time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil || audit.Difference != nil {
		t.Errorf("audit: %v, %v", audit.Difference, err)
	}
}

func checkStatus(t testing.TB, tx book.Tx, policy string, deferred map[string]int64, first time.Time) {
	t.Helper()
	r, err := tx.Get(book.StatusKey(policy))
	if err != nil {
		t.Fatal(err)
	}
	s, ok := r.(*book.Status)
	if !ok {
		return
	}
	if fmt.Sprint(s.Deferred) != fmt.Sprint(deferred) {
		t.Errorf("status counts %v deferred events, there are %v", s.Deferred, deferred)
	}
	if !first.IsZero() && (s.NextDeadline.IsZero() || s.NextDeadline.After(first)) {
		t.Errorf("status has %v for the next deadline, the first one is %v", s.NextDeadline, first)
	}
}
