package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// learning is a provider that charges organizations, whose networks' URLs do not name them.
const learning = `  auth: { type: bearer, credential: key }
  limits:
    - { name: org, kind: quota, max: 10000, window: { rolling: 24h }, scope: { by: [account, "var:organizationId"] } }
  learn:
    - var: organizationId
      from: ['/organizations/([^/]+)']
      keys:
        network: { url: '/networks/([^/]+)', body: [networkId, network.id] }
        device: { url: '/devices/(Q[^/]+)', body: [serial] }
      body: [organizationId]
      cache: { path: learned.json }`

// watched is a plain inventory of networks, and a job over it: nothing says whose they are.
const watched = `  interval: 1h
  request: { endpoint: /watched }
  inventory: { items: response, vars: { networkId: item.id } }
`

const clients = `  interval: 1h
  forEach: watched
  request: { endpoint: "/networks/{networkId}/clients" }
  metrics: [{ name: clients, labels: { network: vars.networkId, variables: "string(size(vars))" }, value: double(size(response)) }]
`

// ownerOf a network of this vendor.
func ownerOf(network string) string { return "org-" + network[len(network)-1:] }

var networkPath = regexp.MustCompile(`^/v1/networks/([^/]+)(/.*)?$`)

// networksVendor lists six networks of two organizations.
func networksVendor(w http.ResponseWriter, q *http.Request) {
	list := []any{}
	if q.URL.Path == "/v1/watched" {
		for n := range 6 {
			list = append(list, map[string]any{"id": fmt.Sprintf("N_%d_%d", n, n%2)})
		}
	}
	if m := networkPath.FindStringSubmatch(q.URL.Path); m != nil && m[2] == "" {
		reply(w, map[string]any{"id": m[1], "organizationId": ownerOf(m[1])})
		return
	}
	reply(w, list)
}

// charged is what each organization has been charged, as the daemon's counts say.
func charged(s daemon.Snapshot) map[string]int64 {
	out := make(map[string]int64)
	for _, scope := range s.Scopes {
		if scope.Used > 0 {
			out[scope.Key] = scope.Used
		}
	}
	return out
}

func sameCounts(t *testing.T, what string, got, want map[string]int64) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: charged %v, want %v", what, got, want)
	}
}

// The organization of a network is learned from an answer about the network, then charged for every request of it, after a restart
// too; what is made of the answers does not change by that.
func TestLearnedOrganizationIsChargedAfterARestartToo(t *testing.T) {
	details := job("details", strings.NewReplacer("/clients", "", "name: clients", "name: details").Replace(clients))
	r := newRig(t, provider(learning)+job("watched", watched)+details, networksVendor)
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	sameCounts(t, "before anything is known", charged(r.daemon.Snapshot()), map[string]int64{})
	learned := r.daemon.Snapshot().Learned
	if got := fmt.Sprint(learned); got != "[{p organizationId device 0} {p organizationId network 6}]" {
		t.Errorf("learned: %s", got)
	}
	// A job that never learns anything by itself, in a new process.
	r.documents = provider(learning) + job("watched", watched) + job("clients", clients)
	r.daemon = r.make(daemon.Options{})
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	sameCounts(t, "after a restart", charged(r.daemon.Snapshot()), map[string]int64{"a/organizationId=org-0": 3, "a/organizationId=org-1": 3})
	for _, line := range metrics(t, r.daemon) {
		if !strings.Contains(line, "variables=1") {
			t.Errorf("a mapping sees the learned variable: %s", line)
		}
	}
	// Without the file nothing is known.
	if err := os.Remove(filepath.Join(r.dir, "learned.json")); err != nil {
		t.Fatal(err)
	}
	r.daemon = r.make(daemon.Options{})
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	sameCounts(t, "without the file", charged(r.daemon.Snapshot()), map[string]int64{"a/organizationId=org-0": 3, "a/organizationId=org-1": 3})
	// A damaged file costs what was learned, and no more.
	if err := os.WriteFile(filepath.Join(r.dir, "learned.json"), []byte(`{"format": "tapyr-learned-1", "shelves": [{`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.daemon = r.make(daemon.Options{})
	if err := r.once(); err != nil || !strings.Contains(r.logs.String(), "the file is damaged") {
		t.Errorf("%v\n%s", err, r.logs)
	}
}

// Items of an organization's lists teach, and so do inventories: their variables show which network belongs to which organization.
func TestListsAndInventoriesTeach(t *testing.T) {
	organizations := job("organizations", `  interval: 1h
  request: { endpoint: /organizations }
  inventory: { items: response, vars: { organizationId: item.id } }
`)
	for name, source := range map[string]string{
		"items": job("devices", `  interval: 1h
  forEach: organizations
  request: { endpoint: "/organizations/{organizationId}/devices" }
  metrics: [{ name: devices, items: response, labels: { serial: item.serial }, value: "1.0" }]
`),
		"inventory": job("networks", `  interval: 1h
  forEach: organizations
  request: { endpoint: "/organizations/{organizationId}/networks" }
  metrics: [{ name: networks, items: response, labels: { network: item.id }, value: "1.0" }]
  inventory: { items: response, vars: { networkId: item.id } }
`),
	} {
		t.Run(name, func(t *testing.T) {
			listed := regexp.MustCompile(`^/v1/organizations/org-(\d)/(devices|networks)$`)
			r := newRig(t, provider(learning)+organizations+source+job("watched", watched)+job("clients", clients), func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/v1/organizations" {
					reply(w, []any{map[string]any{"id": "org-0"}, map[string]any{"id": "org-1"}})
					return
				}
				if m := listed.FindStringSubmatch(q.URL.Path); m != nil {
					items := []any{}
					for n := range 3 {
						network := fmt.Sprintf("N_%d_%s", 2*n+int(m[1][0]-'0'), m[1])
						items = append(items, map[string]any{"id": network, "networkId": network, "serial": "Q" + network})
					}
					reply(w, items)
					return
				}
				networksVendor(w, q)
			})
			if err := r.once(); err != nil { // fills the file; the order within a level is open
				t.Fatalf("%v\n%s", err, r.logs)
			}
			before := charged(r.daemon.Snapshot())
			r.daemon = r.make(daemon.Options{})
			if err := r.once(); err != nil {
				t.Fatalf("%v\n%s", err, r.logs)
			}
			want := make(map[string]int64)
			for _, key := range []string{"a/organizationId=org-0", "a/organizationId=org-1"} {
				want[key] = before[key] + 1 + 3 // the list, and the clients of three networks
			}
			sameCounts(t, "when everything is known", charged(r.daemon.Snapshot()), want)
		})
	}
}

// What was learned is known to new documents, and what of it is in the file is known to the next process although this one is killed.
func TestLearnedSurvivesReloadAndKill(t *testing.T) {
	settings := "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: \"@DIR/tapyr.db\", flushInterval: 20ms } }\n"
	details := job("details", strings.NewReplacer("/clients", "", "name: clients", "name: details").Replace(clients))
	often := strings.Replace(learning, "learned.json", "learned.json, flushEvery: 1", 1)
	before := provider(often) + job("watched", watched) + details + settings
	after := provider(often) + job("watched", watched) + job("clients", clients) + settings
	seldom := strings.NewReplacer("interval: 1h", "interval: 30d") // so that what starts is what the test starts
	r := newRig(t, seldom.Replace(before), networksVendor)
	stop := r.start(r.daemon)
	trigger := func(job string) {
		r.until(job+" is started", func() bool {
			n, err := r.daemon.Trigger(job)
			return err == nil && n == 6
		})
	}
	trigger("details")
	r.until("everything is learned", func() bool { return r.daemon.Snapshot().Learned[1].Identifiers == 6 })
	r.until("the file is there", func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "learned.json"))
		return err == nil && strings.Count(string(text), `"value"`) == 6
	})
	r.set(seldom.Replace(after))
	r.daemon.Reload()
	trigger("clients")
	r.until("the clients are charged", func() bool { return charged(r.daemon.Snapshot())["a/organizationId=org-1"] == 3 })
	sameCounts(t, "after a reload", charged(r.daemon.Snapshot()), map[string]int64{"a/organizationId=org-0": 3, "a/organizationId=org-1": 3})
	if n := r.daemon.Snapshot().Learned[1].Identifiers; n != 6 {
		t.Errorf("%d networks are known after the reload", n)
	}
	stop()
	info, err := os.Stat(filepath.Join(r.dir, "learned.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// SF-01: a refusal of a request whose organization is not known makes that request wait, as long as it is asked to, and no other.
func TestUnresolvedRefusalDelaysNobodyElse(t *testing.T) {
	var refused atomic.Int64
	limits := strings.Replace(learning, "  limits:\n", "  limits:\n    - { name: all, kind: rate, rate: 500/s, burst: 500, scope: { by: [account] }, adaptive: {} }\n", 1)
	second := strings.NewReplacer("watched", "others", "/clients", "/others", "name: clients", "name: others")
	r := newRig(t, provider(limits)+job("watched", watched)+job("others-list", "  interval: 1h\n  request: { endpoint: /others }\n  inventory: { items: response, vars: { networkId: item.id } }\n")+
		job("clients", clients)+job("others", strings.Replace(second.Replace(clients), "forEach: others", "forEach: others-list", 1)), func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/v1/others":
			reply(w, []any{map[string]any{"id": "N_7_1"}})
		case q.URL.Path == "/v1/networks/N_0_0/clients" && refused.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			networksVendor(w, q)
		}
	})
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	var first, again, last time.Time
	for _, h := range r.seen() {
		switch {
		case h.path != "/v1/networks/N_0_0/clients":
			last = h.at
		case first.IsZero():
			first = h.at
		default:
			again = h.at
		}
	}
	if again.Sub(first) < time.Second {
		t.Errorf("the refused request was sent again after %s, and was asked to wait a second", again.Sub(first))
	}
	if !last.Before(again) {
		t.Errorf("the others waited too: the last came %s after the refusal", last.Sub(first))
	}
	s := r.daemon.Snapshot()
	if s.Totals.RateLimited != 1 || s.Totals.UnexpectedRateLimited != 0 {
		t.Errorf("totals: %+v", s.Totals)
	}
	if len(s.RateLimited) != 1 || s.RateLimited[0].Limit != "" {
		t.Errorf("the refusal is shown as %+v", s.RateLimited)
	}
}

// A secret that a vendor echoes where an identifier is looked for is not learned, and so gets into no file.
func TestSecretsAreNotLearned(t *testing.T) {
	details := job("details", strings.NewReplacer("/clients", "", "name: clients", "name: details").Replace(clients))
	r := newRig(t, provider(learning)+job("watched", watched)+details, func(w http.ResponseWriter, q *http.Request) {
		if m := networkPath.FindStringSubmatch(q.URL.Path); m != nil {
			organization := ownerOf(m[1])
			if m[1] == "N_0_0" {
				organization = q.Header.Get("Authorization")
			}
			reply(w, map[string]any{"organizationId": organization, "serial": plantedKey})
			return
		}
		networksVendor(w, q)
	})
	if err := r.once(); err != nil {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "learned.json"))
	if err != nil || strings.Contains(string(text), plantedKey) || strings.Contains(string(text), "[secret]") || strings.Count(string(text), `"value"`) != 5 {
		t.Errorf("%v\n%s", err, text)
	}
}
