package validate

import (
	"math"

	"github.com/tapyr/tapyr/schema"
)

var ruleSlowRate = &Rule{
	Name:     "slow-rate",
	Severity: schema.SeverityWarning,
	Summary:  "a rate should be at least one request an hour",
	Why: "A token bucket that gives a token every few hours bounds the average, not what one window sees, and a wait for it outlasts " +
		"most deadlines. Such a limit is usually a quota: max and window. Or the unit is wrong, as d for s.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/d
burst: 10`),
	Right: exampleLimit(`
kind: quota
max: 10
window: { period: day }`),
	check: func(f *finder) {
		const secondsPerHour = 3600
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind != schema.KindRate || l.Spec.Rate == nil {
				return
			}
			if perHour := l.Spec.Rate.PerSecond() * secondsPerHour; perHour < 1-1e-9 {
				wait := schema.DurationOf(math.Round(secondsPerHour / perHour))
				f.at(p.Doc, path+".rate", "rate %s is one request in %s; if the vendor counts by windows, a quota says that", l.Spec.Rate, wait)
			}
		})
	},
}
