package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleUnknownField = &Rule{
	Name:     schema.RuleUnknownField,
	Severity: schema.SeverityError,
	Summary:  "a field must be one that the format knows",
	Why: "A field that nothing reads has no effect, and nobody notices: a limit whose burst is misspelt has the default burst. " +
		"Keys of your own, such as anchors, may stand at the top of a document under names that begin with x-.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
apliesTo: { methods: [GET] }`),
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
appliesTo: { methods: [GET] }`),
}
