package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleMetricValue = &Rule{
	Name:     "metric-value",
	Severity: schema.SeverityError,
	Summary:  "a gauge or counter must have a value",
	Why:      "Only an info metric, whose labels are the message, does without; its value is 1.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_clients, items: response, labels: { device: item.id } }]`),
	Right: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_clients, items: response, labels: { device: item.id }, value: item.clients }]`),
	check: func(f *finder) {
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			for i := range fields.Metrics {
				m := &fields.Metrics[i]
				if m.Name != "" && m.Type != "info" && m.Value == "" {
					f.missing(doc, index(path+".metrics", i), "value", "metric %q has no value; write an expression such as item.count, or type: info", m.Name)
				}
			}
		})
	},
}
