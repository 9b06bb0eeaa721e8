package web_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

// ours are the lines of our own metrics, sorted as they are served.
func ours(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "tapyr_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// The names and labels are a contract: dashboards and alerts read them. Each line is exact.
func TestMetricsAreExact(t *testing.T) {
	text := get(t, web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3)}), "/metrics")
	lines := ours(text)
	const aruba, meraki = `{key="acme-aruba",limit="daily",provider="aruba-central"}`, `{key="acme-meraki",limit="daily",provider="meraki"}`
	const aps = `{account="acme-aruba",job="aruba-aps"}`
	for _, want := range []string{
		// Those that the design names.
		"tapyr_budget_used" + aruba + " 4500",
		"tapyr_budget_remaining" + aruba + " 0",
		"tapyr_budget_usable" + meraki + " 30000",
		"tapyr_budget_external_usage" + aruba + " 500",
		`tapyr_budget_rate_limited_total{limit="daily",provider="aruba-central"} 12`,
		`tapyr_budget_unexpected_429_total{limit="daily",provider="aruba-central"} 3`,
		"tapyr_budget_exhaustion_eta_seconds" + aruba + " 0",
		`tapyr_budget_wait_seconds_bucket{priority="low",le="0.1"} 10`,
		`tapyr_budget_wait_seconds_bucket{priority="low",le="10"} 90`,
		`tapyr_budget_wait_seconds_bucket{priority="low",le="+Inf"} 100`,
		`tapyr_budget_wait_seconds_sum{priority="low"} 512`,
		`tapyr_budget_wait_seconds_count{priority="low"} 100`,
		`tapyr_budget_refused_total{limit="daily",provider="aruba-central",reason="deadline"} 1`,
		`tapyr_budget_refused_total{limit="daily",provider="aruba-central",reason="quota_exhausted"} 40`,
		`tapyr_job_interval_seconds{account="acme-meraki",job="meraki-clients"} 2232`,
		`tapyr_job_stretch{account="acme-meraki",job="meraki-clients"} 2.48`,
		`tapyr_job_runs_total{account="acme-aruba",job="aruba-aps",status="failed"} 7`,
		`tapyr_job_runs_total{account="acme-aruba",job="aruba-aps",status="ok"} 1000`,
		`tapyr_job_runs_total{account="acme-aruba",job="aruba-aps",status="partial"} 0`,
		"tapyr_job_last_success_timestamp_seconds" + aps + " 1.7960385e+09",
		"tapyr_plan_feasible 1",
		`tapyr_budget_limit_disagreement_total{limit="daily",provider="aruba-central"} 1`,
		// And what the examples need.
		"tapyr_budget_max" + meraki + " 40000",
		"tapyr_budget_window_start_timestamp_seconds" + meraki + " 1.7959968e+09",
		"tapyr_budget_window_end_timestamp_seconds" + meraki + " 1.7960832e+09",
		`tapyr_build_info{version="v1.2.3"} 1`,
		`tapyr_account_health{account="acme-aruba",health="failing",provider="aruba-central"} 1`,
		`tapyr_account_health{account="acme-aruba",health="ok",provider="aruba-central"} 0`,
		`tapyr_inventory_age_seconds{job="meraki-networks"} 420`,
		`tapyr_job_series_cut_total{account="acme-meraki",job="meraki-clients"} 310`,
		"tapyr_job_fresh" + aps + " 0",
		`tapyr_job_paused{account="acme-meraki",job="meraki-networks"} 1`,
		"tapyr_requests_waiting 117",
		"tapyr_state_ok 1",
		"tapyr_config_last_reload_successful 1",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s", want)
			name, _, _ := strings.Cut(want, "{")
			for _, line := range lines {
				if strings.HasPrefix(line, name) {
					t.Log(line)
				}
			}
		}
	}
	// What there is not must not be 0: an alert would believe it.
	for _, absent := range []string{
		`tapyr_budget_exhaustion_eta_seconds{key="acme-aruba",limit="hourly"`, `tapyr_job_next_run_timestamp_seconds{account="acme-meraki",job="meraki-networks"`,
	} {
		if strings.Contains(text, absent) {
			t.Errorf("there is a %s", absent)
		}
	}
	for _, process := range []string{"go_goroutines ", "process_start_time_seconds "} {
		if !strings.Contains(text, "\n"+process) {
			t.Errorf("no %s", process)
		}
	}
}

// The three ways to look at a daemon must not contradict each other.
func TestMetricsAndPlanFeasible(t *testing.T) {
	text := get(t, web.New(web.Options{Daemon: stillOf(webtest.Infeasible, 3)}), "/metrics")
	for _, want := range []string{"\ntapyr_plan_feasible 0\n", "\ntapyr_plan_holds 0\n", "\ntapyr_state_ok 0\n", "\ntapyr_config_last_reload_successful 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// Prometheus' own linter has nothing to say, apart from names that the design gives.
func TestMetricsAreWellNamed(t *testing.T) {
	text := get(t, web.New(web.Options{Daemon: stillOf(webtest.Infeasible, 5)}), "/metrics")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "tapyr_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestOpenMetrics(t *testing.T) {
	w := call{path: "/metrics", header: map[string]string{"Accept": "application/openmetrics-text; version=1.0.0"}}.do(
		web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3)}))
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(w.Body.String(), "# EOF\n") {
		t.Errorf("%s", w.Header().Get("Content-Type"))
	}
}

func constant(name string, kind prometheus.ValueType, value float64, labels ...string) prometheus.Metric {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, "Help of "+name+".", names, nil), kind, value, values...)
}

// What jobs make of answers is served beside the rest, and cannot take its place.
func TestSeriesOfJobs(t *testing.T) {
	series := &fixedSeries{
		constant("meraki_network_info", prometheus.GaugeValue, 1, "network", "N_1", "name", "Head \"office\"\nParis"),
		constant("meraki_clients", prometheus.GaugeValue, 42.5, "network", "N_1"),
		constant("meraki_usage_total", prometheus.CounterValue, 7, "network", "N_1"),
		constant("tapyr_plan_feasible", prometheus.GaugeValue, 0),
		constant("go_goroutines", prometheus.GaugeValue, 0),
	}
	h := web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3), Series: series})
	text := get(t, h, "/metrics")
	for _, want := range []string{
		`meraki_network_info{name="Head \"office\"\nParis",network="N_1"} 1`, `meraki_clients{network="N_1"} 42.5`, `meraki_usage_total{network="N_1"} 7`,
		"# TYPE meraki_usage_total counter", "# HELP meraki_clients Help of meraki_clients.", "tapyr_plan_feasible 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, "tapyr_plan_feasible 0") || regexp.MustCompile(`(?m)^go_goroutines 0$`).MatchString(text) {
		t.Error("a job has taken the place of a metric of ours")
	}
	*series = (*series)[:1]
	if strings.Contains(get(t, h, "/metrics"), "meraki_clients") {
		t.Error("a series that is gone is still served")
	}
}

// A job with two series of one name and labels costs these, not the others, and the log says so.
func TestSeriesThatCannotBe(t *testing.T) {
	var log bytes.Buffer
	twice := constant("meraki_clients", prometheus.GaugeValue, 1, "network", "N_1")
	h := web.New(web.Options{
		Daemon: stillOf(webtest.Healthy, 3), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Series: &fixedSeries{twice, twice, constant("meraki_devices", prometheus.GaugeValue, 5)},
	})
	text := get(t, h, "/metrics")
	if !strings.Contains(text, "meraki_devices 5\n") || !strings.Contains(text, "tapyr_plan_feasible 1\n") {
		t.Error("the other metrics are gone")
	}
	if !strings.Contains(log.String(), "meraki_clients") {
		t.Errorf("the log says nothing: %s", log.String())
	}
}

// Names that are no UTF-8 must not cost the whole scrape.
func TestMetricsOfAnyNames(t *testing.T) {
	d := stillOf(webtest.Healthy, 3)
	d.change(func(s *daemon.Snapshot) { s.Scopes[0].Key, s.Jobs[0].Job = "caf\xe9", "j\xff" })
	text := get(t, web.New(web.Options{Daemon: d}), "/metrics")
	if !strings.Contains(text, `tapyr_budget_used{key="caf�"`) || !strings.Contains(text, `job="j�"`) {
		t.Error("the series are gone")
	}
}

// BenchmarkMetrics is a scrape of 300 keys and the series of a large job.
func BenchmarkMetrics(b *testing.B) {
	var series fixedSeries
	for i := range 10_000 {
		series = append(series, constant("vendor_clients", prometheus.GaugeValue, float64(i), "network", fmt.Sprintf("N_%d", i), "name", "office"))
	}
	h := web.New(web.Options{Daemon: stillOf(webtest.Degraded, 300), Series: &series})
	b.ReportAllocs()
	for b.Loop() {
		if w := (call{path: "/metrics"}).do(h); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

// BenchmarkPage is the page with 300 keys.
func BenchmarkPage(b *testing.B) {
	h := web.New(web.Options{Daemon: stillOf(webtest.Degraded, 300)})
	b.ReportAllocs()
	for b.Loop() {
		if w := (call{path: "/"}).do(h); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
