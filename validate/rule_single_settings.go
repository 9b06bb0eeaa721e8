package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSingleSettings = &Rule{
	Name:     "single-settings",
	Severity: schema.SeverityError,
	Summary:  "there is at most one Settings document",
	Why:      "Settings hold what is true for all accounts. Of two documents it would depend on the order of files which one counts.",
	Wrong: exampleDocument("Settings", "default", `budget: { maxStretch: 6 }`) + "---\n" +
		exampleDocument("Settings", "other", `budget: { retryReserve: 0.2 }`),
	Right: exampleDocument("Settings", "default", `budget: { maxStretch: 6, retryReserve: 0.2 }`),
	check: func(f *finder) {
		var first *schema.Document
		for _, doc := range f.config.Documents {
			if doc.Kind != schema.KindSettings {
				continue
			}
			if first == nil {
				first = doc
				continue
			}
			at := first.Position("kind")
			f.at(doc, "kind", "there are settings already, at %s:%d; put all of them into one document", at.File, at.Line)
		}
	},
}
