package simulate_test

import (
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// busy asks for 10,000 requests an hour: 250 networks every three minutes, and some more, under a rate, slots, and two quotas whose
// headers are read.
const busy = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: pace, kind: rate, rate: 10/s, burst: 10, scope: { by: [account] } }
    - { name: slots, kind: concurrency, max: 10, scope: { by: [account] } }
    - name: daily
      kind: quota
      max: 400000
      window: { period: day }
      scope: { by: [account] }
      sync: { limitHeader: X-Limit, remainingHeader: X-Remaining, resetHeader: X-Reset }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: networks }
spec:
  account: acme
  interval: 10m
  request: { endpoint: /networks }
  estimate: { items: 250 }
  inventory: { items: response, vars: { networkId: item.id } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: devices }
spec:
  account: acme
  interval: 2m
  forEach: networks
  request: { endpoint: "/networks/{networkId}/devices" }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: clients }
spec:
  account: acme
  interval: 6m
  priority: low
  forEach: networks
  request: { endpoint: "/networks/{networkId}/clients" }
`

// BenchmarkDay simulates 24 hours of 10,000 requests an hour; the bar is one second.
func BenchmarkDay(b *testing.B) {
	s := simulate.Scenario{
		Config: validatetest.Config(b, busy), Start: instant(b, "2026-11-30T00:00:00Z"), Duration: 24 * time.Hour, Seed: 1,
		Faults: simulate.Faults{Latency: 50 * time.Millisecond, Jitter: 20 * time.Millisecond},
	}
	b.ReportAllocs()
	for b.Loop() {
		r := simulate.Run(s)
		if r.Requests < 235_000 || r.Broken > 0 {
			b.Fatalf("%d requests, violations %v", r.Requests, r.Violations)
		}
		b.ReportMetric(float64(r.Requests), "requests")
	}
}
