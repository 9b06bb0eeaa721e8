package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSpendBands = &Rule{
	Name:     "spend-bands",
	Severity: schema.SeverityError,
	Summary:  "bands must rise",
	Why:      "Each band is reported once, when spend crosses it. In rising order, without repetitions, a reader sees which comes next.",
	Wrong:    examplePolicy(`{ limit: "100", bands: [0.8, 0.5] }`, `{ limit: "100", routes: [standard], fallback: reject }`),
	Right:    examplePolicy(`{ limit: "100", bands: [0.5, 0.8] }`, `{ limit: "100", routes: [standard], fallback: reject }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			bands := p.Spec.Account.Bands
			for i := 1; i < len(bands); i++ {
				if bands[i].Cmp(bands[i-1]) <= 0 {
					f.at(p.Doc, index("spec.account.bands", i), "band %s does not rise above the one before it, %s", bands[i], bands[i-1])
				}
			}
		}
	},
}
