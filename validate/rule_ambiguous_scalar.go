package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleAmbiguous = &Rule{
	Name:     schema.RuleAmbiguous,
	Severity: schema.SeverityWarning,
	Summary:  "a value must mean the same to every YAML reader",
	Why: "YAML 1.1, which many tools still read, takes 10:30 for the number 630, and yes, no, on and off for true and false. " +
		"tapyr reads them as written; quotes make sure that everybody does. Numbers that begin with a zero are errors, since they " +
		"are octal to some.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day, resetAt: 08:30 }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day, resetAt: "08:30" }`),
}
