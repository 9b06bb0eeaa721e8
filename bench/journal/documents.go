package main

import (
	"fmt"
	"io"
	"strings"
)

// providerText is the provider of the traffic: the rate that each organization has, and the account's daily quota, which the
// responses tell.
const providerText = `# The documents of the traffic that bench/journal makes.
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: meraki }
spec:
  baseURL: https://api.meraki.com/api/v1
  auth: { type: bearer, credential: apiKey }
  limits:
    - name: org-rate
      kind: rate
      rate: 10/s
      burst: 10
      scope: { by: [account, "var:organizationId"] }
    - name: daily
      kind: quota
      max: %d
      window: { period: day }
      scope: { by: [account] }
      sync: { limitHeader: X-RateLimit-Limit-day, remainingHeader: X-RateLimit-Remaining-day }
`

const accountText = `---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: %s }
spec: { provider: meraki, credentials: { apiKey: { env: MERAKI_KEY } } }
`

// A job belongs to one account; the rows of other accounts name it, and are counted under theirs, all the same.
const inventoryText = `---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: organizations }
spec:
  account: %s
  interval: 1h
  request: { endpoint: /organizations }
  inventory: { items: response, vars: { organizationId: item.id } }
`

const jobText = `---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: %s }
spec: { account: %s, interval: 5m, priority: %s, forEach: organizations, request: { endpoint: "%s" } }
`

// documents writes what a replay of the rows has to know: the provider, its accounts, the jobs.
func (g *generator) documents(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, providerText, quota)
	for i := range g.accounts {
		fmt.Fprintf(&b, accountText, accountName(i))
	}
	fmt.Fprintf(&b, inventoryText, accountName(0))
	for _, e := range endpoints {
		fmt.Fprintf(&b, jobText, e.job, accountName(0), e.priority, e.path)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
