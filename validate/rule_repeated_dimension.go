package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleRepeatedDimension = &Rule{
	Name:     "repeated-dimension",
	Severity: schema.SeverityWarning,
	Summary:  "a scope should name a dimension once",
	Why:      "A dimension that stands twice says nothing more, and makes scope keys longer. Perhaps another one was meant.",
	Wrong: exampleLimit(`
kind: concurrency
max: 5
scope: { by: [account, account] }`),
	Right: exampleLimit(`
kind: concurrency
max: 5
scope: { by: [account, endpoint] }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			by := l.Spec.Scope.By
			for i, dimension := range by {
				if slices.Contains(by[:i], dimension) {
					f.at(p.Doc, index(path+".scope.by", i), "dimension %q stands twice", dimension)
				}
			}
		})
	},
}
