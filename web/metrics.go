package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/tapyr/tapyr/daemon"
)

// Metrics are made from a snapshot when they are asked for: nothing is counted twice, a series disappears with what it was about,
// and deciding about a request costs nothing for them. What a metric says is in its help, in the tables of metrics_*.go.

// gauge and counter are the types of all metrics but the histogram of waits.
const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// metric is one metric over things of type T: its description, and its value for one of them; ok is false where there is none.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) (value float64, ok bool)
}

// sheet is a table of metrics that have the same labels.
type sheet[T any] struct {
	prefix  string
	labels  []string
	metrics []metric[T]
}

// add puts a metric into the table.
func (t *sheet[T]) add(kind prometheus.ValueType, name, help string, value func(T) (float64, bool)) {
	t.metrics = append(t.metrics, metric[T]{prometheus.NewDesc(t.prefix+name, help, t.labels, nil), kind, value})
}

// always is a value that there always is.
func always[T any, N int | int64 | float64](value func(T) N) func(T) (float64, bool) {
	return func(of T) (float64, bool) { return float64(value(of)), true }
}

// flag is 1 or 0.
func flag[T any](value func(T) bool) func(T) (float64, bool) {
	return func(of T) (float64, bool) { return number(value(of)), true }
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (t *sheet[T]) describe(ch chan<- *prometheus.Desc) {
	for _, m := range t.metrics {
		ch <- m.desc
	}
}

// emit sends all metrics of a thing.
func (t *sheet[T]) emit(ch chan<- prometheus.Metric, of T, labels ...string) {
	for _, m := range t.metrics {
		if value, ok := m.value(of); ok {
			send(ch, m.desc, m.kind, value, labels...)
		}
	}
}

// send sends one metric. A name in a document or an answer can be bytes that are no UTF-8, which a label cannot.
func send(ch chan<- prometheus.Metric, desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "�")
	}
	ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
}

// collector makes the self-metrics from a daemon's snapshot.
type collector struct{ snapshot func() *daemon.Snapshot }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	daemonSheet.describe(ch)
	scopeSheet.describe(ch)
	limitSheet.describe(ch)
	jobSheet.describe(ch)
	inventorySheet.describe(ch)
	learnedSheet.describe(ch)
	accountSheet.describe(ch)
	describeDeliveries(ch)
	for _, desc := range singleDescs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	daemonSheet.emit(ch, s)
	send(ch, buildInfo, gauge, 1, s.Version)
	for i := range s.Scopes {
		scope := &s.Scopes[i]
		scopeSheet.emit(ch, scopeAt{scope, s.At}, scope.Provider, scope.Limit, scope.Key)
	}
	collectLimits(ch, &s.Totals)
	collectWaits(ch, s.Totals.Waits)
	for i := range s.Jobs {
		job := &s.Jobs[i]
		jobSheet.emit(ch, job, job.Job, job.Account)
		for _, status := range runStatuses(job.Runs) {
			send(ch, jobRuns, counter, float64(job.Runs[status]), job.Job, job.Account, status)
		}
	}
	for i := range s.Inventories {
		inventorySheet.emit(ch, &s.Inventories[i], s.Inventories[i].Job)
	}
	for i := range s.Learned {
		one := &s.Learned[i]
		learnedSheet.emit(ch, one, one.Provider, one.Var, one.Key)
	}
	for i := range s.Accounts {
		collectAccount(ch, &s.Accounts[i])
	}
	collectDeliveries(ch, s.Deliveries, s.At)
}

// jobSeries gathers what jobs make of answers, apart from the rest: a provider's answer must not be able to take the daemon's own
// metrics away.
type jobSeries struct {
	registry *prometheus.Registry
	redact   func(string) string
}

// reservedPrefixes begin the names that are ours.
var reservedPrefixes = []string{"tapyr_", "go_", "process_", "promhttp_"}

// Gather implements prometheus.Gatherer.
func (g *jobSeries) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.registry.Gather()
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	})
	for _, family := range families {
		help := g.redact(family.GetHelp())
		family.Help = &help
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				value := g.redact(label.GetValue())
				label.Value = &value
			}
		}
	}
	return families, err
}

// metricsHandler serves the self-metrics, those of the process, of paid calls and of the jobs. What cannot be gathered is left
// out and logged; the rest is served.
func (s *server) metricsHandler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collector{s.snapshot},
	)
	if s.Spend != nil {
		own.MustRegister(spendCollector{s})
	}
	gatherers := prometheus.Gatherers{own}
	if s.Series != nil {
		jobs := &jobSeries{prometheus.NewRegistry(), s.Redact}
		jobs.registry.MustRegister(s.Series)
		gatherers = append(gatherers, jobs)
	}
	return promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		ErrorLog:            metricsLog{s},
		ErrorHandling:       promhttp.ContinueOnError,
		Registry:            own,
		MaxRequestsInFlight: 8,
		EnableOpenMetrics:   true,
	})
}

// metricsLog lets promhttp write into the daemon's log.
type metricsLog struct{ s *server }

// Println implements promhttp.Logger.
func (l metricsLog) Println(v ...any) {
	l.s.Log.Log(context.Background(), slog.LevelError, "metrics could not be gathered", "problem", l.s.Redact(strings.TrimSpace(fmt.Sprintln(v...))))
}
