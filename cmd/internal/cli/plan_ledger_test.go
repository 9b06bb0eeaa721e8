package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const inventoryDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits: [{ name: daily, kind: quota, max: 100000, window: { period: day }, scope: { by: [account] }, costFrom: { header: X-Units, index: 1 } }]
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: orgs }
spec: { account: acme, interval: 1h, request: { endpoint: /orgs }, inventory: { items: response, vars: { organizationId: item.id } } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: networks }
spec: { account: acme, interval: 1h, forEach: orgs, request: { endpoint: "/orgs/{organizationId}/networks" }, inventory: { items: response, vars: { networkId: item.id } } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: clients }
spec: { account: acme, interval: 1h, forEach: networks, request: { endpoint: "/networks/{networkId}/clients" } }
`

// A state file gives counters, inventories with their ancestors' variables, and what the last good runs took.
func TestPlanStateFromStateFile(t *testing.T) {
	config := validatetest.Config(t, inventoryDocuments)
	ctx, now := context.Background(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := sqlite.Open(ctx, path, sqlite.Options{Mode: sqlite.Shared})
	if err != nil {
		t.Fatal(err)
	}
	start := now.Truncate(24 * time.Hour).UnixNano()
	changes := ledger.Changes{
		Counters: []ledger.Counter{{CounterKey: ledger.CounterKey{Provider: "vendor", Limit: "daily", ScopeKey: "acme", StartNanos: start}, EndNanos: start + int64(24*time.Hour), Used: 77, UpdatedNanos: start}},
		// The child's inventory stands before its parent's, and one is of an organization that is gone.
		Inventories: []ledger.Inventory{
			{Job: "networks", Instance: "networks/organizationId=9", At: now, Items: []map[string]string{{"networkId": "N9"}}},
			{Job: "orgs", Instance: "orgs", At: now, Items: []map[string]string{{"organizationId": "1"}}},
		},
	}
	for i, pages := range []int64{2, 4, 3, 50} {
		status := "ok"
		if pages == 50 {
			status = "failed" // what it took says nothing
		}
		changes.Runs = append(changes.Runs, ledger.Run{Job: "clients", Instance: "clients/networkId=N1", Account: "acme", Started: now.Add(-time.Duration(i+1) * time.Hour), Pages: pages, Requests: pages + 1, Status: status})
	}
	for i := range 2 {
		changes.Rows = append(changes.Rows, ledger.Row{
			At: now.Add(-time.Duration(i+1) * time.Hour), Request: journal.Request{Provider: "vendor", Account: "acme", Job: "clients"}, Status: 200,
			Latency: time.Duration(i+1) * time.Second, Headers: map[string]string{"x-units": []string{"9, 4", "9, 7"}[i]},
		})
	}
	// A response that tells no cost, and one that tells nonsense, are left out of the median.
	changes.Rows = append(changes.Rows,
		ledger.Row{At: now.Add(-time.Minute), Request: journal.Request{Provider: "vendor", Account: "acme", Job: "clients"}, Status: 200, Latency: 3 * time.Second / 2},
		ledger.Row{At: now.Add(-time.Minute), Request: journal.Request{Provider: "vendor", Account: "acme", Job: "clients"}, Status: 200, Latency: 3 * time.Second / 2, Headers: map[string]string{"X-Units": "1, many"}})
	if err := store.Apply(ctx, changes); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	state, _, err := readPlanState(ctx, path, config, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Counters) != 1 || state.Counters[0].UsedUnits != 77 || !state.Counters[0].End.Equal(now.Add(12*time.Hour)) {
		t.Errorf("counters %+v", state.Counters)
	}
	if got := state.Inventories["orgs"]; len(got) != 1 || got[0]["organizationId"] != "1" {
		t.Errorf("inventories %+v", state.Inventories)
	}
	h := state.History["clients"]
	if h.PagesPerRun != 3 || h.RetryRatio != 3.0/9 || h.LatencySeconds != 1.5 {
		t.Errorf("history %+v", h)
	}
	if len(h.Costs) != 1 || h.Costs["daily"] != 5.5 {
		t.Errorf("costs %v, want the median 5.5 of 4 and 7", h.Costs)
	}
	if _, there := state.History["orgs"]; there {
		t.Error("a job without runs has a history")
	}
}

// What is neither a state nor counters is refused with the way out.
func TestPlanStateOfOtherFiles(t *testing.T) {
	for _, text := range []string{"provider,limit\nvendor,daily\n", "SQLite format 3\x00 but not really", "{", ""} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readPlanState(t.Context(), path, nil, time.Time{}); err == nil {
			t.Errorf("%q is taken for a state", text)
		}
	}
}
