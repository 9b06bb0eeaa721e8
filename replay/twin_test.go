package replay

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// twinDocuments have a limit of each kind.
const twinDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: rate, kind: rate, rate: 2/s, burst: 3, scope: { by: [account] } }
    - { name: flight, kind: concurrency, max: 2, scope: { by: [account] } }
    - name: hourly
      kind: quota
      max: 40
      window: { period: hour }
      scope: { by: [account, "var:organizationId"] }
      costs: [{ endpoints: ["/search"], cost: 5 }]
      sync: { limitHeader: X-Limit, remainingHeader: X-Left }
    - { name: rolling, kind: quota, max: 60, window: { rolling: 30m }, scope: { by: [provider] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: globex }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: orgs }
spec: { account: acme, interval: 1h, request: { endpoint: /orgs }, inventory: { items: response, vars: { organizationId: item.id } } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: devices }
spec: { account: acme, interval: 5m, deadline: 90s, priority: high, forEach: orgs, request: { endpoint: "/orgs/{organizationId}/devices" } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: search }
spec: { account: acme, interval: 5m, deadline: 5m, request: { endpoint: /search } }
`

// randomRows are rows of both accounts, with headers that make sense and some that do not, at few distinct instants, so that many
// coincide.
func randomRows(t *rapid.T) []journal.Row {
	count := rapid.IntRange(1, 60).Draw(t, "rows")
	rows := make([]journal.Row, count)
	for i := range rows {
		r := &rows[i]
		r.At = start.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "at")) * time.Second)
		r.Request = journal.Request{Provider: "vendor", Account: rapid.SampledFrom([]string{"acme", "globex"}).Draw(t, "account"), Method: "GET"}
		r.Job = rapid.SampledFrom([]string{"devices", "search"}).Draw(t, "job")
		r.Endpoint = "/search"
		if r.Job == "devices" {
			id := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "organization")
			r.Endpoint, r.Vars = "/orgs/{organizationId}/devices", map[string]string{"organizationId": id}
			if rapid.Bool().Draw(t, "concrete") {
				r.Endpoint, r.Vars = "/orgs/"+id+"/devices", nil
			}
		}
		r.Priority = rapid.SampledFrom([]string{"critical", "normal", "low"}).Draw(t, "priority")
		r.Retry = rapid.IntRange(0, 4).Draw(t, "retry") == 0
		r.Status = rapid.SampledFrom([]int{200, 200, 200, 429, 503}).Draw(t, "status")
		r.Latency = time.Duration(rapid.SampledFrom([]int{0, 1, 5, 40}).Draw(t, "latency")) * time.Second
		if rapid.Bool().Draw(t, "headers") {
			r.Headers = map[string]string{"X-Left": fmt.Sprint(rapid.IntRange(-1, 45).Draw(t, "left")), "X-Limit": rapid.SampledFrom([]string{"40", "50", "0"}).Draw(t, "limit")}
		}
	}
	return rows
}

// twinReport replays rows in the plainest way: all events in one list, sorted.
func twinReport(config *validate.Config, rows []journal.Row) string {
	var windows []engine.WindowReport
	keep := func(r *engine.WindowReport) { windows = append(windows, *r) }
	e := engine.New(config, engine.Options{OnWindow: keep, KeepKeys: true})
	order := slices.Clone(rows)
	slices.SortStableFunc(order, func(a, b journal.Row) int { return a.At.Compare(b.At) })
	type flying struct {
		at     int64
		ticket engine.Ticket
		row    *journal.Row
	}
	var air []flying
	settle := func(until int64) {
		for {
			slices.SortStableFunc(air, func(a, b flying) int { return cmp.Compare(a.at, b.at) })
			if len(air) == 0 || air[0].at > until {
				return
			}
			at := air[0].at
			var now []engine.Answer
			for len(air) > 0 && air[0].at == at {
				response := &engine.Response{Status: air[0].row.Status}
				for name, value := range air[0].row.Headers {
					response.Fields = append(response.Fields, engine.Field{Name: name, Value: value})
				}
				now = append(now, engine.Answer{Ticket: air[0].ticket, Response: response})
				air = air[1:]
			}
			e.SettleAll(at, now)
		}
	}
	last := int64(0)
	for i := range order {
		r := &order[i]
		at := r.At.UnixNano()
		settle(at)
		q := &engine.Request{Priority: r.Priority, Request: match.Request{Provider: r.Provider, Account: r.Account, Method: r.Method, Endpoint: r.Endpoint, Vars: r.Vars}}
		if strings.HasPrefix(r.Endpoint, "/orgs/") && r.Vars == nil {
			q.Endpoint, q.Vars = "/orgs/{organizationId}/devices", map[string]string{"organizationId": strings.Split(r.Endpoint, "/")[2]}
		}
		ticket, _, err := e.ForceRequest(at, q, r.Retry)
		if err != nil {
			panic(err)
		}
		air = append(air, flying{at + int64(r.Latency), ticket, r})
		last = max(last, at+int64(r.Latency))
	}
	settle(last)
	e.Windows(last, keep)
	var lines []string
	for i := range windows {
		w := &windows[i]
		lines = append(lines, fmt.Sprintf("%s %s %d-%d max %d used %d external %d left %d projected %.6f %.6f limited %d %d", w.Limit, w.Key, w.StartNanos, w.EndNanos,
			w.Max, w.Used, w.External, w.Remaining, w.ProjectedEnd, w.ProjectedTotal, w.RateLimited, w.UnexpectedRateLimited))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func reportLines(r *Report) string {
	var lines []string
	for _, s := range r.Scopes {
		for _, w := range s.Windows {
			lines = append(lines, fmt.Sprintf("%s %s %d-%d max %d used %d external %d left %d projected %.6f %.6f limited %d %d", s.Limit, s.Key, w.Start.UnixNano(), w.End.UnixNano(),
				w.Max, w.Used, w.External, w.Remaining, w.ProjectedEnd, w.ProjectedTotal, w.RateLimited, w.UnexpectedRateLimited))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// encode writes rows as a journal.
func encode(rows []journal.Row) string {
	var text []byte
	for i := range rows {
		text = append(rows[i].AppendJSON(text), '\n')
	}
	return string(text)
}

// The replay agrees with its plain twin, also with curves, forecasts and a second side taken along, and with the rows of one file
// split over two.
func TestReplayAgreesWithItsTwin(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		rows := randomRows(rt)
		want := twinReport(config, rows)
		one := filepath.Join(dir, "one.jsonl")
		if err := os.WriteFile(one, []byte(encode(rows)), 0o600); err != nil {
			rt.Fatal(err)
		}
		for i, r := range replayFile(t, one, journal.Options{}, Options{Config: config}, Options{Config: config, CurvePoints: 30, Forecast: true}) {
			if got := reportLines(r); got != want {
				rt.Fatalf("side %d:\n%s\nwant\n%s", i, got, want)
			}
			if r.Rows != int64(len(rows)) || r.Unresolved != 0 {
				rt.Fatalf("%d rows, %d of them unresolved, want %d and 0", r.Rows, r.Unresolved, len(rows))
			}
		}
	})
}

// Batches come and go while responses are under way: nothing of a response may be lost or mixed up with another's.
func TestResponsesOutliveTheirBatch(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	const count = 30_000
	rows := make([]journal.Row, count)
	for i := range rows {
		r := &rows[i]
		r.At = start.Add(time.Duration(i) * 100 * time.Millisecond)
		r.Request = journal.Request{Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/orgs/{organizationId}/devices", Job: "devices"}
		r.Vars = map[string]string{"organizationId": fmt.Sprint(i % 3)}
		r.Status, r.Latency = 200, time.Duration(i%7)*1300*time.Millisecond
		r.Headers = map[string]string{"X-Left": fmt.Sprint(i % 37), "X-Limit": "40"}
	}
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(name, []byte(encode(rows)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := reportLines(replayFile(t, name, journal.Options{SortRows: 1}, Options{Config: config})[0])
	if want := twinReport(config, rows); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// Conservation, with enforcement: each row has one decision, in the order of the file; what was granted is in the jobs' counts.
func TestEveryRowIsDecidedOnce(t *testing.T) {
	config := validatetest.Config(t, twinDocuments)
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	rapid.Check(t, func(rt *rapid.T) {
		rows := randomRows(rt)
		if err := os.WriteFile(name, []byte(encode(rows)), 0o600); err != nil {
			rt.Fatal(err)
		}
		var granted, refused int64
		next := int64(1)
		report := replayFile(t, name, journal.Options{}, Options{Config: config, Enforce: true, Decide: func(d *Decision) error {
			if d.Number != next {
				rt.Fatalf("row %d is told where %d should be", d.Number, next)
			}
			next++
			row := rows[d.Number-1]
			if !d.TS.Equal(row.At) || d.At.Before(d.TS) || d.At.Sub(d.TS) > 5*time.Minute {
				rt.Fatalf("%+v for a row of %v", *d, row.At)
			}
			if d.Granted {
				granted++
			} else if refused++; d.Reason == "" || d.Reason == unresolvedReason {
				rt.Fatalf("%+v", *d)
			}
			return nil
		}})[0]
		if next != int64(len(rows)+1) {
			rt.Fatalf("%d decisions, want %d", next-1, len(rows))
		}
		for _, j := range report.Jobs {
			granted -= j.Requests
			refused -= j.Refused
		}
		if granted != 0 || refused != 0 {
			rt.Fatalf("the jobs count %d grants and %d refusals less than the decisions", granted, refused)
		}
	})
}
