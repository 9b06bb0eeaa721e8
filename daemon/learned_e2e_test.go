package daemon_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/simulate"
)

// unparented are jobs of the Meraki example over networks that come with no organization: an inventory of what somebody watches, an
// answer about each of them that names its organization, and the clients, whose URL and answer do not.
const unparented = `
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: watched }
spec:
  account: acme-meraki
  interval: 30d
  request: { endpoint: /watched }
  estimate: { items: 24 }
  inventory: { items: response, vars: { networkId: item.id } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: details }
spec:
  account: acme-meraki
  interval: 30d
  forEach: watched
  request: { endpoint: "/networks/{networkId}" }
  metrics: [{ name: network_info, type: info, labels: { network: vars.networkId, organization: response.organizationId } }]
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: watched-clients }
spec:
  account: acme-meraki
  interval: 1s
  priority: low
  forEach: watched
  request: { endpoint: "/networks/{networkId}/clients" }
  metrics: [{ name: watched_clients, value: double(size(response)), labels: { network: vars.networkId } }]
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { state: { path: "@DIR/tapyr.db", flushInterval: 100ms } }
`

// limitedMeraki makes the example's documents with those of unparented and a limit of one a second for each organization.
func limitedMeraki(t *testing.T) (limited func(burst string) string, provider string) {
	t.Helper()
	documents, provider := example(t, "meraki")
	// The other jobs start when the test says so, which is once: the organizations have to be known to a client as to a vendor.
	documents = regexp.MustCompile(`interval: \d+[mh]|  maxInterval: .*\n`).ReplaceAllStringFunc(documents, func(found string) string {
		if strings.HasPrefix(found, "interval") {
			return "interval: 30d"
		}
		return ""
	})
	documents = strings.NewReplacer("max: 12000", "max: 1000000").Replace(documents) + unparented
	if !strings.Contains(documents, "cache: { path: ") || !strings.Contains(documents, "rate: 10/s\n      burst: 10\n") {
		t.Fatal("the example is another one: it keeps nothing of what it learns, or has another limit")
	}
	return func(burst string) string {
		return strings.Replace(documents, "rate: 10/s\n      burst: 10\n", "rate: 1/s\n      burst: "+burst+"\n", 1)
	}, provider
}

// The end of it all: a vendor charges the organizations of networks whose URLs do not name them. A client that learns them stays
// within their limits; the same client without learn, which is the bug that this test looks for, is refused.
func TestLearningKeepsAVendorsLimits(t *testing.T) {
	limited, provider := limitedMeraki(t)
	options := simulate.ServerOptions{Seed: 11, Items: map[string]int64{"meraki-organizations": 3}}
	// Whose the networks are is learned from a vendor with patience, so that the other one has not been asked for anything yet.
	patient := newVendor(t, limited("100"), provider, options)
	patient.daemon = patient.make(daemon.Options{Jobs: []string{"details"}})
	if err := patient.once(); err != nil {
		t.Fatalf("%v\n%s", err, patient.logs)
	}
	learned, err := os.ReadFile(filepath.Join(patient.dir, "meraki-learned.json"))
	if err != nil || strings.Count(string(learned), `"value"`) < 24 {
		t.Fatalf("%v: not everything was learned\n%s", err, learned)
	}
	owners := ownersOf(t, patient.daemon)
	if len(owners) != 24 {
		t.Fatalf("%d networks have an owner, want 24", len(owners))
	}
	for name, learns := range map[string]bool{"learning": true, "not learning": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The vendor's buckets hold more than the client's: a machine that is busy must not look like a client that goes too fast.
			v := newVendor(t, limited("8"), provider, options)
			v.set(limited("5"))
			if learns {
				if err := os.WriteFile(filepath.Join(v.dir, "meraki-learned.json"), learned, 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				v.set(regexp.MustCompile(`(?s)  learn:.*?\n---`).ReplaceAllString(limited("5"), "---"))
			}
			v.daemon = v.make(daemon.Options{Jobs: []string{"watched-clients"}})
			stop := v.start(v.daemon)
			// Twenty-four requests a second are wanted, of three organizations with one a second each.
			wanted := int64(30)
			if soak() {
				wanted = 150
			}
			succeeded, refused := &v.statuses[200], &v.statuses[429]
			for until := time.Now().Add(90 * time.Second); time.Now().Before(until) && refused.Load() == 0; time.Sleep(10 * time.Millisecond) {
				if learns && succeeded.Load() >= wanted {
					break
				}
			}
			stop()
			t.Logf("%d requests succeeded, %d were refused, the latest came after %s, the excess is %.1f", succeeded.Load(), refused.Load(), v.latest(t), v.excess(t, owners, 5))
			switch {
			case learns && refused.Load() > 0:
				// Three tokens in hand make up for three seconds on the way, in which the state is written, too. What the client let go is
				// judged below in any case.
				if late := v.latest(t); late < 3*time.Second {
					t.Errorf("the vendor refused %d requests of a client that knows whose networks they are, though none was late by more than %s", refused.Load(), late)
				}
			case learns && succeeded.Load() < wanted:
				t.Errorf("only %d requests: the test sees nothing", succeeded.Load())
			case !learns && refused.Load() == 0:
				t.Error("a client that knows nothing was not refused: the vendor does not charge the organizations")
			}
			if excess := v.excess(t, owners, 5); learns == (excess > 2) {
				t.Errorf("an organization was asked for %.1f requests more than its limit allows", excess)
			}
		})
	}
}

// ownersOf are the organizations of the networks, as the vendor told.
func ownersOf(t *testing.T, d *daemon.Daemon) map[string]string {
	t.Helper()
	owners := make(map[string]string)
	for _, series := range metrics(t, d) {
		if match := regexp.MustCompile(`^network_info\{network=(.*),organization=(.*)\} 1$`).FindStringSubmatch(series); match != nil {
			owners[match[1]] = match[2]
		}
	}
	return owners
}

// clients are the instants at which requests for the clients of networks were let go, by the network and in their order.
func (v *vendor) clients(t *testing.T) map[string][]time.Time {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(v.dir, "tapyr.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	all := make(map[string][]time.Time)
	for row, err := range store.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Request.Job == "watched-clients" && row.Refused == "" {
			network := row.Request.Vars["networkId"]
			all[network] = append(all[network], row.At)
		}
	}
	for _, at := range all {
		slices.SortFunc(at, time.Time.Compare)
	}
	return all
}

// latest is how long a request was on its way to the vendor at the most: a network has one at a time.
func (v *vendor) latest(t *testing.T) (late time.Duration) {
	t.Helper()
	arrived := make(map[string][]time.Time)
	for _, h := range v.seen() {
		if match := regexp.MustCompile(`/networks/([^/]+)/clients$`).FindStringSubmatch(h.path); match != nil {
			arrived[match[1]] = append(arrived[match[1]], h.at)
		}
	}
	for network, at := range v.clients(t) {
		for i := range min(len(at), len(arrived[network])) {
			late = max(late, arrived[network][i].Sub(at[i]))
		}
	}
	return late
}

// excess is by how many requests more than a bucket of one a second allows an organization was asked at the most, by when they were let
// go, which no delay on the way changes.
func (v *vendor) excess(t *testing.T, owners map[string]string, burst float64) (excess float64) {
	t.Helper()
	asked := make(map[string][]time.Time)
	for network, at := range v.clients(t) {
		asked[owners[network]] = append(asked[owners[network]], at...)
	}
	if len(asked) != 3 {
		t.Errorf("%d organizations were asked, want 3", len(asked))
	}
	for _, at := range asked {
		slices.SortFunc(at, time.Time.Compare)
		level := 0.0
		for i := range at {
			if i > 0 {
				level = max(0, level-at[i].Sub(at[i-1]).Seconds())
			}
			level++
			excess = max(excess, level-burst)
		}
	}
	return excess
}
