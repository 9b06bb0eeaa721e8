package daemon_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
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
  estimate: { items: 60 }
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

// The end of it all: a vendor charges the organizations of networks whose URLs do not name them. A client that learns them stays
// within their limits; the same client without learn, which is the bug that this test looks for, is refused.
func TestLearningKeepsAVendorsLimits(t *testing.T) {
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
	for name, learns := range map[string]bool{"learning": true, "not learning": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours := documents
			if !learns {
				ours = regexp.MustCompile(`(?s)  learn:.*?\n---`).ReplaceAllString(documents, "---")
			}
			// The vendor's buckets hold twice as much: a machine that is busy must not look like a client that goes too fast.
			generous := strings.Replace(documents, "rate: 10/s\n      burst: 10\n", "rate: 10/s\n      burst: 20\n", 1)
			v := newVendor(t, generous, provider, simulate.ServerOptions{Seed: 11, Items: map[string]int64{"meraki-organizations": 3}})
			v.set(ours)
			v.daemon = v.make(daemon.Options{Jobs: []string{"details"}})
			if err := v.once(); err != nil {
				t.Fatalf("%v\n%s", err, v.logs)
			}
			time.Sleep(2500 * time.Millisecond) // the vendor's buckets fill, from which nobody knew that they were taken
			v.daemon = v.make(daemon.Options{Jobs: []string{"watched-clients"}})
			stop := v.start(v.daemon)
			// Sixty networks a second, of three organizations with ten requests a second each.
			began, refused := v.statuses[200].Load(), v.statuses[429].Load()
			wanted, span := int64(60), 3*time.Second
			if soak() {
				wanted, span = 600, 30*time.Second
			}
			if !learns {
				span = 20 * time.Second // at most: it ends with the first refusal
			}
			for until := time.Now().Add(span); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				if !learns && v.statuses[429].Load() > refused {
					break
				}
			}
			stop()
			sent, refused := v.statuses[200].Load()-began, v.statuses[429].Load()-refused
			t.Logf("%d requests succeeded, %d were refused", sent, refused)
			switch {
			case learns && refused > 0:
				t.Errorf("the vendor refused %d requests of a client that knows whose networks they are", refused)
			case learns && sent < wanted:
				t.Errorf("only %d requests: the test sees nothing", sent)
			case !learns && refused == 0:
				t.Error("a client that knows nothing was not refused: the vendor does not charge the organizations")
			}
			text, err := os.ReadFile(v.dir + "/meraki-learned.json")
			if learns != (err == nil && strings.Count(string(text), `"value"`) >= 60) {
				t.Errorf("%v: %d identifiers are kept", err, strings.Count(string(text), `"value"`))
			}
		})
	}
}
