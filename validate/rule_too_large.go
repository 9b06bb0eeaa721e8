package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleTooLarge = &Rule{
	Name:     schema.RuleTooLarge,
	Severity: schema.SeverityError,
	Summary:  "files, nesting, aliases and the number of findings have bounds",
	Why: "A document written by a person is far below the bounds. Beyond them, a file is a mistake or an attack, such as aliases " +
		"that double with every line, and reading it would take minutes or all memory.",
	Wrong: "apiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { budget: " + strings.Repeat("[", 120) + strings.Repeat("]", 120) + " }\n",
	Right: exampleDocument("Settings", "default", `budget: { maxStretch: 6 }`),
}
