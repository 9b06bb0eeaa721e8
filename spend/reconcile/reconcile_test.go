package reconcile

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const testPolicy = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: p }
spec:
  version: v1
  unit: EUR
  account: { limit: "100", window: { period: day } }
  routes: { r: { cost: "2.00" } }
  capabilities:
    a: { limit: "100", routes: [r], fallback: reject }
    full: { limit: "1", routes: [r], fallback: minimal }
`

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// book of events: r1..r9 reserved at noon, s1 settled with 2, rel released, min minimal, old reserved days before.
func testStore(t *testing.T) (book.Store, *spend.Machine) {
	t.Helper()
	ctx := context.Background()
	store := book.NewMemory()
	old := t0.Add(-72 * time.Hour)
	m := spendtest.Publish(t, store, old, spendtest.Policy(t, testPolicy))
	admit := func(at time.Time, id, capability string) {
		if _, err := m.Admit(ctx, at, spend.Admission{EventID: id, Capability: capability}); err != nil {
			t.Fatal(err)
		}
	}
	admit(old, "old", "a")
	for i := range 9 {
		admit(t0, fmt.Sprintf("r%d", i+1), "a")
	}
	admit(t0, "s1", "a")
	admit(t0, "s2", "a")
	admit(t0, "rel", "a")
	admit(t0, "min", "full")
	for _, id := range []string{"s1", "s2"} {
		if _, err := m.Settle(ctx, t0.Add(time.Minute), id, spendtest.Units(t, "2")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Release(ctx, t0, "rel", ""); err != nil {
		t.Fatal(err)
	}
	return store, m
}

// settled has a row of every sort.
const settled = "\ufeffevent_id,amount,settled_at,note\r\n" +
	"r1,2.00,2026-11-01T12:01:00Z,matched\r\n" +
	"r2,2.50,2026-11-01 12:02:00,over\r\n" +
	"\r\n" +
	"r3,1.5,1793534520,\"under, with a\nline end\"\r\n" +
	"r4,2,2026-11-02T00:00:00Z,late to the instant\r\n" +
	"r5,2,2026-11-01T23:59:59Z,not late\r\n" +
	"r1,2.0,2026-11-01T12:01:00Z,duplicate\r\n" +
	"r6,2,2026-11-01T12:01:00Z,first of two\r\n" +
	"r6,3,2026-11-01T12:01:00Z,second of two\r\n" +
	"s1,2,2026-11-01T12:01:00Z,settled already\r\n" +
	"extra,1,2026-11-01T12:01:00Z,unknown\r\n" +
	"rel,2,2026-11-01T12:01:00Z,released\r\n" +
	"min,0,2026-11-01T12:01:00Z,minimal\r\n" +
	"r7,-1,2026-11-01T12:01:00Z,taken back\r\n" +
	"r8,NaN,2026-11-01T12:01:00Z,bad\r\n" +
	",1,2026-11-01T12:01:00Z,bad\r\n" +
	"r8,1,yesterday,bad\r\n" +
	"r8\r\n" +
	"r8,1e400,2026-11-01T12:01:00Z,bad\r\n"

func run(t *testing.T, store book.Store, text string, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), store, "p", t0.Add(24*time.Hour), Read(strings.NewReader(text), Plain(), "EUR"), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(items []Item) string {
	var list []string
	for _, i := range items {
		list = append(list, i.EventID)
	}
	return strings.Join(list, " ")
}

func TestRunSortsEveryRow(t *testing.T) {
	store, _ := testStore(t)
	r := run(t, store, settled, Options{})
	got := fmt.Sprintf("rows %d bad %d duplicates %d matched %d late %d reserved %s actual %s",
		r.Rows, len(r.BadRows), r.Duplicates, r.Matched, r.Late, r.ReservedUnits, r.ActualUnits)
	if want := "rows 18 bad 5 duplicates 1 matched 4 late 1 reserved 12.00 actual 12.00"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, c := range map[string]struct {
		items []Item
		want  string
	}{
		"corrected":        {r.Corrected, "r2 r3"},
		"unmatched rows":   {r.UnmatchedRows, "extra rel min"},
		"unmatched events": {r.UnmatchedEvents, "old r8 r9 s2"},
		"conflicts":        {r.Conflicts, "r6 r7"},
		"stale":            {r.Stale, "old"},
	} {
		if ids(c.items) != c.want {
			t.Errorf("%s: %s, want %s", name, ids(c.items), c.want)
		}
	}
	over, under := r.Corrected[0], r.Corrected[1]
	if over.Reason != "over" || over.DifferenceUnits != "0.50" || over.ReservedUnits != "2.00" || over.ActualUnits != "2.50" || over.Line != 3 {
		t.Errorf("over: %+v", over)
	}
	if under.Reason != "under" || under.DifferenceUnits != "-0.50" || under.Late {
		t.Errorf("under: %+v", under)
	}
	if !strings.Contains(r.Conflicts[0].Reason, "lines 10, 11") {
		t.Errorf("conflict: %+v", r.Conflicts[0])
	}
	if r.Clean() {
		t.Error("the result is clean")
	}
	if used := spendtest.Used(t, store, "p", "", t0.Truncate(24*time.Hour)); used != "22.00" {
		t.Errorf("without apply %s is used, want the 22.00 of before", used)
	}
}

// With apply the rule is followed, and following it again is nothing.
func TestApply(t *testing.T) {
	store, _ := testStore(t)
	r := run(t, store, settled, Options{Apply: true})
	if r.Applied != 5 || len(r.Failed) != 0 {
		t.Errorf("applied %d, failed %v, want r1 to r5", r.Applied, r.Failed)
	}
	// 22 + 0.5 - 0.5; r4 is late and counts on its day.
	if used := spendtest.Used(t, store, "p", "", t0.Truncate(24*time.Hour)); used != "22.00" {
		t.Errorf("%s is used, want 22.00", used)
	}
	again := run(t, store, settled, Options{Apply: true})
	if again.Applied != 0 || again.Matched != 6 || len(again.Corrected) != 0 {
		t.Errorf("again: %+v, want everything matched and nothing applied", again)
	}
	// A file that says something else of what is settled is a conflict, and nothing happens.
	other := run(t, store, "event_id,amount,settled_at\nr2,2.49,2026-11-01T12:01:00Z\n", Options{Apply: true})
	if ids(other.Conflicts) != "r2" || other.Applied != 0 || !strings.Contains(other.Conflicts[0].Reason, "settled with 2.50") {
		t.Errorf("another amount: %+v", other)
	}
	spendtest.CheckBook(t, store, "p")
}

func TestSum(t *testing.T) {
	store, _ := testStore(t)
	text := "event_id,amount,settled_at\nr6,2,2026-11-01T12:01:00Z\nr6,0.50,2026-11-01T12:01:00Z\nr6,-1,2026-11-01T12:02:00Z\nr6,2,2026-11-01T12:01:00Z\n"
	r := run(t, store, text, Options{Sum: true, Apply: true})
	if r.Applied != 1 || r.Duplicates != 1 || ids(r.Corrected) != "r6" || r.Corrected[0].ActualUnits != "1.50" {
		t.Errorf("%+v", r)
	}
}

func TestStale(t *testing.T) {
	store, m := testStore(t)
	r := run(t, store, "event_id,amount,settled_at\n", Options{ReleaseStale: true})
	if ids(r.Stale) != "old" || r.Released != 1 || len(r.UnmatchedEvents) != 0 {
		t.Errorf("%+v", r)
	}
	x, err := m.Explain(context.Background(), "old")
	if err != nil || x.Decision.State != book.Released {
		t.Errorf("old is %s, %v", x.Decision.State, err)
	}
	// To the instant: at noon of the next day, those of noon are a day old.
	if r := run(t, store, "event_id,amount,settled_at\n", Options{Stale: 24 * time.Hour}); len(r.Stale) != 9 {
		t.Errorf("%d are a day old, want 9", len(r.Stale))
	}
	if r := run(t, store, "event_id,amount,settled_at\n", Options{Stale: 24*time.Hour + 1}); len(r.Stale) != 0 {
		t.Errorf("%d are older than a day, want none", len(r.Stale))
	}
}

// A FOCUS export has its own names, several rows for an event, and much that does not matter.
func TestFOCUS(t *testing.T) {
	store, _ := testStore(t)
	text := `BilledCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ResourceId,Tags
1.9,EUR,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,"{""event_id"":""r1"",""team"":""a""}"
0.1,EUR,Tax,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,"{""event_id"":""r1""}"
2,USD,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,"{""event_id"":""r2""}"
2,EUR,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,{}
2,EUR,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,
2E-7,EUR,Usage,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,x,"{""event_id"":""r3""}"
`
	r, err := Run(context.Background(), store, "p", t0, Read(strings.NewReader(text), FOCUS(), "EUR"), Options{Sum: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Matched != 1 || ids(r.Corrected) != "r3" || r.Corrected[0].ActualUnits != "2E-7" || len(r.BadRows) != 3 || r.Late != 0 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.BadRows[0].Reason, `"USD"`) {
		t.Errorf("currency: %v", r.BadRows[0])
	}
	columns, err := FOCUS().WithMap(map[string]string{"event_id": "ResourceId", "settled_at": "", "currency": ""})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range Read(strings.NewReader(text), columns, "EUR") {
		if err != nil || row.EventID != "x" || !row.SettledAt.IsZero() {
			t.Errorf("mapped: %+v, %v", row, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "header",
		"event_id,amount\n":            `column "settled_at" is missing`,
		"a;b;c\n":                      `column "event_id" is missing; the file has a, b, c`,
		"event_id,\"amount\nx":         "header",
		"event_id\tamount\tsettled_at": "",
	} {
		var got error
		for _, err := range Read(strings.NewReader(text), Plain(), "EUR") {
			got = err
		}
		if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%q: %v, want %q", text, got, want)
		}
	}
	for _, bad := range []map[string]string{{"when": "x"}, {"amount": ""}, {"event_id": ""}} {
		if _, err := Plain().WithMap(bad); err == nil {
			t.Errorf("map %v was taken", bad)
		}
	}
	if _, err := Run(context.Background(), book.NewMemory(), "p", t0, Read(strings.NewReader("x\n"), Plain(), "EUR"), Options{}); err == nil {
		t.Error("a file without its columns was reconciled")
	}
}

func TestParseTime(t *testing.T) {
	want := time.Date(2026, 11, 1, 12, 2, 0, 0, time.UTC)
	for _, text := range []string{
		"2026-11-01T12:02:00Z", "2026-11-01T13:02:00+01:00", "2026-11-01 12:02:00", "2026-11-01T12:02", "1793534520", "1793534520000",
	} {
		if got, err := parseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "noon", "0", "-1", "99999999999999999", "2026-13-01"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q became %v", text, got)
		}
	}
}

// FuzzRead: nothing makes the reader panic or stop in the middle; what it reads is within bounds, and agrees with a plain reader
// where the file is plain.
func FuzzRead(f *testing.F) {
	f.Add(settled)
	f.Add("event_id;amount;settled_at\nr1;2;1793534520\n")
	f.Add("event_id,amount,settled_at\n\"r1\",2\n\"")
	f.Add("\xef\xbb")
	f.Fuzz(func(t *testing.T, text string) {
		rows, bad := 0, 0
		for row, err := range Read(strings.NewReader(text), Plain(), "EUR") {
			var rowError *RowError
			switch {
			case err == nil:
				rows++
				if row.EventID == "" || row.Line < 2 {
					t.Fatalf("row %+v", row)
				}
			case errors.As(err, &rowError):
				bad++
			default:
				return
			}
		}
		header, _, _ := strings.Cut(text, "\n")
		if strings.ContainsAny(header, ";\t\"\r") || strings.HasPrefix(text, "\ufeff") {
			return
		}
		plain := csv.NewReader(strings.NewReader(text))
		plain.FieldsPerRecord = -1
		all, err := plain.ReadAll()
		if err == nil && len(all) > 0 && len(all)-1 != rows+bad {
			t.Fatalf("%d rows and %d bad ones of %d", rows, bad, len(all)-1)
		}
	})
}
