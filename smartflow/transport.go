package smartflow

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Transport is an http.RoundTripper that sends each request when the Limiter lets
// it, reports the answer back, learns from it, and repeats what was refused with 429.
//
// A repeated request pays like a new one. Its body is taken from GetBody, which
// http.NewRequest sets for the usual readers; a request whose body cannot be had
// again is not repeated. When the repetitions are used up, or the server asks for
// more patience than MaxRetryWait, the caller gets the 429.
type Transport struct {
	// Limiter must not be nil. Transports of different credentials may share one.
	Limiter *Limiter
	// Base sends the requests; nil = http.DefaultTransport.
	Base http.RoundTripper
	// MaxRetries is how often a request is repeated; 0 = 5, negative = never.
	MaxRetries int
	// MaxRetryWait is the longest Retry-After that is waited for, and the longest
	// pause between two attempts without one; 0 = 1 minute.
	MaxRetryWait time.Duration
}

// The defaults of Transport and of its own backoff, which holds for a 429 without
// Retry-After: the vendor sends none when the limit of the source address was hit.
const (
	defaultMaxRetries   = 5
	defaultMaxRetryWait = time.Minute
	firstBackoff        = time.Second
)

// RoundTrip implements http.RoundTripper. Besides the errors of Base, it returns that
// of the request's context, and a *ConfigError without a Limiter.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Limiter == nil {
		closeBody(req)
		return nil, &ConfigError{Field: "Limiter", Value: "nil", Reason: "must be set; New makes one"}
	}
	url := limitedPart(req)
	attempt := req
	for retries := 0; ; retries++ {
		if err := t.Limiter.Acquire(req.Context(), url); err != nil {
			if attempt == req && retries == 0 {
				closeBody(req)
			}
			return nil, err
		}
		if retries > 0 {
			var err error
			if attempt, err = again(req); err != nil {
				return nil, err
			}
		}
		resp, err := t.base().RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusTooManyRequests {
			t.succeeded(req, url, resp)
			return resp, nil
		}
		wait, ok := t.refused(url, resp, retries)
		if !ok || !repeatable(req) || retries >= t.maxRetries() {
			return resp, nil
		}
		discard(resp.Body)
		if err := t.Limiter.clock.Sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// CloseIdleConnections passes on what http.Client.CloseIdleConnections asks for.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) maxRetries() int {
	if t.MaxRetries == 0 {
		return defaultMaxRetries
	}
	return max(t.MaxRetries, 0)
}

func (t *Transport) maxRetryWait() time.Duration {
	if t.MaxRetryWait <= 0 {
		return defaultMaxRetryWait
	}
	return t.MaxRetryWait
}

// limitedPart is the part of a request's URL that the limiter looks at: the path as
// it is sent, because a decoded %2F would cut an identifier in two.
func limitedPart(req *http.Request) string {
	if req.URL.Opaque != "" {
		return req.URL.Opaque
	}
	return req.URL.EscapedPath()
}

// refused reports a 429 to the limiter and returns how long this request has to wait
// before it queues up again. ok is false when that is too long.
func (t *Transport) refused(url string, resp *http.Response, retries int) (wait time.Duration, ok bool) {
	longest := t.maxRetryWait()
	asked, told := ParseRetryAfter(resp.Header.Get("Retry-After"), t.Limiter.clock.Wall())
	// A bucket stops for the longest wait at most: a server that asks for a day must
	// not hang requests that have no deadline.
	stopped := t.Limiter.rateLimited(url, min(asked, longest))
	switch {
	case asked > longest:
		return 0, false
	case stopped: // the limiter itself holds the request back
		return 0, true
	case told:
		return asked, true
	}
	return backoff(retries, longest, jitter()), true
}

// backoff is the wait before the next attempt: a second, doubled each time, of which
// the second half is left to chance. It is never 0 and never above longest.
func backoff(retries int, longest time.Duration, chance float64) time.Duration {
	full := longest
	if retries < 30 { // the shift would overflow
		full = min(longest, firstBackoff<<retries)
	}
	return full/2 + time.Duration(chance*float64(full/2)) + 1
}

// succeeded reports an answer that is no 429. Only a 2xx means anything to the
// limiter, and only that of a GET teaches.
func (t *Transport) succeeded(req *http.Request, url string, resp *http.Response) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return
	}
	t.Limiter.Success(url)
	if req.Method != http.MethodGet && req.Method != "" {
		return
	}
	if resp.Body == nil || resp.Body == http.NoBody || !isJSON(resp.Header.Get("Content-Type")) {
		t.Limiter.Learn(url, nil)
		return
	}
	resp.Body = &learningBody{ReadCloser: resp.Body, limiter: t.Limiter, url: url}
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// repeatable tells whether a request can be sent a second time.
func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// again returns a copy of a repeatable request with its body rewound.
func again(req *http.Request) (*http.Request, error) {
	repeated := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		repeated.Body = body
	}
	return repeated, nil
}

// closeBody does what RoundTrip owes a request that is not sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// discard reads what little a refusal says, so that its connection can be used
// again, and closes it. Errors do not matter: the answer is thrown away.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 16<<10)
	body.Close()
}

// maxLearnedBytes is the largest object that is searched for identifiers. Those that
// name an organization are far smaller.
const maxLearnedBytes = 1 << 20

// learningBody passes a response through and keeps a copy of it, if it is an object,
// to learn from when it was read or is closed. Lists teach nothing, so they are not
// kept.
type learningBody struct {
	io.ReadCloser
	limiter *Limiter
	url     string

	mu   sync.Mutex // guards what follows; Close may be called during a Read
	kept []byte     // begins with a brace
	skip bool       // no object, or too large
	done bool       // it was learned from
}

func (b *learningBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.keep(p[:n])
	b.mu.Unlock()
	if err == io.EOF {
		b.learn()
	}
	return n, err
}

// keep requires mu.
func (b *learningBody) keep(p []byte) {
	if b.skip || b.done {
		return
	}
	if len(b.kept) == 0 {
		if p = bytes.TrimLeft(p, " \t\r\n"); len(p) == 0 {
			return
		}
		b.skip = p[0] != '{'
	}
	if len(b.kept)+len(p) > maxLearnedBytes {
		b.skip = true
	}
	if b.skip {
		b.kept = nil
		return
	}
	b.kept = append(b.kept, p...)
}

// Close also learns, because a JSON decoder stops at the closing brace.
func (b *learningBody) Close() error {
	b.learn()
	return b.ReadCloser.Close()
}

// learn takes in what was kept, once. What was not read to its end teaches only
// what the URL says.
func (b *learningBody) learn() {
	b.mu.Lock()
	kept, done := b.kept, b.done
	b.kept, b.done = nil, true
	b.mu.Unlock()
	if done {
		return
	}
	var body any
	if json.Unmarshal(kept, &body) != nil {
		body = nil
	}
	b.limiter.Learn(b.url, body)
}
