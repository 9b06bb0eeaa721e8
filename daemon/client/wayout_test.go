package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a refused login is called after tells whether another attempt makes sense, and what to look at.
func TestStatusOfAFailedLogin(t *testing.T) {
	for _, c := range []struct {
		status, want int
		body, text   string
	}{
		{400, 400, `{"error":"invalid_client"}`, "check the account's credentials"},
		{401, 401, "", "check the account's credentials"},
		{429, 429, "", "it may pass"},
		{503, 503, "", "it may pass"},
		{404, 404, "", "check auth.tokenURL"},
		{302, 302, "", "check auth.tokenURL"},
		{200, 200, `{}`, "check auth.token"},
		{200, 200, `<html>`, "check auth.token"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		one, _ := newClient(t, server.URL, oauthSpec, nil)
		_, err := one.Credential(t.Context())
		server.Close()
		var auth *AuthError
		if !errors.As(err, &auth) || auth.Status != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d %s: %v; want status %d and %q", c.status, c.body, err, c.want, c.text)
		}
	}
}

// Only the time that a request may take is told as that; the caller's own deadline and its cancellation stay what they are.
func TestWhoseDeadlineItWas(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	c, _ := newClient(t, server.URL, "", func(o *Options) { o.Timeout = 50 * time.Millisecond })
	_, err := c.Send(t.Context(), get(t, c, "/x"), nil)
	var late *timeoutError
	if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) || !late.Timeout() || err.Error() != "no whole answer within 50ms" {
		t.Errorf("the request's time is over: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	c, _ = newClient(t, server.URL, "", nil)
	if _, err = c.Send(ctx, get(t, c, "/x"), nil); errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's time is over: %v", err)
	}
}
