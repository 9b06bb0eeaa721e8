package validate

import (
	"strconv"

	"github.com/tapyr/tapyr/schema"
)

var ruleShadowedVariable = &Rule{
	Name:     "shadowed-variable",
	Severity: schema.SeverityWarning,
	Summary:  "a variable should come from one place only",
	Why: "Where an account, or a job further up the forEach chain, has a variable of the same name as an inventory, every item " +
		"gets one and the same value, and all instances of the job ask for the same thing.",
	Wrong: exampleDocument("Account", "main", `
provider: example
vars: { siteId: "7" }`) + "---\n" + exampleDocument("Job", "sites", `
account: main
interval: 1h
request: { endpoint: /sites }
inventory: { items: response, vars: { siteId: item.id } }`),
	Right: exampleDocument("Job", "sites", `
account: main
interval: 1h
request: { endpoint: /sites }
inventory: { items: response, vars: { siteId: item.id } }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Spec.Inventory == nil {
				continue
			}
			for _, name := range sortedKeys(j.Spec.Inventory.Vars) {
				if by := j.shadower(name); by != "" {
					doc, path := j.place(schema.JoinPath("spec.inventory.vars", name))
					f.key(doc, path, "variable %q of the items stands in the way of that of %s, or the other way round; rename one", name, by)
				}
			}
		}
	},
}

// shadower says who else supplies a variable of the job's inventory.
func (j *Job) shadower(name string) string {
	for up := j.Parent; up != nil; up = up.Parent {
		if up.Spec.Inventory != nil {
			if _, there := up.Spec.Inventory.Vars[name]; there {
				return "job " + strconv.Quote(up.Name)
			}
		}
	}
	if j.Account != nil {
		if _, there := j.Account.Spec.Vars[name]; there {
			return "account " + strconv.Quote(j.Account.Name)
		}
	}
	return ""
}
