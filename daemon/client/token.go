package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
)

// oauthSource is the client credentials grant (RFC 6749, section 4.4).
type oauthSource struct {
	client *Client
	spec   *schema.Auth

	once   sync.Once
	config *clientcredentials.Config // kept: it remembers whether the server wants the secret in the header or in the form
	err    error
}

// admittedTransport is under the OAuth library: every request that it sends is admitted.
type admittedTransport struct{ client *Client }

// RoundTrip implements http.RoundTripper: one token request, admitted.
func (t admittedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.client.admitted(request, nil)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(answer.Status), StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header, Body: io.NopCloser(bytes.NewReader(answer.Body)), Request: request,
		ContentLength: int64(len(answer.Body)),
	}, nil
}

func (s *oauthSource) fetch(ctx context.Context) (*Credential, error) {
	s.once.Do(s.configure)
	if s.err != nil {
		return nil, s.client.loginError(0, s.err)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport: admittedTransport{s.client},
		// The client's secret goes to the token URL and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	token, err := s.config.Token(ctx)
	var refused *oauth2.RetrieveError
	var unanswered *url.Error
	switch {
	case errors.As(err, &refused) && refused.Response != nil:
		return nil, s.client.loginError(refused.Response.StatusCode, fmt.Errorf("the token request was answered with status %d: %q",
			refused.Response.StatusCode, s.client.Excerpt(refused.Body)))
	case errors.As(err, &unanswered):
		return nil, s.client.loginError(0, err)
	case err != nil: // an answer without a token: another attempt would bring the same
		return nil, s.client.loginError(http.StatusOK, err)
	}
	s.client.passing(token.AccessToken)
	header := http.Header{}
	header.Set("Authorization", token.Type()+" "+token.AccessToken)
	return &Credential{header: header, expires: token.Expiry}, nil
}

func (s *oauthSource) configure() {
	u, err := s.client.tokenURL(s.spec.TokenURL)
	if err != nil {
		s.err = err
		return
	}
	id, secret := s.client.options.Secrets[s.spec.ClientID], s.client.options.Secrets[s.spec.ClientSecret]
	s.client.redactor.AddBasic(url.QueryEscape(id), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
	params := url.Values{}
	for name, value := range s.spec.Params {
		params.Set(name, value)
	}
	s.config = &clientcredentials.Config{
		ClientID: id, ClientSecret: secret,
		TokenURL: u.String(), Scopes: s.spec.Scopes, EndpointParams: params,
	}
}

// loginSource opens a session with a request of the provider's own making.
type loginSource struct {
	client *Client
	spec   *schema.Auth
	token  *expr.Program // nil where the session is a cookie
}

func newLoginSource(c *Client, spec *schema.Auth) (*loginSource, error) {
	s := &loginSource{client: c, spec: spec}
	if spec.Token == "" {
		return s, nil
	}
	var err error
	s.token, err = expr.SessionToken.Compile(spec.Token)
	return s, err
}

func (s *loginSource) fetch(ctx context.Context) (*Credential, error) {
	request, err := s.request(ctx)
	if err != nil {
		return nil, s.client.loginError(0, err)
	}
	var cookies []*http.Cookie
	answer, err := s.client.admitted(request, func(r *http.Response) { cookies = r.Cookies() })
	if err != nil {
		return nil, s.client.loginError(0, err)
	}
	if answer.Status < 200 || answer.Status > 299 {
		return nil, s.client.loginError(answer.Status, fmt.Errorf("the login was answered with status %d: %q",
			answer.Status, s.client.Excerpt(answer.Body)))
	}
	one := &Credential{header: http.Header{}}
	if s.spec.Cookie != "" {
		for _, cookie := range cookies {
			if cookie.Name == s.spec.Cookie {
				s.client.passing(cookie.Value)
				one.cookie = &http.Cookie{Name: cookie.Name, Value: cookie.Value} //nolint:gosec // sent to a vendor, not set in a browser
				one.expires = cookie.Expires
			}
		}
		if one.cookie == nil {
			return nil, s.client.loginError(answer.Status, fmt.Errorf("the login's answer sets no cookie %q", s.spec.Cookie))
		}
	}
	if s.token == nil {
		return one, nil
	}
	token, err := s.find(ctx, answer)
	if err != nil {
		return nil, s.client.loginError(answer.Status, err)
	}
	s.client.passing(token)
	one.header.Set(or(s.spec.Header, "Authorization"), s.spec.Prefix+token)
	return one, nil
}

// find evaluates auth.token.
func (s *loginSource) find(ctx context.Context, answer *Answer) (string, error) {
	body, err := Decode(answer.Body)
	if err != nil {
		body = nil // a token may stand in a header alone
	}
	token, err := s.token.EvalText(ctx, map[string]any{"response": body, "headers": Headers(answer.Header)})
	if err != nil {
		return "", fmt.Errorf("the login's answer holds no token: %w", err)
	}
	if token == "" {
		return "", fmt.Errorf("the login's answer holds no token: %s gives nothing", s.spec.Token)
	}
	return token, nil
}

// request is the login with the credentials filled in.
func (s *loginSource) request(ctx context.Context) (*http.Request, error) {
	login := s.spec.Login
	if login == nil {
		return nil, errors.New("auth.login is missing")
	}
	secrets := s.client.options.Secrets
	query := make(map[string]string, len(login.Query))
	for name, value := range login.Query {
		query[name] = Expand(value, secrets)
	}
	u, err := s.client.URL(login.Endpoint, query)
	if err != nil {
		return nil, err
	}
	body, err := loginBody(login.Body, secrets)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, or(login.Method, http.MethodPost), u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if login.Body == nil && s.spec.Username != "" {
		s.client.redactor.AddBasic(secrets[s.spec.Username], secrets[s.spec.Password])
		request.SetBasicAuth(secrets[s.spec.Username], secrets[s.spec.Password])
	}
	if json.Valid(body) {
		request.Header.Set("Content-Type", "application/json")
	} else if len(body) > 0 {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Accept", "application/json")
	for name, value := range login.Headers {
		request.Header.Set(name, Expand(value, secrets))
	}
	return request, nil
}

// loginBody is the login's body. In a text the secrets are quoted as the text's notation wants it: a form, unless it is JSON.
func loginBody(body any, values map[string]string) ([]byte, error) {
	text, isText := body.(string)
	if !isText {
		return ExpandBody(body, values)
	}
	quoted := make(map[string]string, len(values))
	for name, value := range values {
		quoted[name] = url.QueryEscape(value)
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			inJSON, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			quoted[name] = string(inJSON[1 : len(inJSON)-1])
		}
	}
	return []byte(Expand(text, quoted)), nil
}

// keptTokens is how many tokens of a client are looked for in texts. Older ones are no secret any more: they have been replaced
// again and again, and a daemon that remembers all of a year's would slowly fill its memory.
const keptTokens = 64

// passing makes a token known to the redactor, until so many others have come after it.
func (c *Client) passing(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redactor.Add(token)
	c.passed = append(c.passed, token)
	if len(c.passed) > keptTokens {
		c.redactor.remove(c.passed[0])
		c.passed = slices.Delete(c.passed, 0, 1)
	}
}
