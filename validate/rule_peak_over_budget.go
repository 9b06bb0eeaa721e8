package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var rulePeakOverBudget = &Rule{
	Name:     "peak-over-budget",
	Severity: schema.SeverityNotice,
	Summary:  "whole runs should fit the window that they fall into",
	Why: "A plan spreads the requests of a job evenly, but a run makes all of its requests at once. Where the runs that can fall into one " +
		"window come to more than the quota, the last requests wait for the next window, or are refused at their deadline, although " +
		"the quota is enough in the mean. A delay of less than a tenth of the interval is not mentioned.",
	Wrong: exampleLimit(`
kind: quota
max: 100
window: { period: hour }`) + "---\n" + exampleDocument("Job", "devices", `
account: main
interval: 2h
request: { endpoint: /devices }
estimate: { pagesPerRun: 150 }`),
	Right: exampleLimit(`
kind: quota
max: 200
window: { period: hour }`) + "---\n" + exampleDocument("Job", "devices", `
account: main
interval: 2h
request: { endpoint: /devices }
estimate: { pagesPerRun: 150 }`),
	Planned: true,
}
