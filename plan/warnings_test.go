package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// Runs that come to more than the quota of one window are worth a warning where the rest is held up for long, not where it goes a
// few seconds later.
func TestPeakIsWarnedOfWhereItHoldsUp(t *testing.T) {
	for window, want := range map[string]int{
		"{ every: 1s }": 0, "{ every: 5s }": 0, "{ rolling: 1s }": 0, // 15 requests at 5 a window: two windows later
		"{ every: 15m }": 1, "{ period: hour }": 1, "{ rolling: 15m }": 1,
	} {
		limits := fmt.Sprintf("    - { name: short, kind: quota, max: 5, window: %s, scope: { by: [account] } }\n", window)
		p := plan.Make(plan.Input{
			Config: validatetest.Config(t, providerDocument(limits), account, settings, jobDocument("a", "interval: 4h, estimate: { pagesPerRun: 15 }")), At: monday,
		})
		if !p.Feasible || p.Scopes[0].Peak != 15 {
			t.Fatalf("%s: feasible %v with a peak of %v", window, p.Feasible, p.Scopes[0].Peak)
		}
		if len(p.Warnings) != want || want == 1 && (p.Warnings[0].Code != "peak-over-budget" || p.Warnings[0].Provider != "vendor") {
			t.Errorf("%s: warnings %v, want %d", window, p.Warnings, want)
		}
	}
}

// A product of estimates that nobody can mean is said, also where it does not fit a number any more.
func TestHugeFanOutIsSaid(t *testing.T) {
	limits := "    - { name: daily, kind: quota, max: 1000000000000000, window: { period: day }, scope: { by: [account] } }\n"
	chain := func(items string) string {
		return head + "kind: Job\nmetadata: { name: sites }\nspec: { account: acme, interval: 52w, request: { endpoint: /sites }, estimate: { items: " + items + " }, inventory: { items: response, vars: { site: item.id } } }\n" +
			"---\n" + head + "kind: Job\nmetadata: { name: racks }\nspec: { account: acme, interval: 52w, forEach: sites, request: { endpoint: '/sites/{site}' }, estimate: { items: " + items + " }, inventory: { items: response, vars: { rack: item.id } } }\n" +
			"---\n" + head + "kind: Job\nmetadata: { name: hosts }\nspec: { account: acme, interval: 52w, forEach: racks, request: { endpoint: '/racks/{rack}' } }\n"
	}
	for items, want := range map[string]string{"1000": "", "100000": "10,000,000,000 items", "1000000000": "at least 9.007e+15 items"} {
		p := plan.Make(plan.Input{Config: validatetest.Config(t, append([]string{providerDocument(limits), account, settings}, strings.Split(chain(items), "---\n")...)...), At: monday})
		var said string
		for _, w := range p.Warnings {
			if w.Code == "fanout-too-large" && w.Job == "racks" {
				said += w.Message
			}
		}
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s items each: %q, want %q", items, said, want)
		}
	}
}
