package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleEmptyFile = &Rule{
	Name:     schema.RuleEmptyFile,
	Severity: schema.SeverityNotice,
	Summary:  "a file should hold a document",
	Why: "A file that is empty, or in which everything is commented out, declares nothing. Perhaps the wrong file was named. " +
		"In a folder, YAML of other programs is left out with this notice; a file that is named itself must hold documents, and an " +
		"apiVersion that is nearly right is an error everywhere.",
	Wrong: "# apiVersion: tapyr/v1alpha1\n# kind: Settings\n",
	Right: exampleDocument("Settings", "default", `budget: { maxStretch: 6 }`),
}
