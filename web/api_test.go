package web_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

func TestStatusIsTheSnapshot(t *testing.T) {
	text := get(t, web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3)}), "/api/v1/status")
	for path, want := range map[string]any{
		"at": "2026-11-30T13:05:00Z", "version": "v1.2.3", "ready": true, "planFeasible": true, "config.generation": 2.0,
		"accounts.1.health": "failing", "scopes.0.used": 4500.0, "scopes.0.slotSeconds": 900.0, "scopes.1.exhaustsAt": nil,
		"jobs.5.runs.failed": 7.0, "jobs.5.ageSeconds": 5400.0, "jobs.3.nextRunAt": nil, "waitingTotal": 117.0,
		"refusals.0.reason": "quota_exhausted", "rateLimited.0.unexpected": true, "totals.byLimit.0.refused.deadline": 1.0, "spend": nil,
	} {
		if got := field(t, text, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// An empty daemon has lists, not nulls: a program need not ask twice.
func TestListsAreNeverNull(t *testing.T) {
	d := &still{snapshot: &daemon.Snapshot{At: webtest.At}}
	h := web.New(web.Options{Daemon: d})
	for path, lists := range map[string][]string{
		"/api/v1/status": {"accounts", "scopes", "jobs", "waiting", "refusals", "rateLimited", "inventories", "changes", "totals.byLimit", "totals.waits"},
		"/api/v1/scopes": {"scopes"},
		"/api/v1/jobs":   {"jobs"},
		"/api/v1/spend":  {"policies"},
	} {
		text := get(t, h, path)
		for _, list := range lists {
			if got, ok := field(t, text, list).([]any); !ok || len(got) != 0 {
				t.Errorf("%s: %s is %v", path, list, got)
			}
		}
	}
	get(t, h, "/")
	get(t, h, "/metrics")
}

// The contract of all JSON: camelCase keys, instants in UTC, no durations in words.
func TestFormOfJSON(t *testing.T) {
	d := stillOf(webtest.Infeasible, 5)
	d.change(func(s *daemon.Snapshot) { // a daemon in Paris
		paris := time.FixedZone("CET", 3600)
		s.At, s.StartedAt = s.At.In(paris), s.StartedAt.In(paris)
		end := s.Scopes[0].WindowEnd.In(paris)
		s.Scopes[0].WindowEnd, s.Scopes[0].ExhaustsAt = end, &end
	})
	h := web.New(web.Options{Daemon: d})
	key := regexp.MustCompile(`"([^"\\]+)":`)
	camel := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	instant := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	for _, path := range []string{"/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs"} {
		w := call{path: path}.do(h)
		text := w.Body.String()
		if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
			t.Errorf("%s: Content-Type %q", path, got)
		}
		for _, match := range key.FindAllStringSubmatch(text, -1) {
			if reason := match[1]; !camel.MatchString(reason) && reason != "quota_exhausted" {
				t.Errorf("%s: key %q", path, match[1])
			}
		}
		found := instant.FindAllString(text, -1)
		if len(found) == 0 {
			t.Errorf("%s: no instant", path)
		}
		for _, one := range found {
			if !strings.HasSuffix(one, `Z"`) {
				t.Errorf("%s: %s is not in UTC", path, one)
			}
		}
		if again := get(t, h, path); again != text {
			t.Errorf("%s differs from one time to the next", path)
		}
	}
}

func TestPlan(t *testing.T) {
	d := stillOf(webtest.Infeasible, 3)
	h := web.New(web.Options{Daemon: d, Redact: func(text string) string { return strings.ReplaceAll(text, "acme", "[secret]") }})
	text := get(t, h, "/api/v1/plan")
	for path, want := range map[string]any{
		"feasible": false, "jobs.4.effectiveSeconds": 2232.0, "jobs.4.stretch": 2.48, "scopes.2.feasible": false, "assertions.0.ok": false,
		"warnings.0.code": "fanout-unknown", "scopes.0.key": "[secret]-aruba",
	} {
		if got := field(t, text, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if d.snapshot.Plan.Scopes[0].Key != "acme-aruba" {
		t.Error("the daemon's own plan was changed")
	}
	d.change(func(s *daemon.Snapshot) { s.Plan = nil })
	if w := (call{path: "/api/v1/plan"}).do(h); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "no plan yet") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestScopesCanBeChosen(t *testing.T) {
	h := web.New(web.Options{Daemon: stillOf(webtest.Healthy, 10)})
	for query, want := range map[string]int{
		"": 10, "?provider=aruba-central": 2, "?limit=daily": 9, "?provider=aruba-central&limit=daily": 1, "?key=acme-aruba": 2, "?key=": 0,
		"?provider=nobody": 0, "?unknown=x": 10,
	} {
		scopes := field(t, get(t, h, "/api/v1/scopes"+query), "scopes").([]any)
		if len(scopes) != want {
			t.Errorf("%q: %d scopes, want %d", query, len(scopes), want)
		}
	}
}

// What an operator does with a job, and what is said about it: tapyr job goes by this.
func TestSteering(t *testing.T) {
	d := stillOf(webtest.Healthy, 3)
	h := web.New(web.Options{Daemon: d})
	do := func(path string) (int, string) {
		w := call{method: "POST", path: "/api/v1/" + path}.do(h)
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		verb   string
		paused bool
	}{{"pause", true}, {"resume", false}} {
		if status, text := do("jobs/meraki-devices/" + step.verb); status != 204 || text != "" {
			t.Errorf("%s: %d %s", step.verb, status, text)
		}
		if got := field(t, get(t, h, "/api/v1/jobs/meraki-devices"), "paused"); got != step.paused {
			t.Errorf("after %s: %v", step.verb, got)
		}
	}
	if status, text := do("jobs/meraki-devices/trigger"); status != 200 || field(t, text, "instances") != 3.0 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := do("jobs/meraki-device/pause"); status != 404 || field(t, text, "error") != `there is no job "meraki-device"; /api/v1/jobs lists them` {
		t.Errorf("%d %s", status, text)
	}
	if status, text := do("reload"); status != 202 {
		t.Errorf("%d %s", status, text)
	}
	want := []string{"pause meraki-devices", "resume meraki-devices", "trigger meraki-devices", "pause meraki-device", "reload"}
	if !slices.Equal(d.done, want) {
		t.Errorf("the daemon was told %q", d.done)
	}
	for _, refusal := range []error{errors.New(`job "meraki-devices" is paused; resume it first`), &daemon.NoSuchJobError{Job: "meraki-devices", Silent: true}} {
		d.refuses = refusal
		if status, text := do("jobs/meraki-devices/trigger"); status != 409 || field(t, text, "error") != refusal.Error() {
			t.Errorf("%d %s", status, text)
		}
	}
}

// A name with a slash or a space reaches the daemon as it is.
func TestNamesInPaths(t *testing.T) {
	d := stillOf(webtest.Healthy, 3)
	d.change(func(s *daemon.Snapshot) { s.Jobs[0].Job = "a/b c" })
	h := web.New(web.Options{Daemon: d})
	if got := field(t, get(t, h, "/api/v1/jobs/a%2Fb%20c"), "job"); got != "a/b c" {
		t.Error(got)
	}
}

// secretDaemon is a daemon with a secret in every text that a snapshot has, but for names of states.
func secretDaemon(secret string) *still {
	d := stillOf(webtest.Infeasible, 4)
	again := d.snapshot.Scopes[0]
	again.Kind = "quota"
	d.snapshot.Scopes = append(d.snapshot.Scopes, again)
	n := 0
	plant(reflect.ValueOf(d.snapshot), secret, &n)
	return d
}

func plant(v reflect.Value, secret string, n *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), secret, n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).CanSet() {
				plant(v.Field(i), secret, n)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i), secret, n)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			v.SetMapIndex(key, reflect.Value{})
			*n++
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("%s/%s%d", key, secret, *n)).Convert(key.Type()), value)
		}
	case reflect.String:
		*n++ // every text differs: equal labels would be two series of one name
		v.SetString(fmt.Sprintf("%s/%s%d", v.String(), secret, *n))
	}
}

// advised is a daemon that knows what would help, or is still looking for it.
type advised struct {
	*still
	remedies []plan.Remedy
}

func (a *advised) Remedies(_ context.Context, of *plan.Plan, patience time.Duration) ([]plan.Remedy, bool) {
	if patience <= 0 {
		panic("for ever")
	}
	return a.remedies, a.remedies != nil && of != nil
}

// What would help an infeasible plan is in its JSON and on the page, and a page does not wait for it.
func TestRemedies(t *testing.T) {
	const flag = "--set job.meraki-devices.interval=7m"
	d := &advised{still: stillOf(webtest.Infeasible, 3), remedies: []plan.Remedy{
		{Kind: "interval", Provider: "meraki", Limit: "daily", Key: "acme", Flag: flag, Message: "run meraki-devices every 7m <or> less", Feasible: true},
		{Kind: "max", Provider: "meraki", Limit: "daily", Key: "acme", Flag: "--set x=1", Message: "raise daily"},
	}}
	h := web.New(web.Options{Daemon: d})
	text := get(t, h, "/api/v1/plan")
	for path, want := range map[string]any{"feasible": false, "remedies.0.flag": flag, "remedies.0.kind": "interval", "remedies.1.feasible": false} {
		if got := field(t, text, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	page := get(t, h, "/")
	for _, want := range []string{"What would help", "every 7m &lt;or&gt; less", "<code>" + flag + "</code>", "raise daily", "others stay over their budgets"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	d.remedies = nil
	if page := get(t, h, "/"); !strings.Contains(page, "being worked out") || strings.Contains(page, "What would help</h3>") {
		t.Error("the page does not say that remedies are looked for")
	}
	if page := get(t, web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3)}), "/"); strings.Contains(page, "What would help") {
		t.Error("a feasible plan has remedies")
	}
}
