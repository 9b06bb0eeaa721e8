package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const learningProvider = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: hourly, kind: quota, max: 1000, window: { period: hour }, scope: { by: [account, "var:organizationId"] } }
    - { name: rate, kind: rate, rate: 1/s, burst: 2, scope: { by: [account, "var:organizationId"] } }
    - { name: all, kind: quota, max: 1000, window: { period: hour }, scope: { by: [account] } }
`

const learningRules = `  learn:
    - var: organizationId
      from: ['/organizations/([^/]+)']
      keys: { network: { url: '/networks/([^/]+)' } }
`

const learningJobs = `---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: globex }
spec: { provider: vendor, vars: { organizationId: "7" } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: watched }
spec: { account: acme, interval: 5m, request: { endpoint: /watched }, inventory: { items: response, vars: { networkId: item.id } } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: clients }
spec: { account: acme, interval: 5m, forEach: watched, request: { endpoint: "/networks/{networkId}/clients" } }
`

// usedBy is what each key of a limit has used, over all windows.
func usedBy(r *Report, limit string) map[string]int64 {
	used := make(map[string]int64)
	for _, s := range r.Scopes {
		if s.Limit != limit {
			continue
		}
		for i := range s.Windows {
			used[s.Key] += s.Windows[i].Used
		}
	}
	return used
}

func learnedRow(at int, account, endpoint string, vars map[string]string, status int) string {
	text, _ := json.Marshal(vars)
	return fmt.Sprintf(`{"ts":%q,"provider":"vendor","account":%q,"method":"GET","endpoint":%q,"vars":%s,"status":%d,"latencyMs":50}`,
		secondsIn(at), account, endpoint, text, status)
}

// A row that names the network alone is charged to the organization that an earlier good row of the same account named with it.
func TestRowsTeachLaterRows(t *testing.T) {
	config := validatetest.Config(t, learningProvider+learningRules+learningJobs)
	both := func(network, organization string) map[string]string {
		return map[string]string{"networkId": network, "organizationId": organization}
	}
	network := func(id string) map[string]string { return map[string]string{"networkId": id} }
	const clients = "/networks/{networkId}/clients"
	lines := []string{
		learnedRow(0, "acme", clients, network("N_1"), 200),               // not known yet
		learnedRow(10, "acme", clients, both("N_1", "1"), 429),            // charged, and teaches nothing
		learnedRow(20, "acme", "/networks/N_1/clients", nil, 200),         // still not known
		learnedRow(30, "acme", clients, both("N_1", "1"), 200),            // teaches
		learnedRow(40, "acme", "/networks/N_1/clients", nil, 200),         // known
		learnedRow(50, "acme", clients, network("N_1"), 200),              // known
		learnedRow(60, "acme", clients, network("N_2"), 200),              // another
		learnedRow(70, "acme", "/organizations/5/networks/N_2", nil, 200), // the path has both
		learnedRow(80, "acme", clients, network("N_2"), 200),              // known
		learnedRow(90, "acme", clients, both("N_2", "6"), 200),            // it was moved
		learnedRow(100, "acme", clients, network("N_2"), 200),             // known anew
		learnedRow(110, "globex", clients, network("N_1"), 200),           // by its account's constant
		learnedRow(120, "acme", "/networks/{networkId}/x/{nobody}", network("N_1"), 200),
	}
	for _, enforce := range []bool{false, true} {
		r := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, Enforce: enforce})[0]
		want := map[string]int64{
			"acme/organizationId=1": 4, "acme/organizationId=5": 2, "acme/organizationId=6": 2, "globex/organizationId=7": 1,
		}
		if got := usedBy(r, "hourly"); !maps.Equal(got, want) {
			t.Errorf("enforce %v: %v, want %v", enforce, got, want)
		}
		if got := usedBy(r, "all"); got["acme"] != 12 || got["globex"] != 1 {
			t.Errorf("enforce %v: all of them: %v", enforce, got)
		}
	}
}

// A refusal of a row whose organization is not known penalizes nobody else (SF-01).
func TestUnresolvedRowsPenalizeNobody(t *testing.T) {
	config := validatetest.Config(t, learningProvider+learningRules+learningJobs)
	lines := []string{
		learnedRow(0, "acme", "/networks/N_1/clients", nil, 429), learnedRow(1, "acme", "/watched", nil, 200),
	}
	var decisions []Decision
	replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, Enforce: true, Decide: func(d *Decision) error {
		decisions = append(decisions, *d)
		return nil
	}})
	if len(decisions) != 2 || !decisions[1].Granted || decisions[1].At.Sub(decisions[1].TS) > 0 {
		t.Errorf("%+v", decisions)
	}
}

// The dumb twin: a pass over the rows fills in what earlier ones have told, and documents that learn nothing replay the result.
func TestLearningAgainstTwin(t *testing.T) {
	learns, plain := validatetest.Config(t, learningProvider+learningRules+learningJobs), validatetest.Config(t, learningProvider+learningJobs)
	rapid.Check(t, func(rt *rapid.T) {
		known := make(map[[2]string]string)
		var rows, filled []string
		at := 0
		for range rapid.IntRange(1, 30).Draw(rt, "rows") {
			at += rapid.IntRange(0, 200).Draw(rt, "seconds")
			account := rapid.SampledFrom([]string{"acme", "globex"}).Draw(rt, "account")
			network := rapid.SampledFrom([]string{"N_1", "N_2", "N 3"}).Draw(rt, "network")
			organization := rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "organization")
			status := rapid.SampledFrom([]int{200, 200, 404}).Draw(rt, "status")
			vars := map[string]string{"networkId": network}
			if organization != "" {
				vars["organizationId"] = organization
			}
			endpoint := "/networks/{networkId}/clients"
			if rapid.Bool().Draw(rt, "concrete") {
				endpoint = strings.ReplaceAll("/networks/"+network+"/clients", " ", "%20")
				delete(vars, "networkId")
			}
			rows = append(rows, learnedRow(at, account, endpoint, vars, status))
			place := [2]string{account, network}
			if account == "globex" {
				organization = "7" // its constant, which wins
			}
			full := maps.Clone(vars)
			if organization == "" && known[place] != "" {
				full["organizationId"] = known[place]
			}
			if organization != "" && status == 200 {
				known[place] = organization
			}
			filled = append(filled, learnedRow(at, account, endpoint, full, status))
		}
		enforce := rapid.Bool().Draw(rt, "enforce")
		got := replayFile(t, journalFile(t, rows...), journal.Options{}, Options{Config: learns, Enforce: enforce})[0]
		want := replayFile(t, journalFile(t, filled...), journal.Options{}, Options{Config: plain, Enforce: enforce})[0]
		for _, limit := range []string{"hourly", "all"} {
			if a, b := usedBy(got, limit), usedBy(want, limit); !maps.Equal(a, b) {
				rt.Fatalf("%s: %v, want %v\n%s", limit, a, b, strings.Join(rows, "\n"))
			}
		}
	})
}

// Requests of a provider without learn are not looked at row by row.
func TestLearningCostsNothingElsewhere(t *testing.T) {
	for documents, odd := range map[string]bool{learningProvider + learningJobs: false, learningProvider + learningRules + learningJobs: true} {
		s := newSide(&Options{Config: validatetest.Config(t, documents)})
		q := &request{requestDetails: new(requestDetails)}
		s.requests.resolve(q, journal.Request{
			Provider: "vendor", Account: "acme", Method: "GET", Endpoint: "/networks/{networkId}/clients", Vars: map[string]string{"networkId": "N_1"},
		}, start.UnixNano())
		if q.prepared == nil || q.unknown != nil || q.odd != odd {
			t.Errorf("rows are looked at: %v, want %v; %v %v", q.odd, odd, q.why, q.unknown)
		}
	}
}
