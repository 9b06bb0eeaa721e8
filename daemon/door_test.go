package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// The status address on the network: what comes from another address of this machine is a stranger's, and so is what comes from
// here.
func TestStatusAddressFromTheNetwork(t *testing.T) {
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
	r := newRig(t, provider("")+one("x", "")+settingsAt("0.0.0.0:"+port, ", token: { env: STATUS }"), numbers)
	r.listen = true
	const first, second = "PLANTED-status-token-1", "PLANTED-status-token-2"
	r.env["STATUS"] = first
	r.daemon = r.make(daemon.Options{})
	defer r.start(r.daemon)()
	hosts := []string{"127.0.0.1:" + port, "localhost:" + port}
	if outside != "" {
		hosts = append(hosts, net.JoinHostPort(outside, port))
	}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	for _, host := range hosts {
		base := "http://" + host
		for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/jobs/x", "/api/v1/spend", "/nothing", "/?token=" + first} {
			if status, body := call(t, "GET", base+path, nil); status != 401 || strings.Contains(body, `"job"`) {
				t.Errorf("%s%s without a token: %d %s", base, path, status, body)
			}
			if status, _ := call(t, "GET", base+path, bearer(first)); status != 200 && path != "/nothing" {
				t.Errorf("%s%s with the token: %d", base, path, status)
			}
		}
		for _, path := range []string{"/api/v1/jobs/x/trigger", "/api/v1/jobs/x/pause", "/api/v1/reload", "/api/v1/spend/admit"} {
			if status, _ := call(t, "POST", base+path, nil); status != 401 {
				t.Errorf("%s%s without a token: %d", base, path, status)
			}
		}
		for path, word := range map[string]string{"/healthz": "ok", "/readyz": "ready"} {
			if status, body := call(t, "GET", base+path, nil); status != 200 || strings.Join(strings.Fields(body), "") != `{"status":"`+word+`"}` {
				t.Errorf("%s%s: %d %s", base, path, status, body)
			}
		}
	}

	// A reload changes the token; documents that would not start are not used.
	rig := func(settings string) {
		r.set(provider("") + one("x", "") + settings)
		before := r.daemon.Snapshot().Config.Reloads
		r.daemon.Reload()
		r.until("the reload", func() bool {
			s := r.daemon.Snapshot().Config
			return s.Reloads > before && (s.Error != "" || s.Generation > 1)
		})
	}
	rig(settingsAt("0.0.0.0:"+port, ""))
	if s := r.daemon.Snapshot().Config; !strings.Contains(s.Error, "status.token") || s.Generation != 1 {
		t.Errorf("without a token the documents are %+v", s)
	}
	rig(settingsAt("127.0.0.1:"+port, ""))
	if s := r.daemon.Snapshot().Config; !strings.Contains(s.Error, "status.token") || s.Generation != 1 {
		t.Errorf("without a token, at an address that holds from the next start on, the documents are %+v", s)
	}
	r.env["STATUS2"] = second
	rig(settingsAt("0.0.0.0:"+port, ", token: { env: STATUS2 }"))
	for token, want := range map[string]int{first: 401, second: 200} {
		if status, _ := call(t, "GET", "http://"+hosts[0]+"/api/v1/status", bearer(token)); status != want {
			t.Errorf("after the reload, with %s: %d, want %d", token, status, want)
		}
	}
	if strings.Contains(r.logs.String(), "PLANTED") {
		t.Error("a token is in the log")
	}
}

// raw sends bytes as they are, and reads what comes back, until the server ends it.
func raw(t testing.TB, address, text string) (answer string, took time.Duration) {
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
func TestStatusAddressIsNotWornDown(t *testing.T) {
	address := freeAddress(t)
	r := newRig(t, provider("")+one("x", "")+settingsAt(address, ", token: { env: STATUS }"), numbers)
	r.listen = true
	r.env["STATUS"] = "PLANTED-status-token-1"
	defer r.start(r.make(daemon.Options{}))()
	head := func(request, more string) string {
		return request + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer PLANTED-status-token-1\r\n" + more + "\r\n"
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
	if status, _ := call(t, "GET", "http://"+address+"/api/v1/status", nil); status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
}

// A client that sends slowly, header or body, is let go; others are served meanwhile, and the daemon stops in time.
func TestSlowClientsAreLetGo(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 15 seconds")
	}
	t.Parallel()
	address := freeAddress(t)
	r := newRig(t, provider("")+one("x", "")+settingsAt(address, ", token: { env: STATUS }"), numbers)
	r.listen = true
	r.env["STATUS"] = "PLANTED-status-token-1"
	stop := r.start(r.make(daemon.Options{}))
	type result struct {
		name, answer string
		took         time.Duration
	}
	results := make(chan result)
	slow := map[string]string{
		"header": "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"body": "POST /api/v1/spend/admit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
			"Authorization: Bearer PLANTED-status-token-1\r\nContent-Length: 100\r\n\r\n{",
	}
	for name, text := range slow {
		go func() {
			answer, took := raw(t, address, text)
			results <- result{name, answer, took}
		}()
	}
	if status, _ := call(t, "GET", "http://"+address+"/healthz", nil); status != http.StatusOK {
		t.Errorf("meanwhile: %d", status)
	}
	for range slow {
		if got := <-results; got.took > 35*time.Second || strings.HasPrefix(got.answer, "HTTP/1.1 2") {
			t.Errorf("a slow %s: let go after %v with %q", got.name, got.took, got.answer)
		}
	}
	stop()
}
