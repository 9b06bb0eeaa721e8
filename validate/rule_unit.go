package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleUnit = &Rule{
	Name:     schema.RuleUnit,
	Severity: schema.SeverityError,
	Summary:  "durations, rates and amounts must have a unit and a form that can be read",
	Why: "A duration is a number with ms, s, m, h, d, w or y, or several of them: 90s, 1h30m, 7d. A day is 24 hours. A rate is " +
		"N/s, N/m, N/h, N/d or N/DURATION: 10/s, 27.4/m, 1/90s. Amounts of money are texts of digits, so that no reader rounds them.",
	Wrong: exampleDocument("Job", "devices", `
account: main
interval: 5 minutes
request: { endpoint: /devices }`),
	Right: exampleDocument("Job", "devices", `
account: main
interval: 5m
request: { endpoint: /devices }`),
}
