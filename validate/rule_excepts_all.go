package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleExceptsAll = &Rule{
	Name:     "excepts-all",
	Severity: schema.SeverityWarning,
	Summary:  "exceptions should not be all requests",
	Why:      "An except without endpoints, methods or any other condition matches every request, so that the limit never applies.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
appliesTo: { except: {} }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
appliesTo: { except: { methods: [POST] } }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			filter := l.Spec.AppliesTo
			if filter != nil && filter.Except != nil && selectsAll(filter.Except) && len(f.broken[p.Doc]) == 0 {
				f.at(p.Doc, path+".appliesTo.except", "except has no condition and matches every request, so limit %q never applies", l.Spec.Name)
			}
		})
	},
}
