package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleMetricName = &Rule{
	Name:     "metric-name",
	Severity: schema.SeverityWarning,
	Summary:  "a metric's name should follow the conventions of Prometheus",
	Why: "Counters end in _total and info metrics in _info, and no other does; queries and dashboards rely on it. A colon is for " +
		"recording rules, and tapyr_ for tapyr's own metrics.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_errors, type: counter, items: response, value: item.errors }]`),
	Right: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_errors_total, type: counter, items: response, value: item.errors }]`),
	check: func(f *finder) {
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			for i := range fields.Metrics {
				if why := unconventional(&fields.Metrics[i]); why != "" {
					f.at(doc, index(path+".metrics", i)+".name", "metric %q %s", fields.Metrics[i].Name, why)
				}
			}
		})
	},
}

// unconventional says what about a metric's name surprises; "" where nothing does.
func unconventional(m *schema.Metric) string {
	total, info := strings.HasSuffix(m.Name, "_total"), strings.HasSuffix(m.Name, "_info")
	switch {
	case m.Name == "":
		return ""
	case strings.HasPrefix(m.Name, "tapyr_"):
		return "begins with tapyr_, which is for tapyr's own metrics"
	case strings.Contains(m.Name, ":"):
		return "has a colon, which is for recording rules"
	case m.Type == "counter" && !total:
		return "is a counter, whose name should end in _total"
	case m.Type == "info" && !info:
		return "is an info metric, whose name should end in _info"
	case m.Type != "counter" && total:
		return "ends in _total, as counters do; write type: counter, or rename it"
	}
	return ""
}
