package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) options() simulate.ServerOptions {
	return simulate.ServerOptions{
		Seed: 1, Now: func() time.Time { return c.at }, Sleep: func(_ context.Context, d time.Duration) error { c.at = c.at.Add(d); return nil },
	}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newServer(t testing.TB, config *validate.Config, provider string, options simulate.ServerOptions) *simulate.Server {
	t.Helper()
	s, err := simulate.NewServer(config, provider, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends one request without a network.
func ask(s http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// lowered are the fields of a header as expressions see them.
func lowered(h http.Header) map[string]string {
	out := make(map[string]string)
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return out
}

// follow reads all pages of a job with the pager that the daemon uses, and returns their items.
func follow(t *testing.T, s http.Handler, j *validate.Job, vars map[string]string, header http.Header) (items []any, pages int, bodies []any) {
	t.Helper()
	pager, err := schedule.NewPager(j)
	if err != nil {
		t.Fatal(err)
	}
	path, missing := j.Endpoint.Expand(vars)
	if missing != "" {
		t.Fatalf("no value for %s", missing)
	}
	u := &url.URL{Scheme: "http", Host: "example.com", Path: path}
	query := u.Query()
	for name, value := range j.Query {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	for u = pager.First(u); u != nil; pages++ {
		w := ask(s, j.Method, u.String(), header)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", u, w.Code, w.Body)
		}
		body, err := expr.DecodeJSON(w.Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		some, ok, err := pager.Items(t.Context(), body)
		if err != nil || !ok {
			t.Fatalf("%s: no items (%v) in %s", u, err, w.Body)
		}
		items, bodies = append(items, some...), append(bodies, body)
		u, _, err = pager.Next(t.Context(), schedule.Answer{URL: u, Body: body, Headers: lowered(w.Header())})
		if err != nil {
			t.Fatal(err)
		}
	}
	return items, pages, bodies
}

const head = "apiVersion: tapyr/v1alpha1\nkind: "

func vendorDocument(spec string) string {
	return head + "Provider\nmetadata: { name: vendor }\nspec:\n  baseURL: https://api.example.com/v2\n" + spec +
		"---\n" + head + "Account\nmetadata: { name: acme }\nspec: { provider: vendor, credentials: { key: { env: KEY }, secret: { env: SECRET } } }\n"
}

func jobDocument(name, spec string) string {
	return "---\n" + head + "Job\nmetadata: { name: " + name + " }\nspec: { account: acme, interval: 5m, " + spec + " }\n"
}

// TestPagination: the pager finds every item once, whatever the documents say about pages.
func TestPagination(t *testing.T) {
	tests := []struct{ name, pagination, inventory string }{
		{"link header", "{ type: link_header }", "response"},
		{"offset", "{ type: offset, offsetParam: skip, limitParam: take, limit: 10, items: response.devices }", "response.devices"},
		{"page", "{ type: page, pageParam: page, limitParam: per_page, limit: 10 }", "response.data.devices"},
		{"page from 0", "{ type: page, pageParam: p, firstPage: 0, limit: 10, items: response.data.devices }", "response.data.devices"},
		{"cursor", "{ type: cursor, cursorParam: after, cursor: response.meta.next }", "response.devices"},
		{"cursor, guarded", `{ type: cursor, cursorParam: after, cursor: "has(response.meta) && has(response.meta.next) ? response.meta.next : null" }`, "response.devices"},
		{"cursor, optional", `{ type: cursor, cursorParam: after, cursor: "response.?meta.?next.orValue(null)" }`, "response.devices"},
		{"cursor in a header", `{ type: cursor, cursorParam: after, cursor: "headers[?'x-next-cursor'].orValue('')" }`, "response"},
		{"expression, URL", "{ type: expression, next: response.paging.next }", "response.devices"},
		{"expression, more", `{ type: expression, next: 'response.hasMore ? {"page": string(page + 1)} : {}' }`, "response.devices"},
		{"expression, total", `{ type: expression, items: response.devices, next: 'response.total > page * 10 ? {"offset": page * 10} : {}' }`, "response.devices"},
		{"expression, pages", `{ type: expression, items: response.devices, next: 'page < response.totalPages ? {"page": page + 1} : {}' }`, "response.devices"},
		{"expression, cursor", `{ type: expression, next: 'response.cursor != null ? {"cursor": response.cursor} : {}' }`, "response.devices"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := validatetest.Config(t, vendorDocument("  pagination: "+test.pagination+"\n")+
				jobDocument("devices", "request: { endpoint: /devices }, estimate: { items: 35, pagesPerRun: 4 }, inventory: { items: "+test.inventory+", vars: { serial: item.serial, id: item.id } }"))
			c := &clock{noon}
			s := newServer(t, config, "vendor", c.options())
			job := config.Job("devices")
			if test.name == "page" { // without pagination.items the list may stand anywhere
				job.Spec.Pagination, job.Account.Provider.Spec.Pagination.Items = nil, test.inventory
			}
			items, pages, bodies := follow(t, s, job, nil, nil)
			if len(items) != 35 || pages != 4 {
				t.Errorf("%d items on %d pages, want 35 on 4; the first page is %v", len(items), pages, bodies[0])
			}
			seen := make(map[string]bool)
			list, err := expr.InventoryItems.Compile(test.inventory)
			if err != nil {
				t.Fatal(err)
			}
			id, err := expr.InventoryVar.Compile("item.id")
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range bodies {
				found, err := list.EvalList(t.Context(), map[string]any{"response": body})
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range found {
					text, err := id.EvalText(t.Context(), map[string]any{"item": item})
					if err != nil || text == "" || seen[text] {
						t.Errorf("id %q (%v): want another for each item", text, err)
					}
					seen[text] = true
				}
			}
		})
	}
}

// TestExamplesFindTheirFields: the expressions of the example folders evaluate on what is served for them, from a listed item to the
// paths below it, and a second look sees the same.
func TestExamplesFindTheirFields(t *testing.T) {
	for _, name := range []string{"meraki", "aruba-central"} {
		config := validatetest.Folder(t, "../examples/"+name)
		c := &clock{noon}
		s := newServer(t, config, config.Providers[0].Name, c.options())
		header := http.Header{"Authorization": {"Bearer secret"}}
		vars := make(map[string]string)
		for _, j := range config.Jobs {
			c.at = c.at.Add(time.Minute)
			items, _, bodies := follow(t, s, j, vars, header)
			c.at = c.at.Add(time.Minute)
			again, _, _ := follow(t, s, j, vars, header)
			if fmt.Sprint(items) != fmt.Sprint(again) || len(items) == 0 {
				t.Errorf("%s: %d items, and another answer the second time", j.Name, len(items))
			}
			if e := j.Spec.Estimate; e != nil && e.Items != nil && int64(len(items)) != *e.Items {
				t.Errorf("%s: %d items, want the %d that are estimated", j.Name, len(items), *e.Items)
			}
			if inventory := j.Spec.Inventory; inventory != nil {
				for name, expression := range inventory.Vars {
					program, err := expr.InventoryVar.Compile(expression)
					if err != nil {
						t.Fatal(err)
					}
					if vars[name], err = program.EvalText(t.Context(), map[string]any{"item": items[0]}); err != nil || vars[name] == "" {
						t.Errorf("%s: variable %s: %q, %v", j.Name, name, vars[name], err)
					}
				}
			}
			for _, m := range j.Spec.Metrics {
				checkMetric(t, j.Name, m.Name, m.Items, m.Labels, m.Value, bodies[0], vars)
			}
		}
	}
}

func checkMetric(t *testing.T, job, name, items string, labels map[string]string, value string, body any, vars map[string]string) {
	t.Helper()
	around := map[string]any{"response": body, "vars": vars, "status": 200, "headers": map[string]string{}, "item": body}
	if items != "" {
		program, err := expr.MetricItems.Compile(items)
		if err != nil {
			t.Fatal(err)
		}
		list, err := program.EvalList(t.Context(), around)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %s: no items: %v", job, name, err)
		}
		around["item"] = list[0]
	}
	for label, expression := range labels {
		program, err := expr.MetricLabel.Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := program.EvalText(t.Context(), around); err != nil || text == "" {
			t.Errorf("%s: %s: label %s is %q, %v", job, name, label, text, err)
		}
	}
	if value != "" {
		program, err := expr.MetricValue.Compile(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := program.EvalNumber(t.Context(), around); err != nil || !ok {
			t.Errorf("%s: %s: no value: %v", job, name, err)
		}
	}
}

// TestHeadersAreRead: in every form that the documents can declare, the engine reads from an answer what the server has counted.
func TestHeadersAreRead(t *testing.T) {
	tests := []struct {
		name, sync     string
		max, remaining int64 // -1: not told
		reset          time.Duration
	}{
		{"plain", "{ limitHeader: X-Limit, remainingHeader: X-Left, resetHeader: X-Reset }", 100, 97, 12 * time.Hour},
		{"used", "{ limitHeader: X-Limit, usedHeader: X-Used }", 100, 97, 0},
		{"percent", "{ remainingPercentHeader: X-Percent }", -1, 97, 0},
		{"epoch", "{ resetHeader: { name: X-Reset, format: epoch } }", -1, -1, 12 * time.Hour},
		{"epochMs", "{ resetHeader: { name: X-Reset, format: epochMs } }", -1, -1, 12 * time.Hour},
		{"delta", "{ resetHeader: { name: X-Reset, format: delta } }", -1, -1, 12 * time.Hour},
		{"goDuration", "{ resetHeader: { name: X-Reset, format: goDuration } }", -1, -1, 12 * time.Hour},
		{"rfc3339", "{ resetHeader: { name: X-Reset, format: rfc3339 } }", -1, -1, 12 * time.Hour},
		{"httpDate", "{ resetHeader: { name: X-Reset, format: httpDate } }", -1, -1, 12 * time.Hour},
		{"minutes", "{ resetHeader: { name: X-Reset, format: minutes } }", -1, -1, 12 * time.Hour},
		{"policy", "{ policy: day }", 100, 97, 12 * time.Hour},
		{"index", "{ limitHeader: { name: X-Both, index: 1 }, usedHeader: { name: X-Usage, index: 1 } }", 100, 97, 0},
		{"pattern", `{ remainingHeader: { name: X-Quota, pattern: 'remaining=(\d+)' }, limitHeader: { name: X-Quota, pattern: 'limit=(\d+);' } }`, 100, 97, 0},
		{"when", "{ remainingHeader: X-Left, when: { header: X-Resource, equals: core } }", -1, 97, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := validatetest.Config(t, vendorDocument("  limits:\n    - { name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] }, sync: "+test.sync+" }\n")+
				jobDocument("devices", "request: { endpoint: /devices }"))
			c := &clock{noon}
			options := c.options()
			options.Sleep = func(context.Context, time.Duration) error { return nil }
			s := newServer(t, config, "vendor", options)
			var w *httptest.ResponseRecorder
			for range 3 {
				w = ask(s, "GET", "http://example.com/v2/devices", nil)
			}
			response := engine.Response{Status: w.Code}
			for name, values := range w.Header() {
				response.Fields = append(response.Fields, engine.Field{Name: name, Value: values[0]})
			}
			e := engine.New(config, engine.Options{})
			q := engine.Request{Request: match.Request{Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/devices"}}
			got, err := e.Read(noon.UnixNano(), &q, &response)
			if err != nil || len(got.Limits) != 1 || len(got.Ignored) > 0 {
				t.Fatalf("%v: the engine reads %+v from %v", err, got, w.Header())
			}
			l := got.Limits[0]
			if test.max >= 0 && (l.Max == nil || *l.Max != test.max) || test.max < 0 && l.Max != nil {
				t.Errorf("max %v, want %d; %v", l.Max, test.max, w.Header())
			}
			if test.remaining >= 0 && (l.Remaining == nil || *l.Remaining != test.remaining) || test.remaining < 0 && l.Remaining != nil {
				t.Errorf("remaining %v, want %d; %v", l.Remaining, test.remaining, w.Header())
			}
			if test.reset > 0 && (l.ResetAt == nil || l.ResetAt.Sub(noon) != test.reset) {
				t.Errorf("reset %v, want in %s; %v", l.ResetAt, test.reset, w.Header())
			}
		})
	}
}

// TestLimitsAreEnforced counts what a server lets through of a burst, and when it lets through more.
func TestLimitsAreEnforced(t *testing.T) {
	config := validatetest.Config(t, vendorDocument(`  limits:
    - { name: pace, kind: rate, rate: 1/s, burst: 4, scope: { by: [account] } }
    - { name: hourly, kind: quota, max: 6, window: { period: hour }, scope: { by: [account] } }
  auth: { type: bearer, credential: key }
`)+jobDocument("devices", "request: { endpoint: /devices }"))
	c := &clock{noon}
	options := c.options()
	options.Sleep = func(context.Context, time.Duration) error { return nil }
	s := newServer(t, config, "vendor", options)
	send := func(token string, n int) (ok int, last *httptest.ResponseRecorder) {
		for range n {
			last = ask(s, "GET", "http://example.com/devices", http.Header{"Authorization": {"Bearer " + token}})
			if last.Code == http.StatusOK {
				ok++
			}
		}
		return ok, last
	}
	if ok, last := send("a", 10); ok != 4 || last.Code != 429 || last.Header().Get("Retry-After") != "1" {
		t.Errorf("%d of a burst of 10 were served, then %d, Retry-After %s; want 4, 429, 1", ok, last.Code, last.Header().Get("Retry-After"))
	}
	if ok, _ := send("b", 10); ok != 4 {
		t.Errorf("%d of another credential's burst were served, want 4: its limits are its own", ok)
	}
	c.at = c.at.Add(10 * time.Second)
	if ok, last := send("a", 10); ok != 2 || last.Header().Get("Retry-After") != "3590" {
		t.Errorf("%d more were served, Retry-After %s; want the 2 that the hour has left, and its end", ok, last.Header().Get("Retry-After"))
	}
	c.at = noon.Add(time.Hour)
	if ok, _ := send("a", 10); ok != 4 {
		t.Errorf("%d served in the next hour, want 4", ok)
	}
}

// TestFaultsOfServer: each fault does what its name says.
func TestFaultsOfServer(t *testing.T) {
	documents := vendorDocument("  limits:\n    - { name: daily, kind: quota, max: 1000, window: { period: day }, sync: { limitHeader: X-Limit, remainingHeader: X-Left } }\n") +
		jobDocument("devices", "request: { endpoint: /devices }")
	config := validatetest.Config(t, documents)
	with := func(faults string) (*simulate.Server, *clock) {
		f, err := simulate.ParseFaults(faults, noon)
		if err != nil {
			t.Fatal(err)
		}
		c := &clock{noon}
		options := c.options()
		options.Faults = f
		return newServer(t, config, "vendor", options), c
	}
	get := func(s *simulate.Server) *httptest.ResponseRecorder {
		return ask(s, "GET", "http://example.com/devices", nil)
	}

	s, c := with("latency=200ms")
	if get(s); c.at.Sub(noon) != 200*time.Millisecond {
		t.Errorf("an answer took %s, want 200ms", c.at.Sub(noon))
	}
	if s, _ = with("errors=1"); get(s).Code != 503 {
		t.Error("errors=1: no 503")
	}
	if s, _ = with("spurious=1"); get(s).Code != 429 || get(s).Header().Get("Retry-After") == "" {
		t.Error("spurious=1: no 429 with Retry-After")
	}
	if s, _ = with("spurious=1,curt=1"); get(s).Header().Get("Retry-After") != "" {
		t.Error("curt=1: a Retry-After all the same")
	}
	if s, _ = with("missing=1"); get(s).Header().Get("X-Limit") != "" {
		t.Error("missing=1: a header all the same")
	}
	s, _ = with("lying=1")
	lies := 0
	for n := range 20 {
		if get(s).Header().Get("X-Left") != fmt.Sprint(999-n) {
			lies++
		}
	}
	if lies < 15 {
		t.Errorf("lying=1: %d of 20 remaining units were made up", lies)
	}
	s, c = with("skew=90s")
	if date, err := http.ParseTime(get(s).Header().Get("Date")); err != nil || date.Sub(c.at) < 89*time.Second {
		t.Errorf("skew=90s: the date is %v, %v", date, err)
	}
	s, c = with("external=10/s")
	get(s)
	c.at = c.at.Add(10 * time.Second)
	if left := get(s).Header().Get("X-Left"); left > "930" || len(left) != 3 {
		t.Errorf("external=10/s: %s left after 10 s, want about 898", left)
	}
	s, c = with("1h:provider.vendor.limits.daily.max=500")
	get(s)
	c.at = c.at.Add(time.Hour)
	if limit := get(s).Header().Get("X-Limit"); limit != "500" {
		t.Errorf("the limit is %s after an hour, want 500", limit)
	}
	var missing *validate.NoSuchNameError
	if _, err := simulate.NewServer(config, "vendro", simulate.ServerOptions{}); !errors.As(err, &missing) {
		t.Errorf("an unknown provider: %v", err)
	}
}

// TestResetsAndSlowBodies need a connection.
func TestResetsAndSlowBodies(t *testing.T) {
	config := validatetest.Config(t, vendorDocument("")+jobDocument("devices", "request: { endpoint: /devices }, estimate: { items: 50 }"))
	resets := httptest.NewServer(newServer(t, config, "vendor", simulate.ServerOptions{Faults: simulate.Faults{Resets: 1}}))
	defer resets.Close()
	if response, err := http.Get(resets.URL + "/devices"); err == nil {
		response.Body.Close()
		t.Errorf("a connection that should break gave %s", response.Status)
	}
	slow := httptest.NewServer(newServer(t, config, "vendor", simulate.ServerOptions{Faults: simulate.Faults{Slow: 1, Latency: 5 * time.Millisecond}}))
	defer slow.Close()
	began := time.Now()
	response, err := http.Get(slow.URL + "/devices")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if _, bad := expr.DecodeJSON(body); err != nil || bad != nil {
		t.Errorf("a slow body is not whole: %v, %v", err, bad)
	}
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("a slow answer took %s, want ten times the latency, and the drops", took)
	}
}

// TestSlotIsHeldDuringLatency: a second request meets the first one's slot.
func TestSlotIsHeldDuringLatency(t *testing.T) {
	config := validatetest.Config(t, vendorDocument("  limits: [{ name: slots, kind: concurrency, max: 1 }]\n")+jobDocument("devices", "request: { endpoint: /devices }"))
	c := &clock{noon}
	options := c.options()
	options.Faults.Latency = time.Second
	var s *simulate.Server
	inner := 0
	options.Sleep = func(context.Context, time.Duration) error {
		if inner == 0 {
			inner = 1 // the answer of the second request sleeps, too
			inner = ask(s, "GET", "http://example.com/devices", nil).Code
		}
		return nil
	}
	s = newServer(t, config, "vendor", options)
	outer := ask(s, "GET", "http://example.com/devices", nil).Code
	if outer != 200 || inner != 429 {
		t.Errorf("the first request got %d, a second one during it %d; want 200 and 429", outer, inner)
	}
	if again := ask(s, "GET", "http://example.com/devices", nil).Code; again != 200 {
		t.Errorf("after both, a request got %d: the slot is still held", again)
	}
}
