package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleEmptyFile = &Rule{
	Name:     schema.RuleEmptyFile,
	Severity: schema.SeverityNotice,
	Summary:  "a file should hold a document",
	Why:      "A file that is empty, or in which everything is commented out, declares nothing. Perhaps the wrong file was named.",
	Wrong:    "# apiVersion: tapyr/v1alpha1\n# kind: Settings\n",
	Right:    exampleDocument("Settings", "default", `budget: { maxStretch: 6 }`),
}
