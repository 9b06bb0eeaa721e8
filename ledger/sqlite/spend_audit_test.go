package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/audit"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const auditPolicy = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: audited }
spec:
  version: %s
  unit: EUR
  account: { limit: "10", bands: [0.2, 0.5], window: { period: day } }
  routes:
    good: { cost: "2.00", class: gold }
    cheap: { cost: "0.50" }
  capabilities:
    a: { limit: "6", protected: "1", routes: [good, cheap], fallback: defer, deadline: 15m, onDeadline: minimal, onUnavailable: next,
         retain: { decision: 30h } }
    b: { limit: "3", routes: [good], fallback: reject }
`

var auditStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// auditedBook has a record of every kind and an event of every state, some of them pruned. It returns the instant of its last step.
func auditedBook(t *testing.T, path string) time.Time {
	t.Helper()
	ctx := context.Background()
	store, err := OpenSpend(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := auditStart
	m := spendtest.Publish(t, store, now, spendtest.Policy(t, fmt.Sprintf(auditPolicy, "v1")))
	must := func(_ spend.Outcome, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	admit := func(id, capability string) {
		t.Helper()
		must(m.Admit(ctx, now, spend.Admission{EventID: id, Capability: capability, Class: "parcel", Size: 3, ContentHash: "abc"}))
	}
	admit("pruned", "a")
	must(m.Settle(ctx, now, "pruned", spendtest.Units(t, "1.75")))
	now = auditStart.Add(23*time.Hour + 50*time.Minute)
	for _, id := range []string{"settled", "down", "attempted", "deferred", "expired"} {
		admit(id, "a") // the first three exhaust the capability, but for what the next route still fits
	}
	must(m.Settle(ctx, now, "settled", spendtest.Units(t, "2.25")))
	must(m.Attempt(ctx, now, "down", spend.Delivery{Result: spend.ResultUnavailable}))
	must(m.Attempt(ctx, now, "attempted", spend.Delivery{Result: "timeout"}))
	admit("rejected", "b")
	admit("rejected2", "b")
	must(m.Release(ctx, now, "rejected", "test"))
	now = now.Add(20 * time.Minute) // the window turns, and deadlines pass
	if _, err := m.Publish(ctx, now, spendtest.Policy(t, fmt.Sprintf(auditPolicy, "v2")), spendtest.Approved()); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		admit(fmt.Sprintf("next%d", i), "a")
	}
	now = auditStart.Add(30 * time.Hour)
	pruned, err := m.Prune(ctx, now)
	if err != nil || pruned.Entries != 2 {
		t.Fatalf("pruned %+v, %v, want the two entries of an event", pruned, err)
	}
	admit("last", "b")
	for i := range 4 {
		admit(fmt.Sprintf("waits%d", i), "a")
	}
	return now
}

// readBook opens the book of a file for reading.
func readBook(t *testing.T, path string) *Spend {
	t.Helper()
	store, err := ReadSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // a store for reading has nothing to lose
	return store
}

// auditOf compares a book with its chain, and looks at the chain.
func auditOf(t *testing.T, store *Spend, now time.Time) (audit.Result, chain.Result) {
	t.Helper()
	found, err := spend.Audit(context.Background(), store, now)
	if err != nil {
		t.Fatal(err)
	}
	var verified chain.Result
	err = store.View(context.Background(), func(tx book.Tx) error {
		verified, err = chain.Verify(tx.Entries(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, verified
}

func TestSpendAuditOfAWholeBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	now := auditedBook(t, path)
	store := readBook(t, path)
	found, verified := auditOf(t, store, now)
	if found.Difference != nil || !verified.Valid() {
		t.Fatalf("%v, %+v", found.Difference, verified.Break)
	}
	if found.Policies != 1 || found.Events != 20 || found.PrunedEvents != 1 || found.Totals == 0 {
		t.Errorf("compared %+v", found)
	}
	// A store for reading cannot write.
	if err := store.Update(context.Background(), func(book.Tx) error { return nil }); err == nil {
		t.Error("a store for reading was written")
	}
}

// unproven are the columns that the chain does not tell of, or tells within bounds, with the rows that may change nevertheless.
var unproven = map[string]string{
	"spend_status.next_deadline": "earlier is harmless: an expiry finds nothing and looks for the next one",
}

// Rows that are taken out, and rows that are put in, show too.
func TestSpendAuditSeesRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	now := auditedBook(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store := readBook(t, path)
	for _, change := range []string{
		"DELETE FROM spend_events WHERE event_id = 'rejected2'", "DELETE FROM spend_events WHERE event_id = 'pruned'",
		"DELETE FROM spend_counters WHERE capability = 'b'", "DELETE FROM spend_tallies WHERE day = '2026-11-02'",
		"DELETE FROM spend_status", "DELETE FROM spend_versions WHERE version = 'v1'",
		"INSERT INTO spend_events SELECT 1000, policy, 'new', capability, state, disposition, route, route_class, reserved, actual, version, window_start, admitted_at, " +
			"decided_at, updated_at, day, deadline, waiting, outbox, decision_seq, last_seq, details FROM spend_events WHERE event_id = 'last'",
		"INSERT INTO spend_counters SELECT policy, 'c', window_start, window_end, used, settled, crossed FROM spend_counters WHERE capability = 'b'",
		"INSERT INTO spend_tallies SELECT policy, day, 'c', disposition, route_class, events, reserved, settled FROM spend_tallies WHERE events > 0 LIMIT 1",
		"INSERT INTO spend_status SELECT 'other', active, active_seq, window_start, next_deadline, deferred FROM spend_status",
		"INSERT INTO spend_versions SELECT policy, 'v3', content, content_hash, record, published_at, seq FROM spend_versions WHERE version = 'v2'",
	} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		// What is changed is kept for the other connection to see, and taken back from a copy.
		for _, table := range []string{"spend_events", "spend_counters", "spend_tallies", "spend_status", "spend_versions"} {
			if _, err := tx.Exec("CREATE TABLE copy_" + table + " AS SELECT * FROM " + table); err != nil {
				t.Fatal(err)
			}
		}
		result, err := tx.Exec(change)
		if err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		if n, _ := result.RowsAffected(); n == 0 {
			t.Errorf("%s: changed nothing", change)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if found, _ := auditOf(t, store, now); found.Difference == nil {
			t.Errorf("%s: nothing showed", change)
		}
		for _, table := range []string{"spend_events", "spend_counters", "spend_tallies", "spend_status", "spend_versions"} {
			if _, err := db.Exec(fmt.Sprintf("DELETE FROM %[1]s; INSERT INTO %[1]s SELECT * FROM copy_%[1]s; DROP TABLE copy_%[1]s", table)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found, _ := auditOf(t, store, now); found.Difference != nil {
		t.Errorf("the book was not restored: %v", found.Difference)
	}
}

// What was decided on altered counters shows at the entry, also when the counters are what they were again.
func TestSpendAuditSeesPastAlterations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	now := auditedBook(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE spend_counters SET used = '0' WHERE capability <> 'b'"); err != nil {
		t.Fatal(err)
	}
	book, err := OpenSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	out, err := spend.New(book, "audited").Admit(context.Background(), now, spend.Admission{EventID: "too much", Capability: "a"})
	if err != nil || out.Route == nil {
		t.Fatalf("%+v, %v, want a route that the altered counters allow", out, err)
	}
	found, verified := auditOf(t, readBook(t, path), now)
	d := found.Difference
	if !verified.Valid() || d == nil || d.Record != "entry" || d.Event != "too much" || d.Field != "account_units" || d.Stored != "0" || d.Derived == "0" {
		t.Errorf("%+v, want the entry of the event to differ in account_units", d)
	}
}

// Every column of every table is altered in one row after the other: each shows. All rows are tried with TAPYR_SOAK, else some of
// each column.
func TestSpendAuditSeesEveryAlteration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	now := auditedBook(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	store := readBook(t, path)
	altered := 0
	for _, table := range []string{"spend_chain", "spend_events", "spend_counters", "spend_tallies", "spend_status", "spend_versions"} {
		for i, column := range queryTexts(t, db, "SELECT name FROM pragma_table_info('"+table+"')") {
			for j, row := range rowsOf(t, db, table) {
				if os.Getenv("TAPYR_SOAK") == "" && j > 1 && (i+j)%6 != 0 {
					continue
				}
				old := queryAny(t, db, "SELECT "+column+" FROM "+table+" WHERE "+row.where, row.key...)
				if old == nil {
					continue // a column of pruned entries, or of the others
				}
				for _, value := range alterations(table, column, old) {
					if value == old {
						continue
					}
					if _, err := db.Exec("UPDATE "+table+" SET "+column+" = ? WHERE "+row.where, append([]any{value}, row.key...)...); err != nil {
						if strings.Contains(err.Error(), "constraint failed") || strings.Contains(err.Error(), "datatype mismatch") {
							continue // the file itself does not allow it
						}
						t.Fatal(err)
					}
					altered++
					found, verified := auditOf(t, store, now)
					if found.Difference == nil && verified.Valid() {
						t.Errorf("%s.%s of %v: %v became %v, and nothing showed", table, column, row.key, old, value)
					}
					if d := found.Difference; d != nil && (d.Field == "" || d.Record == "" || d.Stored == d.Derived) {
						t.Errorf("%s.%s: %+v", table, column, d)
					}
					restoreRow(t, db, table, column, old, value, row)
				}
			}
		}
	}
	if found, verified := auditOf(t, store, now); found.Difference != nil || !verified.Valid() {
		t.Fatalf("the book was not restored: %v, %+v", found.Difference, verified.Break)
	}
	if altered < 200 {
		t.Errorf("only %d alterations were tried", altered)
	}
}

// tableRow names a row by its key.
type tableRow struct {
	where string
	key   []any
}

// keysOf are the primary keys.
var keysOf = map[string][]string{
	"spend_chain": {"seq"}, "spend_events": {"admission_seq"}, "spend_counters": {"policy", "capability", "window_start"},
	"spend_tallies": {"policy", "day", "capability", "disposition", "route_class"}, "spend_status": {"policy"},
	"spend_versions": {"policy", "version"},
}

// counts leave out the rows of zeros: they say what no row says too.
var counts = map[string]string{
	"spend_counters": "used <> '0.00' OR settled <> '0' OR crossed <> ''", "spend_tallies": "events <> 0",
}

func rowsOf(t *testing.T, db *sql.DB, table string) []tableRow {
	t.Helper()
	columns := keysOf[table]
	rows, err := db.Query("SELECT " + strings.Join(columns, ", ") + " FROM " + table + " WHERE " + cmp.Or(counts[table], "TRUE"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var found []tableRow
	for rows.Next() {
		row := tableRow{where: strings.Join(columns, " = ? AND ") + " = ?", key: make([]any, len(columns))}
		into := make([]any, len(columns))
		for i := range into {
			into[i] = &row.key[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		found = append(found, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// alterations are other values for a column: some that can stand there and some that cannot.
func alterations(table, column string, old any) []any {
	if unproven[table+"."+column] != "" {
		return []any{old.(int64) + 1, "x"}
	}
	text, isText := old.(string)
	switch {
	case !isText:
		return []any{old.(int64) + 1, old.(int64) - 1, "x"}
	case column == "details":
		found := []any{"{"}
		for member, value := range map[string]string{`"size":3`: `"size":4`, "abc": "abd", "minimal": "reject", "timeout": "ok", `"attempts":1`: `"attempts":2`, `"pruned":true`: `"pruned":false`} {
			if changed := strings.Replace(text, member, value, 1); changed != text {
				found = append(found, changed)
			}
		}
		return found
	case slices.Contains([]string{"reserved", "actual", "used", "settled"}, column):
		return []any{text + "1", "NaN", "-3" + text}
	case column == "crossed" && text != "":
		return []any{"", "{", strings.Replace(text, "0.2", "0.3", 1), strings.Replace(text, "T00:", "T01:", 1)}
	case column == "deferred" && text != "":
		return []any{"", "{", strings.Replace(text, ":", ":1", 1)}
	case column == "state":
		return []any{"released", "settled", "deferred", "reserved", text + "x"}
	}
	return []any{text + "x", 7.5}
}

// restoreRow takes an alteration back, also that of a key.
func restoreRow(t *testing.T, db *sql.DB, table, column string, old, value any, row tableRow) {
	t.Helper()
	key := append([]any{}, row.key...)
	for i, name := range keysOf[table] {
		if name == column {
			key[i] = value
		}
	}
	result, err := db.Exec("UPDATE "+table+" SET "+column+" = ? WHERE "+row.where, append([]any{old}, key...)...)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := result.RowsAffected(); n != 1 {
		t.Fatalf("%s.%s of %v was not restored", table, column, row.key)
	}
}

func queryTexts(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		found = append(found, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func queryAny(t *testing.T, db *sql.DB, query string, args ...any) (v any) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
