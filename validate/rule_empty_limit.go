package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleEmptyLimit = &Rule{
	Name:     "empty-limit",
	Severity: schema.SeverityWarning,
	Summary:  "a limit should let something through",
	Why: "With a max of 0 nothing that the limit applies to is ever sent. That may be meant, to switch a vendor off; otherwise " +
		"remove the limit. With max: auto, initialMax: 0 lets no request out whose answer could tell the real limit.",
	Wrong: exampleLimit(`
kind: quota
max: 0
window: { period: day }`),
	Right: exampleLimit(`
kind: quota
max: 100
window: { period: day }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			m := l.Spec.Max
			switch {
			case m == nil || l.Spec.Kind == schema.KindRate:
			case m.Auto:
				if l.Spec.InitialMax != nil && *l.Spec.InitialMax == 0 {
					f.at(p.Doc, path+".initialMax", "initialMax 0 lets no request out that could tell the real limit; write 1 or more")
				}
			case m.ByVar != "":
				for _, value := range sortedKeys(m.Values) {
					if m.Values[value] == 0 {
						f.at(p.Doc, schema.JoinPath(path+".max.values", value), "max 0 lets nothing through for %s %q", m.ByVar, value)
					}
				}
			case m.Number == 0:
				f.at(p.Doc, path+".max", "max 0 lets nothing through that limit %q applies to", l.Spec.Name)
			}
		})
	},
}
