package validate

import (
	"maps"
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleUnsuppliedVariable = &Rule{
	Name:     "unsupplied-variable",
	Severity: schema.SeverityError,
	Summary:  "every {variable} of a job's request must be supplied",
	Why: "Variables come from the inventories along the forEach chain (inventory.vars), from the account's vars, and from the vars " +
		"of its targets, where all of them have it. A request with a variable that nothing supplies cannot be sent.",
	Wrong: exampleJob(`request: { endpoint: "/sites/{siteId}/devices" }`),
	Right: exampleDocument("Job", "sites", `
account: main
interval: 1h
request: { endpoint: /sites }
inventory: { items: response, vars: { siteId: item.id } }`) + "---\n" + exampleJob(`
forEach: sites
request: { endpoint: "/sites/{siteId}/devices" }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Account == nil || j.InCycle || j.TooDeep || j.Spec.ForEach != "" && j.Parent == nil || j.Spec.Request == nil {
				continue // what is missing has another cause, which is reported
			}
			f.unsupplied(j)
		}
	},
}

func (f *finder) unsupplied(j *Job) {
	supplied := j.supplied()
	look := func(path, text string) {
		for _, name := range variablesIn(text) {
			if slices.Contains(supplied, name) {
				continue
			}
			doc, at := j.place(path)
			known := "; it has no variables"
			if len(supplied) > 0 {
				if known = schema.DidYouMean(name, supplied); known == "" {
					known = "; it has " + list(supplied)
				}
			}
			f.at(doc, at, "nothing supplies {%s} to job %q%s", name, j.Name, known)
		}
	}
	r := j.Spec.Request
	look("spec.request.endpoint", r.Endpoint)
	for _, name := range sortedKeys(r.Query) {
		look(schema.JoinPath("spec.request.query", name), r.Query[name])
	}
	for _, name := range sortedKeys(r.Headers) {
		look(schema.JoinPath("spec.request.headers", name), r.Headers[name])
	}
	eachText(r.Body, "spec.request.body", look)
}

// supplied lists the variables that every request of the job has, sorted.
func (j *Job) supplied() []string {
	names := make(map[string]bool)
	for up := j.Parent; up != nil; up = up.Parent {
		if up.Spec.Inventory != nil {
			for name := range up.Spec.Inventory.Vars {
				names[name] = true
			}
		}
	}
	for name := range j.Account.Spec.Vars {
		names[name] = true
	}
	targets := j.Account.Spec.Targets
	for i := range targets {
		for name := range targets[i].Vars {
			if i == 0 && inAll(name, targets) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func inAll(name string, targets []schema.Target) bool {
	for i := range targets {
		if _, there := targets[i].Vars[name]; !there {
			return false
		}
	}
	return true
}
