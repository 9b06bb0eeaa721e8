package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var rulePlanInfeasible = &Rule{
	Name:     "plan-infeasible",
	Severity: schema.SeverityError,
	Summary:  "the jobs must fit the limits, stretched as far as they may be",
	Why: "tapyr validate plans, too. The plan is infeasible where a limit is not enough even with every job stretched as far as " +
		"maxStretch and priorities allow: what runs would be refused before the window ends. tapyr plan shows the arithmetic and the " +
		"changes that would help. With an inventory that is not known yet, say its size with --fanout or estimate.items.",
	Wrong: exampleLimit(`
kind: quota
max: 10
window: { period: day }`) + "---\n" + exampleDocument("Job", "devices", `
account: main
interval: 5m
priority: critical
request: { endpoint: /devices }`),
	Right: exampleLimit(`
kind: quota
max: 1000
window: { period: day }`) + "---\n" + exampleDocument("Job", "devices", `
account: main
interval: 5m
priority: critical
request: { endpoint: /devices }`),
	Planned: true,
}
