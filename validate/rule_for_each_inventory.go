package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleForEachInventory = &Rule{
	Name:     "for-each-inventory",
	Severity: schema.SeverityError,
	Summary:  "the job that forEach names must have an inventory",
	Why:      "A job with forEach runs once for every item of that inventory. Without one there is nothing to run for, and the job would never start.",
	Wrong: exampleDocument("Job", "organizations", `
account: main
interval: 1h
request: { endpoint: /organizations }`) + "---\n" + exampleJob(`
forEach: organizations
request: { endpoint: /devices }`),
	Right: exampleDocument("Job", "organizations", `
account: main
interval: 1h
request: { endpoint: /organizations }
inventory: { items: response }`) + "---\n" + exampleJob(`
forEach: organizations
request: { endpoint: /devices }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Parent == nil || j.Parent.Spec.Inventory != nil || len(f.broken[j.Parent.Doc]) > 0 && j.Parent.Doc.Has("spec.inventory") {
				continue
			}
			doc, path := j.place("spec.forEach")
			f.at(doc, path, "job %q has no inventory to run over; give it inventory.items", j.Parent.Name)
		}
	},
}
