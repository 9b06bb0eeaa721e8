package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

const (
	prometheusFolder = "../examples/prometheus"
	dashboardFile    = "../examples/grafana/tapyr.json"
)

// program finds a program, or skips the test and says where it comes from. On CI, where .ci/run installs it, it must be there.
func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed: .ci/run should have installed Debian's package %s", name, debianPackage)
	}
	t.Skipf("%s is not installed (Debian's package %s has it)", name, debianPackage)
	return ""
}

// exported are the names of all series that a daemon can have, of paid calls too.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	h, _ := paying(t)
	for i := range 5 {
		pay(h, "admit", fmt.Sprintf(`{"event_id":"e%d","capability":"tracking"}`, i))
	}
	names := map[string]bool{}
	for _, handler := range []http.Handler{h, web.New(web.Options{Daemon: stillOf(webtest.Infeasible, 3)})} {
		for line := range strings.Lines(get(t, handler, "/metrics")) {
			if !strings.HasPrefix(line, "#") {
				names[line[:strings.IndexAny(line, "{ ")]] = true
			}
		}
	}
	return names
}

// metricName finds the names of ours in a query; tapyr:… are recorded ones.
var metricName = regexp.MustCompile(`\b(?:tapyr|process|go)[:_][a-zA-Z0-9:_]+`)

// checkNames: what a query asks for exists.
func checkNames(t *testing.T, where, query string, names map[string]bool) {
	t.Helper()
	found := metricName.FindAllString(query, -1)
	for _, name := range found {
		if !names[name] {
			t.Errorf("%s asks for %s, which does not exist: %s", where, name, query)
		}
	}
	if len(found) == 0 && !strings.HasPrefix(query, "up{") {
		t.Errorf("%s asks for nothing of ours: %s", where, query)
	}
}

// rules are the rules of the example.
func rules(t *testing.T) (list []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(prometheusFolder + "/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string           `yaml:"name"`
			Rules []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		list = append(list, group.Rules...)
	}
	return list
}

func TestAlertsAskForWhatThereIs(t *testing.T) {
	names := exported(t)
	list := rules(t)
	for _, rule := range list {
		if record, ok := rule["record"].(string); ok {
			names[record] = true
		}
	}
	alerts := map[string]bool{}
	for _, rule := range list {
		checkNames(t, "rules.yml", rule["expr"].(string), names)
		name, isAlert := rule["alert"].(string)
		if !isAlert {
			continue
		}
		alerts[name] = true
		notes, _ := rule["annotations"].(map[string]any)
		labels, _ := rule["labels"].(map[string]any)
		if notes["summary"] == nil || notes["description"] == nil || !slices.Contains([]any{"info", "warning", "critical"}, labels["severity"]) {
			t.Errorf("%s does not say what is wrong, what to do, or how bad it is", name)
		}
	}
	tests, err := os.ReadFile(prometheusFolder + "/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range alerts {
		// Each is seen to fire; exp_labels stand only where it does.
		if !regexp.MustCompile(`alertname: ` + name + `\n\s+eval_time: \S+\n\s+exp_alerts:\n\s+- exp_labels`).Match(tests) {
			t.Errorf("no test sees %s fire", name)
		}
	}
	for _, want := range []string{"TapyrQuotaPace", "TapyrQuotaExhaustsBeforeReset", "TapyrUnexpected429", "TapyrPlanInfeasible", "TapyrJobStale"} {
		if !alerts[want] {
			t.Errorf("there is no alert %s", want)
		}
	}
}

func TestPromtool(t *testing.T) {
	promtool := program(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = prometheusFolder
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	// It does find what is wrong: a rule that fires at another pace fails its test.
	text, err := os.ReadFile(prometheusFolder + "/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tests, err := os.ReadFile(prometheusFolder + "/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(text), "ratio > 1.25", "ratio > 2.5", 1)
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(wrong), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules_test.yml"), tests, 0o666); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), promtool, "test", "rules", "rules_test.yml")
	command.Dir = dir
	if output, err := command.CombinedOutput(); err == nil || !strings.Contains(string(output), "TapyrQuotaPace") {
		t.Errorf("a wrong rule passes: %s", output)
	}
}

// dashboard is what is looked at of a dashboard. The schema is that of Grafana 10.
type dashboard struct {
	Title         string  `json:"title"`
	UID           string  `json:"uid"`
	ID            *int    `json:"id"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name, Type string
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct{ Expr string } `json:"list"`
	} `json:"annotations"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		Expr       string `json:"expr"`
		RefID      string `json:"refId"`
		Datasource struct{ Type, UID string }
	} `json:"targets"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// query is a dashboard's expression with its variables filled in, as Grafana does.
func query(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$provider", ".*", "$limit", ".*", "$key", ".*").Replace(expr)
}

func TestDashboard(t *testing.T) {
	d, names := readDashboard(t), exported(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || d.ID != nil {
		t.Errorf("title %q, uid %q, schemaVersion %d, id %v (must be null to be imported)", d.Title, d.UID, d.SchemaVersion, d.ID)
	}
	ids, graphs := map[int]bool{}, 0
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("two panels have the id %d, or it is 0", p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is beside the grid: %+v", p.Title, g)
		}
		for _, other := range d.Panels[:i] {
			o := other.GridPos
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("%s lies on %s", p.Title, other.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		graphs++
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d has no title, no description or nothing to show", p.ID)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			checkNames(t, p.Title, target.Expr, names)
			if refs[target.RefID] || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: refId %q, data source %q", p.Title, target.RefID, target.Datasource.UID)
			}
			refs[target.RefID] = true
		}
	}
	if graphs < 15 {
		t.Errorf("only %d panels", graphs)
	}
	variables := []string{}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" {
			checkNames(t, "variable "+v.Name, v.Definition, names)
		}
	}
	if !slices.Equal(variables, []string{"datasource", "provider", "limit", "key"}) {
		t.Errorf("variables %q", variables)
	}
	for _, a := range d.Annotations.List {
		checkNames(t, "annotation", a.Expr, names)
	}
}

// A real Prometheus scrapes a handler by the example's config, evaluates its rules, and answers every query of the dashboard.
func TestPrometheusEndToEnd(t *testing.T) {
	binary := program(t, "prometheus", "prometheus")
	h, _ := paying(t)
	for i := range 5 {
		pay(h, "admit", fmt.Sprintf(`{"event_id":"e%d","capability":"tracking"}`, i))
	}
	target := httptest.NewServer(withStateOf(h, web.New(web.Options{Daemon: stillOf(webtest.Infeasible, 3)})))
	defer target.Close()
	api := startPrometheus(t, binary, strings.TrimPrefix(target.URL, "http://"))
	// Rates need two scrapes.
	wait(t, "two scrapes", func() bool { return len(api.query(t, `count_over_time(tapyr_plan_feasible[1m]) >= 2`)) > 0 })

	for _, p := range readDashboard(t).Panels {
		for _, one := range p.Targets {
			samples := api.query(t, query(one.Expr))
			if len(samples) == 0 && p.Title != "Pace" { // the snapshot's windows are not of today
				t.Errorf("%s: no data: %s", p.Title, query(one.Expr))
			}
		}
	}
	// An alert may need several evaluations after the first sample.
	var state string
	wait(t, "TapyrPlanInfeasible", func() bool {
		state = api.rule(t, "TapyrPlanInfeasible")
		return state == "pending" || state == "firing"
	})
	for _, rule := range rules(t) {
		if name, ok := rule["alert"].(string); ok && api.rule(t, name) == "" {
			t.Errorf("Prometheus has no rule %s", name)
		}
	}
}

// withStateOf serves the self-metrics of one handler and those of paid calls of another, as one daemon does.
func withStateOf(paying, daemon http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		a, b := httptest.NewRecorder(), httptest.NewRecorder()
		paying.ServeHTTP(a, r)
		daemon.ServeHTTP(b, r)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(b.Body.Bytes())
		for line := range strings.Lines(a.Body.String()) {
			if strings.HasPrefix(line, "tapyr_spend_") {
				_, _ = io.WriteString(w, line)
			}
		}
	})
}

// prometheusAPI asks a running Prometheus.
type prometheusAPI string

func startPrometheus(t *testing.T, binary, target string) prometheusAPI {
	t.Helper()
	dir := t.TempDir()
	config, err := os.ReadFile(prometheusFolder + "/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("127.0.0.1:9469", target, ": 30s", ": 1s").Replace(string(config))
	if !strings.Contains(text, target) {
		t.Fatal("the config scrapes something else")
	}
	for name, content := range map[string]string{"prometheus.yml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := os.ReadFile(prometheusFolder + "/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), rules, 0o666); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	command := exec.CommandContext(t.Context(), binary, "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--log.level=warn")
	var log bytes.Buffer
	command.Dir, command.Stdout, command.Stderr = dir, &log, &log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", log.String())
		}
	})
	api := prometheusAPI("http://" + address)
	wait(t, "Prometheus", func() bool {
		response, err := http.Get(string(api) + "/-/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return api
}

// freeAddress is an address on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// wait looks now and then until something is so.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (api prometheusAPI) get(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get(string(api) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %v %s", path, response.StatusCode, err, body)
	}
}

// query is the result of an instant query.
func (api prometheusAPI) query(t *testing.T, expr string) []any {
	t.Helper()
	var answer struct {
		Data struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	api.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result
}

// rule is the state of an alert, "" where there is no such rule or it has failed.
func (api prometheusAPI) rule(t *testing.T, name string) string {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, State, Health, LastError string } `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	api.get(t, "/api/v1/rules", &answer)
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if rule.Health == "err" {
				t.Errorf("rule %s: %s", rule.Name, rule.LastError)
			}
			if rule.Name == name {
				return rule.State
			}
		}
	}
	return ""
}
