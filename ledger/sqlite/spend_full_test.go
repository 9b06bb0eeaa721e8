package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/spendtest"
)

// diskFull and diskFullOutcome are the case LG-17.
type diskFull struct {
	Budget, Spent json.Number
	Reserve       []json.Number `json:"reserve_each"`
}

type diskFullOutcome struct {
	Granted     int
	Error       string
	AfterReturn struct {
		Spent       json.Number
		NextReserve string
	} `json:"afterSpaceReturns"`
}

// LG-17: a reservation that is not durable is not granted, and nothing is left of it when space returns.
func TestSpendDiskFull(t *testing.T) {
	var in diskFull
	var want diskFullOutcome
	golden.Case(t, "LG-17", &in, &want)
	ctx, now := context.Background(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := OpenSpend(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: full }
spec:
  version: v1
  unit: u
  account: { limit: "%s" }
  routes: { before: { cost: "%s" }, one: { cost: "%s" } }
  capabilities:
    a: { limit: "%s", routes: [before, one], fallback: reject }
`, in.Budget, in.Spent, in.Reserve[0], in.Budget)
	m := spendtest.Publish(t, store, now, spendtest.Policy(t, text))
	if _, err := m.Admit(ctx, now, spend.Admission{EventID: "before", Capability: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Settle(ctx, now, "before", spendtest.Units(t, in.Spent.String())); err != nil {
		t.Fatal(err)
	}
	// No page may be added any more; the payload is larger than what the last pages have left.
	pages := pageCount(t, store)
	setMaxPages(t, store, pages)
	granted := 0
	large := map[string]string{}
	for i := range 40 {
		large[fmt.Sprint(i)] = strings.Repeat("x", 500)
	}
	for i := range in.Reserve {
		out, err := m.Admit(ctx, now, spend.Admission{EventID: fmt.Sprintf("full%d", i), Capability: "a", Vars: large})
		if err == nil && out.Disposition == book.Dispatch {
			granted++
		}
		var storage *book.StorageError
		if !errors.As(err, &storage) || !storage.Full || !strings.HasPrefix(err.Error(), want.Error) {
			t.Errorf("admission on a full disk: %+v, %v, want an error of the storage", out, err)
		}
	}
	if granted != want.Granted {
		t.Errorf("%d granted, want %d", granted, want.Granted)
	}
	setMaxPages(t, store, 1<<30)
	if used := spendtest.Used(t, store, "full", "", time.Time{}); used != want.AfterReturn.Spent.String() {
		t.Errorf("%s is used after space has returned, want %s", used, want.AfterReturn.Spent)
	}
	out, err := m.Admit(ctx, now, spend.Admission{EventID: "full0", Capability: "a"})
	if err != nil || out.Disposition != book.Dispatch || out.Repeated {
		t.Errorf("after space has returned: %+v, %v, want it %s", out, err, want.AfterReturn.NextReserve)
	}
	spendtest.CheckBook(t, store, "full")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// setMaxPages bounds the file, in the writer's own goroutine.
func setMaxPages(t *testing.T, store *Spend, pages int64) {
	t.Helper()
	err := store.Update(context.Background(), func(tx book.Tx) error {
		return spendExec(tx.(*spendTx).conn, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func pageCount(t *testing.T, store *Spend) int64 {
	t.Helper()
	var pages int64
	err := store.Update(context.Background(), func(tx book.Tx) error {
		rows, err := tx.(*spendTx).conn.Query("PRAGMA page_count", nil)
		if err != nil {
			return err
		}
		return spendRows(rows, func(row []driver.Value) error {
			pages = row[0].(int64)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Opening says what is wrong with a file, and admits nothing on it.
func TestSpendOpenFails(t *testing.T) {
	folder := t.TempDir()
	garbage := filepath.Join(folder, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"garbage": garbage, "no folder": filepath.Join(folder, "none", "x.db")} {
		var storage *ledger.StorageError
		if s, err := OpenSpend(context.Background(), path, Options{}); !errors.As(err, &storage) {
			t.Errorf("%s: opened %v, %v", name, s, err)
		}
	}
}

// A change made behind tapyr's back, with any SQLite tool, shows.
func TestSpendVerifySeesTheDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		sql  string
		want chain.Fault
	}{
		"amount":   {`UPDATE spend_chain SET body = replace(body, '"reserved_units":"2.00"', '"reserved_units":"1.00"') WHERE seq = 3`, chain.Altered},
		"delete":   {`DELETE FROM spend_chain WHERE seq = 3`, chain.Missing},
		"erase":    {`UPDATE spend_chain SET previous_hash = (SELECT entry_hash FROM spend_chain WHERE seq = 2), body = NULL WHERE seq = 3`, chain.Altered},
		"swap":     {`UPDATE spend_chain SET seq = 5 - seq + 100 WHERE seq IN (2, 3); UPDATE spend_chain SET seq = seq - 100 WHERE seq > 100`, chain.Altered},
		"hash":     {`UPDATE spend_chain SET entry_hash = '0' WHERE seq = 3`, chain.Altered},
		"no table": {`DELETE FROM spend_chain`, ""},
	} {
		store, err := OpenSpend(context.Background(), filepath.Join(t.TempDir(), "state.db"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		m := spendtest.Publish(t, store, now, spendtest.Policy(t, accountCrash(100)))
		for i := range 4 {
			if _, err := m.Admit(context.Background(), now, spend.Admission{EventID: fmt.Sprint(i), Capability: "tracking"}); err != nil {
				t.Fatal(err)
			}
		}
		other, err := OpenSpend(context.Background(), store.path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Update(context.Background(), func(tx book.Tx) error { return spendExec(tx.(*spendTx).conn, c.sql) }); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		err = store.View(context.Background(), func(tx book.Tx) error {
			r, err := chain.Verify(tx.Entries(1))
			if r.Valid() != (c.want == "") || !r.Valid() && r.Break.Fault != c.want {
				t.Errorf("%s: %+v, want %q", name, r.Break, c.want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The independent checker sees what it is there to see: without that, its silence would prove nothing.
func TestSpendCheckerSees(t *testing.T) {
	folder := t.TempDir()
	checker := buildChecker(t)
	path := filepath.Join(folder, "state.db")
	store, err := OpenSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	m := spendtest.Publish(t, store, now, spendtest.Policy(t, accountCrash(10))) // 5.50 for the account, 3 for tracking
	if _, err := m.Admit(context.Background(), now, spend.Admission{EventID: "e1", Capability: "tracking"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	export := filepath.Join(folder, "chain.jsonl")
	writeExport(t, path, export)
	whole, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	forged := func(changes ...chain.Field) string { return forge(t, whole, changes) }
	for name, c := range map[string]struct{ text, acknowledged, want string }{
		"nothing":          {string(whole), "", "0 problems"},
		"a good entry":     {forged(), "", "0 problems"},
		"altered":          {strings.Replace(string(whole), `"state":"reserved"`, `"state":"deferred"`, 1), "", "hash"},
		"cut front":        {string(whole[bytes.IndexByte(whole, '\n')+1:]), "", "follows"},
		"twice":            {forged(chain.Field{Name: "event_id", Text: "e1"}), "", "admitted twice"},
		"over":             {forged(chain.Field{Name: "route", Text: "standard"}, chain.Field{Name: "reserved_units", Text: "2.00"}), "", "over its limit"},
		"cheap":            {forged(chain.Field{Name: "reserved_units", Text: "0.50"}), "", "its route costs"},
		"wrong sums":       {forged(chain.Field{Name: "account_units", Text: "1.00"}), "", "the sums are"},
		"account":          {forged(chain.Field{Name: "capability", Text: "proof"}, chain.Field{Name: "route", Text: "standard"}, chain.Field{Name: "reserved_units", Text: "2.00"}, chain.Field{Name: "capability_units", Text: "0"}), "", "0 problems"},
		"settled unknown":  {forged(chain.Field{Name: "kind", Text: "settlement"}, chain.Field{Name: "actual_units", Text: "1"}), "", "cannot end"},
		"lost answer":      {string(whole), "e9 dispatch standard abc\n", "not in the chain"},
		"other answer":     {string(whole), "e1 dispatch standard abc\n", "not its own"},
		"cut acknowledged": {string(whole), "e9 disp", "0 problems"},
	} {
		if err := os.WriteFile(export, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		answers := filepath.Join(folder, "answers")
		if err := os.WriteFile(answers, []byte(c.acknowledged), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(checker, export, answers).CombinedOutput()
		if clean := c.want == "0 problems"; clean != (err == nil) || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s, want %q", name, err, out, c.want)
		}
	}
}

// forge adds an admission, with some of its fields changed and a hash that fits, to an export.
func forge(t *testing.T, whole []byte, changes []chain.Field) string {
	t.Helper()
	var last chain.Entry
	for e, err := range chain.Read(bytes.NewReader(whole)) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	fields := map[string]chain.Field{
		"kind": {Text: "admission"}, "event_id": {Text: "e2"}, "capability": {Text: "tracking"}, "disposition": {Text: "dispatch"},
		"route": {Text: "economy"}, "reserved_units": {Text: "0.75"}, "policy_version": {Text: "v1"},
		"account_units": {Text: "2.00"}, "capability_units": {Text: "2.00"},
	}
	for _, c := range changes {
		fields[c.Name] = c
	}
	var list []chain.Field
	for name, f := range fields {
		f.Name = name
		list = append(list, f)
	}
	e, err := chain.Seal(last.Head(), false, list...)
	if err != nil {
		t.Fatal(err)
	}
	return string(whole) + string(e.AppendJSON(nil)) + "\n"
}
