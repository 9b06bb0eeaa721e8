package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleMaxByVar = &Rule{
	Name:     "max-by-var",
	Severity: schema.SeverityError,
	Summary:  "max: { byVar } must have a value for every account of the provider",
	Why: "The maximum is looked up by a variable of the account, such as its plan. For an account without the variable, or with a " +
		"value that the limit does not list, there would be no maximum at all.",
	Wrong: exampleLimit(`
kind: quota
max: { byVar: plan, values: { standard: 200, extended: 600 } }
window: { period: day }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
vars: { plan: extendet }`),
	Right: exampleLimit(`
kind: quota
max: { byVar: plan, values: { standard: 200, extended: 600 } }
window: { period: day }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
vars: { plan: extended }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, _ string) {
			if l.Spec.Max == nil || l.Spec.Max.ByVar == "" {
				return
			}
			for _, a := range p.Accounts {
				f.maxForAccount(l, a)
			}
		})
	},
}

func (f *finder) maxForAccount(l *Limit, a *Account) {
	name, values := l.Spec.Max.ByVar, l.Spec.Max.Values
	look := func(path string, vars map[string]string) bool {
		value, there := vars[name]
		if _, known := values[value]; there && !known {
			f.at(a.Doc, schema.JoinPath(path, name), "limit %s/%s has no max for %s %q%s", l.Provider.Name, l.Spec.Name, name, value,
				f.hint(value, sortedKeys(values)))
		}
		return there
	}
	if look("spec.vars", a.Spec.Vars) {
		return
	}
	targets := a.Spec.Targets
	for i := range targets {
		if !look(index("spec.targets", i)+".vars", targets[i].Vars) {
			targets = nil
			break
		}
	}
	if len(targets) == 0 {
		f.at(a.Doc, schema.JoinPath("spec.vars", name), "limit %s/%s takes its max from variable %q, which account %q does not have; it can be %s",
			l.Provider.Name, l.Spec.Name, name, a.Name, list(sortedKeys(values)))
	}
}
