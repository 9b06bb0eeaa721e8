package plan_test

import (
	"strings"
	"testing"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const learned = `  learn:
    - var: organizationId
      from: ['/organizations/([^/]+)']
      keys: { network: { url: '/networks/([^/]+)' }, device: { url: '/devices/(Q[A-Z0-9]{3}-[A-Z0-9]{4}-[A-Z0-9]{4})' } }
`

const orgRate = "    - { name: org, kind: rate, rate: 10/s, burst: 10, scope: { by: [account, 'var:organizationId'] } }\n"

func learningJob(name, endpoint, more string) string {
	return head + "kind: Job\nmetadata: { name: " + name + " }\nspec: { account: acme, interval: 1m, request: { endpoint: '" + endpoint + "' }" + more + " }\n"
}

// A job whose organization is only learned at run time is not left out of its limit in silence; one whose endpoint names the
// organization itself is counted.
func TestLearnedScopes(t *testing.T) {
	watched := learningJob("watched", "/watched", ", estimate: { items: 9 }, inventory: { items: response, vars: { id: item.id } }")
	for name, c := range map[string]struct {
		rules, endpoint, more string
		state                 map[string][]map[string]string
		warned                bool
		key                   string // that the job is counted on
	}{
		"a network":                       {rules: learned, endpoint: "/networks/{id}/clients", more: ", forEach: watched", warned: true},
		"a network, items known":          {rules: learned, endpoint: "/networks/{id}/clients", more: ", forEach: watched", state: map[string][]map[string]string{"watched": {{"id": "N"}}}, warned: true},
		"a network by name":               {rules: learned, endpoint: "/networks/N_1/clients", warned: true},
		"a device, whatever its id":       {rules: learned, endpoint: "/devices/{id}/ports", more: ", forEach: watched", warned: true},
		"nothing that is learned":         {rules: learned, endpoint: "/admins/{id}", more: ", forEach: watched"},
		"no learn":                        {endpoint: "/networks/{id}/clients", more: ", forEach: watched"},
		"the organization itself":         {rules: learned, endpoint: "/organizations/549236/devices", key: "acme/organizationId=549236"},
		"the organization, for each item": {rules: learned, endpoint: "/organizations/549236/devices/{id}", more: ", forEach: watched", key: "acme/organizationId=549236"},
		"the organization, items known": {
			rules: learned, endpoint: "/organizations/549236/x/{id}", more: ", forEach: watched",
			state: map[string][]map[string]string{"watched": {{"id": "a"}, {"id": "b"}}}, key: "acme/organizationId=549236",
		},
		"without learn it is not known": {endpoint: "/organizations/549236/devices"},
	} {
		t.Run(name, func(t *testing.T) {
			in := plan.Input{Config: validatetest.Config(t, providerDocument(orgRate)+c.rules, account, settings, watched, learningJob("job", c.endpoint, c.more)), At: monday}
			if c.state != nil {
				in.State = &plan.State{Inventories: c.state}
			}
			p := plan.Make(in)
			var said []string
			for _, w := range p.Warnings {
				if w.Code == "learned-scope" {
					said = append(said, w.Message)
					if w.Job != "job" || w.Provider != "vendor" || w.Limit != "org" || !strings.Contains(w.Message, "organizationId") {
						t.Errorf("%+v", w)
					}
				}
			}
			if (len(said) == 1) != c.warned || len(said) > 1 {
				t.Errorf("warned of %q, want %v", said, c.warned)
			}
			key := ""
			for _, s := range p.Scopes {
				key += s.Key
			}
			if key != c.key {
				t.Errorf("counted on %q, want %q", key, c.key)
			}
		})
	}
}
