package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/chain"
)

// newLedgerCommand is "tapyr ledger".
func newLedgerCommand() *Command {
	return &Command{
		Name:  "ledger",
		Usage: "look after the state file: counters, journal, inventories, runs",
		Description: "The state file remembers how much of each quota is used, what happened to every request, what the jobs found and " +
			"how their runs went. Its path is --state, else settings.state.path of the documents, else tapyr.db.",
		Examples: []Example{
			{Comment: "read a journal into a state file, and look at it", Line: "tapyr ledger import examples/meraki/journal.jsonl --state state.db && tapyr ledger show --state state.db"},
			{Comment: "what a state file knows, as a table for a spreadsheet", Line: "tapyr ledger import examples/meraki/journal.jsonl --state state.db && tapyr ledger export --state state.db --what journal --format csv -o journal.csv"},
		},
		Subcommands: []*Command{
			newLedgerExportCommand(), newLedgerImportCommand(), newLedgerShowCommand(), newLedgerPruneCommand(), newLedgerCheckCommand(),
			newLedgerBackupCommand(),
		},
	}
}

// importExample makes a state file for the examples of the others.
const importExample = "tapyr ledger import examples/meraki/journal.jsonl --state state.db && "

// stateFlag is --state, read with Call.statePath.
func stateFlag() cli.Flag {
	return &cli.StringFlag{Name: "state", Usage: "the state `FILE`", DefaultText: "settings.state.path, else tapyr.db"}
}

// whatFlag is --what, read with Call.what.
func whatFlag() cli.Flag {
	return choiceFlag("what", "the rows to take: `WHAT`", string(ledger.WhatJournal), string(ledger.WhatJournal), string(ledger.WhatCounters), string(ledger.WhatMinutes))
}

func (c *Call) what() ledger.What { return ledger.What(c.String("what")) }

// defaultState is the state file where nothing names another.
const defaultState = "tapyr.db"

// statePath is the file of --state, else settings.state.path of the documents, else tapyr.db.
func (c *Call) statePath() (string, error) {
	if path := c.String("state"); path != "" {
		return path, nil
	}
	paths, err := c.configuredPaths()
	var usage *UsageError
	if errors.As(err, &usage) {
		return defaultState, nil // there are no documents, and no need of any
	} else if err != nil {
		return "", err
	}
	read, err := readPaths(c.Ctx(), c.Env.Stdin, paths)
	if err != nil {
		return "", err
	}
	if _, err := c.checkDocuments(read); err != nil {
		return "", err // a file that cannot be trusted must not choose the book
	}
	for _, d := range read.docs {
		if s, ok := d.Spec.(*schema.SettingsSpec); ok && s.State.Path != "" {
			return s.State.Path, nil
		}
	}
	return defaultState, nil
}

// openState opens the state file; for reading it must be there.
func (c *Call) openState(mode sqlite.Mode) (*sqlite.Store, error) {
	path, err := c.statePath()
	if err != nil {
		return nil, err
	}
	if mode == sqlite.ReadOnly {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read %s: %w", path, cause(err))
		}
	}
	return sqlite.Open(c.Ctx(), path, sqlite.Options{Mode: mode})
}

func newLedgerExportCommand() *Command {
	return &Command{
		Name:  "export",
		Usage: "write journal rows, counters or minutes to a file",
		Description: "The format is that of --format, else of the file's ending: .jsonl, .csv or .parquet, with .gz or .zst behind it if it is to " +
			"be compressed. The same rows are the same bytes. It works beside a running daemon, from one state of the file.",
		Examples: []Example{
			{Comment: "the whole journal, compressed", Line: importExample + "tapyr ledger export --state state.db -o journal.jsonl.zst"},
			{Comment: "one day, for a column store", Line: importExample + "tapyr ledger export --state state.db --from 2026-11-30T00:00:00Z --to 2026-12-01T00:00:00Z -o day.parquet"},
		},
		Flags: []cli.Flag{
			stateFlag(), whatFlag(), choiceFlag("format", "write the rows as `FORMAT`", "", "jsonl", "csv", "parquet"),
			instantFlag("from", "leave out what is before `TIME`"), instantFlag("to", "leave out what is at `TIME` and after"), outputFlag(),
		},
		Run: runLedgerExport,
	}
}

func runLedgerExport(call *Call) (err error) {
	byName, compression := ledger.FormatOf(call.String(outputFlagName))
	format := ledger.Format(call.Format())
	if format == "" {
		format = byName
	}
	if format == "" {
		format = ledger.FormatJSONL
	}
	store, err := call.openState(sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	out, err := ledger.Compress(call.Out, compression)
	if err != nil {
		return err
	}
	in := ledger.Interval{From: call.instant("from"), To: call.instant("to")}
	rows, err := ledger.Export(call.Ctx(), store, out, call.what(), format, in)
	if err != nil {
		return err
	}
	if call.IsSet(outputFlagName) {
		call.Note("%s of %s", counted64(rows, "row"), call.what())
	}
	return out.Close()
}

func newLedgerImportCommand() *Command {
	return &Command{
		Name:      "import",
		Usage:     "read journal rows, counters or minutes into the state file",
		ArgsUsage: "FILE...",
		ArgsMin:   1,
		ArgsMax:   -1,
		Description: "The inverse of export; a journal may also be anything that \"tapyr replay\" reads, with --map. Rows of a key that is there " +
			"already are replaced, journal rows without an id are added. The file is made where it is missing.",
		Examples: []Example{
			{Comment: "a journal", Line: "tapyr ledger import examples/meraki/journal.jsonl --state state.db"},
			{Comment: "an export comes back as it was", Line: importExample + "tapyr ledger export --state state.db -o a.csv.gz && tapyr ledger import a.csv.gz --state b.db"},
		},
		Flags: []cli.Flag{
			stateFlag(), whatFlag(),
			&cli.StringSliceFlag{Name: "map", KeepSpace: true, Usage: "read a field of foreign files from a column: `FIELD=COLUMN`; repeatable"},
			&cli.StringFlag{Name: "provider", Usage: "the `NAME` for rows that name no provider"},
			&cli.StringFlag{Name: "account", Usage: "the `NAME` for rows that name no account"},
			&cli.BoolFlag{Name: "strict", Usage: "stop at the first bad row"},
		},
		Run: runLedgerImport,
	}
}

func runLedgerImport(call *Call) (err error) {
	options := journal.Options{Provider: call.String("provider"), Account: call.String("account"), Strict: call.Bool("strict"), State: sqlite.JournalRows}
	for _, text := range call.StringSlice("map") {
		m, err := journal.ParseMapping(text)
		if err != nil {
			return call.Usagef("--map: %s", err)
		}
		options.Map = append(options.Map, m)
	}
	for _, name := range call.Args().Slice() {
		if name == "-" {
			options.Stdin = call.Stdin()
		}
	}
	store, err := call.openState(sqlite.Shared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	bar := call.startProgress("files", int64(call.Args().Len()))
	defer bar.finish()
	for _, name := range call.Args().Slice() {
		stats, err := ledger.Import(call.Ctx(), store, name, call.what(), options)
		if err != nil {
			return fmt.Errorf("cannot import %s: %w", name, cause(err))
		}
		bar.Add(1)
		call.Note("%s: %s of %s%s", name, counted64(stats.Rows, "row"), call.what(), importRemarks(&stats))
		for _, bad := range stats.Bad {
			call.Note("  %s", bad)
		}
	}
	return nil
}

// importRemarks says what was not imported.
func importRemarks(s *journal.Stats) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{{s.Duplicates, "duplicate"}, {s.BadRows, "bad row"}, {s.OtherHosts, "row of another host"}} {
		if part.n > 0 {
			parts = append(parts, counted64(part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(parts, ", ")
}

func newLedgerPruneCommand() *Command {
	return &Command{
		Name:  "prune",
		Usage: "remove old journal rows, runs and windows",
		Description: "Removes what is older than an age or an instant: journal rows, runs, and windows that ended before it with their minutes. " +
			"Windows that are not over stay. It works beside a running daemon.",
		Examples: []Example{
			{Comment: "keep a month", Line: importExample + "tapyr ledger prune --state state.db --older-than 30d"},
			{Comment: "all before an instant", Line: importExample + "tapyr ledger prune --state state.db --before 2026-11-30T12:00:00Z"},
		},
		Flags: []cli.Flag{
			stateFlag(), instantFlag("before", "remove what is before `TIME`"),
			&cli.StringFlag{Name: "older-than", Usage: "remove what is older than `AGE`, such as 30d"}, atFlag(),
		},
		Run: runLedgerPrune,
	}
}

func runLedgerPrune(call *Call) (err error) {
	before := call.instant("before")
	switch age := call.String("older-than"); {
	case age == "" && before.IsZero():
		return call.Usagef("say what to remove: --older-than AGE or --before TIME")
	case age != "" && !before.IsZero():
		return call.Usagef("--older-than and --before do not go together; give one of them")
	case age != "":
		d, err := schema.ParseDuration(age)
		if err != nil {
			return call.Usagef("--older-than: %s", err)
		}
		before = call.Now().Add(-time.Duration(d))
	}
	path, err := call.statePath()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, cause(err))
	}
	store, err := sqlite.Open(call.Ctx(), path, sqlite.Options{Mode: sqlite.Shared})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := store.Prune(call.Ctx(), before)
	if err != nil {
		return err
	}
	call.Out.Printf("removed %s, %s, %s and %s from before %s\n", counted64(p.Rows, "journal row"), counted64(p.Counters, "counter"),
		counted64(p.Minutes, "minute"), counted64(p.Runs, "run"), before.UTC().Format(time.RFC3339))
	return nil
}

func newLedgerCheckCommand() *Command {
	return &Command{
		Name:  "check",
		Usage: "look for damage in the state file",
		Description: "Checks the file and what it says; of paid calls, the audit chain, and whether events and counters are what it says. The " +
			"status is 1 where something is damaged, and each finding is a line.",
		Examples: []Example{
			{Comment: "a sound file", Line: importExample + "tapyr ledger check --state state.db"},
			{Comment: "a file that is no state", Line: "tapyr ledger check --state examples/meraki/provider.yaml", Status: 1},
		},
		Flags: []cli.Flag{stateFlag()},
		Run:   runLedgerCheck,
	}
}

func runLedgerCheck(call *Call) (err error) {
	store, err := call.openState(sqlite.ReadOnly)
	var storage *ledger.StorageError
	if errors.As(err, &storage) && storage.Fault == ledger.FaultCorrupt {
		call.Out.Printf("%s\n", storage)
		return &BadNewsError{Summary: "the state file is damaged"}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	findings, err := store.Check(call.Ctx())
	if err != nil {
		if errors.As(err, &storage) && storage.Fault == ledger.FaultCorrupt {
			call.Out.Printf("%s\n", storage)
			return &BadNewsError{Summary: "the state file is damaged"}
		}
		return err
	}
	spent, err := call.checkBook(store.Path())
	if err != nil {
		return err
	}
	findings = append(findings, spent...)
	for _, f := range findings {
		call.Out.Printf("%s\n", f)
	}
	if len(findings) > 0 {
		return &BadNewsError{Summary: "the state file has " + counted(len(findings), "finding")}
	}
	call.Out.Printf("%s is sound\n", store.Path())
	return nil
}

// checkBook looks at the paid calls in a state file.
func (c *Call) checkBook(path string) (findings []string, err error) {
	store, err := sqlite.ReadSpend(c.Ctx(), path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var result chain.Result
	err = entriesOf(c.Ctx(), store, func(entries iter.Seq2[chain.Entry, error]) (err error) {
		result, err = chain.Verify(entries)
		return err
	})
	if err != nil {
		return nil, err
	}
	if b := result.Break; b != nil {
		return []string{fmt.Sprintf("audit chain, entry %d: %s: %s", b.Position, b.Fault, b.Reason)}, nil
	}
	audit, err := spend.Audit(c.Ctx(), store, c.Now())
	if audit.Difference != nil {
		findings = append(findings, audit.Difference.String())
	}
	return findings, err
}

func newLedgerBackupCommand() *Command {
	return &Command{
		Name:      "backup",
		Usage:     "copy the state file while it is in use",
		ArgsUsage: "FILE",
		ArgsMin:   1,
		ArgsMax:   1,
		Description: "Writes a complete copy of one state of the file, also beside a running daemon. The copy appears whole, under its name; an " +
			"older file of that name is replaced.",
		Examples: []Example{
			{Comment: "a copy", Line: importExample + "tapyr ledger backup copy.db --state state.db"},
			{Comment: "a copy that is checked", Line: importExample + "tapyr ledger backup copy.db --state state.db && tapyr ledger check --state copy.db"},
		},
		Flags: []cli.Flag{stateFlag()},
		Run:   runLedgerBackup,
	}
}

func runLedgerBackup(call *Call) (err error) {
	store, err := call.openState(sqlite.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Backup(call.Ctx(), call.Args().First()); err != nil {
		return err
	}
	call.Note("%s is a copy of %s", call.Args().First(), store.Path())
	return nil
}
