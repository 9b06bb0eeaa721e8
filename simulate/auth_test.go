package simulate_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const twoSecrets = "credentials: { user: { env: USER }, secret: { env: SECRET }, key: { env: KEY } }"

// authDocuments are a vendor with an auth, and a job.
func authDocuments(auth string) string {
	text := vendorDocument("  auth: "+auth+"\n  limits: [{ name: logins, kind: quota, max: 3, window: { period: hour }, appliesTo: { authRequests: only } }]\n") +
		jobDocument("devices", "request: { endpoint: /devices }")
	return strings.Replace(text, "credentials: { key: { env: KEY }, secret: { env: SECRET } }", twoSecrets, 1)
}

var acmeSecrets = map[string]map[string]string{"acme": {"user": "ann", "secret": "s3cret", "key": "k3y"}}

func basic(user, password string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// TestStaticCredentials: right ones are let in, wrong ones and none are not; without secrets anything of the right form is.
func TestStaticCredentials(t *testing.T) {
	tests := []struct {
		auth, header, right, wrong string
	}{
		{"{ type: bearer, credential: key }", "Authorization", "Bearer k3y", "Bearer nonsense"},
		{"{ type: header, header: X-API-Key, credential: key }", "X-Api-Key", "k3y", "nonsense"},
		{"{ type: header, credential: key, prefix: 'Token ' }", "Authorization", "Token k3y", "Token nonsense"},
		{"{ type: basic, username: user, password: secret }", "Authorization", basic("ann", "s3cret"), basic("ann", "nonsense")},
	}
	for _, test := range tests {
		config := validatetest.Config(t, authDocuments(test.auth))
		strict, lax := (&clock{noon}).options(), (&clock{noon}).options()
		strict.Secrets = acmeSecrets
		for _, try := range []struct {
			options simulate.ServerOptions
			value   string
			want    int
		}{
			{strict, test.right, 200}, {strict, test.wrong, 401}, {strict, "", 401}, {lax, test.wrong, 200}, {lax, "", 401},
		} {
			header := http.Header{}
			if try.value != "" {
				header[test.header] = []string{try.value}
			}
			if got := ask(newServer(t, config, "vendor", try.options), "GET", "http://example.com/devices", header).Code; got != try.want {
				t.Errorf("%s: %q got %d, want %d", test.auth, try.value, got, try.want)
			}
		}
	}
}

// TestClientCredentials uses the client of golang.org/x/oauth2, which is not ours.
func TestClientCredentials(t *testing.T) {
	config := validatetest.Config(t, authDocuments("{ type: oauth2_client_credentials, tokenURL: /oauth/token, clientId: user, clientSecret: secret, ttl: 10m }"))
	c := &clock{noon}
	options := c.options()
	options.Secrets = acmeSecrets
	server := httptest.NewServer(newServer(t, config, "vendor", options))
	defer server.Close()
	get := func(secret string) (int, error) {
		flow := clientcredentials.Config{ClientID: "ann", ClientSecret: secret, TokenURL: server.URL + "/oauth/token"}
		response, err := flow.Client(context.Background()).Get(server.URL + "/devices")
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return response.StatusCode, nil
	}
	if status, err := get("s3cret"); err != nil || status != 200 {
		t.Errorf("the right secret: %d, %v", status, err)
	}
	if _, err := get("nonsense"); err == nil {
		t.Error("a wrong secret got a token")
	}
	if got := ask(server.Config.Handler, "GET", server.URL+"/devices", http.Header{"Authorization": {"Bearer made-up"}}).Code; got != 401 {
		t.Errorf("a token that was not issued got %d", got)
	}
	for range 3 {
		_, _ = get("s3cret")
	}
	if _, err := get("s3cret"); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("the fourth token of an hour: %v; want 429, token requests count as declared", err)
	}
}

// TestSessionLogin: a login opens a session, in the body, a header or a cookie as declared, until it has lived its time.
func TestSessionLogin(t *testing.T) {
	tests := []struct{ name, how, header, prefix string }{
		{"body", "token: response.data.token, header: X-Session", "X-Session", ""},
		{"header", "token: \"headers['x-auth-token']\", header: X-Auth-Token", "X-Auth-Token", ""},
		{"cookie", "cookie: SESSION", "Cookie", "SESSION="},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := validatetest.Config(t, authDocuments("{ type: session_login, username: user, password: secret, ttl: 5m, login: { method: POST, endpoint: /login, body: { user: '{user}', pass: '{secret}' } }, "+test.how+" }"))
			c := &clock{noon}
			options := c.options()
			options.Secrets = acmeSecrets
			s := newServer(t, config, "vendor", options)
			login := func(body string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("POST", "http://example.com/v2/login", strings.NewReader(body)))
				return w
			}
			if got := login(`{"user":"ann","pass":"nonsense"}`).Code; got != 401 {
				t.Errorf("a wrong password got %d", got)
			}
			w := login(`{"user":"ann","pass":"s3cret"}`)
			var body struct{ Data struct{ Token string } }
			_ = json.Unmarshal(w.Body.Bytes(), &body) // of two of the three it is empty
			token := body.Data.Token
			switch test.name {
			case "header":
				token = w.Header().Get("X-Auth-Token")
			case "cookie":
				token = w.Result().Cookies()[0].Value
			}
			if w.Code != 200 || token == "" {
				t.Fatalf("%d, no token in %s %v", w.Code, w.Body, w.Header())
			}
			get := func(token string) int {
				return ask(s, "GET", "http://example.com/devices", http.Header{test.header: {test.prefix + token}}).Code
			}
			if got := get(token); got != 200 {
				t.Errorf("the session's token got %d", got)
			}
			if got := get("made-up"); got != 401 {
				t.Errorf("a made-up token got %d", got)
			}
			c.at = c.at.Add(6 * time.Minute)
			if got := get(token); got != 401 {
				t.Errorf("an old token got %d", got)
			}
		})
	}
}
