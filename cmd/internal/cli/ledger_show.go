package cli

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/plaintext"
)

func newLedgerShowCommand() *Command {
	return &Command{
		Name:  "show",
		Usage: "say what the state file knows",
		Description: "Shows the counters of the windows that hold the present, how many rows the journal has and of which time, the inventories, and " +
			"the last runs of the jobs.",
		Examples: []Example{
			{Comment: "everything", Line: importExample + "tapyr ledger show --state state.db"},
			{Comment: "for a program", Line: importExample + "tapyr ledger show --state state.db --format json"},
		},
		Flags: []cli.Flag{
			stateFlag(), &cli.StringFlag{Name: "job", Usage: "the runs of this job alone: `NAME`"},
			&cli.IntFlag{Name: "runs", Value: 10, Usage: "how many runs to show"}, atFlag(), zoneFlag(),
			formatFlag("table", "json", "markdown"), outputFlag(),
		},
		Run: runLedgerShow,
	}
}

// ledgerJSON is what a state file knows. Its keys are a contract.
type ledgerJSON struct {
	State       string                `json:"state"`
	At          time.Time             `json:"at"`
	Counters    []ledgerCounterJSON   `json:"counters"`
	Windows     int64                 `json:"windows"`
	JournalRows int64                 `json:"journalRows"`
	JournalFrom *time.Time            `json:"journalFrom"`
	JournalTo   *time.Time            `json:"journalTo"`
	Inventories []ledgerInventoryJSON `json:"inventories"`
	Runs        []ledgerRunJSON       `json:"runs"`
}

type ledgerCounterJSON struct {
	Provider          string    `json:"provider"`
	Limit             string    `json:"limit"`
	Key               string    `json:"key"`
	WindowStart       time.Time `json:"windowStart"`
	WindowEnd         time.Time `json:"windowEnd"`
	Used              int64     `json:"used"`
	Lease             int64     `json:"lease"`
	ObservedRemaining *int64    `json:"observedRemaining"`
	ObservedMax       *int64    `json:"observedMax"`
	UpdatedAt         time.Time `json:"updatedAt"`
}

type ledgerInventoryJSON struct {
	Job      string    `json:"job"`
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
	Items    int       `json:"items"`
}

type ledgerRunJSON struct {
	Job             string    `json:"job"`
	Instance        string    `json:"instance"`
	Started         time.Time `json:"started"`
	DurationSeconds float64   `json:"durationSeconds"`
	Pages           int64     `json:"pages"`
	Requests        int64     `json:"requests"`
	Items           int64     `json:"items"`
	Status          string    `json:"status"`
	Error           string    `json:"error,omitempty"`
}

func runLedgerShow(call *Call) (err error) {
	store, err := call.openState(sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	shown, err := showLedger(call.Ctx(), store, call)
	if err != nil {
		return err
	}
	switch call.Format() {
	case "json":
		return call.Out.JSON(shown)
	case "markdown":
		return shown.view(call.Zone()).writeMarkdown(call.Out)
	}
	return shown.view(call.Zone()).writeText(call.Out)
}

// showLedger gathers what there is to show.
func showLedger(ctx context.Context, store *sqlite.Store, call *Call) (*ledgerJSON, error) {
	out := &ledgerJSON{State: store.Path(), At: call.Now().UTC()}
	for c, err := range store.Counters(ctx, ledger.Interval{}) {
		if err != nil {
			return nil, err
		}
		out.Windows++
		if c.Span().StartNanos <= out.At.UnixNano() && out.At.UnixNano() < c.EndNanos {
			out.Counters = append(out.Counters, ledgerCounterJSON{
				c.Provider, c.Limit, c.ScopeKey, time.Unix(0, c.StartNanos).UTC(), time.Unix(0, c.EndNanos).UTC(), c.Used, c.Lease,
				c.ObservedRemaining, c.ObservedMax, time.Unix(0, c.UpdatedNanos).UTC(),
			})
		}
	}
	if err := out.countJournal(store.Journal(ctx, ledger.Interval{})); err != nil {
		return nil, err
	}
	inventories, err := store.Inventories(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range inventories {
		out.Inventories = append(out.Inventories, ledgerInventoryJSON{i.Job, i.Instance, i.At.UTC(), len(i.Items)})
	}
	runs, err := store.Runs(ctx, call.String("job"), call.Int("runs"))
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		out.Runs = append(out.Runs, ledgerRunJSON{
			r.Job, r.Instance, r.Started.UTC(), r.Duration.Seconds(), r.Pages, r.Requests, r.Items, r.Status, r.Error,
		})
	}
	return out, nil
}

// countJournal counts the rows and finds the first and last.
func (l *ledgerJSON) countJournal(rows iter.Seq2[ledger.Row, error]) error {
	var first, last time.Time
	for row, err := range rows {
		if err != nil {
			return err
		}
		if l.JournalRows == 0 {
			first = row.At
		}
		last = row.At
		l.JournalRows++
	}
	l.JournalFrom, l.JournalTo = utcOrNil(first), utcOrNil(last)
	return nil
}

// view shows the same to people.
func (l *ledgerJSON) view(zone *time.Location) *reportView {
	text := l.State + ": " + counted64(l.JournalRows, "journal row")
	if l.JournalFrom != nil {
		text += " from " + wallTime(*l.JournalFrom, zone) + " to " + wallTime(*l.JournalTo, zone)
	}
	v := &reportView{headline: cell{text + ", " + counted64(l.Windows, "window") + ".", stylePlain}}
	counters := &table{columns: []column{
		{title: "Limit and key", fit: fitWrap}, {title: "Until"}, {title: "Used", right: true}, {title: "Vendor says left", right: true}, {title: "of", right: true}, {title: "Changed"},
	}}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return grouped(float64(*n))
	}
	for _, c := range l.Counters {
		counters.rows = append(counters.rows, plain(c.Limit+" "+plaintext.Key(c.Key), c.WindowEnd.In(zone).Format("02 Jan 15:04"), grouped(float64(c.Used)),
			number(c.ObservedRemaining), number(c.ObservedMax), c.UpdatedAt.In(zone).Format("02 Jan 15:04:05")))
	}
	inventories := &table{columns: []column{{title: "Job", fit: fitCut}, {title: "Instance", fit: fitCut}, {title: "Items", right: true}, {title: "Found"}}}
	for _, i := range l.Inventories {
		inventories.rows = append(inventories.rows, plain(i.Job, i.Instance, grouped(float64(i.Items)), i.At.In(zone).Format("02 Jan 15:04:05")))
	}
	runs := &table{columns: []column{
		{title: "Job", fit: fitCut},
		{title: "Instance", fit: fitCut},
		{title: "Started"},
		{title: "Took", right: true},
		{title: "Pages", right: true},
		{title: "Requests", right: true},
		{title: "Items", right: true},
		{title: "Status", fit: fitWrap},
	}}
	for _, r := range l.Runs {
		status := cell{r.Status, styleGood}
		if r.Status != "ok" {
			status.style = styleWarn
		}
		if r.Error != "" {
			status.text += ": " + r.Error
		}
		row := plain(r.Job, r.Instance, r.Started.In(zone).Format("02 Jan 15:04:05"), latencyText(r.DurationSeconds), grouped(float64(r.Pages)),
			grouped(float64(r.Requests)), grouped(float64(r.Items)), "")
		row[7] = status
		runs.rows = append(runs.rows, row)
	}
	for _, part := range []section{{title: "Quotas now", table: counters}, {title: "Inventories", table: inventories}, {title: "Runs", table: runs}} {
		if len(part.table.rows) > 0 {
			v.sections = append(v.sections, part)
		}
	}
	return v
}
