package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleFanoutUnknown = &Rule{
	Name:     "fanout-unknown",
	Severity: schema.SeverityNotice,
	Summary:  "a plan should know how many items an inventory has",
	Why: "Where neither --fanout, a state nor estimate.items says how many items an inventory has, the plan takes it to have one, and the " +
		"jobs that run over it to run once. A fleet of a hundred needs a hundred times as much.",
	Wrong: exampleDocument("Job", "devices", `
account: main
interval: 5m
request: { endpoint: /devices }
inventory: { items: response, vars: { serial: item.serial } }`) + "---\n" + exampleDocument("Job", "clients", `
account: main
interval: 5m
forEach: devices
request: { endpoint: "/devices/{serial}/clients" }`),
	Right: exampleDocument("Job", "devices", `
account: main
interval: 5m
request: { endpoint: /devices }
estimate: { items: 100 }
inventory: { items: response, vars: { serial: item.serial } }`) + "---\n" + exampleDocument("Job", "clients", `
account: main
interval: 5m
forEach: devices
request: { endpoint: "/devices/{serial}/clients" }`),
	Planned: true,
}
