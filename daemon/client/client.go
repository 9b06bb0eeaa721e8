// Package client sends one request to a provider, and reads its answer: with the account's credentials where they may go, without
// them elsewhere, and with bounds on what comes back. It never repeats a request, and follows neither redirects nor pages by
// itself: each of those is a request of its own, which the caller must have admitted.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Bounds on what comes in, where Options do not say otherwise.
const (
	// DefaultMaxBodyBytes is the size of the largest body, after decompression.
	DefaultMaxBodyBytes = 32 << 20
	// DefaultTimeout is how long a request may take, its body included.
	DefaultTimeout = 30 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 1 << 20
)

// Options of New.
type Options struct {
	// Account is whose requests these are; Target one of its hosts, nil for an account without targets.
	Account *validate.Account
	Target  *schema.Target
	// Secrets are the account's credentials by name.
	Secrets map[string]string
	// Redactor learns the secrets, tokens included.
	Redactor *Redactor
	// Admit asks for a token or login request. It blocks until the request may go.
	Admit Admit
	// MaxBodyBytes and Timeout bound an answer; 0 is the default.
	MaxBodyBytes int64
	Timeout      time.Duration
	// Dial opens connections; nil for the network's own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// UserAgent names the program.
	UserAgent string
	// Now is the clock, for the lives of tokens.
	Now func() time.Time
}

// Client sends the requests of an account, or of one target of it. Any number of goroutines may use it.
type Client struct {
	options   Options
	rules     *rules
	transport *http.Transport
	redactor  *Redactor
	auth      authenticator

	mu     sync.Mutex // guards what follows
	passed []string   // the last tokens, the oldest first
}

// Request is one HTTP request, without credentials.
type Request struct {
	Method string
	URL    *url.URL
	// Header holds what the documents declare.
	Header map[string]string
	// Body is sent as it is; nil for none.
	Body []byte

	hops int // redirects that led here
}

// Answer is what came back.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Header is the answer's, and Body its text, both without secrets.
	Header http.Header
	Body   []byte
	// URL is where it came from.
	URL *url.URL
}

// New makes a client. Nothing is sent yet. The error is about the account's certificates or URLs.
func New(o Options) (*Client, error) {
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redactor == nil {
		o.Redactor = NewRedactor()
	}
	base, err := BaseURL(o.Account, o.Target)
	if err != nil {
		return nil, err
	}
	c := &Client{options: o, redactor: o.Redactor, rules: newRules(base, o.Account.Provider.Spec.AllowedHosts)}
	if c.transport, err = newTransport(o.Account.Spec.TLS); err != nil {
		return nil, fmt.Errorf("account %q: %w", o.Account.Name, err)
	}
	if o.Dial != nil {
		c.transport.DialContext, c.transport.Proxy = o.Dial, nil
	}
	for _, secret := range o.Secrets {
		o.Redactor.Add(secret)
	}
	c.auth, err = newAuthenticator(c)
	return c, err
}

// BaseURL is where the requests of an account go: its target's, its own, or its provider's.
func BaseURL(a *validate.Account, target *schema.Target) (*url.URL, error) {
	text := a.Provider.Spec.BaseURL
	if a.Spec.BaseURL != "" {
		text = a.Spec.BaseURL
	}
	if target != nil && target.BaseURL != "" {
		text = target.BaseURL
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("account %q has no base URL: %q", a.Name, text)
	}
	return u, nil
}

func newTransport(spec *schema.TLS) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxHeaderBytes
	// The transport's own decompression looks at the first Content-Encoding alone: what is packed twice would come out half unpacked.
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = 64 // a fan-out is many requests to one host
	t.MaxIdleConns = 0
	if spec == nil {
		return t, nil
	}
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: spec.InsecureSkipVerify, ServerName: spec.ServerName} //nolint:gosec // the account says so, and validate warns
	if spec.CAFile != "" {
		pem, err := ReadFile(spec.CAFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", spec.CAFile)
		}
	}
	return t, nil
}

// URL is the base URL with an endpoint's path, already expanded and encoded, and a query.
func (c *Client) URL(path string, query map[string]string) (*url.URL, error) {
	base := *c.rules.base
	base.RawQuery, base.Fragment = "", ""
	u, err := url.Parse(strings.TrimRight(base.String(), "/") + path)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q makes no URL", path)
	}
	values := u.Query()
	for name, value := range query {
		values.Set(name, value)
	}
	u.RawQuery = values.Encode()
	return u, nil
}

// Send sends a request and reads its answer. The credential goes along only where it may. An error means that there is no
// (whole) answer: a *BodyError, the context's, or one of the network's; an answer that comes beside an error has a status and a
// header, and no body.
func (c *Client) Send(ctx context.Context, r *Request, credential *Credential) (*Answer, error) {
	ctx, once := onlyOnce(ctx, c.options.Timeout)
	defer once.cancel()
	u := *r.URL
	request := (&http.Request{
		Method: r.Method, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, 8),
	}).WithContext(ctx)
	if len(r.Body) > 0 {
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", "gzip")
	if c.options.UserAgent != "" {
		request.Header.Set("User-Agent", c.options.UserAgent)
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	if credential != nil && c.rules.trusts(r.URL) {
		credential.apply(request)
	}
	return c.exchange(request, once)
}

// errResent stops the transport from sending a request a second time by itself.
var errResent = errors.New("the connection broke after the request was sent")

// single watches over one request.
type single struct {
	ctx             context.Context //nolint:containedctx // it lives as long as the request
	cancel          context.CancelFunc
	trace           httptrace.ClientTrace
	written, resent atomic.Bool
	// connected tells that there was a connection: without one nothing has left.
	connected atomic.Bool
}

// onlyOnce makes a context in which the transport sends a request once, within a timeout. By itself it repeats a GET whose connection
// breaks before an answer comes; the provider may have counted the first, so the second must be admitted like any other. A
// connection that was dead before the request had been written is still replaced.
func onlyOnce(ctx context.Context, timeout time.Duration) (context.Context, *single) {
	s := new(single)
	ctx, s.cancel = context.WithTimeoutCause(ctx, timeout, &timeoutError{timeout})
	s.ctx = ctx
	s.trace.WroteRequest = func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			s.written.Store(true)
		}
	}
	// Before it looks for another connection: by the time that it has one, the request may be on its way.
	s.trace.GetConn = func(string) {
		if s.written.Load() {
			s.resent.Store(true)
			s.cancel()
		}
	}
	s.trace.GotConn = func(httptrace.GotConnInfo) {
		s.connected.Store(true)
		if s.written.Load() {
			s.resent.Store(true)
			s.cancel()
		}
	}
	return httptrace.WithClientTrace(ctx, &s.trace), s
}

// why is the reason of a failure.
func (s *single) why(err error) error {
	if s.resent.Load() {
		return errResent
	}
	err = s.timed(err)
	if !s.connected.Load() {
		return &UnsentError{err}
	}
	if hint := brokenWayOut(err); hint != "" {
		return fmt.Errorf("%w%s", err, hint)
	}
	return err
}

// timed puts the time that a request may take in place of the end of a context, where it was that which ended it.
func (s *single) timed(err error) error {
	var late *timeoutError
	if !errors.As(context.Cause(s.ctx), &late) {
		return err
	}
	var body *BodyError
	if errors.As(err, &body) && body.Why == BodyTruncated {
		return &BodyError{Why: BodyTruncated, Err: late}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return late
	}
	return err
}

// errSwitched is a final answer of the 1xx class: what follows is another protocol's, and no body.
var errSwitched = errors.New("the answer is status 101, a change of protocol that was not asked for; " +
	"check whether baseURL names an API, and proxies on the way")

// roundTrip sends a request and reads the header of its final answer. The error is clean.
func (c *Client) roundTrip(request *http.Request, once *single) (*http.Response, error) {
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, c.clean(once.why(err))
	}
	if response.StatusCode < http.StatusOK {
		_ = response.Body.Close()
		return nil, errSwitched
	}
	return response, nil
}

// exchange is one round trip, with everything that comes back freed of secrets.
func (c *Client) exchange(request *http.Request, once *single) (*Answer, error) {
	response, err := c.roundTrip(request, once)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	response.Header.Del("Set-Cookie") // a session that nobody asked for is neither kept nor shown
	answer := &Answer{Status: response.StatusCode, Header: response.Header, URL: request.URL}
	c.redactor.header(answer.Header)
	body, err := readBody(response, c.options.MaxBodyBytes)
	if err != nil {
		return answer, c.clean(once.timed(err))
	}
	answer.Body = c.redactor.Bytes(body)
	return answer, nil
}

// clean keeps an error's kind, takes secrets out of its text and bounds it.
func (c *Client) clean(err error) error {
	if err == nil {
		return nil
	}
	before := err.Error()
	if text := shortened(c.redactor.Text(before), mostErrorBytes); text != before {
		return &cleanError{text, err}
	}
	return err
}

// cleanError is an error whose text would have held a secret, or too much of what a server sent.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }

// Close lets idle connections go.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Excerpt is the beginning of a body for an error message, on one line.
func (c *Client) Excerpt(body []byte) string {
	const most = 200
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 4*most)]), "")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return c.redactor.Text(text)
}
