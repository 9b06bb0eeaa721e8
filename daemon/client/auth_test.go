package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
)

const oauthSpec = `  auth: { type: oauth2_client_credentials, tokenURL: /oauth/token, clientId: id, clientSecret: secret, scopes: [read], params: { audience: x } }`

// tokenServer issues numbered tokens, slowly, and accepts the newest only.
type tokenServer struct {
	*httptest.Server
	issued, refused, calls atomic.Int64
	delay                  time.Duration
	expiresIn              int
	never                  bool // accept none
	form                   url.Values
	mu                     sync.Mutex
}

func newTokenServer(t testing.TB) *tokenServer {
	s := &tokenServer{expiresIn: 3600}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			time.Sleep(s.delay)
			_ = r.ParseForm()
			s.mu.Lock()
			s.form = r.Form
			s.mu.Unlock()
			n := s.issued.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprintf("TOKEN-%06d", n), "token_type": "bearer", "expires_in": s.expiresIn})
			return
		}
		s.calls.Add(1)
		if s.never || r.Header.Get("Authorization") != fmt.Sprintf("Bearer TOKEN-%06d", s.issued.Load()) {
			s.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// HT-07: one refresh for many, and a leader that goes away fails nobody.
func TestOneRefreshForManyAndACancelledLeaderFailsNobody(t *testing.T) {
	var input struct{ ParallelRequests int }
	var expected struct{ RefreshCalls, Success int64 }
	golden.Case(t, "HT-07", &input, &expected)
	s := newTokenServer(t)
	s.delay = 200 * time.Millisecond
	c, admitted := newClient(t, s.URL, oauthSpec, nil)
	leader, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Credential(leader)
		left <- err
	}()
	for admitted.admitted.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	var success atomic.Int64
	var group sync.WaitGroup
	for range input.ParallelRequests {
		group.Go(func() {
			credential, err := c.Credential(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if answer, err := c.Send(t.Context(), get(t, c, "/x"), credential); err == nil && answer.Status == 200 {
				success.Add(1)
			}
		})
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the leader got %v", err)
	}
	group.Wait()
	if success.Load() != expected.Success || s.issued.Load() != expected.RefreshCalls {
		t.Errorf("%d successes with %d token requests, want %d with %d", success.Load(), s.issued.Load(), expected.Success, expected.RefreshCalls)
	}
	if admitted.admitted.Load() != 1 || admitted.done.Load() != 1 {
		t.Errorf("admitted %d, done %d", admitted.admitted.Load(), admitted.done.Load())
	}
}

func TestTokenRequestCarriesWhatIsDeclaredAndNothingLeaks(t *testing.T) {
	s := newTokenServer(t)
	c, _ := newClient(t, s.URL, oauthSpec, nil)
	credential, err := c.Credential(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.form.Get("grant_type") != "client_credentials" || s.form.Get("scope") != "read" || s.form.Get("audience") != "x" {
		t.Errorf("form: %v", s.form)
	}
	if got := c.redactor.Text("x TOKEN-000001 y"); got != "x [secret] y" {
		t.Errorf("the token is no secret: %s", got)
	}
	if again, err := c.Credential(t.Context()); err != nil || again != credential || s.issued.Load() != 1 {
		t.Errorf("a token that lasts was fetched again: %v", err)
	}
}

// A token is given up before it ends: the request may wait for its budget meanwhile.
func TestTokenIsRenewedBeforeItsEnd(t *testing.T) {
	s := newTokenServer(t)
	s.expiresIn = 100
	now := time.Now()
	c, _ := newClient(t, s.URL, oauthSpec, func(o *Options) { o.Now = func() time.Time { return now } })
	if _, err := c.Credential(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(80 * time.Second)
	if _, err := c.Credential(t.Context()); err != nil || s.issued.Load() != 1 {
		t.Errorf("after 80 of 100 seconds: %d token requests, %v", s.issued.Load(), err)
	}
	now = now.Add(15 * time.Second)
	if _, err := c.Credential(t.Context()); err != nil || s.issued.Load() != 2 {
		t.Errorf("after 95 of 100 seconds: %d token requests, %v", s.issued.Load(), err)
	}
}

// Many that were refused with one token renew it once; and a token that has replaced a refused one is not replaced again.
func TestRenewOnceForOneRefusal(t *testing.T) {
	s := newTokenServer(t)
	now := time.Now()
	c, _ := newClient(t, s.URL, oauthSpec, func(o *Options) { o.Now = func() time.Time { return now } })
	first, err := c.Credential(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			next, ok, err := c.Renew(t.Context(), first)
			if err != nil || !ok || next.number != 2 {
				t.Errorf("renewed to %v, %v, %v", next, ok, err)
			}
		})
	}
	group.Wait()
	if s.issued.Load() != 2 {
		t.Errorf("%d token requests, want 2", s.issued.Load())
	}
	second := c.Latest(first)
	if _, ok, err := c.Renew(t.Context(), second); ok || err != nil {
		t.Errorf("a fresh token was renewed: %v %v", ok, err)
	}
	now = now.Add(2 * calm)
	if _, ok, err := c.Renew(t.Context(), second); !ok || err != nil || s.issued.Load() != 3 {
		t.Errorf("later it is not renewed: %v %v", ok, err)
	}
}

func TestTokenRequestsThatFailSaySo(t *testing.T) {
	for status, body := range map[int]string{400: `{"error":"invalid_client"}`, 500: "oops", 200: `{}`, 302: ""} {
		var hits atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hits.Add(1); r.URL.Path != "/oauth/token" {
				t.Errorf("the secret went to %s", r.URL.Path)
			}
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		c, admitted := newClient(t, server.URL, oauthSpec, nil)
		_, err := c.Credential(t.Context())
		server.Close()
		var auth *AuthError
		if !errors.As(err, &auth) || !auth.Login {
			t.Errorf("%d: %v, want an *AuthError", status, err)
		}
		if strings.Contains(fmt.Sprint(err), "SECRET") {
			t.Errorf("%d: the error holds the secret: %v", status, err)
		}
		if hits.Load() != admitted.admitted.Load() {
			t.Errorf("%d: %d requests, %d admitted", status, hits.Load(), admitted.admitted.Load())
		}
	}
}

func TestSessionLogin(t *testing.T) {
	for name, c := range map[string]struct{ spec, wantBody, wantType, answer, wantHeader, wantCookie string }{
		"json body, token in the body": {
			`  auth: { type: session_login, username: user, password: secret, login: { endpoint: /login, body: { name: "{user}", pass: "{secret}" } }, token: response.data.token, header: X-Session, prefix: "S " }`,
			`{"name":"someone","pass":"SECRET-\u0026=\"'%"}`, "application/json", `{"data":{"token":"SESSION-1"}}`, "S SESSION-1", "",
		},
		"form body, cookie": {
			`  auth: { type: session_login, username: user, password: secret, login: { endpoint: /login, body: "u={user}&p={secret}" }, cookie: sid }`,
			"u=someone&p=SECRET-%26%3D%22%27%25", "application/x-www-form-urlencoded", `{}`, "", "sid=COOKIE-1",
		},
		"json text, names of credentials, token in a header": {
			`  auth: { type: session_login, login: { endpoint: /login, body: '{"p":"{secret}"}' }, token: "headers['x-token']", header: X-Session }`,
			`{"p":"SECRET-\u0026=\"'%"}`, "application/json", ``, "HEADER-1", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var body, kind, header, cookie string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" {
					text, _ := io.ReadAll(r.Body)
					body, kind = string(text), r.Header.Get("Content-Type")
					w.Header().Set("X-Token", "HEADER-1")
					http.SetCookie(w, &http.Cookie{Name: "other", Value: "no"})
					http.SetCookie(w, &http.Cookie{Name: "sid", Value: "COOKIE-1", HttpOnly: true})
					_, _ = io.WriteString(w, c.answer)
					return
				}
				header, cookie = r.Header.Get("X-Session"), r.Header.Get("Cookie")
			}))
			defer server.Close()
			one, admitted := newClient(t, server.URL, c.spec, nil)
			credential, err := one.Credential(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := one.Send(t.Context(), get(t, one, "/x"), credential); err != nil {
				t.Fatal(err)
			}
			if body != c.wantBody || kind != c.wantType || header != c.wantHeader || cookie != c.wantCookie {
				t.Errorf("login %s as %s, then %q %q", body, kind, header, cookie)
			}
			if admitted.admitted.Load() != 1 || admitted.done.Load() != 1 {
				t.Error("the login did not go through the engine")
			}
		})
	}
}
