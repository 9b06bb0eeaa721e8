package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var rulePlanPromise = &Rule{
	Name:     "plan-promise",
	Severity: schema.SeverityError,
	Summary:  "the plan must keep the promises of the documents: maxInterval and settings.assert",
	Why: "maxInterval promises how old a job's data may get, settings.assert how much of a budget stays free. A plan that breaks one is " +
		"an error here, so that a review sees it before the network does.",
	Wrong: exampleLimit(`
kind: quota
max: 1000
window: { period: day }`) + "---\n" + exampleDocument("Settings", "default", `
assert: [{ limit: example/limit, headroom: 0.8 }]`),
	Right: exampleLimit(`
kind: quota
max: 1000
window: { period: day }`) + "---\n" + exampleDocument("Settings", "default", `
assert: [{ limit: example/limit, headroom: 0.5 }]`),
	Planned: true,
}
