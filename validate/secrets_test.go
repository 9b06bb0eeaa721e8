package validate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
)

func TestSecretNames(t *testing.T) {
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "authorization", "Cookie", "X-API-Key", "X-Cisco-Meraki-API-Key", "api_key", "apikey", "apiKey",
		"APIKEY", "vendorApiKey", "vendor.api_key", "X-Auth-Token", "authToken", "access_token", "accessToken", "client_secret", "clientSecret",
		"refresh_token", "token", "my token", "password", "userPassword", "PASSWD", "pwd", "Ocp-Apim-Subscription-Key", "private_key",
		"aws_secret_access_key", "sessionId", "jwt", "passphrase", "auth[password]", "X-Auth",
	} {
		if !isSecretName(name) {
			t.Errorf("%q is no name of a secret", name)
		}
	}
	for _, name := range []string{
		"", "Accept", "User-Agent", "page", "pageToken", "next_token", "nextPageToken", "continuation-token", "max_tokens", "tokens", "key",
		"keyword", "primary_key", "secretary", "passwordless", "authority", "cookies-accepted", "tokenized", "keys", "sort-key", "If-None-Match",
	} {
		if isSecretName(name) {
			t.Errorf("%q is a name of a secret", name)
		}
	}
}

func TestSecretForms(t *testing.T) {
	long := strings.Repeat("a1B2", 10)
	for _, value := range []string{
		"ghp_" + long, "Bearer gho_" + long, "github_pat_" + long, "glpat-" + long, "xoxb-" + long, "sk_live_" + long, "rk_test_" + long,
		"AKIAIOSFODNN7EXAMPLE", "AIza" + long[:35], "SG." + long + "." + long, "pat" + long[:14] + "." + strings.Repeat("0f", 32),
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	} {
		if !IsSecret("filter", value) {
			t.Errorf("%q has no form of a key", value)
		}
	}
	for _, value := range []string{"", "{apiKey}", "Bearer {token}", "task_live_" + long[:10], "ghp_short", "2026-11-30T00:00:00Z", "eyJ", "skill", long} {
		if IsSecret("filter", value) {
			t.Errorf("%q has the form of a key", value)
		}
	}
	for word, want := range map[string]bool{
		"Bearer": false, "Token": false, "SSWS": false, "GoogleLogin": false, "auth=": false, "token=6bec40cf957de430": true, "6bec40cf957de430a6f1": true,
		"averylongwordwithoutdigits": false, "1234567890123456": false,
	} {
		if looksRandom(word) != want {
			t.Errorf("%q looks random: %v, want %v", word, !want, want)
		}
	}
}

// secretPlaces are documents with a secret in every place of a request where one can be written. Each is S and a number.
const secretPlaces = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://api.example.com
  auth:
    type: session_login
    username: user
    password: pass
    prefix: "Token S01-0123456789abcdef"
    token: response.token
    login:
      endpoint: /login?api_key=S03
      headers: { X-Api-Key: S04 }
      query: { access_token: S05 }
      body: { user: "{user}", password: S06, more: [{ clientSecret: S07 }], key: "{pass}" }
  templates:
  - { name: t, request: { endpoint: "/t?token=S08", headers: { Cookie: "session=S09" } } }
---
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: other }
spec: { baseURL: https://api.example.com, auth: { type: oauth2_client_credentials, tokenURL: /t, clientId: i, clientSecret: s, params: { client_secret: S02 } } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec:
  provider: p
  credentials: { user: { env: U }, pass: { env: P } }
  vars: { apiKey: S10 }
  targets: [{ name: one, baseURL: https://one.example.com, vars: { password: S11 } }]
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: json }
spec: { account: a, interval: 1h, template: t, request: { method: POST, headers: { Authorization: Bearer S12 }, query: { apikey: S13, page: "1" }, body: '{"auth":{"password":"S14"},"n":1}' } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: form }
spec: { account: a, interval: 1h, request: { method: POST, endpoint: "/x?site=1&sig=2&api%%5Fkey=S15", body: "grant=client&client_secret=S%%316&x=y" } }
`

func TestLiteralSecretsAreFoundEverywhere(t *testing.T) {
	docs, problems := schema.Decode("places.yaml", fmt.Appendf(nil, secretPlaces))
	config, more := Check(docs)
	if config == nil {
		t.Fatalf("%v %v", problems, more)
	}
	var want []string
	for i := 1; i <= 16; i++ {
		want = append(want, fmt.Sprintf("S%02d", i))
	}
	var found []string
	for _, value := range config.LiteralSecrets() {
		for _, w := range want {
			if strings.HasSuffix(strings.TrimSuffix(value, "-0123456789abcdef"), w) && !slices.Contains(found, w) {
				found = append(found, w)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, want) {
		t.Errorf("found %q of %q", found, want)
	}
	warned := 0
	for _, p := range more {
		if p.Rule != "secret-in-request" {
			continue
		}
		warned++
		for _, w := range want {
			if strings.Contains(p.Message, w) || !p.Concealed {
				t.Errorf("the finding shows it: %+v", p)
			}
		}
		if p.Position.Line < 1 {
			t.Errorf("the finding is nowhere: %+v", p)
		}
	}
	if warned != len(want) {
		t.Errorf("%d findings of %d: %v", warned, len(want), more)
	}
	if values := config.LiteralSecrets(); !slices.Contains(values, "Bearer S12") || !slices.Contains(values, "S12") {
		t.Errorf("a secret is not known without its scheme: %q", values)
	}
}
