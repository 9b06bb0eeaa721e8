package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleFanoutTooLarge = &Rule{
	Name:     "fanout-too-large",
	Severity: schema.SeverityWarning,
	Summary:  "estimates along forEach should not multiply to more items than anybody has",
	Why: "estimate.items is the number of items that one run of one instance gives, so the estimates along a chain of forEach are " +
		"multiplied. Where the product is beyond a billion, a total was usually written in the place of a number for each.",
	Wrong: exampleDocument("Job", "sites", `
account: main
interval: 1d
request: { endpoint: /sites }
estimate: { items: 100000 }
inventory: { items: response, vars: { site: item.id } }`) + "---\n" + exampleDocument("Job", "racks", `
account: main
interval: 1d
forEach: sites
request: { endpoint: "/sites/{site}/racks" }
estimate: { items: 100000 }
inventory: { items: response, vars: { rack: item.id } }`) + "---\n" + exampleDocument("Job", "hosts", `
account: main
interval: 1d
forEach: racks
request: { endpoint: "/racks/{rack}/hosts" }`),
	Right: exampleDocument("Job", "sites", `
account: main
interval: 1d
request: { endpoint: /sites }
estimate: { items: 100 }
inventory: { items: response, vars: { site: item.id } }`) + "---\n" + exampleDocument("Job", "racks", `
account: main
interval: 1d
forEach: sites
request: { endpoint: "/sites/{site}/racks" }
estimate: { items: 10 }
inventory: { items: response, vars: { rack: item.id } }`) + "---\n" + exampleDocument("Job", "hosts", `
account: main
interval: 1d
forEach: racks
request: { endpoint: "/racks/{rack}/hosts" }`),
	Planned: true,
}
