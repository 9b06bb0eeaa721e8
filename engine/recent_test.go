package engine

import (
	"testing"
	"time"

	"github.com/tapyr/tapyr/validate/validatetest"
)

// TestWindowOfFirstRequestEndsBeforeItsCaps: the window that a report shows of a firstRequest quota is over before the units in it
// have left for admission. It is reported with the pace at its end all the same, even if nothing but the clock goes on.
func TestWindowOfFirstRequestEndsBeforeItsCaps(t *testing.T) {
	var reports []*WindowReport
	config := validatetest.Config(t, `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits: [{ name: burst, kind: quota, max: 1, window: { every: 20m, anchor: firstRequest }, scope: { by: [account] } }]
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
`)
	e := New(config, Options{OnWindow: func(r *WindowReport) { reports = append(reports, r) }, KeepKeys: true})
	minute := func(n int64) int64 { return benchStart + n*int64(time.Minute) }
	q := Request{}
	q.Provider, q.Account = "vendor", "acme"
	p, err := e.Prepare(minute(0), &q)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 18} {
		ticket, _ := e.Force(minute(at), p, false)
		e.Settle(minute(at), ticket, &okResponse)
		e.Release(minute(at), ticket)
	}
	if _, granted, refused := e.Reserve(minute(25), p, false, minute(25)); granted || refused.RetryAtNanos != minute(38) {
		t.Fatalf("granted %t, refused %+v: the unit of minute 18 counts until minute 38", granted, refused)
	}
	e.Windows(minute(36), func(r *WindowReport) { t.Errorf("a window is open: %+v", r) })
	if len(reports) != 1 {
		t.Fatalf("%d windows", len(reports))
	}
	if r := reports[0]; r.EndNanos != minute(20) || r.Used != 2 || r.Recent != 1.0/900 {
		t.Errorf("window until %v, used %d, %v a second; of its two units one came in the last 15 minutes", time.Unix(0, r.EndNanos).UTC(), r.Used, r.Recent)
	}
}
