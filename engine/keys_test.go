package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const passingDocuments = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://p.test
  limits:
    - { name: rate, kind: rate, rate: 10/s, burst: 10, scope: { by: ["var:id"] } }
    - { name: slots, kind: concurrency, max: 10, scope: { by: ["var:id"] } }
    - { name: fixed, kind: quota, max: 100, window: { every: 5m }, scope: { by: ["var:id"] }, sync: { remainingHeader: X-Left } }
    - { name: rolling, kind: quota, max: 100, window: { rolling: 5m }, scope: { by: ["var:id"] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }
`

// Keys that come once and never again are forgotten when their time is over, also where every engine lives for a few minutes only.
func TestKeysThatNeverComeAgainGo(t *testing.T) {
	config := validatetest.Config(t, passingDocuments)
	for _, life := range []time.Duration{0, 5 * time.Minute} {
		t.Run(fmt.Sprint("an engine lives ", life), func(t *testing.T) {
			e := New(config, Options{})
			now, most := goldenStart, 0
			for minute := range 240 {
				for i := range 5 {
					now += int64(10 * time.Second)
					q := &Request{Request: match.Request{Account: "a", Method: "GET", Endpoint: "/{id}", Vars: map[string]string{"id": fmt.Sprint(minute*5 + i)}}}
					ticket, granted, err := e.ReserveRequest(now, q, false, now)
					if err != nil || !granted {
						t.Fatal(granted, err)
					}
					now += int64(time.Second)
					e.Settle(now, ticket, &Response{Status: 200, Fields: []Field{{Name: "X-Left", Value: "50"}}})
					e.Release(now, ticket)
				}
				now += int64(5 * time.Second)
				if life > 0 && minute%int(life/time.Minute) == 0 {
					next := New(config, Options{})
					if skipped := next.Restore(now, e.Snapshot(now)); skipped > 0 {
						t.Fatalf("%d keys were not understood", skipped)
					}
					e = next
				}
				if _ = e.Snapshot(now); minute == 90 {
					most = e.Keys()
				}
			}
			if n := e.Keys(); n > most+most/4 {
				t.Errorf("%d keys after four hours, %d after one and a half", n, most)
			}
		})
	}
}
