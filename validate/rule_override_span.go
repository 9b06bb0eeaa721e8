package validate

import (
	"slices"
	"time"

	"github.com/tapyr/tapyr/schema"
)

var ruleOverrideSpan = &Rule{
	Name:     "override-span",
	Severity: schema.SeverityError,
	Summary:  "overrides must begin before they end, and not overlap",
	Why:      "An override replaces the maximum in [from, to). Of two that hold at the same instant it would not be clear which one does.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
overrides:
  - { from: 2026-12-24T00:00:00Z, to: 2026-12-27T00:00:00Z, max: 1000 }
  - { from: 2026-12-26T00:00:00Z, to: 2027-01-02T00:00:00Z, max: 2000 }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
overrides:
  - { from: 2026-12-24T00:00:00Z, to: 2026-12-27T00:00:00Z, max: 1000 }
  - { from: 2026-12-27T00:00:00Z, to: 2027-01-02T00:00:00Z, max: 2000 }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			overrides := l.Spec.Overrides
			order := make([]int, 0, len(overrides))
			for i, o := range overrides {
				switch {
				case o.From.IsZero() || o.To.IsZero(): // broken, and reported
				case !o.From.Before(o.To):
					f.at(p.Doc, index(path+".overrides", i)+".to", "the override ends at %s, not after it begins at %s", o.To.Format(time.RFC3339), o.From.Format(time.RFC3339))
				default:
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return overrides[a].From.Compare(overrides[b].From) })
			for n := 1; n < len(order); n++ {
				before, here := order[n-1], order[n]
				if overrides[here].From.Before(overrides[before].To) {
					f.at(p.Doc, index(path+".overrides", here)+".from", "the override begins at %s, before that of line %d ends",
						overrides[here].From.Format(time.RFC3339), p.Doc.Position(index(path+".overrides", before)).Line)
				}
			}
		})
	},
}
