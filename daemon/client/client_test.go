package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// accountAt is an account at a base URL, with further lines of the provider's spec.
func accountAt(t testing.TB, base, spec string) *validate.Account {
	t.Helper()
	config := validatetest.Config(t, `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: `+base+`
`+spec+`
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p, credentials: { key: { env: A }, user: { env: B }, id: { env: C }, secret: { env: D } } }
`)
	return config.Accounts[0]
}

var testSecrets = map[string]string{"key": "KEY-abcdef", "user": "someone", "id": "client-id", "secret": "SECRET-&=\"'%"}

// free admits everything, and counts.
type free struct{ admitted, done atomic.Int64 }

func (f *free) admit(context.Context, string, string) (Admission, error) {
	f.admitted.Add(1)
	return f, nil
}

func (f *free) Done(*Answer) { f.done.Add(1) }

func newClient(t testing.TB, base, spec string, change func(*Options)) (*Client, *free) {
	t.Helper()
	f := new(free)
	o := Options{Account: accountAt(t, base, spec), Secrets: testSecrets, Admit: f.admit, Timeout: 5 * time.Second}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, f
}

func get(t testing.TB, c *Client, path string) *Request {
	t.Helper()
	u, err := c.URL(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Method: http.MethodGet, URL: u}
}

// HT-01: where credentials go along, and where requests go at all.
func TestCredentialsFollowRedirectsOnlyWhereTheyMay(t *testing.T) {
	var input struct{ Redirects []string }
	var expected struct{ CredentialsSent []string }
	golden.Case(t, "HT-01", &input, &expected)
	for i, redirect := range input.Redirects {
		from, to, _ := strings.Cut(redirect, " -> ")
		f, _ := url.Parse(from)
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		allowed := []string(nil)
		wantCredentials := expected.CredentialsSent[i] == "all"
		if strings.Contains(expected.CredentialsSent[i], "allow-list") {
			r := newRules(f, nil)
			if r.follow(f, u) == nil || r.trusts(u) {
				t.Errorf("%s: followed without being named", redirect)
			}
			allowed, wantCredentials = []string{"*.meraki.com"}, true
		}
		r := newRules(f, allowed)
		sent := r.follow(f, u) == nil && r.trusts(u)
		if sent != wantCredentials {
			t.Errorf("%s: credentials sent: %v, want %s", redirect, sent, expected.CredentialsSent[i])
		}
	}
}

func TestRules(t *testing.T) {
	base, _ := url.Parse("https://api.example.com/v1")
	for _, c := range []struct {
		from, to         string
		allowed          []string
		follows, trusted bool
	}{
		{"https://api.example.com/v1", "https://API.example.com:443/x", nil, true, true},
		{"https://api.example.com/v1", "https://api.example.com:8443/x", nil, true, false},
		{"https://api.example.com/v1", "http://api.example.com/x", nil, false, false},
		{"https://api.example.com/v1", "https://shard.example.com/x", []string{"*.example.com"}, true, true},
		{"https://api.example.com/v1", "https://shard.example.com:8443/x", []string{"*.example.com"}, true, false},
		{"https://api.example.com/v1", "https://example.com/x", []string{"*.example.com"}, false, false},
		{"https://api.example.com/v1", "https://evil-example.com/x", []string{"*.example.com"}, false, false},
		{"https://api.example.com/v1", "https://api.example.com.evil.net/x", []string{"api.example.com"}, false, false},
		{"https://api.example.com/v1", "https://user:pw@api.example.com/x", nil, false, false},
		{"https://api.example.com/v1", "ftp://api.example.com/x", nil, false, false},
		{"https://api.example.com/v1", "https://[2001:db8::1]/x", []string{"[2001:db8::1]"}, true, true},
		{"http://lab.example.com/", "http://shard.example.com/x", []string{"*.example.com"}, true, false},
	} {
		from, _ := url.Parse(c.from)
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		r := newRules(base, c.allowed)
		err = r.follow(from, to)
		var refused *RedirectError
		if (err == nil) != c.follows || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s -> %s with %q: %v, want followed: %v", c.from, c.to, c.allowed, err, c.follows)
		}
		if err == nil && r.trusts(to) != c.trusted {
			t.Errorf("%s with %q: trusted %v, want %v", c.to, c.allowed, r.trusts(to), c.trusted)
		}
	}
}

// Credentials never go to a host that is neither the base URL's origin nor named, whatever the URL looks like.
func TestTrustNeedsOriginOrName(t *testing.T) {
	base, _ := url.Parse("https://api.example.com/v1")
	r := newRules(base, []string{"*.example.com", "other.net"})
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"api.example.com", "x.example.com", "example.com", "other.net", "a.other.net", "evil.com", "evilexample.com"}).Draw(t, "host")
		scheme := rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme")
		port := rapid.SampledFrom([]string{"", ":443", ":80", ":8443"}).Draw(t, "port")
		u, err := url.Parse(scheme + "://" + host + port + "/p")
		if err != nil {
			t.Fatal(err)
		}
		named := host == "other.net" || strings.HasSuffix(host, ".example.com")
		standard := scheme == "https" && (port == "" || port == ":443")
		if want := named && standard; r.trusts(u) != want {
			t.Fatalf("%s: trusted %v, want %v", u, r.trusts(u), want)
		}
	})
}

func TestEveryStaticCredential(t *testing.T) {
	for spec, want := range map[string]string{
		`  auth: { type: header, header: X-API-Key, credential: key }`: "X-Api-Key: KEY-abcdef",
		`  auth: { type: header, credential: key, prefix: "Token " }`:  "Authorization: Token KEY-abcdef",
		`  auth: { type: bearer, credential: key }`:                    "Authorization: Bearer KEY-abcdef",
		`  auth: { type: basic, username: user, password: key }`:       "Authorization: Basic c29tZW9uZTpLRVktYWJjZGVm",
		`  auth: { type: none }`:                                       "",
		``:                                                             "",
	} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"Authorization", "X-Api-Key"} {
				if value := r.Header.Get(name); value != "" {
					got += name + ": " + value
				}
			}
			// A provider that echoes what it got.
			_, _ = fmt.Fprintf(w, `{"you": %q}`, got)
		}))
		c, admitted := newClient(t, server.URL, spec, nil)
		credential, err := c.Credential(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Send(t.Context(), get(t, c, "/x"), credential)
		server.Close()
		if err != nil || got != want {
			t.Errorf("%s: sent %q, %v; want %q", spec, got, err, want)
		}
		if want != "" && (bytes.Contains(answer.Body, []byte("KEY-abcdef")) || bytes.Contains(answer.Body, []byte("c29tZW9uZTpLRVktYWJjZGVm"))) {
			t.Errorf("%s: the echo still holds the secret: %s", spec, answer.Body)
		}
		if _, ok, _ := c.Renew(t.Context(), credential); ok {
			t.Errorf("%s: a key that does not change was renewed", spec)
		}
		if admitted.admitted.Load() != 0 {
			t.Errorf("%s: it took a token request", spec)
		}
	}
}

func TestBoundsOnWhatComesIn(t *testing.T) {
	bomb := func(n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.CopyN(z, zeros{}, int64(n))
		_ = z.Close()
		return b.Bytes()
	}
	small := bomb(64 << 20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(small)
		case "/nested-bomb":
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write(small)
		case "/huge":
			for range 1 << 12 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/slow":
			for range 200 {
				_, _ = w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				select {
				case <-time.After(50 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"a":`))
		case "/corrupt":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("this is not gzip at all"))
		case "/header":
			for i := range 2000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		}
	}))
	defer server.Close()
	c, _ := newClient(t, server.URL, "", func(o *Options) { o.MaxBodyBytes, o.Timeout = 1<<20, 2*time.Second })
	for path, why := range map[string]string{
		"/bomb": BodyTooLarge, "/huge": BodyTooLarge, "/slow": BodyTruncated, "/cut": BodyTruncated, "/corrupt": BodyEncoding,
		"/nested-bomb": BodyEncoding, "/header": "",
	} {
		began := time.Now()
		_, err := c.Send(t.Context(), get(t, c, path), nil)
		var body *BodyError
		if why != "" && (!errors.As(err, &body) || body.Why != why) {
			t.Errorf("%s: %v, want a *BodyError with %s", path, err, why)
		}
		if err == nil {
			t.Errorf("%s: no error", path)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %v", path, took)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestDecode(t *testing.T) {
	deep := strings.Repeat("[", 101) + strings.Repeat("]", 101)
	for text, why := range map[string]string{
		deep: BodyTooDeep, strings.Repeat(`{"a":`, 200000): BodyTooDeep, `{"a":1} x`: BodyNotJSON, `<html>`: BodyNotJSON,
	} {
		_, err := Decode([]byte(text))
		var body *BodyError
		if !errors.As(err, &body) || body.Why != why {
			t.Errorf("%.20s: %v, want %s", text, err, why)
		}
	}
	for text, want := range map[string]string{
		"": "<nil>", "\n": "<nil>", "null": "<nil>", `[12345678901234567]`: "[12345678901234567]",
		`"` + strings.Repeat("[", 500) + `\""`: strings.Repeat("[", 500) + `"`,
	} {
		got, err := Decode([]byte(text))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%.20q: %v, %v; want %s", text, got, err, want)
		}
	}
}

// tooDeep agrees with a parser about what is nested how deep.
func FuzzDepth(f *testing.F) {
	for _, seed := range []string{`[[1]]`, `{"a":{"b":"]"}}`, `"\\"`, `["\"["]`, `[`, `]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if json.Unmarshal(data, &value) != nil {
			_ = tooDeep(data, 3)
			return
		}
		if want := depthOf(value) > 3; tooDeep(data, 3) != want {
			t.Errorf("%q: too deep %v, want %v", data, !want, want)
		}
	})
}

func depthOf(value any) int {
	deepest := 0
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			deepest = max(deepest, depthOf(one))
		}
		return deepest + 1
	case map[string]any:
		for _, one := range v {
			deepest = max(deepest, depthOf(one))
		}
		return deepest + 1
	}
	return 0
}

// The transport must not send a request a second time by itself: the provider may have counted the first.
func TestARequestIsSentOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var requests atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				buffer := make([]byte, 4096)
				for first := true; ; first = false {
					if _, err := connection.Read(buffer); err != nil {
						return
					}
					requests.Add(1)
					if !first {
						return // the second request of a connection gets no answer
					}
					_, _ = connection.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
				}
			}()
		}
	}()
	c, _ := newClient(t, "http://"+listener.Addr().String(), "", nil)
	if _, err := c.Send(t.Context(), get(t, c, "/1"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), get(t, c, "/2"), nil); err == nil {
		t.Error("the broken connection was hidden")
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests reached the server, want 2", n)
	}
}

func TestRedirectKeepsOrDropsTheBody(t *testing.T) {
	c, _ := newClient(t, "https://api.example.com", `  allowedHosts: ["*.example.com"]`, nil)
	u, _ := url.Parse("https://api.example.com/a/b")
	for status, want := range map[int]string{
		301: "GET ", 302: "GET ", 303: "GET ", 307: "POST body", 308: "POST body",
	} {
		next, err := c.Redirect(&Request{Method: "POST", URL: u, Body: []byte("body")}, &Answer{Status: status, Header: http.Header{"Location": {"../c?x=1"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := next.Method + " " + string(next.Body); got != want || next.URL.String() != "https://api.example.com/c?x=1" {
			t.Errorf("%d: %s to %s, want %s", status, got, next.URL, want)
		}
	}
	for _, answer := range []*Answer{{Status: 200, Header: http.Header{"Location": {"/x"}}}, {Status: 304, Header: http.Header{}}, {Status: 302, Header: http.Header{}}} {
		if next, err := c.Redirect(&Request{Method: "GET", URL: u}, answer); next != nil || err != nil {
			t.Errorf("%d leads to %v, %v", answer.Status, next, err)
		}
	}
	r := &Request{Method: "GET", URL: u}
	for hop := 0; ; hop++ {
		next, err := c.Redirect(r, &Answer{Status: 302, Header: http.Header{"Location": {fmt.Sprintf("/%d", hop)}}})
		if err != nil {
			if hop != maxHops {
				t.Errorf("ended after %d hops, want %d", hop, maxHops)
			}
			break
		}
		r = next
	}
}

func TestRedactor(t *testing.T) {
	r := NewRedactor()
	r.Add(`p@ss "word"/1`, "short", "", "p@ss \"word\"/1-longer")
	for text, want := range map[string]string{
		`x p@ss "word"/1 y`:              "x [secret] y",
		`p@ss "word"/1-longer`:           "[secret]",
		`q=p%40ss+%22word%22%2F1&`:       "q=[secret]&",
		`{"a":"p@ss \"word\"/1"}`:        `{"a":"[secret]"}`,
		"short is a word":                "short is a word",
		"cEBzcyAid29yZCIvMQ== is base64": "[secret] is base64",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if got := string(r.Bytes([]byte(text))); got != want {
			t.Errorf("bytes of %s: got %s, want %s", text, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"a": "1", "b": `"{a}"`}
	if got := Expand("{a}-{b}-{c}-{", vars); got != `1-"{a}"-{c}-{` {
		t.Errorf("got %s", got)
	}
	body, err := ExpandBody(map[string]any{"x": []any{"{b}", 1.5, true}}, vars)
	if err != nil || string(body) != `{"x":["\"{a}\"",1.5,true]}` {
		t.Errorf("got %s, %v", body, err)
	}
}
