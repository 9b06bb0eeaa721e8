package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleVariableName = &Rule{
	Name:     "variable-name",
	Severity: schema.SeverityError,
	Summary:  "a variable's name has letters, digits and _, no digit first",
	Why:      "Only such a name can stand in an endpoint, as {name}, and in a scope, as var:name.",
	Wrong: exampleDocument("Account", "branch", `
provider: example
vars: { site-id: "7" }`),
	Right: exampleDocument("Account", "branch", `
provider: example
vars: { siteId: "7" }`),
	check: func(f *finder) {
		names := func(doc *schema.Document, path string, vars map[string]string) {
			for _, name := range sortedKeys(vars) {
				if !variableName.MatchString(name) {
					f.key(doc, schema.JoinPath(path, name), "%q is not a variable's name: want letters, digits and _, no digit first", name)
				}
			}
		}
		for _, a := range f.config.Accounts {
			names(a.Doc, "spec.vars", a.Spec.Vars)
			for i := range a.Spec.Targets {
				names(a.Doc, index("spec.targets", i)+".vars", a.Spec.Targets[i].Vars)
			}
		}
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			if fields.Inventory != nil {
				names(doc, path+".inventory.vars", fields.Inventory.Vars)
			}
		})
	},
}
