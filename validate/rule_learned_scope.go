package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleLearnedScope = &Rule{
	Name:     "learned-scope",
	Severity: schema.SeverityWarning,
	Summary:  "a plan should know whose limit a job's requests take of",
	Why: "A job whose requests name a network, where the limit is its organization's, is counted under the limit at run time, once learn " +
		"has found out which organization that is. A plan is made before: it does not know how many organizations there are, and leaves " +
		"the job out of the limit. Let the job run over an inventory that has the variable, where there is one.",
	Wrong: learnedScopeProvider + exampleDocument("Job", "watched", `
account: main
interval: 1h
request: { endpoint: /watched }
estimate: { items: 40 }
inventory: { items: response, vars: { networkId: item.id } }`) + "---\n" + exampleDocument("Job", "clients", `
account: main
interval: 5m
forEach: watched
request: { endpoint: "/networks/{networkId}/clients" }`),
	Right: learnedScopeProvider + exampleDocument("Job", "organizations", `
account: main
interval: 1h
request: { endpoint: /organizations }
estimate: { items: 3 }
inventory: { items: response, vars: { organizationId: item.id } }`) + "---\n" + exampleDocument("Job", "networks", `
account: main
interval: 1h
forEach: organizations
request: { endpoint: "/organizations/{organizationId}/networks" }
estimate: { items: 40 }
inventory: { items: response, vars: { networkId: item.id } }`) + "---\n" + exampleDocument("Job", "clients", `
account: main
interval: 5m
forEach: networks
request: { endpoint: "/networks/{networkId}/clients" }`),
	Planned: true,
}

var learnedScopeProvider = exampleLimit(`
kind: rate
rate: 10/s
burst: 10
scope: { by: [account, "var:organizationId"] }`) + `  learn: [{ var: organizationId, from: ['/organizations/([^/]+)'], keys: { network: { url: '/networks/([^/]+)' } } }]
---
`
