package cli

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/daemon"
)

const checkDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: %[1]s
  auth: %[2]s
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor, credentials: { key: { env: KEY }, id: { env: KEY }, secret: { env: KEY } }%[3]s }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: things }
spec: { account: acme, interval: 1m, request: { endpoint: /things }, metrics: [{ name: things, value: size(response) }] }
`

const (
	checkKey    = "PLANTED-check-key-1"
	checkBearer = "{ type: bearer, credential: key }"
	checkOAuth  = "{ type: oauth2_client_credentials, tokenURL: /token, clientId: id, clientSecret: secret }"
	checkLogin  = `{ type: session_login, login: { endpoint: /login, body: { k: "{key}" } }, token: response.token, header: X-Session }`
)

// checkCase is an account, and what a check says of it.
type checkCase struct {
	url, auth, account string
	exit               int
	why, wayOut        string
	status             int
}

// answering is a server that answers requests of path with a status, and all with a body.
func answering(path string, status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, body)
	})
}

// secured is a server with a certificate that no machine trusts, and the file of its authority.
func secured(t *testing.T) (url, authority string) {
	t.Helper()
	secure := httptest.NewUnstartedServer(answering("/things", 200, "[1]"))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of every refused handshake
	secure.StartTLS()
	t.Cleanup(secure.Close)
	authority = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return secure.URL, authority
}

// What "tapyr check" says of an account that does not work: bad news, with why, and with what to do about it.
func TestCheckNamesTheWayOut(t *testing.T) {
	plain := func(path string, status int, body string) string {
		server := httptest.NewServer(answering(path, status, body))
		t.Cleanup(server.Close)
		return server.URL
	}
	secure, authority := secured(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	_ = closed.Close()
	for name, c := range map[string]checkCase{
		"it works":                  {plain("/things", 200, "[1]"), checkBearer, "", ExitOK, "", "", 200},
		"401":                       {plain("/things", 401, "no"), checkBearer, "", ExitBadNews, "status 401", "check the account's credentials", 401},
		"403":                       {plain("/things", 403, "no"), checkBearer, "", ExitBadNews, `status 403: "no"`, "check what the account's credentials are allowed to do", 403},
		"404":                       {plain("/things", 404, "no"), checkBearer, "", ExitBadNews, `status 404: "no"`, "", 404},
		"a page for people":         {plain("/things", 200, "<html>"), checkBearer, "", ExitBadNews, "the answer is not JSON", "", 200},
		"token request refused":     {plain("/token", 400, `{"error":"invalid_client"}`), checkOAuth, "", ExitBadNews, "status 400", "check the account's credentials", 0},
		"token endpoint fails":      {plain("/token", 500, "oops"), checkOAuth, "", ExitBadNews, `status 500: "oops"`, "try again later", 0},
		"no such token endpoint":    {plain("/token", 404, "no"), checkOAuth, "", ExitBadNews, "status 404", "check auth.tokenURL", 0},
		"an answer without a token": {plain("/x", 200, "{}"), checkOAuth, "", ExitBadNews, "missing access_token", "the address is that of the login", 0},
		"login refused":             {plain("/login", 401, "wrong "+checkKey), checkLogin, "", ExitBadNews, `status 401: "wrong [secret]"`, "check the account's credentials", 0},
		"login without a token":     {plain("/x", 200, "{}"), checkLogin, "", ExitBadNews, "the login's answer holds no token", "check auth.token", 0},
		"unknown authority":         {secure, checkBearer, "", ExitBadNews, "unknown authority", "tls.caFile", 0},
		"authority named":           {secure, checkBearer, ", tls: { caFile: " + authority + " }", ExitOK, "", "", 200},
		"another name":              {secure, checkBearer, ", tls: { caFile: " + authority + ", serverName: other.test }", ExitBadNews, "other.test", "tls.serverName", 0},
		"no TLS there":              {strings.Replace(plain("/things", 200, "[1]"), "http:", "https:", 1), checkBearer, "", ExitBadNews, "does not look like a TLS handshake", "baseURL should begin with http:", 0},
		"nobody listens":            {nobody, checkBearer, "", ExitBadNews, "connection refused", "check the host and the port in baseURL", 0},
		"nobody gives tokens":       {nobody, checkOAuth, "", ExitBadNews, "connection refused", "check the host and the port", 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"table", "json"} {
				checkOnce(t, format, &c)
			}
		})
	}
}

func checkOnce(t *testing.T, format string, c *checkCase) {
	t.Helper()
	documents := filepath.Join(t.TempDir(), "tapyr.yaml")
	if err := os.WriteFile(documents, fmt.Appendf(nil, checkDocuments, c.url, c.auth, c.account), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.Env.Getenv = func(string) string { return checkKey }
	exit := runTree(t.Context(), &w.Env, newRootCommand(), []string{"check", "acme", "-c", documents, "--format", format})
	out, said := w.stdout.String(), w.stderr.String()
	if exit != c.exit {
		t.Fatalf("exit %d, want %d: %s%s", exit, c.exit, out, said)
	}
	if strings.Contains(out+said, checkKey) {
		t.Errorf("the key is shown: %s%s", out, said)
	}
	if c.exit != ExitOK && !strings.Contains(said, `account "acme" does not work`) {
		t.Errorf("standard error says %q", said)
	}
	told := out
	if format == "json" {
		var result daemon.CheckResult
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err)
		}
		if told = result.Error; result.OK != (c.exit == ExitOK) || result.Status != c.status || result.OK != (told == "") {
			t.Errorf("told %+v", result)
		}
	}
	told = strings.Join(strings.Fields(told), " ")
	if !strings.Contains(told, c.why) || !strings.Contains(told, c.wayOut) {
		t.Errorf("%s: %s\nwant %q and %q", format, told, c.why, c.wayOut)
	}
}
