package validate

import (
	"time"

	"github.com/tapyr/tapyr/schema"
)

var ruleSourceDate = &Rule{
	Name:     "source-date",
	Severity: schema.SeverityError,
	Summary:  "source.checked must be a day of the calendar",
	Why:      "The day tells a reviewer how old a figure is.",
	Wrong: exampleLimit(`
kind: concurrency
max: 5
source: { kind: vendor-docs, url: "https://example.com/limits", checked: 2026-02-30 }`),
	Right: exampleLimit(`
kind: concurrency
max: 5
source: { kind: vendor-docs, url: "https://example.com/limits", checked: 2026-02-28 }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Source == nil || l.Spec.Source.Checked == "" {
				return
			}
			if _, err := time.Parse(time.DateOnly, l.Spec.Source.Checked); err != nil {
				f.at(p.Doc, path+".source.checked", "there is no day %q; write year, month and day, such as 2026-11-30", l.Spec.Source.Checked)
			}
		})
	},
}
