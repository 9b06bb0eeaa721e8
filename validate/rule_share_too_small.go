package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleShareTooSmall = &Rule{
	Name:     "share-too-small",
	Severity: schema.SeverityWarning,
	Summary:  "an account's share of a quota should be enough for one request",
	Why: "An account may use floor(max * share) units of a quota. For a small quota that can be none: half of one request in 30 " +
		"minutes is no request at all.",
	Wrong: exampleLimit(`
kind: quota
max: 1
window: { every: 30m }
scope: { by: [account] }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
budget: { share: 0.5 }`),
	Right: exampleLimit(`
kind: quota
max: 2
window: { every: 30m }
scope: { by: [account] }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
budget: { share: 0.5 }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, _ string) {
			if l.Spec.Kind != schema.KindQuota || l.Spec.Max == nil || l.Spec.Counts != nil {
				return
			}
			for _, a := range p.Accounts {
				most, _ := l.Max(a.Spec.Vars)
				usable := a.Share.MulFloor(most)
				if most > 0 && usable == 0 && a.Spec.Budget.Share != nil {
					f.at(a.Doc, "spec.budget.share", "share %s of limit %s/%s, whose max is %d, is less than one unit: no request can go",
						a.Share, p.Name, l.Spec.Name, most)
				}
			}
		})
	},
}
