package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleUnusedEstimate = &Rule{
	Name:     "unused-estimate",
	Severity: schema.SeverityWarning,
	Summary:  "estimate.items should stand with an inventory",
	Why: "estimate.items is the number of items that a run adds to the job's inventory, which other jobs run over. Without an " +
		"inventory nothing reads it; the number of requests is estimate.pagesPerRun.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
estimate: { items: 40 }`),
	Right: exampleJob(`
request: { endpoint: /devices }
estimate: { items: 40 }
inventory: { items: response }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Spec.Estimate != nil && j.Spec.Estimate.Items != nil && j.Spec.Inventory == nil && !j.Doc.Has("spec.inventory") {
				doc, path := j.place("spec.estimate.items")
				f.at(doc, path, "job %q has no inventory, so nothing reads estimate.items; for the number of requests write pagesPerRun", j.Name)
			}
		}
	},
}
