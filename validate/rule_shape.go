package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleShape = &Rule{
	Name:     schema.RuleShape,
	Severity: schema.SeverityError,
	Summary:  "a value must be of the type, the range and the form that its field takes",
	Why: "The JSON Schema of a document's kind (tapyr schema KIND) says what each field takes. The value is then left out of " +
		"what the other rules look at.",
	Wrong: exampleDocument("Account", "branch", `
provider: example
budget: { share: 80 }`),
	Right: exampleDocument("Account", "branch", `
provider: example
budget: { share: 0.8 }`),
}
