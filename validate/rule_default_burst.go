package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleDefaultBurst = &Rule{
	Name:     "default-burst",
	Severity: schema.SeverityNotice,
	Summary:  "a rate limit should declare its burst",
	Why: "Without burst a bucket holds the requests of one second. A full bucket and its refill together let nearly twice the rate " +
		"through in the first second, which a vendor that counts by seconds refuses. Look up what the vendor allows and write it down: " +
		"burst: 1 spaces requests evenly.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s`),
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 10`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.DefaultBurst && l.Burst > 1 {
				f.at(p.Doc, path+".rate", "limit %q has no burst, so it is %d: up to %d requests can go in the first second; write burst to say what the vendor allows",
					l.Spec.Name, l.Burst, 2*l.Burst-1)
			}
		})
	},
}
