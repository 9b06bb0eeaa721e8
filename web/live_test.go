package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/web"
)

// liveToken is the status token of daemons that run.
const liveToken = "PLANTED-status-token-1"

// liveDocuments are a job that runs and one that nobody keeps.
const liveDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec: { baseURL: "%[1]s" }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: x }
spec: { account: a, interval: 1h, request: { endpoint: /x }, metrics: [{ name: x, value: size(response) }] }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: silent }
spec: { account: a, interval: 1h, request: { endpoint: /s } }
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { state: { path: "%[2]s" }, status: { listen: "%[3]s"%[4]s } }
`

// startLive runs a daemon with its page on an address, as tapyr run does, until stop.
func startLive(t *testing.T, listen, settings string) (d *daemon.Daemon, stop func()) {
	t.Helper()
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[1]") }))
	t.Cleanup(vendor.Close)
	text := fmt.Sprintf(liveDocuments, vendor.URL, filepath.Join(t.TempDir(), "tapyr.db"), listen, settings)
	d = daemon.New(daemon.Options{
		Load: func(context.Context) (*validate.Config, error) {
			return configOf(text)
		},
		Getenv: func(string) string { return liveToken },
		Handler: func(d *daemon.Daemon) http.Handler {
			return web.New(web.Options{Daemon: d, Series: d.Series(), Token: d.Token, Exposed: d.Exposed(), Redact: d.Redact})
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = func() {
		cancel()
		if done == nil {
			return
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the daemon does not stop")
		}
		done = nil
	}
	t.Cleanup(stop)
	wait(t, "a daemon that is ready", func() bool { return d.Ready() == nil })
	return d, stop
}

// ask asks the status address.
func ask(t *testing.T, method, url string, header map[string]string) (status int, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		q.Header.Set(name, value)
		if name == "Host" {
			q.Host = value
		}
	}
	response, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestLiveOnLoopback(t *testing.T) {
	address := freeAddress(t)
	d, _ := startLive(t, address, "")
	base := "http://" + address
	for _, c := range []struct {
		method, path string
		header       map[string]string
		status       int
		holds        string
	}{
		{"GET", "/healthz", nil, 200, "ok"},
		{"GET", "/readyz", nil, 200, "ready"},
		{"GET", "/api/v1/status", nil, 200, `"job": "x"`},
		{"POST", "/api/v1/jobs/x/pause", nil, 204, ""},
		{"POST", "/api/v1/jobs/x/resume", nil, 204, ""},
		{"POST", "/api/v1/jobs/x/trigger", nil, 200, `"instances": 1`},
		{"POST", "/api/v1/jobs/nobody/pause", nil, 404, "there is no job"},
		{"POST", "/api/v1/jobs/silent/trigger", nil, 409, "nobody keeps"},
		{"GET", "/api/v1/jobs/x/pause", nil, 405, ""},
		{"POST", "/api/v1/reload", nil, 202, ""},
		{"GET", "/nothing", nil, 404, ""},
		// A page elsewhere must neither read, by a name of its own for this machine, nor change anything.
		{"GET", "/api/v1/status", map[string]string{"Host": "rebound.example.com"}, 403, "rebound.example.com"},
		{"GET", "/api/v1/status", map[string]string{"Host": "localhost:80"}, 200, ""},
		{"POST", "/api/v1/jobs/x/pause", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, ""},
		{"POST", "/api/v1/jobs/x/pause", map[string]string{"Origin": "https://evil.example"}, 403, ""},
		{"POST", "/api/v1/jobs/x/resume", map[string]string{"Origin": base}, 204, ""},
	} {
		status, body := ask(t, c.method, base+c.path, c.header)
		if status != c.status || !strings.Contains(body, c.holds) {
			t.Errorf("%s %s %v: %d %s, want %d with %q", c.method, c.path, c.header, status, body, c.status, c.holds)
		}
	}
	wait(t, "the reload", func() bool { return d.Snapshot().Config.Generation == 2 })
}

// The status address on the network: what comes from another address of this machine is a stranger's, and so is what comes from
// here.
func TestLiveFromTheNetwork(t *testing.T) {
	outside := ""
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if one, ok := a.(*net.IPNet); ok && !one.IP.IsLoopback() && one.IP.To4() != nil {
			outside = one.IP.String()
		}
	}
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	startLive(t, "0.0.0.0:"+port, ", token: { env: STATUS }")
	hosts := []string{"127.0.0.1:" + port, "localhost:" + port}
	if outside != "" {
		hosts = append(hosts, net.JoinHostPort(outside, port))
	}
	bearer := map[string]string{"Authorization": "Bearer " + liveToken}
	for _, host := range hosts {
		base := "http://" + host
		for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/jobs/x", "/api/v1/spend", "/nothing", "/?token=" + liveToken} {
			if status, body := ask(t, "GET", base+path, nil); status != 401 || strings.Contains(body, `"job"`) {
				t.Errorf("%s%s without a token: %d %s", base, path, status, body)
			}
			if status, _ := ask(t, "GET", base+path, bearer); status != 200 && path != "/nothing" {
				t.Errorf("%s%s with the token: %d", base, path, status)
			}
		}
		for _, path := range []string{"/api/v1/jobs/x/trigger", "/api/v1/jobs/x/pause", "/api/v1/reload", "/api/v1/spend/admit"} {
			if status, _ := ask(t, "POST", base+path, nil); status != 401 {
				t.Errorf("%s%s without a token: %d", base, path, status)
			}
		}
		for path, word := range map[string]string{"/healthz": "ok", "/readyz": "ready"} {
			if status, body := ask(t, "GET", base+path, nil); status != 200 || strings.Join(strings.Fields(body), "") != `{"status":"`+word+`"}` {
				t.Errorf("%s%s: %d %s", base, path, status, body)
			}
		}
	}
}

// raw sends bytes as they are, and reads what comes back, until the server ends it.
func raw(t *testing.T, address, text string) (answer string, took time.Duration) {
	t.Helper()
	began := time.Now()
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, text) // the server may end it before
	all, _ := io.ReadAll(bufio.NewReader(c))
	return string(all), time.Since(began)
}

// What a client may take of the daemon is bounded, and paths lead nowhere but to the API.
func TestLiveIsNotWornDown(t *testing.T) {
	address := freeAddress(t)
	startLive(t, address, ", token: { env: STATUS }")
	head := func(request, more string) string {
		return request + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + liveToken + "\r\n" + more + "\r\n"
	}
	for name, c := range map[string]struct{ request, want string }{
		"huge header": {head("GET /api/v1/status", "X-Big: "+strings.Repeat("x", 1<<20)+"\r\n"), "HTTP/1.1 431 "},
		"many headers": {
			head("GET /api/v1/status", strings.Repeat("X-Many: "+strings.Repeat("x", 100)+"\r\n", 10_000)), "HTTP/1.1 431 ",
		},
		"no host":          {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400 "},
		"HTTP/0.9":         {"GET /api/v1/status\r\n\r\n", "HTTP/1.1 400 "},
		"not HTTP":         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400 "},
		"traversal":        {head("GET /api/v1/jobs/../../../etc/passwd", ""), "HTTP/1.1 404 "},
		"traversal, coded": {head("GET /api/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", ""), "HTTP/1.1 404 "},
		"null byte":        {head("GET /api/v1/jobs/x%00", ""), "HTTP/1.1 404 "},
		"absolute form":    {head("GET http://evil.example/api/v1/status", ""), "HTTP/1.1 200 "}, // the token is what counts
		"TRACE":            {head("TRACE /api/v1/status", ""), "HTTP/1.1 405 "},
		"CONNECT":          {head("CONNECT evil.example:443", ""), "HTTP/1.1 405 "},
		"PUT of a job":     {head("PUT /api/v1/jobs/x", ""), "HTTP/1.1 405 "},
		"DELETE of a job":  {head("DELETE /api/v1/jobs/x", ""), "HTTP/1.1 405 "},
		"GET of a trigger": {head("GET /api/v1/jobs/x/trigger", ""), "HTTP/1.1 405 "},
		"preflight":        {head("OPTIONS /api/v1/jobs/x/trigger", "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"), "HTTP/1.1 4"},
		"huge body":        {head("POST /api/v1/spend/admit", fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", 2<<20)) + `{"event_id":"` + strings.Repeat("x", 2<<20), "HTTP/1.1 4"},
	} {
		answer, _ := raw(t, address, c.request)
		if !strings.HasPrefix(answer, c.want) {
			t.Errorf("%s: %.300q, want %s", name, answer, c.want)
		}
		for _, never := range []string{"Access-Control-Allow-Origin", "root:", "PLANTED"} {
			if strings.Contains(answer, never) {
				t.Errorf("%s: the answer holds %s", name, never)
			}
		}
	}
	if status, _ := ask(t, "GET", "http://"+address+"/api/v1/status", nil); status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
}

// A client that sends slowly, header or body, is let go; others are served meanwhile, and the daemon stops in time.
func TestLiveSlowClientsAreLetGo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 15 seconds")
	}
	t.Parallel()
	address := freeAddress(t)
	_, stop := startLive(t, address, ", token: { env: STATUS }")
	type result struct {
		name, answer string
		took         time.Duration
	}
	results := make(chan result)
	slow := map[string]string{
		"header": "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"body": "POST /api/v1/spend/admit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
			"Authorization: Bearer " + liveToken + "\r\nContent-Length: 100\r\n\r\n{",
	}
	for name, text := range slow {
		go func() {
			answer, took := raw(t, address, text)
			results <- result{name, answer, took}
		}()
	}
	if status, _ := ask(t, "GET", "http://"+address+"/healthz", nil); status != http.StatusOK {
		t.Errorf("meanwhile: %d", status)
	}
	for range slow {
		if got := <-results; got.took > 35*time.Second || strings.HasPrefix(got.answer, "HTTP/1.1 2") {
			t.Errorf("a slow %s: let go after %v with %q", got.name, got.took, got.answer)
		}
	}
	stop()
}
