package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleMetricLabels = &Rule{
	Name:     "metric-labels",
	Severity: schema.SeverityError,
	Summary:  "a label's name has letters, digits and _, no digit first, and does not begin with __",
	Why:      "These are the rules of Prometheus; names that begin with __ are its own.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_clients, items: response, labels: { device-id: item.id }, value: item.clients }]`),
	Right: exampleJob(`
request: { endpoint: /devices }
metrics: [{ name: example_clients, items: response, labels: { device_id: item.id }, value: item.clients }]`),
	check: func(f *finder) {
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			for i := range fields.Metrics {
				for _, label := range sortedKeys(fields.Metrics[i].Labels) {
					at := schema.JoinPath(index(path+".metrics", i)+".labels", label)
					switch {
					case !variableName.MatchString(label):
						f.key(doc, at, "%q is not a label's name: want letters, digits and _, no digit first", label)
					case strings.HasPrefix(label, "__"):
						f.key(doc, at, "label %q begins with __, which Prometheus keeps for itself", label)
					}
				}
			}
		})
	},
}
