package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wire is a server that answers every request with the same bytes, which no HTTP library would send; after them it ends the
// connection, by a reset where reset is set.
type wire struct {
	said  []byte
	reset bool
	// taken is closed when the client has read all: a reset overtakes what has not been read.
	taken chan struct{}
	// pause lies between single bytes, 0 for all at once.
	pause time.Duration
}

func (s wire) listen(t testing.TB) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(connection.(*net.TCPConn))
		}
	}()
	return "http://" + listener.Addr().String()
}

func (s wire) serve(connection *net.TCPConn) {
	defer connection.Close()
	if _, err := connection.Read(make([]byte, 4096)); err != nil {
		return
	}
	if s.pause == 0 {
		_, _ = connection.Write(s.said)
	}
	for i := 0; s.pause > 0; i++ {
		if _, err := connection.Write(s.said[i%len(s.said):][:1]); err != nil {
			return
		}
		time.Sleep(s.pause)
	}
	if s.reset {
		<-s.taken
		_ = connection.SetLinger(0)
		return
	}
	_ = connection.CloseWrite()
	_, _ = io.Copy(io.Discard, connection) // until the client hangs up: a close with data unread would be a reset
}

// taking is a client's connection that tells when it has read so many bytes.
type taking struct {
	net.Conn
	left  int
	taken chan struct{}
}

func (c *taking) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left > 0 && c.left <= n {
		close(c.taken)
	}
	c.left -= n
	return n, err
}

// ok is a whole answer with further header lines.
func ok(header, body string) []byte {
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + header + "\r\n" + body)
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// hostile is an answer and what becomes of it.
type hostile struct {
	wire
	// value is what the body decodes to, where there is no error.
	value string
	// why is the kind of a *BodyError, "none" for an error that is none: no answer came. texts are parts of its message.
	why   string
	texts []string
}

// What a server may send instead of an answer, and what is said of it: never a part of a body, never garbage for a value, never a
// message as long as the server likes.
func TestHostileAnswers(t *testing.T) {
	const none = "none"
	hints := bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), 500)
	long := strings.Repeat("x", 200<<10)
	cut := []byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + `[{"id":1},`)
	small := zipped(strings.Repeat(" ", 2<<20) + "[]")
	cases := map[string]hostile{
		"500 early hints":          {wire: wire{said: append(hints, ok("", "[1]")...)}, value: "[1]"},
		"early hints without end":  {wire: wire{said: bytes.Repeat(hints, 60)}, why: none, texts: []string{"headers exceeded", "check what baseURL names"}},
		"a header that is too big": {wire: wire{said: ok("X-A: "+strings.Repeat(long, 6)+"\r\n", "[]")}, why: none, texts: []string{"headers exceeded", "proxies"}},
		"a header that trickles": {
			wire: wire{said: []byte("HTTP/1.1 200 OK\r\nX-A: " + long), pause: 5 * time.Millisecond}, why: none, texts: []string{"no whole answer within 200ms"},
		},
		"a status line that trickles": {wire: wire{said: []byte("HTTP/1.1"), pause: 90 * time.Millisecond}, why: none, texts: []string{"no whole answer within 200ms"}},
		"a reset in mid-body":         {wire: wire{said: cut, reset: true}, why: BodyTruncated, texts: []string{"broke off", "connection reset"}},
		"a reset before the header":   {wire: wire{reset: true}, why: none, texts: []string{"the other side ended the connection"}},
		"a length that is too long":   {wire: wire{said: cut}, why: BodyTruncated, texts: []string{"broke off", "unexpected EOF"}},
		"a chunk that is cut": {
			wire: wire{said: []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n")}, why: BodyTruncated, texts: []string{"broke off"},
		},
		"no HTTP":              {wire: wire{said: []byte(long + "\r\n\r\n")}, why: none, texts: []string{"malformed HTTP response", "should begin with https:"}},
		"a change of protocol": {wire: wire{said: []byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n[1]")}, why: none, texts: []string{"101", "not asked for"}},

		"gzip":                       {wire: wire{said: ok("Content-Encoding: gzip\r\n", zipped("[1]"))}, value: "[1]"},
		"GZIP, as some write it":     {wire: wire{said: ok("Content-Encoding: GZIP\r\n", zipped("[1]"))}, value: "[1]"},
		"a bomb":                     {wire: wire{said: ok("Content-Encoding: gzip\r\n", small)}, why: BodyTooLarge, texts: []string{"1048576 bytes after decompression", "smaller pages"}},
		"a bomb in gzip, said twice": {wire: wire{said: ok("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", zipped(small))}, why: BodyEncoding, texts: []string{`"gzip, gzip"`}},
		"gzip in gzip, said once":    {wire: wire{said: ok("Content-Encoding: gzip\r\n", zipped(small))}, why: BodyNotJSON, texts: []string{"compressed with gzip", "twice"}},
		"gzip that is not said":      {wire: wire{said: ok("", small)}, why: BodyNotJSON, texts: []string{"compressed with gzip"}},
		"gzip that is cut":           {wire: wire{said: ok("Content-Encoding: gzip\r\n", zipped("[1]")[:20])}, why: BodyTruncated},
		"gzip with a tail":           {wire: wire{said: ok("Content-Encoding: gzip\r\n", zipped("[1]")+"and more, much more")}, why: BodyEncoding},
		"br":                         {wire: wire{said: ok("Content-Encoding: br\r\n", "\x0b\x01\x80[1]\x03")}, why: BodyEncoding, texts: []string{`"br"`, "none of gzip, deflate and identity", "gzip alone was asked for"}},
		"zstd":                       {wire: wire{said: ok("Content-Encoding: zstd\r\n", "\x28\xb5\x2f\xfd")}, why: BodyEncoding, texts: []string{`"zstd"`}},
		"br behind identity":         {wire: wire{said: ok("Content-Encoding: identity\r\nContent-Encoding: br\r\n", "[1]")}, why: BodyEncoding, texts: []string{`"identity, br"`}},
		"an encoding of 200 KiB":     {wire: wire{said: ok("Content-Encoding: "+long+"\r\n", "[1]")}, why: BodyEncoding, texts: []string{"…", "proxies on the way"}},

		"a tail after JSON":  {wire: wire{said: ok("", `[1] ]`)}, why: BodyNotJSON, texts: []string{"after"}},
		"two values":         {wire: wire{said: ok("", `{"a":1}{"a":2}`)}, why: BodyNotJSON, texts: []string{"more after the JSON value"}},
		"half a value":       {wire: wire{said: ok("", `[{"id":1},`)}, why: BodyNotJSON, texts: []string{"unexpected EOF"}},
		"no UTF-8":           {wire: wire{said: ok("", "{\"a\xff\":\"b\xc3\"}")}, value: "map[a\ufffd:b\ufffd]"},
		"a name of 200 KiB":  {wire: wire{said: ok("", `{"`+long+`": oh}`)}, why: BodyNotJSON},
		"JSON at the bound":  {wire: wire{said: ok("", strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth))}, value: strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)},
		"JSON over it":       {wire: wire{said: ok("", strings.Repeat("[", maxDepth+1)+strings.Repeat("]", maxDepth+1))}, why: BodyTooDeep, texts: []string{"deeper than 100 levels"}},
		"JSON far over it":   {wire: wire{said: ok("", strings.Repeat(`{"a":[`, 100_000))}, why: BodyTooDeep},
		"a page for people":  {wire: wire{said: ok("Content-Type: text/html\r\n", "\r\n<!DOCTYPE html><html>")}, why: BodyNotJSON, texts: []string{"looks like HTML", "check baseURL and the endpoint"}},
		"a page with a mark": {wire: wire{said: ok("", "\ufeff<html>")}, why: BodyNotJSON, texts: []string{"looks like HTML"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, none)
		})
	}
}

// check sends one request and looks at what came of it.
func (h hostile) check(t *testing.T, none string) {
	t.Helper()
	timeout := 10 * time.Second
	if h.pause > 0 {
		timeout = 200 * time.Millisecond
	}
	h.taken = make(chan struct{})
	if len(h.said) == 0 {
		close(h.taken)
	}
	c, _ := newClient(t, h.listen(t), "", func(o *Options) {
		o.MaxBodyBytes, o.Timeout = 1<<20, timeout
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := new(net.Dialer).DialContext(ctx, network, address)
			return &taking{connection, len(h.said), h.taken}, err
		}
	})
	answer, err := c.Send(t.Context(), get(t, c, "/x"), nil)
	var value any
	if err == nil {
		value, err = Decode(answer.Body)
	} else if answer != nil && answer.Body != nil {
		t.Errorf("%d bytes of a body beside the error %v", len(answer.Body), err)
	}
	if h.why == "" {
		if err != nil || fmt.Sprint(value) != h.value {
			t.Errorf("%v, %v; want %s", value, err, h.value)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error, but %.200s", fmt.Sprint(value))
	}
	var body *BodyError
	if errors.As(err, &body) {
		if body.Why != h.why {
			t.Errorf("the error is %s (%v), want %s", body.Why, err, h.why)
		}
	} else if h.why != none || answer != nil {
		t.Errorf("%v beside %+v, want %s", err, answer, h.why)
	}
	var unsent *UnsentError
	if errors.As(err, &unsent) {
		t.Errorf("%v: the request counts as unsent, and the server has it", err)
	}
	for _, text := range h.texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("no %q in %.1200q", text, err)
		}
	}
	if n := len(err.Error()); n > mostErrorBytes+200 {
		t.Errorf("the message has %d bytes", n)
	}
}

// A cookie that nobody asked for is not shown, and does not come along with the next request.
func TestCookiesAreNotKept(t *testing.T) {
	var sent []string
	c, _ := newClient(t, "https://api.example.com", "", func(o *Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("not dialled") }
	})
	c.transport.RegisterProtocol("cookie", roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Header.Get("Cookie"))
		return &http.Response{StatusCode: 200, Header: http.Header{"Set-Cookie": {"session=abcdef; Path=/"}, "X-A": {"b"}}, Body: http.NoBody}, nil
	}))
	for range 2 {
		request := get(t, c, "/x")
		request.URL.Scheme = "cookie"
		answer, err := c.Send(t.Context(), request, nil)
		if err != nil || answer.Header.Get("Set-Cookie") != "" || answer.Header.Get("X-A") != "b" {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	if fmt.Sprint(sent) != "[ ]" {
		t.Errorf("cookies %q went along", sent)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A redirect to an address of 200 KiB does not fill the logs.
func TestRedirectErrorsAreBounded(t *testing.T) {
	c, _ := newClient(t, "https://api.example.com", "", nil)
	long := strings.Repeat("x", 200<<10)
	for _, to := range []string{"https://other.example.net/" + long, "https://%zz/" + long, "ftp://h/" + long} {
		_, err := c.Redirect(get(t, c, "/x"), &Answer{Status: 302, Header: http.Header{"Location": {to}}})
		var refused *RedirectError
		if !errors.As(err, &refused) || len(err.Error()) > 3*mostErrorBytes {
			t.Errorf("%.20s: %.300v", to, err)
		}
	}
}
