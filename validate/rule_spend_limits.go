package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSpendLimits = &Rule{
	Name:     "spend-limits",
	Severity: schema.SeverityWarning,
	Summary:  "a capability's limit should be within the account's, and above the cost of its routes",
	Why: "A capability can never spend more than the account, so a larger limit misleads. A route that costs more than the limit is " +
		"never taken, and where that is so of all of them, no event is ever dispatched.",
	Wrong: examplePolicy(`{ limit: "100" }`, `{ limit: "1", routes: [standard], fallback: reject }`),
	Right: examplePolicy(`{ limit: "100" }`, `{ limit: "80", routes: [standard], fallback: reject }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			account := amountRat(p.Spec.Account.Limit)
			for _, name := range sortedKeys(p.Spec.Capabilities) {
				c, path := p.Spec.Capabilities[name], schema.JoinPath("spec.capabilities", name)
				limit := amountRat(c.Limit)
				if limit.Cmp(account) > 0 {
					f.at(p.Doc, path+".limit", "limit %s of capability %q is more than the account's, %s", &c.Limit, name, &p.Spec.Account.Limit)
					limit = account
				}
				for i, route := range c.Routes {
					r, known := p.Spec.Routes[route]
					if known && amountRat(r.Cost).Cmp(limit) > 0 {
						f.at(p.Doc, index(path+".routes", i), "route %q costs %s, more than capability %q may ever spend", route, &r.Cost, name)
					}
				}
			}
		}
	},
}
