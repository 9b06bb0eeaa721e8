package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/daemon"
)

// settingsAt are settings with a status address.
func settingsAt(listen, more string) string {
	return fmt.Sprintf("---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: \"@DIR/tapyr.db\" }, status: { listen: %q%s } }\n", listen, more)
}

// freeAddress is an address of this machine that nobody uses.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// call asks the status address.
func call(t testing.TB, method, url string, header map[string]string) (status int, body string) {
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

func TestStatusAddressOnLoopback(t *testing.T) {
	address := freeAddress(t)
	r := newRig(t, provider("")+one("x", "")+job("silent", "  interval: 1h\n  request: { endpoint: /s }\n")+settingsAt(address, ""), numbers)
	r.listen = true
	r.daemon = r.make(daemon.Options{})
	defer r.start(r.daemon)()
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
		status, body := call(t, c.method, base+c.path, c.header)
		if status != c.status || !strings.Contains(body, c.holds) {
			t.Errorf("%s %s %v: %d %s, want %d with %q", c.method, c.path, c.header, status, body, c.status, c.holds)
		}
	}
	r.until("the reload", func() bool { return r.daemon.Snapshot().Config.Generation == 2 })
}

// Beyond loopback there must be a token, and then nothing is told without it.
func TestStatusAddressBeyondLoopback(t *testing.T) {
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"0.0.0.0:" + port, "[::]:" + port, ":" + port} {
		r := newRig(t, provider("")+one("x", "")+settingsAt(listen, ""), numbers)
		r.listen = true
		var open *daemon.OpenAddressError
		if err := r.make(daemon.Options{}).Run(t.Context()); !errors.As(err, &open) {
			t.Errorf("%s without a token: %v", listen, err)
		}
	}
	r := newRig(t, provider("")+one("x", "")+settingsAt("0.0.0.0:"+port, ", token: { env: STATUS }"), numbers)
	r.listen = true
	if err := r.make(daemon.Options{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "STATUS") {
		t.Errorf("with a token that is not there: %v", err)
	}
	r.env["STATUS"] = "PLANTED-status-token-1"
	defer r.start(r.make(daemon.Options{}))()
	base := "http://127.0.0.1:" + port
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/api/v1/status": 401, "/": 401} {
		if status, _ := call(t, "GET", base+path, nil); status != want {
			t.Errorf("%s without the token: %d, want %d", path, status, want)
		}
	}
	for header, want := range map[string]int{
		"Bearer PLANTED-status-token-1": 200, "Bearer PLANTED-status-token-2": 401, "Bearer ": 401, "bearer": 401,
		"Basic OlBMQU5URUQtc3RhdHVzLXRva2VuLTE=": 200, "Basic Og==": 401,
	} {
		if status, _ := call(t, "GET", base+"/api/v1/status", map[string]string{"Authorization": header}); status != want {
			t.Errorf("with %q: %d, want %d", header, status, want)
		}
	}
	if strings.Contains(r.logs.String(), "PLANTED") {
		t.Error("the token is in the log")
	}
}

func TestAddressInUse(t *testing.T) {
	address := freeAddress(t)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRig(t, provider("")+one("x", "")+settingsAt(address, ""), numbers)
	r.listen = true
	if err := r.make(daemon.Options{}).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "status.listen") {
		t.Errorf("got %v", err)
	}
}
