package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleCostAboveBurst = &Rule{
	Name:     "cost-above-burst",
	Severity: schema.SeverityError,
	Summary:  "no request may cost more than a bucket holds",
	Why: "A request takes its cost from the bucket at once. One that costs more than the burst would wait for ever. Raise the " +
		"burst to the largest cost, or lower the cost.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 50
costs: [{ endpoints: ["/devices"], cost: 100 }]`),
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 100
costs: [{ endpoints: ["/devices"], cost: 100 }]`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind != schema.KindRate || l.Burst == 0 {
				return
			}
			which := "burst"
			if l.DefaultBurst {
				which = "default burst"
			}
			l.eachCost(path, func(path string, cost int64) {
				if cost > l.Burst {
					f.at(p.Doc, path, "cost %d is more than the %s of %d, so such a request can never go; write burst: %d or more", cost, which, l.Burst, cost)
				}
			})
		})
	},
}

// eachCost calls visit for every cost that the limit declares.
func (l *Limit) eachCost(path string, visit func(path string, cost int64)) {
	if l.Spec.Cost != nil {
		visit(path+".cost", *l.Spec.Cost)
	}
	for i := range l.Spec.Costs {
		visit(index(path+".costs", i)+".cost", l.Spec.Costs[i].Cost)
	}
}
