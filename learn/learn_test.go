package learn

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const head = "apiVersion: tapyr/v1alpha1\nkind: "

// documents are a provider that learns organizations as the Meraki API needs it, with an account and jobs.
func documents(cache string) string {
	return head + `Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits: [{ name: org, kind: rate, rate: 10/s, burst: 10, scope: { by: [account, "var:organizationId"] } }]
  learn:
    - var: organizationId
      from: ['/organizations/([^/]+)']
      keys:
        network: { url: '/networks/([^/]+)', body: [networkId, network.id] }
        device: { url: '/devices/(Q[^/]+)', body: [serial] }
      body: [organizationId, organization.id]
` + cache + `---
` + head + `Account
metadata: { name: acme }
spec: { provider: vendor }
---
` + head + `Job
metadata: { name: networks }
spec:
  account: acme
  interval: 1h
  request: { endpoint: "/organizations/{organizationId}/networks" }
  forEach: organizations
  inventory: { items: response, vars: { networkId: item.id } }
---
` + head + `Job
metadata: { name: organizations }
spec:
  account: acme
  interval: 1h
  request: { endpoint: /organizations }
  inventory: { items: response, vars: { organizationId: item.id } }
---
` + head + `Job
metadata: { name: clients }
spec:
  account: acme
  interval: 1h
  forEach: networks
  request: { endpoint: "/networks/{networkId}/clients" }
  metrics: [{ name: clients, value: "1.0" }]
`
}

func library(t testing.TB, cache string, o Options) *Library {
	t.Helper()
	return New(validatetest.Config(t, documents(cache)), o)
}

var (
	acme  = Place{Account: "acme"}
	start = time.Date(2026, time.November, 30, 12, 0, 0, 0, time.UTC).UnixNano()
)

const (
	minute = int64(time.Minute)
	day    = int64(24 * time.Hour)
)

// decodeBody is a body as the daemon has it.
func decodeBody(t testing.TB, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	body, err := expr.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// itemsOf a body that is a list.
func itemsOf(body any) []any {
	items, _ := body.([]any)
	return items
}

// resolve is the organization of a path, "?" where there should be one and it is not known.
func resolve(b *Book, now int64, at Place, path string) string {
	vars, unresolved := b.Complete(now, at, path, nil)
	if unresolved {
		return "?"
	}
	return vars["organizationId"]
}

// What one answer teaches, by what it is asked for, its body, and its items.
func TestWhatAnAnswerTeaches(t *testing.T) {
	for _, c := range []struct {
		name, path string
		vars       map[string]string
		body       string
		want       map[string]string // organizations of paths
		news       int
	}{
		{"the path has both", "/organizations/1/networks/N_1/x", nil, "", map[string]string{"/networks/N_1/y": "1"}, 1},
		{"the body has both", "/whatever", nil, `{"organization":{"id":"2"},"network":{"id":"N_2"}}`, map[string]string{"/networks/N_2": "2"}, 1},
		{"path and body", "/networks/N_1", nil, `{"organizationId":"3","serial":"Q1"}`, map[string]string{"/networks/N_1": "3", "/devices/Q1/x": "3"}, 2},
		{"the request's own variable", "/networks/N_1", map[string]string{"organizationId": "4"}, "", map[string]string{"/networks/N_1": "4"}, 1},
		{"the variable beats the body", "/networks/N_1", map[string]string{"organizationId": "4"}, `{"organizationId":"3"}`, map[string]string{"/networks/N_1": "4"}, 1},
		{"the path beats the body", "/organizations/1/x", nil, `{"organizationId":"3","networkId":"N_1"}`, map[string]string{"/networks/N_1": "1"}, 1},
		{
			"items of an organization", "/organizations/1/devices", nil, `[{"serial":"Q1","networkId":"N_1"},{"serial":"Q2"},7,{}]`,
			map[string]string{"/devices/Q1": "1", "/devices/Q2": "1", "/networks/N_1": "1", "/networks/N_2": "?"},
			3,
		},
		{
			"items that say whose they are", "/devices", nil, `[{"serial":"Q1","organizationId":"1"},{"serial":"Q2","organizationId":"2"},{"serial":"Q3"}]`,
			map[string]string{"/devices/Q1": "1", "/devices/Q2": "2", "/devices/Q3": "?"},
			2,
		},
		{"numbers", "/networks/7", nil, `{"organizationId":549236}`, map[string]string{"/networks/7": "549236"}, 1},
		{"an escaped path", "/networks/a%20b%2Fc", nil, `{"organizationId":"o"}`, map[string]string{"/networks/a%20b%2Fc/x": "o", "/networks/a%20b": "?"}, 1},
		{"nobody names the organization", "/networks/N_1", nil, `{"networkId":"N_1"}`, map[string]string{"/networks/N_1": "?"}, 0},
		{"null hides what follows", "/networks/N_1", nil, `{"organizationId":null,"organization":{"id":"1"}}`, map[string]string{"/networks/N_1": "?"}, 0},
		{"a template is no request", "/organizations/{organizationId}/networks/{networkId}", nil, "", map[string]string{"/networks/%7BnetworkId%7D": "?"}, 0},
		{"not a serial", "/organizations/1/devices/statuses", nil, "", map[string]string{"/devices/statuses": ""}, 0},
		{
			"too long", "/networks/" + strings.Repeat("n", longestIdentifier+1), nil, `{"organizationId":"1"}`,
			map[string]string{"/networks/" + strings.Repeat("n", longestIdentifier+1): "?"},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := library(t, "", Options{}).Book("vendor")
			body := decodeBody(t, c.body)
			news := b.Learn(start, &Seen{Place: acme, Path: c.path, Vars: c.vars, Body: body, Items: itemsOf(body)})
			if news != c.news {
				t.Errorf("%d news, want %d", news, c.news)
			}
			for path, want := range c.want {
				if got := resolve(b, start, acme, path); got != want {
					t.Errorf("%s belongs to %q, want %q", path, got, want)
				}
			}
		})
	}
}

func TestComplete(t *testing.T) {
	b := library(t, "", Options{}).Book("vendor")
	b.Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_1"})
	own := map[string]string{"networkId": "N_1"}
	all, unresolved := b.Complete(start, acme, "/networks/N_1", own)
	if unresolved || !maps.Equal(all, map[string]string{"networkId": "N_1", "organizationId": "1"}) || len(own) != 1 {
		t.Errorf("%v, %v; the request's own %v", all, unresolved, own)
	}
	if all, _ := b.Complete(start, acme, "/organizations/9/x", nil); all["organizationId"] != "9" {
		t.Errorf("the path says it: %v", all)
	}
	given := map[string]string{"organizationId": "8"}
	if all, unresolved := b.Complete(start, acme, "/networks/N_1", given); unresolved || all["organizationId"] != "8" {
		t.Errorf("the request's own comes first: %v", all)
	}
	if all, unresolved := b.Complete(start, acme, "/networks/N_2", given); unresolved || all["organizationId"] != "8" {
		t.Errorf("what is given is not to be resolved: %v, %v", all, unresolved)
	}
	if _, unresolved := b.Complete(start, acme, "/admins", nil); unresolved {
		t.Error("a path that names no identifier belongs to nobody")
	}
	for _, elsewhere := range []Place{{Account: "other"}, {Account: "acme", Target: "r1"}} {
		if got := resolve(b, start, elsewhere, "/networks/N_1"); got != "?" {
			t.Errorf("what acme has told is believed of %v: %q", elsewhere, got)
		}
	}
	var none *Book
	if all, unresolved := none.Complete(start, acme, "/networks/N_1", own); unresolved || len(all) != 1 || none.Learn(start, &Seen{}) != 0 ||
		none.LearnVars(start, acme, own) != 0 || none.Version() != 0 || none.Learns("organizationId") || none.FromPath("organizationId", "/organizations/1") != "" {
		t.Error("a nil book knows something")
	}
}

// A variable that no limit looks at leaves nothing unresolved: nothing depends on it.
func TestUnusedVariableIsNotMissed(t *testing.T) {
	text := strings.Replace(documents(""), `"var:organizationId"`, "instance", 1)
	b := New(validatetest.Config(t, text), Options{}).Book("vendor")
	if _, unresolved := b.Complete(start, acme, "/networks/N_1", nil); unresolved {
		t.Error("unresolved")
	}
}

// An inventory's item shows what its variables mean, by the endpoints that they are put into.
func TestInventoriesTeach(t *testing.T) {
	b := library(t, "", Options{}).Book("vendor")
	if news := b.LearnVars(start, acme, map[string]string{"organizationId": "1", "networkId": "N 1"}); news != 1 {
		t.Errorf("%d news", news)
	}
	if got := resolve(b, start, acme, "/networks/N%201/clients"); got != "1" {
		t.Errorf("got %q", got)
	}
	if news := b.LearnVars(start, acme, map[string]string{"networkId": "N_2"}); news != 0 {
		t.Errorf("%d news of nothing", news)
	}
}

// What is not confirmed any more is not believed, and what is resolved by it does not confirm it.
func TestBelief(t *testing.T) {
	b := library(t, "      cache: { ttl: 8m }\n", Options{Folder: t.TempDir()}).Book("vendor")
	seen := &Seen{Place: acme, Path: "/networks/N_1", Body: decodeBody(t, `{"organizationId":"1"}`)}
	b.Learn(start, seen)
	if got := resolve(b, start+8*minute, acme, "/networks/N_1"); got != "1" {
		t.Errorf("within its time: %q", got)
	}
	if got := resolve(b, start+8*minute+1, acme, "/networks/N_1"); got != "?" {
		t.Errorf("after its time: %q", got)
	}
	version := b.Version()
	b.Learn(start+5*minute, seen)
	if got := resolve(b, start+13*minute, acme, "/networks/N_1"); got != "1" || b.Version() != version {
		t.Errorf("confirmed: %q", got)
	}
	if news := b.Learn(start+30*minute, seen); news != 1 || b.Version() == version {
		t.Error("what is believed again is no news")
	}
	// A device that was moved: of two identifiers the one that was confirmed last is right.
	b.Learn(start+31*minute, &Seen{Place: acme, Path: "/organizations/2/devices/Q1"})
	if got := resolve(b, start+32*minute, acme, "/networks/N_1/devices/Q1"); got != "2" {
		t.Errorf("moved: %q", got)
	}
	forever := library(t, "", Options{Forever: true}).Book("vendor")
	forever.Learn(start, seen)
	if got := resolve(forever, start+1000*day, acme, "/networks/N_1"); got != "1" {
		t.Errorf("for ever: %q", got)
	}
}

// New documents know what the old ones have learned, and the other way round: requests of both are under way.
func TestNewDocuments(t *testing.T) {
	old := library(t, "", Options{})
	next := old.For(validatetest.Config(t, documents("")))
	old.Book("vendor").Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_1"})
	next.Book("vendor").Learn(start, &Seen{Place: acme, Path: "/organizations/2/networks/N_2"})
	if a, b := resolve(next.Book("vendor"), start, acme, "/networks/N_1"), resolve(old.Book("vendor"), start, acme, "/networks/N_2"); a != "1" || b != "2" {
		t.Errorf("%q, %q", a, b)
	}
	if next.Book("nobody") != nil {
		t.Error("a book of nobody")
	}
}

func TestCounts(t *testing.T) {
	l := library(t, "", Options{})
	l.Book("vendor").Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_1"})
	l.Book("vendor").Learn(start, &Seen{Place: Place{Account: "other"}, Path: "/organizations/1/networks/N_1"})
	want := []Count{{"vendor", "organizationId", "device", 0}, {"vendor", "organizationId", "network", 2}}
	if got := l.Counts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A provider that names ever new identifiers does not fill the memory.
func TestRoom(t *testing.T) {
	l := library(t, "", Options{})
	l.memory.size = mostIdentifiers - 1
	b := l.Book("vendor")
	if news := b.Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_1"}); news != 1 || l.Full() {
		t.Errorf("the last one: %d news, full %v", news, l.Full())
	}
	if news := b.Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_2"}); news != 0 || !l.Full() {
		t.Errorf("one more: %d news, full %v", news, l.Full())
	}
	if news := b.Learn(start, &Seen{Place: acme, Path: "/organizations/2/networks/N_1"}); news != 1 {
		t.Errorf("a known one that has moved: %d news", news)
	}
}

// The dumb twin: every lesson in a list, the last that is young enough counts.
func TestAgainstTwin(t *testing.T) {
	config, folder := validatetest.Config(t, documents("      cache: { path: unused.json, ttl: 1h }\n")), t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := New(config, Options{Folder: folder}).Book("vendor")
		type told struct {
			at             int64
			place          Place
			kind, id, org  string
			confirmedAgain bool
		}
		var twin []told
		now := start
		pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 40).Draw(t, "minutes") * minute
			place := Place{Account: pick("account", "a", "b"), Target: pick("target", "", "t")}
			network, serial, org := pick("network", "N_1", "N_2"), pick("serial", "Q1", "Q2"), pick("organization", "1", "2", "3")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				b.Learn(now, &Seen{Place: place, Path: "/organizations/" + org + "/networks/" + network})
				twin = append(twin, told{now, place, "network", network, org, false})
			case 1:
				b.Learn(now, &Seen{Place: place, Path: "/organizations/" + org + "/devices", Items: []any{map[string]any{"serial": serial, "networkId": network}}})
				twin = append(twin, told{now, place, "device", serial, org, false}, told{now, place, "network", network, org, false})
			case 2:
				b.LearnVars(now, place, map[string]string{"organizationId": org, "networkId": network})
				twin = append(twin, told{now, place, "network", network, org, false})
			}
			want := ""
			for i := range twin {
				one := &twin[i]
				if one.place != place || one.kind != "network" || one.id != network {
					continue
				}
				// A confirmation within an eighth of the time is not written down.
				at := one.at
				for j := i - 1; j >= 0; j-- {
					if p := &twin[j]; p.place == one.place && p.kind == one.kind && p.id == one.id {
						if p.org == one.org && one.at-p.at <= 60*minute/8 {
							at = p.at
						}
						break
					}
				}
				one.at = at
				if want = ""; now-at <= 60*minute {
					want = one.org
				}
			}
			if want == "" {
				want = "?"
			}
			if got := resolve(b, now, place, "/networks/"+network+"/clients"); got != want {
				t.Fatalf("%v %s belongs to %q, want %q", place, network, got, want)
			}
		}
	})
}

// Goroutines of several accounts learn, resolve, count and write at once; everybody gets their own organization.
func TestConcurrently(t *testing.T) {
	l := library(t, "      cache: { path: c.json, flushEvery: 7 }\n", Options{Folder: t.TempDir()})
	var group sync.WaitGroup
	const accounts, networks = 8, 200
	for a := range accounts {
		place, org := Place{Account: fmt.Sprint("account-", a)}, fmt.Sprint("org-", a)
		for range 4 {
			group.Go(func() {
				b := l.Book("vendor")
				for n := range networks {
					path := fmt.Sprintf("/networks/N_%d/clients", n)
					if got := resolve(b, start, place, path); got != "?" && got != org {
						t.Errorf("%v: %q", place, got)
					}
					b.Learn(start, &Seen{Place: place, Path: path, Body: map[string]any{"organizationId": org}})
					if got := resolve(b, start, place, path); got != org {
						t.Errorf("%v: %q after learning", place, got)
					}
				}
			})
		}
	}
	group.Go(func() {
		for i := range int64(50) {
			if err := l.Flush(start+i, i%5 == 0); err != nil {
				t.Error(err)
			}
			l.Counts()
			_ = l.For(validatetest.Config(t, documents("      cache: { path: c.json }\n"))).Book("vendor").Version()
		}
	})
	group.Wait()
	if got := l.Counts()[1].Identifiers; got != accounts*networks {
		t.Errorf("%d networks are known, want %d", got, accounts*networks)
	}
	if err := l.Flush(start+day, true); err != nil {
		t.Fatal(err)
	}
	again := library(t, "      cache: { path: c.json }\n", Options{Folder: l.options.Folder})
	if err := again.Load(start + day); err != nil || again.Counts()[1].Identifiers != accounts*networks {
		t.Errorf("%v, %v", again.Counts(), err)
	}
}

func BenchmarkComplete(b *testing.B) {
	book := library(b, "", Options{}).Book("vendor")
	for n := range 10_000 {
		book.Learn(start, &Seen{Place: acme, Path: fmt.Sprintf("/organizations/%d/networks/N_%d", n%100, n)})
	}
	vars := map[string]string{"networkId": "N_77"}
	b.ReportAllocs()
	for b.Loop() {
		if all, _ := book.Complete(start, acme, "/networks/N_77/clients", vars); all["organizationId"] != "77" {
			b.Fatal(all)
		}
	}
}
