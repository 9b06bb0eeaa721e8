package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

// Admit asks for a token or login request with this method and endpoint, and blocks until it may go. The admission must be
// ended with Done, with the answer, or a nil one where none came.
type Admit func(ctx context.Context, method, endpoint string) (Admission, error)

// Admission is a request that may go.
type Admission interface {
	// Done reads the answer, nil where none came, and frees what the request held.
	Done(*Answer)
}

// Credential is what a request proves its sender with. It is not changed.
type Credential struct {
	header http.Header
	cookie *http.Cookie
	// expires is when a token ends; zero where it does not say.
	expires time.Time
	// number counts the tokens of a client; 0 for credentials that are no token.
	number int64
}

func (c *Credential) apply(request *http.Request) {
	for name, values := range c.header {
		request.Header[name] = values
	}
	if c.cookie != nil {
		request.AddCookie(c.cookie)
	}
}

// authenticator gives out credentials.
type authenticator interface {
	// credential is a valid one. It may take a token request, for which it blocks.
	credential(ctx context.Context) (*Credential, error)
	// renew replaces a credential that was refused with another; ok is false where there is none to be had.
	renew(ctx context.Context, refused *Credential) (next *Credential, ok bool, err error)
	// latest is the newest credential that there is without a request.
	latest(of *Credential) *Credential
}

// Credential is what the next request needs; nil where the provider asks for none. It may take a token request, so it must not be
// called by those who hold an admission. The error is an *AuthError, or the context's.
func (c *Client) Credential(ctx context.Context) (*Credential, error) { return c.auth.credential(ctx) }

// Latest is the newest credential that is at hand: one that was renewed while the request waited for its admission.
func (c *Client) Latest(of *Credential) *Credential { return c.auth.latest(of) }

// Renew replaces a credential that was refused with status 401. ok is false where a new one would not help: a key that does not
// change, or a token that was renewed a moment ago for the same reason.
func (c *Client) Renew(ctx context.Context, refused *Credential) (next *Credential, ok bool, err error) {
	return c.auth.renew(ctx, refused)
}

// Describe says which credential goes along, for people: the header with its value, or how it is come by. It is for clients whose
// secrets are placeholders.
func (c *Client) Describe() string {
	spec := c.options.Account.Provider.Spec.Auth
	switch {
	case spec == nil || spec.Type == "none":
		return ""
	case spec.Type == "basic":
		return "Authorization: Basic " + c.options.Secrets[spec.Username] + ":" + c.options.Secrets[spec.Password]
	case spec.Type == "oauth2_client_credentials":
		return "Authorization: [token of " + spec.TokenURL + "]"
	case spec.Type == "session_login" && spec.Cookie != "":
		return "Cookie: " + spec.Cookie + "=[session]"
	case spec.Type == "session_login":
		return or(spec.Header, "Authorization") + ": " + spec.Prefix + "[session]"
	}
	for name, values := range c.auth.latest(nil).header {
		return name + ": " + strings.Join(values, ", ")
	}
	return ""
}

// newAuthenticator is that of the provider's auth type.
func newAuthenticator(c *Client) (authenticator, error) {
	spec := c.options.Account.Provider.Spec.Auth
	if spec == nil {
		return fixed{}, nil
	}
	secret := func(name string) string { return c.options.Secrets[name] }
	header := http.Header{}
	switch spec.Type {
	case "header":
		header.Set(or(spec.Header, "Authorization"), spec.Prefix+secret(spec.Credential))
	case "bearer":
		header.Set("Authorization", or(spec.Prefix, "Bearer ")+secret(spec.Credential))
	case "basic":
		request := http.Request{Header: header}
		request.SetBasicAuth(secret(spec.Username), secret(spec.Password))
		c.redactor.AddBasic(secret(spec.Username), secret(spec.Password))
	case "oauth2_client_credentials":
		return newTokens(c, spec, &oauthSource{client: c, spec: spec}), nil
	case "session_login":
		source, err := newLoginSource(c, spec)
		if err != nil {
			return nil, err
		}
		return newTokens(c, spec, source), nil
	default:
		return fixed{}, nil
	}
	return fixed{&Credential{header: header}}, nil
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// fixed is a credential that does not change, or none.
type fixed struct{ one *Credential }

func (f fixed) credential(context.Context) (*Credential, error) { return f.one, nil }
func (f fixed) latest(*Credential) *Credential                  { return f.one }
func (f fixed) renew(context.Context, *Credential) (*Credential, bool, error) {
	return nil, false, nil
}

// source fetches a token, with one request or the few that its protocol needs.
type source interface {
	fetch(ctx context.Context) (*Credential, error)
}

const (
	// earlyPart of a token's life, at most earlyMost, is given up: a request may wait for its budget between the look at the token
	// and its departure.
	earlyPart = 10
	earlyMost = time.Minute
	// calm is how long a token that replaced a refused one is not replaced again: if it is refused too, the permission is missing.
	calm = time.Minute
	// fetchTimeout bounds a token request with its wait for the budget.
	fetchTimeout = 2 * time.Minute
)

// tokens keeps one token for many requests. There is one refresh at a time: who needs a token while one is fetched waits for that
// one. The fetch belongs to none of them, so that a waiter that is cancelled, even the first, fails nobody else.
type tokens struct {
	client *Client
	ttl    *schema.Duration
	source source
	flight singleflight.Group

	mu      sync.Mutex // guards what follows
	current *Credential
	count   int64
	// renewedAt is when a token was last fetched because its predecessor was refused.
	renewedAt time.Time
}

func newTokens(c *Client, spec *schema.Auth, s source) *tokens {
	return &tokens{client: c, ttl: spec.TTL, source: s}
}

func (t *tokens) credential(ctx context.Context) (*Credential, error) {
	if one := t.valid(); one != nil {
		return one, nil
	}
	return t.wait(ctx, nil)
}

// valid is the present token, nil where there is none that lasts.
func (t *tokens) valid() *Credential {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil || !t.current.expires.IsZero() && !t.client.options.Now().Before(t.current.expires) {
		return nil
	}
	return t.current
}

func (t *tokens) latest(of *Credential) *Credential {
	if one := t.valid(); one != nil {
		return one
	}
	return of
}

func (t *tokens) renew(ctx context.Context, refused *Credential) (*Credential, bool, error) {
	t.mu.Lock()
	current, renewedAt := t.current, t.renewedAt
	t.mu.Unlock()
	switch {
	case current != nil && refused != nil && current.number > refused.number:
		return current, true, nil // somebody else has renewed it
	case !renewedAt.IsZero() && t.client.options.Now().Sub(renewedAt) < calm:
		return nil, false, nil
	}
	next, err := t.wait(ctx, refused)
	return next, err == nil, err
}

// wait joins the fetch that is under way, or begins one. refused is the token that a 401 has answered, nil where none was.
func (t *tokens) wait(ctx context.Context, refused *Credential) (*Credential, error) {
	done := t.flight.DoChan("", func() (any, error) {
		t.mu.Lock()
		current := t.current
		t.mu.Unlock()
		if current != nil && (refused == nil && t.valid() != nil || refused != nil && current.number > refused.number) {
			return current, nil // fetched between the look and here
		}
		return t.fetch(refused != nil)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*Credential), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetch gets a new token; because tells that the last one was refused.
func (t *tokens) fetch(because bool) (*Credential, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	one, err := t.source.fetch(ctx)
	if err != nil {
		return nil, err
	}
	now := t.client.options.Now()
	if t.ttl != nil {
		one.expires = now.Add(t.ttl.Or(0))
	}
	if !one.expires.IsZero() {
		life := one.expires.Sub(now)
		one.expires = one.expires.Add(-min(life/earlyPart, earlyMost))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	one.number = t.count
	t.current = one
	if because {
		t.renewedAt = now
	}
	return one, nil
}

// admitted sends a token request through the engine.
func (c *Client) admitted(request *http.Request, raw func(*http.Response)) (*Answer, error) {
	admission, err := c.options.Admit(request.Context(), request.Method, c.endpointOf(request.URL))
	if err != nil {
		return nil, err
	}
	var answer *Answer
	defer func() { admission.Done(answer) }()
	ctx, once := onlyOnce(request.Context(), c.options.Timeout)
	defer once.cancel()
	response, err := c.roundTrip(request.WithContext(ctx), once)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := readBody(response, min(c.options.MaxBodyBytes, 1<<20))
	if err != nil {
		return nil, c.clean(once.timed(err))
	}
	answer = &Answer{Status: response.StatusCode, Header: response.Header.Clone(), URL: request.URL}
	answer.Header.Del("Set-Cookie")
	c.redactor.header(answer.Header)
	response.Body = nil
	out := *answer
	out.Header, out.Body = response.Header, body
	if raw != nil {
		raw(response)
	}
	return &out, nil
}

// endpointOf is a URL's path as limits see it: after the base URL's path, where it is below that.
func (c *Client) endpointOf(u *url.URL) string {
	base := strings.TrimRight(c.rules.base.Path, "/")
	if origin(u) == origin(c.rules.base) {
		if rest, ok := strings.CutPrefix(u.Path, base+"/"); ok {
			return match.CleanPath("/" + rest)
		}
	}
	return match.CleanPath(u.Path)
}

func (c *Client) loginError(status int, err error) error {
	if err != nil {
		err = c.clean(err)
	}
	return &AuthError{Account: c.options.Account.Name, Status: status, Login: true, Err: err}
}

// tokenURL resolves a declared URL, absolute or relative to the base URL.
func (c *Client) tokenURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("auth.tokenURL %q is no URL", text)
	}
	if u.IsAbs() {
		return u, nil
	}
	return c.URL("/"+strings.TrimLeft(text, "/"), nil)
}
