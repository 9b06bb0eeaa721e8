package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleUnreachableCost = &Rule{
	Name:     "unreachable-cost",
	Severity: schema.SeverityWarning,
	Summary:  "a cost that selects every request should be the last",
	Why: "Of the costs the first that matches wins. One without endpoints, methods or any other condition matches every request, so " +
		"those behind it, and cost itself, never do.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
costs:
  - { cost: 1 }
  - { endpoints: ["/devices"], cost: 10 }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
cost: 1
costs:
  - { endpoints: ["/devices"], cost: 10 }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			for i := range l.Spec.Costs {
				if !selectsAll(&l.Spec.Costs[i].Selector) {
					continue
				}
				switch {
				case i+1 < len(l.Spec.Costs):
					f.at(p.Doc, index(path+".costs", i), "this cost matches every request, so the costs behind it never count; move it to the end, or write cost: %d", l.Spec.Costs[i].Cost)
				case l.Spec.Cost != nil:
					f.at(p.Doc, path+".cost", "cost never counts: the last of costs matches every request; remove one of them")
				}
				return
			}
		})
	},
}

// selectsAll tells whether a selector has no condition.
func selectsAll(s *schema.Selector) bool {
	return len(s.Endpoints) == 0 && len(s.Methods) == 0 && len(s.Query) == 0 && s.RequestsWithVar == "" && (s.AuthRequests == "" || s.AuthRequests == "include")
}
