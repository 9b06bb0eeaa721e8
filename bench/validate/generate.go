package main

import "fmt"

// generate makes documents such as a fleet of accounts has: by the name of their files, one document each. All are valid, and
// about one in 25 is a provider with its limits, one in 10 an account, the others jobs.
func generate(documents int) map[string]string {
	providers, accounts := max(1, documents/25), max(1, documents/10)
	out := make(map[string]string, documents)
	for i := range documents {
		switch {
		case i < providers:
			out[fmt.Sprintf("provider-%04d.yaml", i)] = fmt.Sprintf(providerText, i, i, i)
		case i < providers+accounts:
			n := i - providers
			out[fmt.Sprintf("account-%04d.yaml", n)] = fmt.Sprintf(accountText, n, n%providers)
		default:
			n := i - providers - accounts
			out[fmt.Sprintf("job-%04d.yaml", n)] = fmt.Sprintf(jobText, n, n%accounts, n)
		}
	}
	return out
}

const providerText = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata:
  name: vendor-%d
spec:
  title: A vendor of network equipment
  baseURL: https://api-%d.vendor.example/v1
  allowedHosts: ["*.vendor.example"]
  auth: { type: bearer, credential: apiKey }
  limits:
    - name: rate
      kind: rate
      rate: 10/s
      burst: 10
      scope: { by: [account] }
    - name: in-flight
      kind: concurrency
      max: 10
      scope: { by: [instance] }
    - name: daily
      kind: quota
      max: 5000000                 # enough for all its jobs
      window: { period: day, resetAt: "00:00", timezone: Europe/Paris }
      scope: { by: [account] }
      costs:
        - { endpoints: ["/sites/*/devices-%d"], methods: [GET], cost: 2 }
      sync:
        limitHeader: X-RateLimit-Limit-day
        remainingHeader: X-RateLimit-Remaining-day
        resetHeader: { name: X-RateLimit-Reset, format: epoch }
  errors:
    rateLimited: { status: [429], defaultPenalty: 2s, maxPenalty: 24h, penalize: narrowest }
    transient: { status: [408, 500, 502, 503, 504] }
  retry: { maxAttempts: 4, initial: 1s, max: 1m, multiplier: 2, jitter: 0.2 }
  circuitBreaker: { failures: 5, openFor: 1m }
  pagination: { type: link_header }
`

const accountText = `apiVersion: tapyr/v1alpha1
kind: Account
metadata:
  name: account-%d
spec:
  provider: vendor-%d
  credentials:
    apiKey: { env: VENDOR_KEY }
  vars: { siteId: "7" }
  budget: { share: 0.8 }
`

const jobText = `apiVersion: tapyr/v1alpha1
kind: Job
metadata:
  name: devices-%d
spec:
  account: account-%d
  interval: 10m
  priority: normal
  deadline: 30s
  request:
    method: GET
    endpoint: /sites/{siteId}/devices-%d
    query: { perPage: "1000" }
  estimate: { pagesPerRun: 2, items: 40 }
  inventory:
    items: response.devices
    vars: { deviceId: item.id, model: item.model }
  metrics:
    - name: vendor_device_up
      items: response.devices
      labels: { device: item.id, site: vars.siteId }
      value: "item.status == 'online' ? 1.0 : 0.0"
      help: Whether a device answers.
`
