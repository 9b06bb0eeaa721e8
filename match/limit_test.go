package match

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/schema"
)

// limit compiles a limit written as in a document.
func limit(t testing.TB, text string) *Limit {
	t.Helper()
	docs, problems := schema.Decode("x", []byte("apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: p }\nspec: { limits: [{ name: l, "+text+" }] }\n"))
	if len(problems) > 0 || len(docs) != 1 || len(docs[0].Problems) > 0 {
		t.Fatalf("%s: %v %v", text, problems, docs[0].Problems)
	}
	return Compile(&docs[0].Spec.(*schema.ProviderSpec).Limits[0], 0)
}

func request() *Request {
	return &Request{
		Provider: "meraki", Account: "acme", Target: "router-1", Credential: "0123456789abcdef", Method: "GET",
		Endpoint: "/organizations/{organizationId}/networks/", Query: map[string]string{"perPage": "1000"},
		Vars: map[string]string{"organizationId": "12 34", "empty": ""},
	}
}

func TestKeys(t *testing.T) {
	tests := []struct{ by, want, missing string }{
		{"[]", "instance", ""},
		{"[instance]", "instance", ""},
		{"[account, \"var:organizationId\"]", "acme/organizationId=12 34", ""},
		{"[\"var:organizationId\", account]", "organizationId=12 34/acme", ""},
		{"[provider, account, target, credential, method]", "meraki/acme/router-1/0123456789abcdef/GET", ""},
		{"[endpoint]", "%2Forganizations%2F{organizationId}%2Fnetworks", ""},
		{"[\"var:nowhere\"]", "", "var:nowhere"},
		{"[\"var:empty\"]", "empty=", ""},
		{"[account, \"var:nowhere\", target]", "", "var:nowhere"},
	}
	for _, tt := range tests {
		l := limit(t, "kind: concurrency, max: 1, scope: { by: "+tt.by+" }")
		if key, missing := l.Key(request()); key != tt.want || missing != tt.missing {
			t.Errorf("by %s: key %q, missing %q; want %q, %q", tt.by, key, missing, tt.want, tt.missing)
		}
	}
	bare := &Request{Account: "a"}
	for _, dimension := range []string{DimensionTarget, DimensionCredential, DimensionMethod, DimensionProvider} {
		if _, missing := limit(t, "kind: concurrency, max: 1, scope: { by: [account, "+dimension+"] }").Key(bare); missing != dimension {
			t.Errorf("%s: missing %q", dimension, missing)
		}
	}
}

// Values that hold the separator, percent signs or control characters give keys that are still distinct, and can be read back.
func TestKeysAreUnambiguous(t *testing.T) {
	l := limit(t, `kind: concurrency, max: 1, scope: { by: ["var:a", "var:b"] }`)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[/%=a\n\x00]{0,4}`), rapid.Just("\xff/"))
		vars := map[string]string{"a": value.Draw(t, "a"), "b": value.Draw(t, "b")}
		key, missing := l.Key(&Request{Vars: vars})
		parts := strings.Split(key, "/")
		if missing != "" || len(parts) != 2 {
			t.Fatalf("%q: key %q, missing %q", vars, key, missing)
		}
		for i, name := range []string{"a", "b"} {
			escaped, ok := strings.CutPrefix(parts[i], name+"=")
			got, err := url.PathUnescape(escaped)
			if !ok || err != nil || got != vars[name] {
				t.Fatalf("%q: part %q is read as %q, %v", vars, parts[i], got, err)
			}
		}
		for _, c := range key {
			if c < ' ' || c == 0x7f || c == '\uFFFD' && !strings.Contains(vars["a"]+vars["b"], "\uFFFD") {
				t.Fatalf("key %q holds %q", key, c)
			}
		}
	})
}

func TestFilters(t *testing.T) {
	tests := []struct {
		applies string
		want    bool
	}{
		{`{}`, true},
		{`{ endpoints: ["/organizations/**"] }`, true},
		{`{ endpoints: ["/devices", "/organizations/*/networks"] }`, true},
		{`{ endpoints: ["/devices"] }`, false},
		{`{ methods: [POST, GET] }`, true},
		{`{ methods: [POST] }`, false},
		{`{ query: { perPage: "1000" } }`, true},
		{`{ query: { perPage: "*" } }`, true},
		{`{ query: { perPage: "10" } }`, false},
		{`{ query: { page: "*" } }`, false},
		{`{ requestsWithVar: organizationId }`, true},
		{`{ requestsWithVar: networkId }`, false},
		{`{ authRequests: only }`, false},
		{`{ authRequests: exclude }`, true},
		{`{ endpoints: ["/organizations/**"], methods: [POST] }`, false},
		{`{ except: { methods: [GET] } }`, false},
		{`{ except: { methods: [POST] } }`, true},
		{`{ except: { endpoints: ["/organizations/**"], methods: [POST] } }`, true},
		{`{ methods: [GET], except: { query: { perPage: "*" } } }`, false},
	}
	for _, tt := range tests {
		v := limit(t, "kind: concurrency, max: 1, appliesTo: "+tt.applies).Match(request())
		if v.Applies != tt.want || v.Why == "" || v.Applies != (v.Key != "") || v.Applies != (v.Cost != 0) {
			t.Errorf("%s: %+v", tt.applies, v)
		}
	}
	auth := request()
	auth.Auth = true
	for authRequests, want := range map[string]bool{"include": true, "only": true, "exclude": false} {
		if v := limit(t, "kind: concurrency, max: 1, appliesTo: { authRequests: "+authRequests+" }").Match(auth); v.Applies != want {
			t.Errorf("auth request, %s: %+v", authRequests, v)
		}
	}
	if v := limit(t, `kind: concurrency, max: 1, scope: { by: ["var:nowhere"] }`).Match(request()); v.Applies || v.Why != "the request has no var:nowhere" {
		t.Errorf("%+v", v)
	}
}

func TestCosts(t *testing.T) {
	tests := []struct {
		costs string
		cost  int64
		most  int64
		why   string
	}{
		{"", 1, 1, "the default cost"},
		{", cost: 5", 5, 5, "cost"},
		{", cost: 5, costs: [{ methods: [POST], cost: 9 }]", 5, 9, "cost"},
		{", cost: 5, costs: [{ methods: [POST], cost: 9 }, { methods: [GET], cost: 3 }, { cost: 7 }]", 3, 9, "costs[1]"},
		{", costs: [{ requestsWithVar: organizationId, cost: 2 }]", 2, 2, "costs[0]"},
		{", costs: [{ cost: 0 }]", 0, 1, "costs[0]"},
		{", cost: 0", 0, 0, "cost"},
	}
	for _, tt := range tests {
		l := limit(t, "kind: rate, rate: 1/s"+tt.costs)
		v := l.Match(request())
		if v.Cost != tt.cost || v.Applies != (tt.cost > 0) || !strings.Contains(v.Why, tt.why) || l.MaxCost() != tt.most {
			t.Errorf("%s: %+v, at most %d", tt.costs, v, l.MaxCost())
		}
	}
	if v := limit(t, "kind: concurrency, max: 1").Match(request()); v.Cost != 1 || v.Why != "one slot" {
		t.Errorf("concurrency: %+v", v)
	}
}

// CF-11: one rule is one counter unless a scope says otherwise; the query is not part of the path, a slash at the end changes
// nothing, and * does not span a slash.
func TestFieldGlobs(t *testing.T) {
	var input struct {
		Rules []struct{ Match, Limit string }
		Calls []string
	}
	var expected struct{ Results []string }
	golden.Case(t, "CF-11", &input, &expected)
	var limits []*Limit
	most := map[*Limit]int{}
	for _, rule := range input.Rules {
		method, pattern, _ := strings.Cut(rule.Match, " ")
		l := limit(t, "kind: quota, max: 1, window: { period: minute }, appliesTo: { methods: ["+method+"], endpoints: [\""+pattern+"\"] }")
		limits = append(limits, l)
		most[l] = int(rule.Limit[0] - '0')
	}
	used := map[string]int{}
	for i, call := range input.Calls {
		method, endpoint, _ := strings.Cut(call, " ")
		template, err := ParseTemplate(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		got := "rule does not match"
		for n, l := range limits {
			if v := l.Match(&Request{Method: method, Endpoint: template.Path, Query: template.Query}); v.Applies {
				key := string(rune('0'+n)) + v.Key
				used[key]++
				got = "allow"
				if used[key] > most[l] {
					got = "deny"
				}
			}
		}
		if !strings.Contains(expected.Results[i], got) {
			t.Errorf("%s: %s, want %s", call, got, expected.Results[i])
		}
	}
}
