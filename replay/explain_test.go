package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const slowDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: slow, kind: rate, rate: 1/s, burst: 2, scope: { by: [account] } }
    - { name: flight, kind: concurrency, max: 1, scope: { by: [account] } }
    - { name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] } }
    - { name: writes, kind: quota, max: 5, window: { period: day }, scope: { by: [account] }, appliesTo: { methods: [POST] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: urgent }
spec: { account: acme, interval: 10m, priority: high, deadline: 60s, request: { endpoint: /urgent } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: things }
spec: { account: acme, interval: 10m, deadline: 60s, request: { endpoint: /things } }
`

func slowRow(at time.Duration, job, priority string, latency int) string {
	return fmt.Sprintf(`{"ts":%q,"provider":"vendor","account":"acme","method":"GET","endpoint":"/%s","job":%q,"priority":%q,"status":200,"latencyMs":%d}`,
		start.Add(at).Format(time.RFC3339Nano), job, job, priority, latency)
}

// The explanation of a row that waits names every limit, how each stood, and who was ahead.
func TestExplainWaiting(t *testing.T) {
	config := validatetest.Config(t, slowDocuments)
	name := journalFile(t,
		slowRow(0, "things", "normal", 5000),                   // takes the slot
		slowRow(time.Second, "things", "normal", 10),           // waits for it
		slowRow(2*time.Second, "urgent", "high", 10),           // waits, and goes first
		slowRow(3*time.Second, "things", "low", 10),            // not ahead of the next one
		slowRow(3500*time.Millisecond, "things", "normal", 10), // this one
	)
	x := replayFile(t, name, journal.Options{}, Options{Config: config, Enforce: true, Explain: &RowID{0, 5}})[0].Explanation
	if x == nil {
		t.Fatal("no explanation")
	}
	if x.Number != 5 || x.Line != 5 || x.Job != "things" || x.Patience != time.Minute || x.Endpoint != "/things" {
		t.Errorf("%+v", x)
	}
	if len(x.Limits) != 4 {
		t.Fatalf("%d limits are consulted, want all 4", len(x.Limits))
	}
	for i, want := range []struct {
		limit   string
		applies bool
		lacks   bool
		state   string
	}{
		{"slow", true, false, "2 of 2 tokens"}, {"flight", true, true, "1 of 1 under way"}, {"daily", true, false, "1 of 90 used"}, {"writes", false, false, ""},
	} {
		l := x.Limits[i]
		if l.Limit != want.limit || l.Applies != want.applies || l.Lacks != want.lacks || !strings.Contains(l.State, want.state) || l.Why == "" {
			t.Errorf("limit %d is %+v, want %+v", i, l, want)
		}
	}
	var ahead []int64
	for _, a := range x.Ahead {
		ahead = append(ahead, a.Number)
	}
	if fmt.Sprint(ahead) != "[3 2]" {
		t.Errorf("ahead are %v, want 3 (high) and 2 (older)", ahead)
	}
	if !strings.HasPrefix(x.Outcome, "granted at 2026-11-30T00:00:0") || !strings.Contains(x.Outcome, "after waiting") {
		t.Errorf("outcome %q", x.Outcome)
	}
}

// The other outcomes.
func TestExplainOutcomes(t *testing.T) {
	config := validatetest.Config(t, slowDocuments)
	lines := []string{
		slowRow(0, "things", "normal", 10), slowRow(10*time.Millisecond, "things", "normal", 10), slowRow(20*time.Millisecond, "things", "normal", 10),
		strings.Replace(slowRow(time.Minute, "things", "normal", 10), "acme", "nobody", 1),
		strings.Replace(slowRow(2*time.Minute, "things", "normal", 90_000), `"status":200`, `"status":429,"headers":{"Retry-After":"300"}`, 1),
		slowRow(4*time.Minute, "things", "normal", 10),
	}
	name := journalFile(t, lines...)
	for _, test := range []struct {
		row     int64
		enforce bool
		want    string
	}{
		{1, true, "granted at once"},
		{1, false, "the engine would have let it go at once"},
		{3, false, "would not have let it go at once, because of slow on acme"},
		{4, true, "no limit was consulted: no account \"nobody\""},
		{4, false, "no limit was consulted"},
		{6, true, "refused at 2026-11-30T00:04:00.000Z after 0s"},
		{6, false, "because of"},
	} {
		x := replayFile(t, name, journal.Options{}, Options{Config: config, Enforce: test.enforce, Explain: &RowID{0, test.row}})[0].Explanation
		if x == nil || !strings.Contains(x.Outcome, test.want) {
			t.Errorf("row %d: %+v, want %q", test.row, x, test.want)
		}
	}
	if x := replayFile(t, name, journal.Options{}, Options{Config: config, Explain: &RowID{0, 99}})[0].Explanation; x != nil {
		t.Errorf("a row that is not there: %+v", x)
	}
}

// What an explanation says of each limit is what the engine does: where no key lacks anything and nobody is ahead, the row goes at
// once.
func TestExplanationAgreesWithDecision(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	rapid.Check(t, func(rt *rapid.T) {
		rows := randomRows(rt)
		if err := os.WriteFile(name, []byte(encode(rows)), 0o600); err != nil {
			rt.Fatal(err)
		}
		number := int64(rapid.IntRange(1, len(rows)).Draw(rt, "row"))
		var decision Decision
		granted := make(map[int64]time.Time)
		options := Options{Config: config, Enforce: true, Explain: &RowID{0, number}, Decide: func(d *Decision) error {
			if d.Number == number {
				decision = *d
			}
			if d.Granted {
				granted[d.Number] = d.At
			}
			return nil
		}}
		x := replayFile(t, name, journal.Options{}, options)[0].Explanation
		// Of what comes at one instant (arrivals, answers, grants to those that waited), one comes after the other, and the explanation
		// was made before all of it: leave those out. An answer comes its latency after the grant.
		ts := rows[number-1].At
		for i := range rows {
			if at, there := granted[int64(i+1)]; int64(i+1) != number &&
				(rows[i].At.Equal(ts) || there && (at.Equal(ts) || at.Add(rows[i].Latency).Equal(ts))) {
				return
			}
		}
		lacks := false
		for _, l := range x.Limits {
			lacks = lacks || l.Lacks
		}
		atOnce := decision.Granted && decision.At.Equal(decision.TS)
		if atOnce && lacks {
			rt.Fatalf("%+v was granted at once, and lacks something: %+v", decision, x.Limits)
		}
		if !atOnce && !lacks && len(x.Ahead) == 0 && decision.Reason != "circuit_open" {
			rt.Fatalf("%+v was not granted at once, and lacks nothing: %+v", decision, x.Limits)
		}
	})
}

// Rows too far out of order for the memory: the run ends with a LateRowError, and after a Restart everything is as if they had
// been in order.
func TestRowsOutOfOrderBeyondTheMemory(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	rows := make([]journal.Row, 40_000)
	for i := range rows {
		r := &rows[i]
		r.At = start.Add(time.Duration(len(rows)-i) * time.Second)
		r.Request = journal.Request{Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/search", Job: "search"}
		r.Status, r.Latency = 200, time.Second
	}
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(name, []byte(encode(rows)), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := journal.Open([]string{name}, journal.Options{SortRows: 100, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	_, err = Run(t.Context(), reader, Options{Config: config})
	var late *journal.LateRowError
	if !errors.As(err, &late) {
		t.Fatalf("all rows fitted into the memory: %v", err)
	}
	if err := reader.Restart(); err != nil {
		t.Fatal(err)
	}
	reports, err := Run(t.Context(), reader, Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := reportLines(reports[0]), twinReport(config, rows); got != want || !reports[0].Journal.Spilled {
		t.Errorf("spilled %v\n%s\nwant\n%s", reports[0].Journal.Spilled, got, want)
	}
}

// The present: rows and responses after it have not happened.
func TestPresent(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] }, sync: { remainingHeader: X-Left } }"))
	name := journalFile(t, rowAt(secondsIn(0), ""), rowAt(secondsIn(10), `"headers":{"X-Left":"50"},"id":"late"`), rowAt(secondsIn(20), ""))
	at := start.Add(10 * time.Second)
	for _, enforce := range []bool{false, true} {
		report := replayFile(t, name, journal.Options{}, Options{Config: config, At: at, Enforce: enforce})[0]
		w := report.Scopes[0].Windows[0]
		if !report.At.Equal(at) || report.Rows != 2 || report.AfterAt != 1 || w.Used != 2 || w.External != 0 || !w.Open || !w.At.Equal(at) {
			t.Errorf("enforce %v: %+v with %+v", enforce, report, w)
		}
		later := replayFile(t, name, journal.Options{}, Options{Config: config, At: start.AddDate(0, 0, 2), Enforce: enforce})[0]
		if w := later.Scopes[0].Windows[0]; w.Open || w.Used != 3 || w.External != 48 || !w.At.Equal(start.AddDate(0, 0, 1)) {
			t.Errorf("enforce %v: after its end the window is %+v", enforce, w)
		}
	}
}

// Refusals that a journal records are counted in the window of the quota that has no room, and are no grants.
func TestRecordedRefusals(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 1, window: { period: day }, scope: { by: [account] } }\n    - { name: weekly, kind: quota, max: 100, window: { period: week }, scope: { by: [account] } }"))
	refused := strings.Replace(rowAt(secondsIn(5), `"refused":"quota_exhausted"`), `"status":200,`, "", 1)
	name := journalFile(t, rowAt(secondsIn(0), ""), refused)
	report := replayFile(t, name, journal.Options{}, Options{Config: config})[0]
	for _, s := range report.Scopes {
		want := map[string]int64{"daily": 1, "weekly": 0}[s.Limit]
		if w := s.Windows[0]; w.Used != 1 || w.Refused["quota_exhausted"] != want {
			t.Errorf("%s: %+v, want %d refused", s.Limit, w, want)
		}
	}
	if j := report.Jobs[0]; j.Requests != 1 || j.Refused != 1 {
		t.Errorf("%+v", j)
	}
}
