package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleDuplicateKey = &Rule{
	Name:     schema.RuleDuplicateKey,
	Severity: schema.SeverityError,
	Summary:  "a key must stand once in a mapping",
	Why: "Most YAML readers silently keep the last of two values, so that a line pasted further down multiplies a rate without " +
		"anybody seeing it.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
rate: 100/s`),
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 10`),
}
