package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleAssumedLimit = &Rule{
	Name:     "assumed-limit",
	Severity: schema.SeverityNotice,
	Summary:  "a plan should not rest on a figure that is only assumed",
	Why: "A limit whose source is assumed may be far from what the vendor really lets through, and so may the plan. Look the figure up, " +
		"or measure it, and say so in source.kind.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
source: { kind: assumed }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
source: { kind: measured, checked: "2026-11-30" }`),
	Planned: true,
}
