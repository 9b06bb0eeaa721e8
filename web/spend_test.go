package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/spend/spendtest"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

const policyDocument = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: logistics }
spec:
  version: quota-3
  unit: EUR
  account: { limit: "10", bands: [0.5], window: { period: month, timezone: UTC } }
  routes:
    standard: { cost: "2.50", class: gold }
    economy: { cost: "1" }
  capabilities:
    tracking: { limit: "6", routes: [standard, economy], fallback: defer, deadline: 15m, onDeadline: minimal, essential: true }
    labels: { limit: "2", routes: [economy], fallback: reject }
`

// paying is a daemon with the policy above in force, and its book.
func paying(t *testing.T) (http.Handler, book.Store) {
	t.Helper()
	store := book.NewMemory()
	spendtest.Publish(t, store, webtest.At.Add(-time.Hour), spendtest.Policy(t, policyDocument))
	return payingFrom(web.NewBookSpend(store, "logistics")), store
}

func payingFrom(s web.Spend) http.Handler {
	return web.New(web.Options{
		Daemon: stillOf(webtest.Healthy, 3), Token: tokenOf, Spend: s, Now: func() time.Time { return webtest.At },
	})
}

// pay posts a body with the token.
func pay(h http.Handler, path, body string, contentType ...string) (int, string) {
	media := "application/json"
	if len(contentType) > 0 {
		media = contentType[0]
	}
	w := call{
		method: http.MethodPost, path: "/api/v1/spend/" + path, body: body,
		header: map[string]string{"Authorization": "Bearer " + token, "Content-Type": media},
	}.do(h)
	return w.Code, w.Body.String()
}

// An event's life: admitted once however often it is asked, settled, and counted; another one released.
func TestAdmitSettleRelease(t *testing.T) {
	h, store := paying(t)
	for range 2 {
		status, text := pay(h, "admit", `{"event_id":"e1","capability":"tracking"}`)
		if status != 200 || field(t, text, "disposition") != "dispatch" || field(t, text, "route") != "standard" ||
			field(t, text, "reserved_units") != "2.50" || field(t, text, "policy_version") != "quota-3" || field(t, text, "state") != "reserved" {
			t.Fatalf("%d %s", status, text)
		}
	}
	if status, text := pay(h, "admit", `{"policy":"logistics","event_id":"e2","capability":"tracking","class":"parcel","size":3,"vars":{"a":"b"}}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, actual := range []string{`"2.75"`, `2.75`, `2.750`} { // the same amount, once
		if status, text := pay(h, "settle", `{"event_id":"e1","actual":`+actual+`}`); status != 200 || field(t, text, "state") != "settled" {
			t.Fatalf("%s: %d %s", actual, status, text)
		}
	}
	if status, text := pay(h, "release", `{"event_id":"e2","reason":"called off"}`); status != 200 || field(t, text, "state") != "released" {
		t.Fatalf("%d %s", status, text)
	}
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	if got := spendtest.Used(t, store, "logistics", "", month); got != "2.75" {
		t.Errorf("used %s, want 2.75", got)
	}
	if status, text := pay(h, "settle", `{"event_id":"e1","actual":"3"}`); status != 409 || !strings.Contains(text, "2.75") {
		t.Errorf("%d %s", status, text)
	}
	spendtest.CheckBook(t, store, "logistics")
}

// A refusal is an answer, not an error: the decision is in the body, as it is in the audit chain.
func TestRejectIsADecision(t *testing.T) {
	h, _ := paying(t)
	for i, want := range []string{"dispatch", "dispatch", "reject"} {
		status, text := pay(h, "admit", fmt.Sprintf(`{"event_id":"l%d","capability":"labels"}`, i))
		if status != 200 || field(t, text, "disposition") != want {
			t.Errorf("%d: %d %s, want %s", i, status, text, want)
		}
	}
}

func TestSpendErrors(t *testing.T) {
	h, _ := paying(t)
	for _, test := range []struct {
		path, body, media string
		status            int
		why               string
	}{
		{"admit", `{"event_id":"e","capability":"traking"}`, "", 404, "labels, tracking"},
		{"admit", `{"event_id":"","capability":"tracking"}`, "", 400, "event"},
		{"admit", `{"event_id":"e","capability":"tracking","policy":"other"}`, "", 400, `\"policy\" is \"other\"; there are logistics`},
		{"admit", `{"event_id":"e","capability":"tracking","at":"2020-01-01T00:00:00Z"}`, "", 400, "unknown"},
		{"admit", `{"event_id":"e","event_id":"f","capability":"tracking"}`, "", 400, "duplicate"},
		{"admit", `{"event_id":"e` + "\xff" + `","capability":"tracking"}`, "", 400, "UTF-8"},
		{"admit", `{"event_id":1,"capability":"tracking"}`, "", 400, "/event_id"},
		{"admit", `{"event_id":"e","capability":"tracking"} {}`, "", 400, "not JSON"},
		{"admit", `[]`, "", 400, "not what is expected"},
		{"admit", ``, "", 400, "empty"},
		{"admit", `{`, "", 400, "not JSON"},
		{"admit", `{"event_id":"e","capability":"tracking"}`, "text/plain", 415, "application/json"},
		{"admit", `event_id=e`, "application/x-www-form-urlencoded", 415, "application/json"},
		{"admit", `{"event_id":"` + strings.Repeat("e", 2<<20) + `"}`, "", 413, "too large"},
		{"settle", `{"event_id":"e"}`, "", 400, `\"actual\" is required`},
		{"settle", `{"event_id":"e","actual":null}`, "", 400, `\"actual\" is required`},
		{"settle", `{"event_id":"e","actual":"-1"}`, "", 400, "-1"},
		{"settle", `{"event_id":"e","actual":"NaN"}`, "", 400, "NaN"},
		{"settle", `{"event_id":"e","actual":1e999}`, "", 400, "1e999"},
		{"settle", `{"event_id":"nobody","actual":"1"}`, "", 404, "nobody"},
		{"release", `{"event_id":"nobody","reason":"x"}`, "", 404, "nobody"},
	} {
		media := test.media
		if media == "" {
			media = "application/json; charset=utf-8"
		}
		status, text := pay(h, test.path, test.body, media)
		if status != test.status || !strings.Contains(text, test.why) {
			t.Errorf("%s %.80s: %d %s, want %d with %q", test.path, test.body, status, text, test.status, test.why)
		}
	}
}

func TestSpendWithoutAPolicy(t *testing.T) {
	h := web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3), Token: tokenOf})
	for _, path := range []string{"admit", "settle", "release"} {
		if status, text := pay(h, path, `{"event_id":"e","capability":"c","actual":"1","reason":"r"}`); status != 404 && status != 400 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := pay(h, "admit", `{"event_id":"e","capability":"c"}`); status != 404 || !strings.Contains(text, "no SpendPolicy is declared") {
		t.Errorf("%d %s", status, text)
	}
	// Declared, but no version of it was published.
	unpublished := payingFrom(web.NewBookSpend(book.NewMemory(), "logistics"))
	if status, text := pay(unpublished, "admit", `{"event_id":"e","capability":"c"}`); status != 409 {
		t.Errorf("%d %s", status, text)
	}
	if got := field(t, get(t, unpublished, "/api/v1/spend"), "policies").([]any); len(got) != 0 {
		t.Errorf("%v", got)
	}
	get(t, unpublished, "/metrics")
}

// Events come as JSON lines; each has its result, and what was admitted stays whatever comes behind it.
func TestEvents(t *testing.T) {
	h, _ := paying(t)
	status, text := pay(h, "events", `{"event_id":"e1","capability":"tracking"}
{"event_id":"e2","capability":"labels"}
`, "application/x-ndjson")
	if status != 202 || field(t, text, "status") != 202.0 || field(t, text, "events.0.outcome.disposition") != "dispatch" || field(t, text, "events.1.event_id") != "e2" {
		t.Fatalf("%d %s", status, text)
	}
	status, text = pay(h, "events", `{"event_id":"e3","capability":"nothing"}{"event_id":"e4","capability":"labels"}{"event_id":`, "application/jsonl")
	if status != 404 || len(field(t, text, "events").([]any)) != 3 || field(t, text, "events.0.status") != 404.0 ||
		field(t, text, "events.1.outcome.disposition") != "dispatch" || field(t, text, "events.2.status") != 400.0 || !strings.HasPrefix(field(t, text, "error").(string), "event 1: ") {
		t.Errorf("%d %s", status, text)
	}
	if _, again := pay(h, "admit", `{"event_id":"e4","capability":"labels"}`); field(t, again, "repeated") != true {
		t.Errorf("the second of three was not admitted: %s", again)
	}
	if status, text = pay(h, "events", "", "application/jsonl"); status != 400 || !strings.Contains(text, "empty") {
		t.Errorf("%d %s", status, text)
	}
	if status, text = pay(h, "events", strings.Repeat(`{"event_id":"e1","capability":"tracking"}`, 1001), "application/jsonl"); status != 400 ||
		!strings.Contains(text, "more than 1000 events") || len(field(t, text, "events").([]any)) != 1001 {
		t.Errorf("%d %.200s", status, text)
	}
	if status, text = pay(h, "events", "{}", "text/plain"); status != 415 {
		t.Errorf("%d %s", status, text)
	}
}

// failing is a book that fails, as disks do.
type failing struct{ err error }

func (f failing) Machines() map[string]web.Machine { return map[string]web.Machine{"logistics": f} }

func (f failing) Report(context.Context, time.Time, string) (*report.Report, error) {
	return nil, f.err
}

func (f failing) Admit(context.Context, time.Time, spend.Admission) (spend.Outcome, error) {
	return spend.Outcome{}, f.err
}

func (f failing) Settle(context.Context, time.Time, string, book.Units) (spend.Outcome, error) {
	return spend.Outcome{}, f.err
}

func (f failing) Release(context.Context, time.Time, string, string) (spend.Outcome, error) {
	return spend.Outcome{}, f.err
}

func TestABookThatFails(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
	}{
		{&book.StorageError{Op: "commit", Full: true, Err: errors.New("disk full")}, 507},
		{&book.StorageError{Op: "commit", Busy: true, Err: errors.New("locked")}, 503},
		{errors.New("anything"), 503},
		{&spend.PrunedError{Event: "e"}, 410},
		{&book.StateError{Event: "e", State: book.Rejected, Wanted: book.Settled}, 409},
	} {
		h := payingFrom(failing{test.err})
		if status, text := pay(h, "admit", `{"event_id":"e","capability":"c"}`); status != test.status {
			t.Errorf("%v: %d %s", test.err, status, text)
		}
		if status, text := pay(h, "events", `{"event_id":"e","capability":"c"}`); status != test.status || field(t, text, "events.0.outcome") != nil {
			t.Errorf("%v: %d %s", test.err, status, text)
		}
	}
	h := payingFrom(failing{errors.New("locked")})
	// It costs what is about paid calls, and nothing else.
	if text := get(t, h, "/metrics"); !strings.Contains(text, "\ntapyr_plan_feasible 1\n") || strings.Contains(text, "tapyr_spend_account") {
		t.Error("metrics")
	}
	if text := get(t, h, "/"); !strings.Contains(text, "They cannot be shown: locked") || !strings.Contains(text, "acme-aruba") {
		t.Error("page")
	}
	if w := (call{path: "/api/v1/spend"}).do(h); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What the page, the API and the metrics say of a policy.
func TestSpendIsShown(t *testing.T) {
	h, _ := paying(t)
	for i := range 5 { // 2.50, 2.50, 1, then two wait
		pay(h, "admit", fmt.Sprintf(`{"event_id":"e%d","capability":"tracking"}`, i))
	}
	pay(h, "settle", `{"event_id":"e0","actual":"2.4"}`)

	text := get(t, h, "/api/v1/spend")
	for path, want := range map[string]any{
		"policies.0.policy": "logistics", "policies.0.unit": "EUR", "policies.0.account.limit": "10", "policies.0.account.settled": "2.4",
		"policies.0.account.used": "5.90", "policies.0.capabilities.1.deferred": 2.0, "policies.0.oldestEssential.eventId": "e3",
	} {
		if got := field(t, text, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := field(t, get(t, h, "/api/v1/status"), "spend.0.policy"); got != "logistics" {
		t.Errorf("status: %v", got)
	}
	lines := ours(get(t, h, "/metrics"))
	for _, want := range []string{
		`tapyr_spend_account_limit_units{policy="logistics",unit="EUR"} 10`,
		`tapyr_spend_account_used_units{policy="logistics",unit="EUR"} 5.9`,
		`tapyr_spend_account_settled_units{policy="logistics",unit="EUR"} 2.4`,
		`tapyr_spend_account_reserved_units{policy="logistics",unit="EUR"} 3.5`,
		`tapyr_spend_capability_headroom_units{capability="tracking",policy="logistics",unit="EUR"} 0.1`,
		`tapyr_spend_capability_deferred_events{capability="tracking",policy="logistics",unit="EUR"} 2`,
		`tapyr_spend_events{capability="tracking",disposition="defer",policy="logistics",route_class=""} 2`,
		`tapyr_spend_events{capability="tracking",disposition="dispatch",policy="logistics",route_class="gold"} 2`,
		`tapyr_spend_events{capability="tracking",disposition="dispatch",policy="logistics",route_class="economy"} 1`,
		`tapyr_spend_policy_info{policy="logistics",unit="EUR",version="quota-3"} 1`,
	} {
		if !contains(lines, want) {
			t.Errorf("no line %s in\n%s", want, strings.Join(grep(lines, "tapyr_spend"), "\n"))
		}
	}
	if n := len(grep(lines, "tapyr_spend_band_crossed_timestamp_seconds")); n != 1 {
		t.Errorf("%d bands crossed", n)
	}
	page := get(t, h, "/")
	for _, want := range []string{"Paid calls", "<dt>Version in force</dt><dd>quota-3</dd>", "The oldest deferred event has waited for 0s, for tracking.", ">3.50<", "essential"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// FuzzSpend: no body makes it panic, or answer with what is no answer; and nothing is admitted but by a body that names an event.
func FuzzSpend(f *testing.F) {
	for _, body := range []string{
		`{"event_id":"e","capability":"tracking"}`, `{"event_id":"e","actual":"1.0"}`, `{"event_id":"e","reason":"x"}`, `{"policy":1}`, `[[[[[[`, "\x00", `{"a":"\ud800"}`,
		`{"event_id":"e","actual":1e400}`, `{"event_id":"e","capability":"tracking"}{"event_id":"e","capability":"tracking"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		h, store := paying(t)
		for _, path := range []string{"admit", "events", "settle", "release"} {
			status, text := pay(h, path, body)
			switch status {
			case 200, 202, 400, 404, 409, 413:
			default:
				t.Errorf("%s: %d %s", path, status, text)
			}
			if status >= 400 && field(t, text, "status") != float64(status) {
				t.Errorf("%s: %d, but %s", path, status, text)
			}
		}
		spendtest.CheckBook(t, store, "logistics")
	})
}

func grep(lines []string, prefix string) []string {
	var found []string
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

func contains(lines []string, want string) bool {
	for _, line := range lines {
		if line == want {
			return true
		}
	}
	return false
}
