package simulate_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// TestRateChanges: a rate is cut and given back, whatever the order in which that is written, at the instant at which it was due: a
// bucket fills at the old rate until then, also where nobody asks for a while.
func TestRateChanges(t *testing.T) {
	config := validatetest.Config(t, vendorDocument("  limits: [{ name: pace, kind: rate, rate: 10/s, burst: 10 }]\n")+jobDocument("devices", "request: { endpoint: /devices }"))
	faults, err := simulate.ParseFaults("20s:provider.vendor.limits.pace.rate=10/s,10s:provider.vendor.limits.pace.rate=1/10s", noon)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{noon}
	options := c.options()
	options.Faults = faults
	options.Sleep = func(context.Context, time.Duration) error { return nil }
	s := newServer(t, config, "vendor", options)
	served := func(at time.Duration, requests int) (n int) {
		c.at = noon.Add(at)
		for range requests {
			if ask(s, "GET", "/devices", nil).Code == http.StatusOK {
				n++
			}
		}
		return n
	}
	for _, x := range []struct {
		at   time.Duration
		want int
	}{{0, 10}, {9500 * time.Millisecond, 10}, {19 * time.Second, 5}, {20 * time.Second, 1}, {20500 * time.Millisecond, 5}} {
		if got := served(x.at, 20); got != x.want {
			t.Errorf("%d of 20 requests were served after %v, want %d", got, x.at, x.want)
		}
	}
}

// TestChangesOfWhat: a change must name a limit, and what that limit has.
func TestChangesOfWhat(t *testing.T) {
	config := validatetest.Config(t, vendorDocument("  limits: [{ name: pace, kind: rate, rate: 10/s }, { name: daily, kind: quota, max: 5, window: { period: day } }]\n")+
		jobDocument("devices", "request: { endpoint: /devices }"))
	for change, message := range map[string]string{
		"1h:provider.vendor.limits.weekly.max=1": "there is no limit", "1h:provider.vendro.limits.daily.max=1": "there is no limit",
		"1h:provider.vendor.limits.daily.rate=1/s": "write max=", "1h:provider.vendor.limits.pace.max=1": "write rate=",
		"1h:provider.vendor.limits.daily.max=1": "", "1h:provider.vendor.limits.pace.rate=1/s": "",
	} {
		faults, err := simulate.ParseFaults(change, noon)
		if err != nil {
			t.Fatal(err)
		}
		_, err = simulate.NewServer(config, "vendor", simulate.ServerOptions{Faults: faults})
		if message == "" && err != nil || message != "" && (err == nil || !strings.Contains(err.Error(), message)) {
			t.Errorf("%s: %v, want an error with %q", change, err, message)
		}
	}
}
