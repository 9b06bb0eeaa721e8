package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleMissingField = &Rule{
	Name:     schema.RuleMissingField,
	Severity: schema.SeverityError,
	Summary:  "a field that a document cannot do without must be there",
	Why:      "The position is that of the mapping that lacks the field.",
	Wrong:    exampleDocument("Account", "branch", `vars: { plan: standard }`),
	Right: exampleDocument("Account", "branch", `
provider: example
vars: { plan: standard }`),
}
