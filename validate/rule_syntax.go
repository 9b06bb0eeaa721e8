package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSyntax = &Rule{
	Name:     schema.RuleSyntax,
	Severity: schema.SeverityError,
	Summary:  "a file must be YAML, in UTF-8",
	Why: "Broken YAML cannot be read any further, so nothing behind the place is checked. Frequent causes: a tab in the " +
		"indentation, a text with \": \" in it or a leading @ or % that is not in quotes, and brackets or quotes that do not close.",
	Wrong: "apiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec:\n\tbudget: { maxStretch: 6 }\n",
	Right: exampleDocument("Settings", "default", `budget: { maxStretch: 6 }`),
}
