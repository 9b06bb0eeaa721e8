package engine

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// goldenCase is a case of the golden streams.
type goldenCase struct {
	Name, Tie string
	Documents []json.RawMessage
	Journal   []string
	Decisions []goldenDecision
	Expect    json.RawMessage
}

type goldenDecision struct {
	Granted        bool
	AtSeconds      float64
	Reason         string
	Limit, Key     *string
	RetryAtSeconds *float64
}

func (c *goldenCase) config(t testing.TB) *validate.Config {
	t.Helper()
	var b strings.Builder
	for _, d := range c.Documents {
		fmt.Fprintf(&b, "---\n%s\n", d)
	}
	return validatetest.Config(t, b.String())
}

func goldenCases(t testing.TB, name string) []goldenCase {
	t.Helper()
	var file struct{ Cases []goldenCase }
	text, err := os.ReadFile("../testdata/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return file.Cases
}

// row is a line of a journal.
type row struct {
	TS                                    time.Time
	Provider, Account, Target, Credential string
	Method, Endpoint, Job, Priority, Body string
	Vars, Headers                         map[string]string
	Retry, Auth                           bool
	Status                                int
	LatencyMs                             float64
	index                                 int
	at, latency                           int64
}

// rows of a journal in order of time.
func rowsOf(t testing.TB, journal []string) []*row {
	t.Helper()
	var rows []*row
	for i, line := range journal {
		r := &row{index: i}
		if err := json.Unmarshal([]byte(line), r); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		r.at, r.latency = r.TS.UnixNano(), int64(math.Round(r.LatencyMs*1e6))
		rows = append(rows, r)
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].at < rows[j].at })
	return rows
}

// request of a row, with the query of its job.
func (r *row) request(config *validate.Config) *Request {
	q := &Request{Priority: r.Priority}
	path, query, _ := strings.Cut(r.Endpoint, "?")
	q.Request = match.Request{
		Provider: r.Provider, Account: r.Account, Target: r.Target, Credential: r.Credential, Method: r.Method,
		Endpoint: match.CleanPath(path), Vars: r.Vars, Auth: r.Auth, Query: map[string]string{},
	}
	if job := config.Job(r.Job); job != nil {
		for k, v := range job.Query {
			q.Query[k] = v
		}
	}
	for _, pair := range strings.Split(query, "&") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			q.Query[k] = v
		}
	}
	return q
}

func (r *row) response() *Response {
	out := &Response{Status: r.Status, Body: r.Body}
	for name, value := range r.Headers {
		out.Fields = append(out.Fields, Field{name, value})
	}
	return out
}

// decision is what became of a row.
type decision struct {
	at      int64
	refused *RefusedError
}

// enforce runs a journal as arrivals through a loop.
func enforce(t failer, config *validate.Config, e *Engine, rows []*row) map[int]decision {
	t.Helper()
	loop := e.Loop()
	decisions := map[int]decision{}
	for i := 0; i < len(rows); {
		now := rows[i].at
		var calls []*Call
		for ; i < len(rows) && rows[i].at == now; i++ {
			r := rows[i]
			loop.RunTo(now - 1)
			p, err := e.Prepare(now-1, r.request(config))
			if err != nil {
				t.Fatal(err)
			}
			deadline := now
			if job := config.Job(r.Job); job != nil {
				deadline = saturatedAdd(now, int64(job.Deadline))
			}
			calls = append(calls, &Call{
				Prepared: p, Retry: r.Retry, DeadlineNanos: deadline,
				Done: func(at int64, _ Ticket, refused *RefusedError) (*Response, int64) {
					if _, twice := decisions[r.index]; twice {
						t.Fatalf("row %d is decided twice", r.index)
					}
					decisions[r.index] = decision{at, refused}
					return r.response(), r.latency
				},
			})
		}
		loop.Arrive(now, calls...)
	}
	loop.Drain()
	return decisions
}

var goldenStart = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()

func sinceStart(nanos int64) float64 { return float64(nanos-goldenStart) / 1e9 }

// compare holds a decision against the golden one; "" where they agree. partial: the golden decision may leave out what it does
// not care for.
func (want goldenDecision) compare(got decision, partial bool) string {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	if r := got.refused; partial && r != nil && want.RetryAtSeconds == nil {
		clone := *r
		clone.RetryKnown = false
		if want.Limit == nil {
			clone.Limit, clone.Key = "", ""
		}
		got.refused = &clone
	}
	switch r := got.refused; {
	case want.Granted != (r == nil):
		if r != nil {
			return fmt.Sprintf("refused at %.3f: %+v, want granted at %.3f", sinceStart(got.at), *r, want.AtSeconds)
		}
		return fmt.Sprintf("granted at %.3f, want refused %s %s", sinceStart(got.at), want.Reason, text(want.Limit))
	case r == nil:
		if math.Abs(sinceStart(got.at)-want.AtSeconds) > 1e-3 {
			return fmt.Sprintf("granted at %.3f, want %.3f", sinceStart(got.at), want.AtSeconds)
		}
	case string(r.Reason) != want.Reason || r.Limit != text(want.Limit) || r.Key != text(want.Key):
		return fmt.Sprintf("%s %q %q at %.3f, want %s %q %q", r.Reason, r.Limit, r.Key, sinceStart(got.at), want.Reason, text(want.Limit), text(want.Key))
	case r.RetryKnown != (want.RetryAtSeconds != nil):
		return fmt.Sprintf("%s: retry instant known: %v at %.3f, want %v", r.Reason, r.RetryKnown, sinceStart(r.RetryAtNanos), want.RetryAtSeconds)
	case r.RetryKnown && math.Abs(sinceStart(r.RetryAtNanos)-*want.RetryAtSeconds) > 1e-3:
		return fmt.Sprintf("%s %s: retry at %.3f, want %.3f", r.Reason, r.Limit, sinceStart(r.RetryAtNanos), *want.RetryAtSeconds)
	}
	return ""
}

// The golden streams: every decision, in virtual time.
func TestVectors(t *testing.T) {
	for _, name := range []string{"engine.json", "enforce.json"} {
		partial := name == "enforce.json"
		for _, c := range goldenCases(t, name) {
			t.Run(c.Name, func(t *testing.T) {
				config := c.config(t)
				decisions := enforce(t, config, New(config, Options{}), rowsOf(t, c.Journal))
				wrong := 0
				for i, want := range c.Decisions {
					got, there := decisions[i]
					problem := "not decided"
					if there {
						problem = want.compare(got, partial)
					}
					if problem == "" {
						continue
					}
					if wrong++; wrong <= 3 {
						t.Errorf("row %d: %s\n%s", i, problem, c.Journal[i])
					}
				}
				if wrong > 3 {
					t.Errorf("%d of %d decisions are wrong", wrong, len(c.Decisions))
				}
			})
		}
	}
}

// failer is a test, also one of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
