package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// Cases that went wrong for people elsewhere, as far as they are about counting recorded requests.

// quotaDocuments are a provider with one quota, and one account.
func quotaDocuments(limit string) string {
	return `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com/v1
  limits:
    - ` + limit + `
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { budget: { retryReserve: 0 } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: things }
spec: { account: acme, interval: 10m, deadline: 30s, request: { endpoint: /things } }
`
}

// rowAt is a row of the only job.
func rowAt(at string, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"ts":%q,"provider":"vendor","account":"acme","method":"GET","endpoint":"/things","job":"things","status":200,"latencyMs":50%s}`, at, more)
}

func repeat(n int, row func(i int) string) (list []string) {
	for i := range n {
		list = append(list, row(i))
	}
	return list
}

// LG-10: after a restart the day goes on where it was: 4 of 10 used, so 6 of 8 more go. What has been counted once is not counted
// again.
func TestRestartNeitherForgetsNorDoubles(t *testing.T) {
	var in struct{ Quota, Used, ThenCalls int }
	var want struct{ Allowed, Denied, LedgerTotal int64 }
	golden.Case(t, "LG-10", &in, &want)
	config := validatetest.Config(t, quotaDocuments(fmt.Sprintf("{ name: daily, kind: quota, max: %d, window: { period: day }, scope: { by: [account] } }", in.Quota)))
	lines := repeat(in.Used+in.ThenCalls, func(i int) string {
		return rowAt(start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), fmt.Sprintf(`"id":"r%d"`, i))
	})
	// The state was written twice: once before the kill, once more with what followed.
	name := journalFile(t, append(append([]string{}, lines[:in.Used]...), lines...)...)
	var allowed, denied int64
	report := replayFile(t, name, journal.Options{}, Options{Config: config, Enforce: true, Decide: func(d *Decision) error {
		if d.TS.Before(start.Add(time.Duration(in.Used) * time.Minute)) {
			return nil
		}
		if d.Granted {
			allowed++
		} else if denied++; d.Reason != "quota_exhausted" || d.Limit != "daily" || d.Key != "acme" || !d.RetryAt.Equal(start.AddDate(0, 0, 1)) {
			t.Errorf("refused: %+v", *d)
		}
		return nil
	}})[0]
	if allowed != want.Allowed || denied != want.Denied {
		t.Errorf("%d allowed and %d denied, want %d and %d", allowed, denied, want.Allowed, want.Denied)
	}
	w := report.Scopes[0].Windows[0]
	if w.Used != want.LedgerTotal || w.Refused["quota_exhausted"] != want.Denied || !w.Exhausted() {
		t.Errorf("%+v, want %d used and %d refused", w, want.LedgerTotal, want.Denied)
	}
	if report.Journal.Duplicates != int64(in.Used) {
		t.Errorf("%d duplicates, want %d", report.Journal.Duplicates, in.Used)
	}
}

// LG-12: instants are compared as instants, whatever they look like.
func TestTimestampsInSeveralForms(t *testing.T) {
	var in struct {
		Now, Rolling string
		Rows         []string
	}
	var want struct{ Used int64 }
	golden.Case(t, "LG-12", &in, &want)
	config := validatetest.Config(t, quotaDocuments("{ name: hourly, kind: quota, max: 100, window: { rolling: "+in.Rolling+" }, scope: { by: [account] } }"))
	var lines []string
	for _, at := range in.Rows {
		lines = append(lines, strings.Replace(rowAt(at, ""), `"latencyMs":50`, `"latencyMs":0`, 1))
	}
	now, err := time.Parse(time.RFC3339, in.Now)
	if err != nil {
		t.Fatal(err)
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, At: now})[0]
	windows := report.Scopes[0].Windows
	if last := windows[len(windows)-1]; last.Used != want.Used || !last.End.Equal(now) {
		t.Errorf("%d used in the hour before %v, want %d", last.Used, last.End, want.Used)
	}
}

// LG-15: the order of the rows in the file changes nothing, and two equal rows without an id are two events.
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	var in struct {
		Now  time.Time
		Rows [][2]any
	}
	var want struct{ UsedToday int64 }
	golden.Case(t, "LG-15", &in, &want)
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] }, costFrom: { header: X-Units } }"))
	lines := make([]string, len(in.Rows))
	for i, row := range in.Rows {
		lines[i] = rowAt(row[0].(string), fmt.Sprintf(`"headers":{"X-Units":"%v"}`, row[1]))
	}
	for n, order := range permutations(len(lines)) {
		var file []string
		for _, i := range order {
			file = append(file, lines[i])
		}
		report := replayFile(t, journalFile(t, file...), journal.Options{}, Options{Config: config, At: in.Now})[0]
		windows := report.Scopes[0].Windows
		if len(windows) != 2 || windows[1].Used != want.UsedToday {
			t.Fatalf("permutation %d: %d windows, the last with %d used, want %d", n, len(windows), windows[len(windows)-1].Used, want.UsedToday)
		}
	}
}

// permutations of 0..n-1.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var list [][]int
	for _, p := range permutations(n - 1) {
		for i := range n {
			list = append(list, append(append(append([]int{}, p[:i]...), n-1), p[i:]...))
		}
	}
	return list
}

// LG-20: what others use shows in the headers; it is never negative, and a header from before the window's turn says nothing of the
// new one.
func TestExternalUse(t *testing.T) {
	var in struct {
		Quota          int64
		LedgerInWindow int
		HeadersEach    []struct {
			Remaining        int64
			WindowJustRolled bool
			LedgerInWindow   int
		} `json:"headers_each"`
	}
	var want struct{ External []int64 }
	golden.Case(t, "LG-20", &in, &want)
	config := validatetest.Config(t, quotaDocuments(fmt.Sprintf("{ name: daily, kind: quota, max: %d, window: { period: day }, scope: { by: [account] }, sync: { remainingHeader: X-Left } }", in.Quota)))
	for i, h := range in.HeadersEach {
		n := in.LedgerInWindow
		var lines []string
		if h.WindowJustRolled {
			n = h.LedgerInWindow
			lines = append(lines, rowAt(start.Add(-time.Second).Format(time.RFC3339), `"headers":{"X-Left":"1"}`))
		}
		lines = append(lines, repeat(n, func(j int) string {
			more := ""
			if j == n-1 {
				more = fmt.Sprintf(`"headers":{"X-Left":"%d"}`, h.Remaining)
			}
			return rowAt(start.Add(time.Hour+time.Duration(j)*time.Second).Format(time.RFC3339), more)
		})...)
		report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0]
		windows := report.Scopes[0].Windows
		if got := windows[len(windows)-1].External; got != want.External[i] {
			t.Errorf("%d of %d used, %d shown: external is %d, want %d", n, in.Quota, h.Remaining, got, want.External[i])
		}
	}
}
