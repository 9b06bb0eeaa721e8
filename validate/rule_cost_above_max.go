package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleCostAboveMax = &Rule{
	Name:     "cost-above-max",
	Severity: schema.SeverityError,
	Summary:  "no request may cost more than a quota's maximum",
	Why: "A request that costs more than a whole window offers can never be sent. Where the maximum depends on the account, or is " +
		"told by the vendor, this is a warning.",
	Wrong: exampleLimit(`
kind: quota
max: 50
window: { period: day }
cost: 100`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
cost: 100`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind != schema.KindQuota || l.Spec.Max == nil {
				return
			}
			least, most := l.maxima()
			if most == 0 {
				return // empty-limit says so
			}
			l.eachCost(path, func(path string, cost int64) {
				switch {
				case cost > most && !l.Spec.Max.Auto:
					f.at(p.Doc, path, "cost %d is more than the max of %d, so such a request can never go", cost, most)
				case cost > most:
					f.warn(p.Doc, path, "cost %d is more than initialMax %d, so such a request cannot go until the vendor has told a larger limit", cost, most)
				case cost > least:
					f.warn(p.Doc, path, "cost %d is more than the smallest max of %d, so some accounts can never send such a request", cost, least)
				}
			})
		})
	},
}

// maxima are the smallest and the largest maximum that the limit declares, overrides apart.
func (l *Limit) maxima() (least, most int64) {
	m := l.Spec.Max
	switch {
	case m.Auto && l.Spec.InitialMax == nil:
		return 0, 0
	case m.Auto:
		return *l.Spec.InitialMax, *l.Spec.InitialMax
	case m.ByVar == "":
		return m.Number, m.Number
	}
	for i, key := range sortedKeys(m.Values) {
		v := m.Values[key]
		if i == 0 {
			least, most = v, v
		}
		least, most = min(least, v), max(most, v)
	}
	return least, most
}
