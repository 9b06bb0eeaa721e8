package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleLongDeadline = &Rule{
	Name:     "long-deadline",
	Severity: schema.SeverityWarning,
	Summary:  "a deadline should not be longer than the interval",
	Why: "A request may wait for the budget until its deadline. With a deadline beyond the interval the next run is due while " +
		"requests of this one still wait, and is skipped.",
	Wrong: exampleDocument("Job", "devices", `
account: main
interval: 5m
deadline: 10m
request: { endpoint: /devices }`),
	Right: exampleDocument("Job", "devices", `
account: main
interval: 5m
deadline: 2m
request: { endpoint: /devices }`),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.Spec.Deadline != nil && j.Interval > 0 && j.Deadline > j.Interval {
				doc, path := j.place("spec.deadline")
				f.at(doc, path, "deadline %s is longer than the interval %s: requests of one run may still wait when the next is due", j.Spec.Deadline, j.Spec.Interval)
			}
		}
	},
}
