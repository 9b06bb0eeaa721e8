package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleJobTimes = &Rule{
	Name:     "job-times",
	Severity: schema.SeverityError,
	Summary:  "a job must have an interval above 0, and maxInterval must not be below it",
	Why: "The interval is the time from the start of one run to the start of the next; it stands in the job or in its template. " +
		"maxInterval is a promise about how old data may get: below the interval it is broken before anything runs.",
	Wrong: exampleDocument("Job", "devices", `
account: main
interval: 10m
maxInterval: 5m
request: { endpoint: /devices }`),
	Right: exampleDocument("Job", "devices", `
account: main
interval: 10m
maxInterval: 30m
request: { endpoint: /devices }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Spec.Interval == nil {
				if !j.unresolvedTemplate() {
					f.missing(j.Doc, "spec", "interval", "job %q has no interval, here or in a template", j.Name)
				}
				continue
			}
			if j.Interval <= 0 {
				doc, path := j.place("spec.interval")
				f.at(doc, path, "interval %s lets runs follow each other without a pause; write a time above 0", j.Spec.Interval)
				continue
			}
			if j.Spec.Deadline != nil && *j.Spec.Deadline <= 0 {
				doc, path := j.place("spec.deadline")
				f.at(doc, path, "deadline %s leaves no time to wait for the budget; write a time above 0", j.Spec.Deadline)
			}
			if m := j.Spec.MaxInterval; m != nil && *m < *j.Spec.Interval {
				doc, path := j.place("spec.maxInterval")
				f.at(doc, path, "maxInterval %s is below the interval %s, a promise that no plan can keep", m, j.Spec.Interval)
			}
		}
	},
}
