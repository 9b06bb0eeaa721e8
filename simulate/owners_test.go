package simulate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const owning = `  limits:
    - { name: org, kind: rate, rate: 1/s, burst: 4, scope: { by: [account, "var:organizationId"] } }
  learn:
    - var: organizationId
      from: ["/organizations/([^/]+)"]
      keys:
        network: { url: "/networks/([^/]+)", body: [networkId, network.id] }
      body: [organizationId, organization.id]
`

// owningJobs list organizations with their networks and devices, and networks of nobody in particular.
func owningJobs() string {
	return jobDocument("organizations", `request: { endpoint: /organizations }, estimate: { items: 3 }, inventory: { items: response, vars: { organizationId: item.id } }`) +
		jobDocument("networks", `request: { endpoint: "/organizations/{organizationId}/networks" }, forEach: organizations, estimate: { items: 5 }, inventory: { items: response, vars: { networkId: item.id } }`) +
		jobDocument("devices", `request: { endpoint: "/organizations/{organizationId}/devices" }, forEach: organizations, estimate: { items: 30 }, metrics: [{ name: d, items: response, labels: { n: item.networkId, s: item.serial }, value: "1.0" }]`) +
		jobDocument("watched", `request: { endpoint: /watched }, estimate: { items: 40 }, inventory: { items: response, vars: { networkId: item.id } }, metrics: [{ name: w, items: response, labels: { o: item.organization.id }, value: "1.0" }]`) +
		jobDocument("details", `request: { endpoint: "/networks/{networkId}" }, forEach: watched, metrics: [{ name: n, labels: { o: response.organizationId, n: response.network.id }, value: "1.0" }]`) +
		jobDocument("clients", `request: { endpoint: "/networks/{networkId}/clients" }, forEach: networks, metrics: [{ name: c, items: response, labels: { i: item.id }, value: "1.0" }]`)
}

// asker asks a server and decodes what it says.
type asker struct {
	t      *testing.T
	server *simulate.Server
}

func (a *asker) get(path string, into any) int {
	a.t.Helper()
	w := ask(a.server, http.MethodGet, path, nil)
	if w.Code == http.StatusOK && into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			a.t.Fatalf("%s: %v in %s", path, err, w.Body)
		}
	}
	return w.Code
}

type named struct {
	ID             string `json:"id"`
	NetworkID      string `json:"networkId"`
	OrganizationID string `json:"organizationId"`
	Organization   struct {
		ID string `json:"id"`
	} `json:"organization"`
	Network struct {
		ID string `json:"id"`
	} `json:"network"`
}

// A vendor charges the organization of a network, whatever the URL names, and whether or not anybody has asked for its lists before;
// its answers say the same.
func TestOwnersAreCharged(t *testing.T) {
	c := &clock{noon}
	config := validatetest.Config(t, vendorDocument(owning)+owningJobs())
	lists := &asker{t, newServer(t, config, "vendor", c.options())}
	var organizations, watched []named
	lists.get("/organizations", &organizations)
	lists.get("/watched", &watched)
	owner := make(map[string]string)
	for _, o := range organizations {
		var networks, devices []named
		if lists.get("/organizations/"+o.ID+"/networks", &networks) != 200 || lists.get("/organizations/"+o.ID+"/devices", &devices) != 200 || len(networks) != 5 || len(devices) != 30 {
			t.Fatal(networks, devices)
		}
		for _, n := range networks {
			owner[n.ID] = o.ID
		}
		for _, d := range devices {
			if owner[d.NetworkID] != o.ID {
				t.Errorf("a device of %s is in network %s of %q", o.ID, d.NetworkID, owner[d.NetworkID])
			}
		}
	}
	if len(owner) != 15 || len(watched) != 40 {
		t.Fatalf("%d networks, %d watched", len(owner), len(watched))
	}
	spread := make(map[string]int)
	for _, n := range watched {
		if owner[n.ID] != "" {
			t.Fatalf("%s is listed twice", n.ID)
		}
		owner[n.ID] = n.Organization.ID
		spread[n.Organization.ID]++
	}
	for _, o := range organizations {
		if spread[o.ID] < 5 {
			t.Errorf("the watched networks are spread as %v", spread)
		}
	}
	// A server that nobody has asked for anything yet.
	fresh := &asker{t, newServer(t, config, "vendor", c.options())}
	for _, o := range organizations {
		var all []string
		for id, of := range owner {
			if of == o.ID {
				all = append(all, id)
			}
		}
		slices.Sort(all)
		for i, id := range all[:5] {
			var details named
			want := 200
			if i == 4 {
				want = 429 // the fifth of four
			}
			if got := fresh.get("/networks/"+id, &details); got != want {
				t.Errorf("request %d of organization %s: %d, want %d", i+1, o.ID, got, want)
			}
			if want == 200 && (details.OrganizationID != o.ID || details.Network.ID != id) {
				t.Errorf("network %s of %s says it is %s of %s", id, o.ID, details.Network.ID, details.OrganizationID)
			}
		}
	}
}

// A vendor whose documents learn nothing, or name no owner, charges what stands in the request.
func TestWithoutOwners(t *testing.T) {
	c := &clock{noon}
	limits, _, _ := strings.Cut(owning, "  learn:")
	config := validatetest.Config(t, vendorDocument(limits)+owningJobs())
	a := &asker{t, newServer(t, config, "vendor", c.options())}
	for n := range 20 {
		if code := a.get(fmt.Sprintf("/networks/N_%d", n), nil); code != 200 {
			t.Fatalf("request %d: %d", n+1, code)
		}
	}
	alone := validatetest.Config(t, vendorDocument(owning)+jobDocument("one", `request: { endpoint: "/networks/N_1" }, metrics: [{ name: n, value: "1.0" }]`))
	a = &asker{t, newServer(t, alone, "vendor", c.options())}
	for n := range 5 {
		want := 200
		if n == 4 {
			want = 429
		}
		if code := a.get("/networks/N_1", nil); code != want {
			t.Errorf("request %d of an organization that was never listed: %d, want %d", n+1, code, want)
		}
	}
}
