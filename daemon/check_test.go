package daemon_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// What a check cannot reach, or waits for in vain, it says in its result, within the time that a request may take.
func TestCheckOfWhatDoesNotAnswer(t *testing.T) {
	const patience = 100 * time.Millisecond
	dial := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	silent := func(path string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, path) {
				<-q.Context().Done()
				return
			}
			reply(w, map[string]any{"access_token": "TOKEN-0000001", "token_type": "bearer"})
		}
	}
	trickle := func(w http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	}
	const bearer = "  auth: { type: bearer, credential: key }"
	for name, c := range map[string]struct {
		auth   string
		answer http.HandlerFunc
		dial   func(context.Context, string, string) (net.Conn, error)
		want   []string
	}{
		"a name that there is not":     {bearer, nil, dial(&net.DNSError{Err: "no such host", Name: "api.nowhere.invalid", IsNotFound: true}), []string{"no such host", "check the host name in baseURL"}},
		"name servers that are silent": {bearer, nil, dial(&net.DNSError{Err: "i/o timeout", Name: "api.example.com", IsTimeout: true}), []string{"i/o timeout", "name servers of this machine"}},
		"no name for the tokens":       {oauth, nil, dial(&net.DNSError{Err: "no such host", Name: "api.nowhere.invalid", IsNotFound: true}), []string{"no token", "no such host", "check the host name"}},
		"a certificate that is over":   {bearer, nil, dial(x509.CertificateInvalidError{Reason: x509.Expired}), []string{"expired", "this machine's clock"}},
		"an API that is silent":        {bearer, silent("/x"), nil, []string{"no whole answer within 100ms"}},
		"a token endpoint that is":     {oauth, silent("/token"), nil, []string{"no token", "no whole answer within 100ms"}},
		"an answer that trickles":      {bearer, trickle, nil, []string{"broke off", "no whole answer within 100ms"}},
	} {
		r := newRig(t, provider(c.auth)+one("x", ""), c.answer)
		config, err := r.load()
		if err != nil {
			t.Fatal(err)
		}
		job, err := daemon.CheckJob(config, "a", "")
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.make(daemon.Options{Timeout: patience, Dial: c.dial}).Check(t.Context(), config, job)
		if err != nil {
			t.Errorf("%s: %v, want a result", name, err)
			continue
		}
		if result.OK || result.Status != 0 || result.LatencySeconds > 5 {
			t.Errorf("%s: %+v", name, result)
		}
		for _, want := range c.want {
			if !strings.Contains(result.Error, want) {
				t.Errorf("%s: %q, want %q in it", name, result.Error, want)
			}
		}
		if most := 2; len(r.seen()) > most { // a token request, and the call
			t.Errorf("%s: %d requests; a check does not try again", name, len(r.seen()))
		}
	}
}

// A check that is interrupted has shown nothing.
func TestCheckIsInterrupted(t *testing.T) {
	r := newRig(t, provider("")+one("x", ""), func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	config, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(r.seen()) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if result, err := r.daemon.Check(ctx, config, config.Job("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v; want no verdict about the account", result, err)
	}
}
