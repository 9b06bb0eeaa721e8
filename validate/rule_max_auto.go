package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleMaxAuto = &Rule{
	Name:     "max-auto",
	Severity: schema.SeverityError,
	Summary:  "max: auto needs initialMax and sync.limitHeader",
	Why: "With max: auto the vendor tells the maximum in a header. Until the first response has, initialMax holds; without it nothing " +
		"could be planned or sent. With a number as max, initialMax has no effect.",
	Wrong: exampleLimit(`
kind: quota
max: auto
window: { period: day }
sync: { remainingHeader: X-RateLimit-Remaining }`),
	Right: exampleLimit(`
kind: quota
max: auto
initialMax: 5000
window: { period: day }
sync: { limitHeader: X-RateLimit-Limit, remainingHeader: X-RateLimit-Remaining }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind != schema.KindQuota || l.Spec.Max == nil {
				return
			}
			if !l.Spec.Max.Auto {
				if l.Spec.InitialMax != nil {
					f.key(p.Doc, path+".initialMax", "initialMax goes with max: auto only; remove it, or write max: auto")
				}
				return
			}
			if l.Spec.InitialMax == nil {
				f.missing(p.Doc, path, "initialMax", "limit %q has max: auto and needs initialMax, which holds until a response has told the limit", l.Spec.Name)
			}
			if sync := l.Spec.Sync; sync == nil || (sync.LimitHeader == nil || sync.LimitHeader.Name == "") && sync.Policy == "" {
				f.at(p.Doc, path+".sync.limitHeader", "limit %q has max: auto and needs sync.limitHeader, the header that tells the limit", l.Spec.Name)
			}
		})
	},
}
