package validate

import "github.com/tapyr/tapyr/schema"

var ruleForEachCycle = &Rule{
	Name:     "for-each-cycle",
	Severity: schema.SeverityError,
	Summary:  "following forEach from a job must not lead back to it",
	Why: "A job with forEach runs once for every item of another job's inventory. In a cycle, none of the jobs can run first. " +
		"Take forEach from the job that can run without an inventory.",
	Wrong: `apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: organizations }
spec: { account: main, interval: 1h, forEach: networks, request: { endpoint: /organizations }, inventory: { items: response } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: networks }
spec: { account: main, interval: 1h, forEach: organizations, request: { endpoint: /networks }, inventory: { items: response } }
`,
	Right: `apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: organizations }
spec: { account: main, interval: 1h, request: { endpoint: /organizations }, inventory: { items: response } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: networks }
spec: { account: main, interval: 1h, forEach: organizations, request: { endpoint: /networks }, inventory: { items: response } }
`,
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.InCycle {
				doc, path := j.place("spec.forEach")
				f.at(doc, path, "forEach %q leads back to job %q: no job of the cycle can run first", j.Spec.ForEach, j.Name)
			}
		}
	},
}
