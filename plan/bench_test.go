package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// fleet is a configuration of accounts with ten jobs each; every account has a quota and a rate of its own, and all share one
// quota. Every class is there, and the budgets are short, so that both passes work on every key.
func fleet(b *testing.B, accounts int) *validate.Config {
	var text strings.Builder
	text.WriteString(head + `kind: Provider
metadata: { name: vendor }
spec:
  limits:
    - { name: daily, kind: quota, max: 4000, window: { period: day }, scope: { by: [account] } }
    - { name: pace, kind: rate, rate: 10/s, scope: { by: [account] } }
    - { name: all, kind: quota, max: ` + fmt.Sprint(accounts*3000) + `, window: { period: day }, scope: { by: [provider] } }
`)
	for a := range accounts {
		fmt.Fprintf(&text, "---\n"+head+"kind: Account\nmetadata: { name: a-%d }\nspec: { provider: vendor }\n", a)
		for j := range 10 {
			priority := []string{"critical", "high", "normal", "low"}[j%4]
			fmt.Fprintf(&text, "---\n"+head+"kind: Job\nmetadata: { name: j-%d-%d }\nspec: { account: a-%d, interval: %dm, priority: %s, request: { endpoint: /x } }\n", a, j, a, 1+(a+j)%7, priority)
		}
	}
	return validatetest.Config(b, strings.Split(text.String(), "---\n")...)
}

// BenchmarkMake plans 10 jobs for each of 1,000 and 10,000 keys; the second may take 12 times as long as the first.
func BenchmarkMake(b *testing.B) {
	for _, accounts := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", accounts*10), func(b *testing.B) {
			in := plan.Input{Config: fleet(b, accounts), At: instant(b, "2026-11-30T00:00:00Z")}
			b.ResetTimer()
			b.ReportAllocs()
			stretched := 0
			for b.Loop() {
				p := plan.Make(in)
				for _, j := range p.Jobs {
					if j.Stretch > 1 {
						stretched++
					}
				}
			}
			if stretched == 0 {
				b.Fatal("no job was stretched: the benchmark does not measure what it should")
			}
		})
	}
}

// BenchmarkMakeInventory plans one job over an inventory of 100,000 items on 10,000 keys that are known one by one.
func BenchmarkMakeInventory(b *testing.B) {
	documents := head + `kind: Provider
metadata: { name: vendor }
spec: { limits: [{ name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account, "var:org"] } }] }
---
` + head + `kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
` + head + `kind: Job
metadata: { name: devices }
spec: { account: acme, interval: 1h, request: { endpoint: /devices }, inventory: { items: response, vars: { org: item.org, serial: item.serial } } }
---
` + head + `kind: Job
metadata: { name: poll }
spec: { account: acme, interval: 5m, forEach: devices, request: { endpoint: "/orgs/{org}/devices/{serial}" } }
`
	items := make([]map[string]string, 100_000)
	for i := range items {
		items[i] = map[string]string{"org": fmt.Sprint(i % 10_000), "serial": fmt.Sprint(i)}
	}
	in := plan.Input{
		Config: validatetest.Config(b, documents), At: instant(b, "2026-11-30T00:00:00Z"),
		State: &plan.State{Inventories: map[string][]map[string]string{"devices": items}},
	}
	b.ResetTimer()
	for b.Loop() {
		if p := plan.Make(in); p.Scopes[0].Keys != 10_000 || p.Jobs[1].Instances != 100_000 {
			b.Fatalf("%d keys, %d instances", p.Scopes[0].Keys, p.Jobs[1].Instances)
		}
	}
}
