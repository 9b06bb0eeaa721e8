package validate

import (
	"slices"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
)

// Further cases of spend-route: what the example of its page does not show.
func TestSpendRoutes(t *testing.T) {
	const before = "{ apiVersion: tapyr/v1alpha1, kind: Provider, metadata: { name: p }, spec: { baseURL: \"https://p.example\" } }\n" +
		"---\n{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: a }, spec: { provider: p, vars: { eventID: x } } }\n" +
		"---\n{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: b }, spec: { provider: p } }\n" +
		"---\n{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: two }, spec: { provider: p, targets: [{ name: x, baseURL: \"https://x.example\" }, { name: y, baseURL: \"https://y.example\" }] } }\n" +
		"---\napiVersion: tapyr/v1alpha1\nkind: SpendPolicy\nmetadata: { name: paid }\nspec:\n  version: v1\n  unit: EUR\n  account: { limit: \"100\" }\n" +
		"  capabilities: { all: { limit: \"100\", routes: [r], fallback: reject } }\n  routes:\n    r: { cost: \"1\", "
	tests := []struct {
		route string
		want  []string // severity, and a part of the message
	}{
		{`account: a, request: { endpoint: "/x/{event_id}/{site}/{country}" }`, nil},
		{`account: b, request: { endpoint: "/x/{eventId}" }`, []string{"error no event has a variable {eventId}; its id is {event_id}"}},
		{`account: a, request: { endpoint: "/x/{eventID}" }`, nil}, // the account's own
		{`account: b, request: { endpoint: /x, headers: { Key: "{event-id}" } }`, []string{"error no event has a variable {event-id}"}},
		{`account: b, request: { endpoint: /x, query: { id: "{EVENT_ID}" } }`, []string{"error no event has a variable {EVENT_ID}"}},
		{`account: b, request: { endpoint: /x, body: { deep: [ { id: "{eventid}" } ] } }`, []string{"error no event has a variable {eventid}"}},
		{`account: two, request: { endpoint: "/x/{event_id}" }`, []string{`error account "two" has 2 targets`}},
		{`account: b, idempotent: true, request: { endpoint: "/x", headers: { Idempotency-Key: "{event_id}" } }`, nil},
		{`account: b, idempotent: true, request: { endpoint: /x }`, []string{"warning route \"r\" is idempotent, but its request does not hold {event_id}"}},
		{`idempotent: true`, []string{"error idempotent is about the request"}},
		{`priority: high`, []string{"error priority is about the request"}},
		{`actual: response.cost`, []string{"error actual reads the response of a request"}},
	}
	for _, test := range tests {
		docs, problems := schema.Decode("x.yaml", []byte(before+test.route+" }\n"))
		_, more := Check(docs)
		var got []string
		for _, p := range append(problems, more...) {
			if p.Rule == "spend-route" {
				got = append(got, string(p.Severity)+" "+p.Message)
			}
		}
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: found %q, want %q", test.route, got, test.want)
		}
	}
}
