package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const learnedDay = `  limits:
    - { name: org, kind: rate, rate: 1/s, burst: 4, scope: { by: [account, "var:organizationId"] } }
    - { name: daily, kind: quota, max: 100000, window: { period: day }, scope: { by: [account, "var:organizationId"] } }
    - { name: all, kind: rate, rate: 50/s, burst: 50, scope: { by: [account] } }
  learn:
    - var: organizationId
      from: ["/organizations/([^/]+)"]
      keys: { network: { url: "/networks/([^/]+)" } }
      body: [organizationId]
`

func learnedDayJobs() string {
	return jobDocument("organizations", `request: { endpoint: /organizations }, estimate: { items: 3 }, inventory: { items: response, vars: { organizationId: item.id } }`) +
		jobDocument("networks", `request: { endpoint: "/organizations/{organizationId}/networks" }, forEach: organizations, estimate: { items: 20 }, inventory: { items: response, vars: { networkId: item.id } }`) +
		jobDocument("devices", `request: { endpoint: "/networks/{networkId}/devices" }, forEach: networks`) +
		jobDocument("watched", `request: { endpoint: /watched }, estimate: { items: 60 }, inventory: { items: response, vars: { networkId: item.id } }`) +
		strings.Replace(jobDocument("clients", `request: { endpoint: "/networks/{networkId}/clients" }, forEach: watched`), "interval: 5m", "interval: 25s", 1)
}

// causes counts refusals by their cause.
func causes(r *simulate.Report) map[simulate.Cause]int64 {
	out := make(map[simulate.Cause]int64)
	for _, one := range r.RateLimited {
		out[one.Cause] += one.Answers
	}
	return out
}

// In virtual time, too, the vendor charges owners, and our side learns them: no invariant is broken, and what is refused while nobody
// can know better is not taken for a mistake. After the first minutes nothing is refused any more; where answers never name the owner,
// refusals go on, and the report says why.
func TestLearningInVirtualTime(t *testing.T) {
	play := func(documents string, span time.Duration) *simulate.Report {
		return simulate.Run(simulate.Scenario{Config: validatetest.Config(t, documents), Start: noon, Duration: span, Seed: 3})
	}
	documents := vendorDocument(learnedDay) + learnedDayJobs()
	short, long := play(documents, 20*time.Minute), play(documents, 80*time.Minute)
	for _, r := range []*simulate.Report{short, long} {
		if r.Broken != 0 {
			t.Errorf("%d invariants broken, first %+v", r.Broken, r.Violations[0])
		}
	}
	early, all := causes(short), causes(long)
	if len(all) > 1 || all[simulate.CauseUnlearned] != early[simulate.CauseUnlearned] {
		t.Errorf("refused in the first 20 minutes %v, in 80 %v", early, all)
	}
	mute := strings.Replace(documents, "      body: [organizationId]\n", "", 1)
	quiet, on := play(mute, 20*time.Minute), play(mute, 80*time.Minute)
	if on.Broken != 0 {
		t.Errorf("%d invariants broken, first %+v", on.Broken, on.Violations[0])
	}
	if a, b := causes(quiet)[simulate.CauseUnlearned], causes(on)[simulate.CauseUnlearned]; b < 2*a || b == 0 {
		t.Errorf("answers that name no owner: refused in the first 20 minutes %d, in 80 %d; they should go on", a, b)
	}
}
