package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const statusPageDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: %[1]s
  auth: { type: bearer, credential: key }
  limits:
    - { name: daily, kind: quota, scope: { by: [account] }, max: 1000000, window: { period: day, timezone: UTC } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: acme }
spec: { provider: vendor, credentials: { key: { env: KEY } } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: things }
spec:
  account: acme
  interval: 1s
  request: { endpoint: /things }
  metrics: [{ name: vendor_things, type: gauge, value: "double(response.count)", help: Things. }]
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec:
  state: { path: %[2]s }
  status: { listen: %[3]s, token: { env: TOKEN } }
---
` + statusPagePolicy

const statusPagePolicy = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: money }
spec:
  version: v1
  unit: EUR
  account: { limit: "10", window: { period: month, timezone: UTC } }
  routes: { standard: { cost: "2" } }
  capabilities: { tracking: { limit: "10", routes: [standard], fallback: reject } }
`

// "tapyr run" as a whole: a vendor, a job, and everything that its status address serves.
func TestRunServesPageMetricsAndAdmissions(t *testing.T) {
	const key, token = "planted-key-0123456789", "planted-token-0123456789"
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"count": 42}`)
	}))
	defer vendor.Close()
	address := freeListen(t)
	dir := t.TempDir()
	state, documents := filepath.Join(dir, "tapyr.db"), filepath.Join(dir, "tapyr.yaml")
	if err := os.WriteFile(documents, fmt.Appendf(nil, statusPageDocuments, vendor.URL, state, address), 0o666); err != nil {
		t.Fatal(err)
	}
	publishMoney(t, state)

	var output lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := make(chan int)
	env := &Env{
		Stdin: strings.NewReader(""), Stdout: &output, Stderr: &output, Now: time.Now, Local: time.UTC,
		Getenv: func(name string) string { return map[string]string{"KEY": key, "TOKEN": token}[name] },
	}
	go func() { status <- Run(ctx, env, []string{"run", "-c", documents}) }()
	get := func(path string) string { return read(address, path) }
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(get("/metrics"), "\nvendor_things 42\n"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no series of the job within 30 s:\n%s\n%s", output.String(), get("/metrics"))
		}
	}

	for path, want := range map[string]string{
		"/": "Paid calls", "/metrics": `tapyr_job_runs_total{account="acme",job="things",status="ok"}`, "/api/v1/jobs": `"job": "things"`,
		"/api/v1/scopes": `"limit": "daily"`, "/api/v1/plan": `"feasible": true`, "/api/v1/spend": `"policy": "money"`, "/healthz": `"ok"`, "/readyz": `"ready"`,
	} {
		if text := get(path); !strings.Contains(text, want) {
			t.Errorf("%s does not say %s: %.2000s", path, want, text)
		}
	}
	if code, text := admit(t, address, "guess"); code != http.StatusUnauthorized {
		t.Errorf("an admission with a guessed token: %d %s", code, text)
	}
	if code, text := admit(t, address, token); code != http.StatusOK || !strings.Contains(text, `"disposition": "dispatch"`) {
		t.Errorf("an admission: %d %s", code, text)
	}
	if text := get("/metrics"); !strings.Contains(text, `tapyr_spend_account_used_units{policy="money",unit="EUR"} 2`) {
		t.Error("the admission is not in the metrics")
	}
	everything := output.String()
	for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/spend", "/nothing"} {
		everything += get(path)
	}
	stop()
	if code := <-status; code != 0 {
		t.Errorf("tapyr run ends with %d", code)
	}
	for _, secret := range []string{key, token} {
		if strings.Contains(everything+output.String(), secret) {
			t.Errorf("%q was told", secret)
		}
	}
}

// read is what an address serves at a path; empty where nobody answers.
func read(address, path string) string {
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// admit asks for an event to be paid.
func admit(t *testing.T, address, token string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/api/v1/spend/admit", strings.NewReader(`{"event_id":"e1","capability":"tracking"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// freeListen is an address on loopback that nobody listens on.
func freeListen(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// publishMoney puts the policy in force, as "tapyr spend publish" does.
func publishMoney(t *testing.T, state string) {
	t.Helper()
	store, err := sqlite.OpenSpend(t.Context(), state, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := spend.New(store, "money").Publish(t.Context(), time.Now(), spendtest.Policy(t, statusPagePolicy), spendtest.Approved()); err != nil {
		t.Fatal(err)
	}
}
