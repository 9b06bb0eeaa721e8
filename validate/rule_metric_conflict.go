package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleMetricConflict = &Rule{
	Name:     "metric-conflict",
	Severity: schema.SeverityError,
	Summary:  "metrics of one name must have one type and the same labels",
	Why: "Several jobs may feed one metric, as one for each account. All of them are exported under one name, so type and labels " +
		"must agree, or the whole scrape is refused.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_up, items: response, labels: { device: item.id }, value: item.up }]`) + "---\n" +
		exampleDocument("Job", "sites", `
account: main
interval: 1h
request: { endpoint: /sites }
metrics: [{ name: example_up, items: response, labels: { site: item.id }, value: item.up }]`),
	Right: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_up, items: response, labels: { device: item.id }, value: item.up }]`) + "---\n" +
		exampleDocument("Job", "sites", `
account: main
interval: 1h
request: { endpoint: /sites }
metrics: [{ name: example_site_up, items: response, labels: { site: item.id }, value: item.up }]`),
	check: func(f *finder) {
		type metricAt struct {
			*schema.Metric
			job *Job
		}
		first := make(map[string]metricAt)
		for _, j := range f.config.Jobs {
			for i := range j.Spec.Metrics {
				m := &j.Spec.Metrics[i]
				other, seen := first[m.Name]
				if !seen {
					first[m.Name] = metricAt{m, j}
					continue
				}
				if other.job == j {
					continue // duplicate-name says so
				}
				doc, path := j.place(index("spec.metrics", i) + ".name")
				labels, otherLabels := sortedKeys(m.Labels), sortedKeys(other.Labels)
				switch {
				case metricType(m) != metricType(other.Metric):
					f.at(doc, path, "metric %q is a %s here and a %s in job %q", m.Name, metricType(m), metricType(other.Metric), other.job.Name)
				case !slices.Equal(labels, otherLabels):
					f.at(doc, path, "metric %q has %s here and %s in job %q", m.Name, labelWords(labels), labelWords(otherLabels), other.job.Name)
				}
			}
		}
	},
}

func metricType(m *schema.Metric) string {
	if m.Type == "" {
		return "gauge"
	}
	return m.Type
}

func labelWords(names []string) string {
	if len(names) == 0 {
		return "no labels"
	}
	return "the labels " + list(names)
}
