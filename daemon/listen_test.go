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

// Beyond loopback there must be a token; a reload can change it, and documents that would not start are not used.
func TestStatusAddressAndToken(t *testing.T) {
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
	r.env["STATUS"], r.env["STATUS2"] = "PLANTED-status-token-1", "PLANTED-status-token-22"
	r.daemon = r.make(daemon.Options{})
	defer r.start(r.daemon)()
	if _, body := call(t, "GET", "http://127.0.0.1:"+port+"/", nil); !strings.Contains(body, `{"exposed":true,"token":22}`) {
		t.Errorf("the handler sees %s", body)
	}
	for _, c := range []struct{ settings, problem string }{
		{settingsAt("0.0.0.0:"+port, ""), "status.token"},
		{settingsAt("127.0.0.1:"+port, ""), "status.token"}, // the address of the documents holds from the next start on
		{settingsAt("0.0.0.0:"+port, ", token: { env: NOWHERE }"), "NOWHERE"},
		{settingsAt("0.0.0.0:"+port, ", token: { env: STATUS2 }"), ""},
	} {
		r.set(provider("") + one("x", "") + c.settings)
		before := r.daemon.Snapshot().Config
		r.daemon.Reload()
		r.until("the reload", func() bool {
			after := r.daemon.Snapshot().Config
			return after.Generation > before.Generation || after.ReloadErrors > before.ReloadErrors
		})
		if s := r.daemon.Snapshot().Config; !strings.Contains(s.Error, c.problem) || (s.Error == "") != (c.problem == "") {
			t.Errorf("%s: the documents are %+v", c.settings, s)
		}
	}
	if r.daemon.Token() != r.env["STATUS2"] {
		t.Errorf("after the reload the token is the old one")
	}
	if strings.Contains(r.logs.String(), "PLANTED") {
		t.Error("a token is in the log")
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
