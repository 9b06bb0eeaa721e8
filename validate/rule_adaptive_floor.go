package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleAdaptiveFloor = &Rule{
	Name:     "adaptive-floor",
	Severity: schema.SeverityError,
	Summary:  "an adaptive rate's floor must be below the declared rate",
	Why: "An adaptive limit moves between its floor and the declared rate. With the floor at the rate or above there is nothing to " +
		"adapt. The floor is in requests a second; its default is 0.5.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/m
burst: 1
adaptive: { decrease: 0.7 }`),
	Right: exampleLimit(`
kind: rate
rate: 10/m
burst: 1
adaptive: { decrease: 0.7, floor: 0.05 }`),
	check: func(f *finder) {
		defaultFloor := schema.DecimalOf(0.5)
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind != schema.KindRate || l.Spec.Adaptive == nil || l.Spec.Rate == nil {
				return
			}
			floor := l.Spec.Adaptive.Floor.Or(defaultFloor)
			if rate := l.Spec.Rate.PerSecond(); floor.Float64() >= rate {
				f.at(p.Doc, path+".adaptive.floor", "floor %s requests a second is not below the declared rate %s, which is %.4g a second", floor, l.Spec.Rate, rate)
			}
		})
	},
}
