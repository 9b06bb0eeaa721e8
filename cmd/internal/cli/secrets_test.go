package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every secret of this test begins with this, so that one search finds all.
const planted = "PLANTED"

// secretAuths are providers' auth of every type. {N} in credentials is an environment variable, or a file.
var secretAuths = map[string]string{
	"header":  `{ type: header, header: X-API-Key, prefix: "Key PLANTED-prefix-0123456789 ", credential: one }`,
	"bearer":  `{ type: bearer, credential: one }`,
	"basic":   `{ type: basic, username: one, password: two }`,
	"oauth":   `{ type: oauth2_client_credentials, tokenURL: /token, clientId: one, clientSecret: two, params: { client_password: PLANTED-param-012345 } }`,
	"login":   `{ type: session_login, username: one, password: two, token: response.session, header: X-Session, login: { endpoint: "/login?apikey=PLANTED-login-012345", body: { user: "{one}", pass: "{two}" } } }`,
	"cookie":  `{ type: session_login, username: one, password: two, cookie: sid, login: { endpoint: /cookie } }`,
	"refused": `{ type: session_login, username: one, password: two, token: response.session, login: { endpoint: /nologin, body: "u={one}&p={two}" } }`,
	"nowhere": `{ type: oauth2_client_credentials, tokenURL: /notoken, clientId: one, clientSecret: two }`,
}

const secretProvider = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: %[1]s }
spec:
  baseURL: %[2]s/%[1]s
  auth: %[3]s
  retry: { initial: 1ms, max: 2ms, maxAttempts: 2 }
  errors: { rateLimited: { match: "body.contains('slow down')", defaultPenalty: 1ms } }
  limits:
  - { name: day, kind: quota, max: 100000, window: { period: day }, scope: { by: [account] }, sync: { limitHeader: X-Max, remainingHeader: X-Left } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: %[1]s }
spec: { provider: %[1]s, credentials: { one: { env: ONE_%[1]s }, two: { file: "%[4]s" } }, vars: { appPassword: PLANTED-variable-0123 } }
---
`

const secretJob = `apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: %[1]s-%[2]s }
spec:
  account: %[1]s
  interval: 1h
  request:
    method: POST
    endpoint: "/%[2]s?api_key=PLANTED-endpoint-0123&x=1"
    headers: { X-Auth-Token: PLANTED-in-header-0123, Authorization2: "Bearer ghp_PLANTED0123456789012345678901234567" }
    query: { client_secret: PLANTED-query-012345, app: "{appPassword}" }
    body: { password: PLANTED-body-01234567, pin: [{ secret: 12345678 }], page: 1 }
  metrics: [{ name: echo_%[1]s_%[2]s, value: "1.0", labels: { told: response.echo } }]
  outputs: [{ jsonl: { path: "%[3]s/%[1]s-%[2]s.jsonl", items: "[response]" } }]
---
`

// echo tells the asker all that it has heard, in every place where an answer has room. It is what a debugging proxy does.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	heard := r.URL.String() + " " + string(body)
	for name, values := range r.Header {
		heard += " " + name + ": " + strings.Join(values, ",")
		if scheme, encoded, _ := strings.Cut(values[0], " "); scheme == "Basic" {
			plain, _ := base64.StdEncoding.DecodeString(encoded)
			heard += " " + string(plain)
		}
	}
	for _, name := range []string{"X-Max", "X-Left", "Retry-After", "RateLimit", "Date", "Link", "X-Debug"} {
		w.Header().Set(name, strings.ReplaceAll(heard, "\n", " "))
	}
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: planted + "-session-cookie-0123"})
	_, step, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	status, answer := http.StatusOK, map[string]any{"echo": heard}
	switch step {
	case "token":
		answer = map[string]any{"access_token": planted + "-oauth-token-0123", "token_type": "bearer", "refresh_token": planted + "-refresh-token-01"}
	case "login":
		answer["session"] = planted + "-session-token-0123"
	case "nologin", "notoken", "denied":
		status = http.StatusForbidden
	case "away":
		w.Header().Set("Location", "https://elsewhere.test/?heard="+url.QueryEscape(heard))
		status = http.StatusTemporaryRedirect
	case "round":
		w.Header().Set("Location", r.URL.Path+"?token="+url.QueryEscape(r.Header.Get("Authorization")))
		status = http.StatusPermanentRedirect
	case "limited":
		status, answer["echo"] = http.StatusTooManyRequests, "slow down "+heard
	case "expired":
		status = http.StatusUnauthorized
	case "text":
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "{"+heard)
		return
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// secretSteps are what an account's jobs meet.
var secretSteps = []string{"ok", "denied", "away", "round", "limited", "expired", "text"}

// secretWorld writes documents with every kind of auth, and returns their file and the folder.
func secretWorld(t *testing.T, address string) (documents, dir string, getenv func(string) string) {
	t.Helper()
	vendor := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(vendor.Close)
	dir = t.TempDir()
	var text strings.Builder
	for name, auth := range secretAuths {
		file := filepath.Join(dir, "two-"+name)
		if err := os.WriteFile(file, []byte(planted+"/file?&\"<"+name+">+0123\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, secretProvider, name, vendor.URL, auth, file)
		for _, step := range secretSteps {
			fmt.Fprintf(&text, secretJob, name, step, dir)
		}
	}
	fmt.Fprintf(&text, "apiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: %q, flushInterval: 20ms }, status: { listen: %q, token: { env: TOKEN } } }\n",
		filepath.Join(dir, "tapyr.db"), address)
	documents = filepath.Join(dir, "tapyr.yaml")
	if err := os.WriteFile(documents, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return documents, dir, func(name string) string {
		if name == "TOKEN" {
			return planted + "-status-token-0123"
		}
		if account, ok := strings.CutPrefix(name, "ONE_"); ok {
			return planted + "-env+/" + account + "=0123"
		}
		return ""
	}
}

// command runs one command with the world's environment.
func (w secretEnv) command(words ...string) (status int, output string) {
	var out lockedBuffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Now: time.Now, Local: time.UTC, Getenv: w}
	return Run(context.Background(), env, words), out.String()
}

type secretEnv func(string) string

// No secret gets out, wherever it was planted, whoever echoes it: not into logs, errors, metrics, page, API, state, exports, files,
// nor into what the commands say.
func TestNoSecretGetsOut(t *testing.T) {
	address := freeListen(t)
	documents, dir, getenv := secretWorld(t, address)
	env := secretEnv(getenv)
	told := make(map[string]string)
	for _, format := range []string{"text", "json"} {
		_, told["once, logs as "+format] = env.command("run", "-c", documents, "--once", "--log-level", "debug", "--log-format", format)
	}
	_, told["dry run"] = env.command("run", "-c", documents, "--dry-run")
	_, told["validate"] = env.command("validate", documents)
	for name := range secretAuths {
		for _, step := range secretSteps {
			_, told["check "+name+" "+step] = env.command("check", name, "--job", name+"-"+step, "-c", documents, "--log-level", "debug")
		}
		_, told["check as JSON "+name] = env.command("check", name, "--job", name+"-ok", "-c", documents, "--format", "json")
		_, told["dry check "+name] = env.command("check", name, "--job", name+"-ok", "-c", documents, "--dry-run")
	}

	var logs lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() {
		e := &Env{Stdin: strings.NewReader(""), Stdout: &logs, Stderr: &logs, Now: time.Now, Local: time.UTC, Getenv: getenv}
		ended <- Run(ctx, e, []string{"run", "-c", documents, "--log-level", "debug"})
	}()
	until(t, func() bool { return strings.Contains(read(address, "/readyz"), `"ready"`) })
	for name := range secretAuths {
		for _, step := range secretSteps {
			_, told["trigger"] = env.command("job", "trigger", name+"-"+step, "-c", documents)
		}
	}
	until(t, func() bool { return strings.Count(logs.String(), "a run failed") >= 40 })
	for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/spend", "/healthz", "/readyz", "/nothing"} {
		told[path] = read(address, path)
	}
	_, told["status"] = env.command("status", "-c", documents)
	_, told["status as JSON"] = env.command("status", "-c", documents, "--format", "json")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("tapyr run ends with %d\n%s", code, logs.String())
	}
	told["run"] = logs.String()
	state := filepath.Join(dir, "tapyr.db")
	for _, what := range []string{"journal", "counters", "minutes"} {
		_, told["export of "+what] = env.command("ledger", "export", "--what", what, "--state", state)
	}
	_, told["ledger show"] = env.command("ledger", "show", "--state", state)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == documents || strings.HasPrefix(filepath.Base(file), "two-") {
			continue // where secrets are
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told["bytes of "+filepath.Base(file)] = string(data)
	}
	checkSecrets(t, told)
}

// until waits for something that must come.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute")
		}
	}
}

// checkSecrets looks for everything that was planted, and that the places are those where it could have been.
func checkSecrets(t *testing.T, told map[string]string) {
	t.Helper()
	for where, text := range told {
		for _, form := range []string{
			planted, strings.ToLower(planted), base64.RawStdEncoding.EncodeToString([]byte(planted + "-")), "12345678",
			base64.RawStdEncoding.EncodeToString([]byte(planted + "/f")),
		} {
			if i := strings.Index(text, form); i >= 0 && (form != "12345678" || strings.HasPrefix(where, "dry")) {
				t.Errorf("%s: …%s…", where, text[max(0, i-200):min(len(text), i+100)])
				break
			}
		}
	}
	for where, want := range map[string]string{
		"once, logs as text": "[secret]", "once, logs as json": "[secret]", "dry run": "[secret]", "/": "[secret]", "/metrics": "[secret]",
		"/api/v1/status": "[secret]", "status": "status 403", "export of journal": "[secret]", "bytes of tapyr.db": "[secret]",
		"bytes of bearer-ok.jsonl": "[secret]", "check bearer denied": "[secret]", "check refused ok": "no token", "ledger show": "bearer",
	} {
		if !strings.Contains(told[where], want) {
			t.Errorf("%s does not hold %q: the test sees nothing there: %.2000s", where, want, told[where])
		}
	}
	for _, want := range []string{"[env ONE_bearer]", "api_key=[secret]", "X-Auth-Token: [secret]", "client_secret=[secret]", `"password":"[secret]"`, `"secret":"[secret]"`, "Key [secret] [env ONE_header]"} {
		if !strings.Contains(told["dry run"], want) {
			t.Errorf("the dry run does not hold %s: %.3000s", want, told["dry run"])
		}
	}
}
