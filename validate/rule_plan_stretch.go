package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var rulePlanStretch = &Rule{
	Name:     "plan-stretch",
	Severity: schema.SeverityNotice,
	Summary:  "a job runs less often than it asks for, so that all fit a limit",
	Why: "Where a quota or rate is not enough for all jobs, those of lower priority run at longer intervals. That is what priorities are " +
		"for; if this job matters more, raise its priority, or set maxInterval to make the stretch an error.",
	Wrong: exampleLimit(`
kind: quota
max: 200
window: { period: day }`),
	Right: exampleLimit(`
kind: quota
max: 1000
window: { period: day }`),
	Planned: true,
}
