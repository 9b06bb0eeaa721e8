package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/reconcile"
	"github.com/tapyr/tapyr/spend/report"
)

// openInput opens a file to read, "-" being standard input.
func (c *Call) openInput(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(c.Stdin()), nil
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, cause(err))
	}
	return in, nil
}

func newSpendReportCommand() *Command {
	return &Command{
		Name: "report", Usage: "say where a policy stands: reserved, settled, left, waiting, bands",
		Examples: []Example{
			{Comment: "now", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && tapyr spend report --state state.db"},
			{Comment: "with a picture", Line: publishExample + "tapyr spend report --state state.db --plot spend.svg --format json"},
		},
		Flags: append(spendFlags(&cli.StringFlag{Name: "plot", Usage: "draw the budgets into `FILE`, .svg or .png"}), zoneFlag()),
		Run: func(call *Call) error {
			var r *report.Report
			err := call.withMachine(func(_ *spend.Machine, store book.Store, policy string) (err error) {
				r, err = report.Make(call.Ctx(), store, policy, call.Now())
				return err
			})
			if err != nil {
				return call.spendError(err)
			}
			if err := call.plot(func() *chart.Figure { return chart.Spend(r) }); err != nil {
				return err
			}
			if call.Format() == "json" {
				return call.Out.JSON(r)
			}
			return spendReportView(r, call.Zone()).writeText(call.Out)
		},
	}
}

func spendReportView(r *report.Report, zone *time.Location) *reportView {
	span := "for ever"
	if r.WindowStart != nil {
		span = fmt.Sprintf("from %s to %s", wallTime(*r.WindowStart, zone), wallTime(*r.WindowEnd, zone))
	}
	view := &reportView{headline: cell{fmt.Sprintf("%s, version %s, in %s, %s", r.Policy, r.Version, r.Unit, span), stylePlain}}
	lines := &table{columns: []column{
		{title: "Budget", fit: fitCut},
		{title: "Limit", right: true},
		{title: "Reserved", right: true},
		{title: "Settled", right: true},
		{title: "Left", right: true},
		{title: "Protected", right: true},
		{title: "Waiting", right: true},
	}}
	for _, l := range append([]report.Line{r.Account}, r.Capabilities...) {
		name := l.Capability
		if name == "" {
			name = "(account)"
		}
		row := plain(name, l.Limit.String(), l.Reserved.String(), l.Settled.String(), l.Headroom.String(), l.Protected.String(), strconv.FormatInt(l.Deferred, 10))
		if strings.HasPrefix(l.Headroom.String(), "-") {
			row[4].style = styleBad
		}
		lines.rows = append(lines.rows, row)
	}
	view.sections = append(view.sections, section{title: "Budgets", table: lines})
	days := &table{columns: []column{
		{title: "Day"}, {title: "Capability", fit: fitCut}, {title: "Route class", fit: fitCut}, {title: "Disposition"}, {title: "Events", right: true}, {title: "Reserved", right: true}, {title: "Settled", right: true},
	}}
	for _, d := range r.Days {
		days.rows = append(days.rows, plain(d.Day, d.Capability, d.RouteClass, string(d.Disposition), strconv.FormatInt(d.Events, 10), d.Reserved.String(), d.Settled.String()))
	}
	if len(days.rows) > 0 {
		view.sections = append(view.sections, section{title: "By day", table: days})
	}
	var notes []cell
	if w := r.OldestDeferred; w != nil {
		notes = append(notes, cell{fmt.Sprintf("the oldest event that waits is %s (%s), for %s", w.EventID, w.Capability, spanText(w.AgeSeconds)), styleWarn})
	}
	for _, b := range r.Bands {
		notes = append(notes, cell{fmt.Sprintf("the band at %s of the account's limit was reached at %s", b.Band, wallTime(b.At, zone)), styleWarn})
	}
	if len(notes) > 0 {
		view.sections = append(view.sections, section{title: "To look at", lines: notes})
	}
	return view
}

func newSpendReconcileCommand() *Command {
	return &Command{
		Name: "reconcile", Usage: "compare what was reserved with what a vendor says was spent", ArgsUsage: "SETTLED", ArgsMin: 1, ArgsMax: 1,
		Description: "SETTLED is a CSV file of event_id, amount and settled_at; --focus reads a FOCUS 1.x cost export with the event in the tag " +
			"event_id, and --map names other columns. Nothing changes without --apply, which settles every event that holds units and " +
			"has a row, with the row's amount; what is settled already with another amount is a conflict, for people to decide. The " +
			"status is 1 if anything is left to look at.",
		Examples: []Example{
			{Comment: "what differs", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && printf 'event_id,amount,settled_at\\norder-1,1.50,2026-12-01T00:00:00Z\\n' | tapyr spend reconcile - --state state.db"},
			{Comment: "settle it", Line: publishExample + "tapyr spend admit order-1 tracking --state state.db -o /dev/null && printf 'id;cost\\norder-1;2\\n' | tapyr spend reconcile - --map event_id=id --map amount=cost --map settled_at= --apply --state state.db"},
		},
		Flags: spendFlags(
			&cli.BoolFlag{Name: "apply", Usage: "settle what is matched or corrected"},
			&cli.BoolFlag{Name: "focus", Usage: "the file is a FOCUS 1.x cost export"},
			&cli.BoolFlag{Name: "sum", Usage: "add the rows of one event up"},
			&cli.StringSliceFlag{Name: "map", KeepSpace: true, Usage: "the column of a field, `FIELD=COLUMN`; repeatable"},
			&cli.StringFlag{Name: "stale", Value: "48h", Usage: "list reservations without a settlement from this age on"},
			&cli.BoolFlag{Name: "release-stale", Usage: "give the units of those back"},
		),
		Run: runSpendReconcile,
	}
}

func runSpendReconcile(call *Call) error {
	columns, options, err := call.reconcileOptions()
	if err != nil {
		return err
	}
	in, err := call.openInput(call.Args().First())
	if err != nil {
		return err
	}
	defer in.Close()
	var result *reconcile.Result
	err = call.withMachine(func(_ *spend.Machine, store book.Store, policy string) error {
		r, err := report.Make(call.Ctx(), store, policy, call.Now())
		if err != nil {
			return err
		}
		result, err = reconcile.Run(call.Ctx(), store, policy, call.Now(), reconcile.Read(in, columns, r.Unit), options)
		var storage *book.StorageError
		if err != nil && !errors.As(err, &storage) && call.Ctx().Err() == nil {
			err = fmt.Errorf("%s: %w", call.Args().First(), err) // of the file, then
		}
		return err
	})
	if err != nil {
		return call.spendError(err)
	}
	if call.Format() == "json" {
		err = call.Out.JSON(result)
	} else {
		err = reconcileView(result).writeText(call.Out)
	}
	if err == nil && !result.Clean() {
		return &BadNewsError{Summary: "something is left to look at"}
	}
	return err
}

func (c *Call) reconcileOptions() (reconcile.Columns, reconcile.Options, error) {
	columns := reconcile.Plain()
	if c.Bool("focus") {
		columns = reconcile.FOCUS()
	}
	renamed := make(map[string]string)
	for _, text := range c.StringSlice("map") {
		field, name, found := strings.Cut(text, "=")
		if !found {
			return columns, reconcile.Options{}, c.Usagef("--map: %q is not FIELD=COLUMN", text)
		}
		renamed[field] = name
	}
	columns, err := columns.WithMap(renamed)
	if err != nil {
		return columns, reconcile.Options{}, c.Usagef("--map: %s", err)
	}
	stale, err := schema.ParseDuration(c.String("stale"))
	if err != nil {
		return columns, reconcile.Options{}, c.Usagef("--stale: %s", err)
	}
	return columns, reconcile.Options{Apply: c.Bool("apply"), Sum: c.Bool("sum"), Stale: stale.Or(0), ReleaseStale: c.Bool("release-stale")}, nil
}

func reconcileView(r *reconcile.Result) *reportView {
	headline := cell{fmt.Sprintf("%s: %d matched, %d corrected; reserved %s, charged %s", counted(r.Rows, "row"), r.Matched, len(r.Corrected), r.ReservedUnits, r.ActualUnits), styleGood}
	if !r.Clean() {
		headline.style = styleWarn
	}
	view := &reportView{headline: headline}
	add := func(title string, items []reconcile.Item) {
		if len(items) == 0 {
			return
		}
		t := &table{columns: []column{{title: "Event", fit: fitCut}, {title: "Line", right: true}, {title: "Reserved", right: true}, {title: "Charged", right: true}, {title: "State"}, {title: "Why", fit: fitWrap}}}
		for _, i := range items {
			line := ""
			if i.Line > 0 {
				line = strconv.Itoa(i.Line)
			}
			t.rows = append(t.rows, plain(i.EventID, line, i.ReservedUnits, i.ActualUnits, i.State, i.Reason))
		}
		view.sections = append(view.sections, section{title: title, table: t})
	}
	add("Corrected", r.Corrected)
	add("Charges without a reservation", r.UnmatchedRows)
	add("Reservations without a charge", r.UnmatchedEvents)
	add("Conflicts", r.Conflicts)
	add("Stale reservations", r.Stale)
	add("Failed", r.Failed)
	var notes []cell
	for _, bad := range r.BadRows {
		notes = append(notes, cell{bad.Error(), styleBad})
	}
	if r.Duplicates > 0 {
		notes = append(notes, cell{counted(r.Duplicates, "row") + " repeated and counted once", stylePlain})
	}
	if r.Applied+r.Released > 0 {
		notes = append(notes, cell{fmt.Sprintf("%d settled, %d released", r.Applied, r.Released), styleGood})
	}
	if len(notes) > 0 {
		view.sections = append(view.sections, section{title: "Notes", lines: notes})
	}
	return view
}
