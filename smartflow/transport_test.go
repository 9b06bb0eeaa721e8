package smartflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// newPost is a POST whose body tells whether it was closed.
func newPost(ctx context.Context, t testing.TB, body string) (*http.Request, *closeCounter) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.meraki.com/api/v1/organizations/O_1/networks", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	counter := &closeCounter{ReadCloser: req.Body}
	req.Body = counter
	return req, counter
}

type closeCounter struct {
	io.ReadCloser
	closed atomic.Int64
}

func (c *closeCounter) Close() error {
	c.closed.Add(1)
	return c.ReadCloser.Close()
}

func TestTransportRepeatsWithTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustNew(t, Config{})
		var bodies []string
		tr := &Transport{Limiter: l, Base: roundTripper(func(rt *roundTrip) (int, map[string]string, string) {
			if bodies = append(bodies, rt.body); len(bodies) < 3 {
				return 429, map[string]string{"Retry-After": "2"}, "slow down"
			}
			return 201, nil, "{}"
		})}
		req, counter := newPost(context.Background(), t, "payload")
		sent := req.Body
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 201 || fmt.Sprint(bodies) != "[payload payload payload]" {
			t.Errorf("status %d, bodies %q", resp.StatusCode, bodies)
		}
		if counter.closed.Load() != 1 || req.Body != sent {
			t.Errorf("the first body was closed %d times; the request must not be changed", counter.closed.Load())
		}
		// Two pauses of 2 s, then one token each at the lowered rates.
		if got := time.Since(start); got < 4*time.Second || got > 4500*time.Millisecond {
			t.Errorf("took %v, want a little more than 4s", got)
		}
		// 10 * 0.7 * 0.7, and 0.2 for the success.
		if got := orgState(t, l, "O_1").RatePerSecond; !near9(got, 5.1) {
			t.Errorf("the rate is %v, want 5.1", got)
		}
	})
}

func TestTransportGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		retries  int
		header   string
		noBody   bool // the body cannot be had again
		attempts int
	}{
		"default":          {0, "", false, 6},
		"two":              {2, "", false, 3},
		"never":            {-1, "", false, 1},
		"unrepeatable":     {0, "", true, 1},
		"too much to wait": {0, "61", false, 1},
		"a day":            {0, "Wed, 09 Jul 2036 12:00:00 GMT", false, 1},
		"nonsense":         {1, "soon", false, 2},
		"zero":             {1, "0", false, 2},
		"negative":         {1, "-3", false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				tr := &Transport{Limiter: mustNew(t, Config{}), MaxRetries: c.retries, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
					attempts++
					return 429, map[string]string{"Retry-After": c.header}, "slow down"
				})}
				req, _ := newPost(context.Background(), t, "payload")
				if c.noBody {
					req.GetBody = nil
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				// The caller sees the refusal as it is.
				if resp.StatusCode != 429 || string(body) != "slow down" || err != nil {
					t.Errorf("status %d, body %q, %v", resp.StatusCode, body, err)
				}
				if attempts != c.attempts {
					t.Errorf("%d attempts, want %d", attempts, c.attempts)
				}
			})
		})
	}
}

func TestTransportErrors(t *testing.T) {
	l := mustNew(t, Config{})
	boom := errors.New("boom")
	broken := &Transport{Limiter: l, Base: failing{boom}}
	req, _ := newPost(context.Background(), t, "x")
	if _, err := broken.RoundTrip(req); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req, counter := newPost(ctx, t, "x")
	if _, err := broken.RoundTrip(req); !errors.Is(err, context.Canceled) || counter.closed.Load() != 1 {
		t.Errorf("got %v, body closed %d times", err, counter.closed.Load())
	}
	req, counter = newPost(context.Background(), t, "x")
	var ce *ConfigError
	if _, err := (&Transport{}).RoundTrip(req); !errors.As(err, &ce) || counter.closed.Load() != 1 {
		t.Errorf("without a limiter: %v, body closed %d times", err, counter.closed.Load())
	}
	// GetBody fails when the request is to be repeated.
	refusing := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
		return 429, map[string]string{"Retry-After": "0.01"}, ""
	})}
	req, _ = newPost(context.Background(), t, "x")
	req.GetBody = func() (io.ReadCloser, error) { return nil, boom }
	if _, err := refusing.RoundTrip(req); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	closeBody(req)
	return nil, f.err
}

// A request that is cancelled while it waits for its next attempt ends, and leaves
// nothing reserved.
func TestTransportCancelledBetweenAttempts(t *testing.T) {
	for _, header := range []string{"", "30"} {
		synctest.Test(t, func(t *testing.T) {
			l := mustNew(t, Config{})
			tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
				return 429, map[string]string{"Retry-After": header}, ""
			})}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			req, _ := newPost(ctx, t, "x")
			start := time.Now()
			if _, err := tr.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if got := time.Since(start); got != 10*time.Millisecond {
				t.Errorf("took %v, want 10ms", got)
			}
			time.Sleep(time.Minute)
			// After a pause no more than one is saved, until the rate has recovered.
			want := map[string]float64{"": 10, "30": 1}[header]
			if got := orgState(t, l, "O_1").Tokens; got != want {
				t.Errorf("%v tokens a minute later, want %v", got, want)
			}
		})
	}
}

// Answers to refusals are read and closed, or their connections would be lost.
func TestTransportClosesRefusals(t *testing.T) {
	var refused []*closeCounter
	base := roundTripper(func(*roundTrip) (int, map[string]string, string) {
		if len(refused) < 3 {
			return 429, map[string]string{"Retry-After": "0.001"}, "slow down"
		}
		return 200, nil, ""
	})
	tr := &Transport{Limiter: mustNew(t, Config{}), Base: wrap(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && resp.StatusCode == 429 {
			counter := &closeCounter{ReadCloser: resp.Body}
			resp.Body = counter
			refused = append(refused, counter)
		}
		return resp, err
	})}
	get(t, tr, "https://api.meraki.com/api/v1/organizations/1").Body.Close()
	if len(refused) != 3 {
		t.Fatalf("%d refusals, want 3", len(refused))
	}
	for i, c := range refused {
		rest, err := io.ReadAll(c.ReadCloser)
		if c.closed.Load() != 1 || len(rest) > 0 || err != nil {
			t.Errorf("refusal %d: closed %d times, %q unread, %v", i, c.closed.Load(), rest, err)
		}
	}
}

type wrap func(*http.Request) (*http.Response, error)

func (f wrap) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestTransportReports(t *testing.T) {
	for _, c := range []struct {
		status int
		want   float64
	}{{200, 5.2}, {204, 5.2}, {299, 5.2}, {304, 5}, {404, 5}, {500, 5}, {503, 5}} {
		l := mustNew(t, Config{})
		l.RegisterOrg("1")
		l.bucketOf(l.orgOf("1"), 0).rate = 5
		tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) { return c.status, nil, "" })}
		resp := get(t, tr, "https://api.meraki.com/api/v1/organizations/1")
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("status %d became %d", c.status, resp.StatusCode)
		}
		if got := orgState(t, l, "1").RatePerSecond; !near9(got, c.want) {
			t.Errorf("status %d: rate %v, want %v", c.status, got, c.want)
		}
	}
}

func TestTransportLearns(t *testing.T) {
	object := `{"id":"N_1","organizationId":"O_1","networkId":"N_9"}`
	padded := `{"pad":"` + strings.Repeat("x", maxLearnedBytes) + `","organizationId":"O_1"}`
	for name, c := range map[string]struct {
		method, contentType, body string
		read                      int // bytes; -1 = all
		org                       string
	}{
		"an object":            {"GET", "application/json; charset=utf-8", object, -1, "O_1"},
		"with space before":    {"GET", "application/json", " \n\t" + object, -1, "O_1"},
		"another JSON":         {"GET", "Application/Problem+JSON", object, -1, "O_1"},
		"read up to the brace": {"GET", "application/json", object + "\n", len(object), "O_1"},
		"read in part":         {"GET", "application/json", object, 20, ""},
		"not read":             {"GET", "application/json", object, 0, ""},
		"a list":               {"GET", "application/json", "[" + object + "]", -1, ""},
		"no JSON":              {"GET", "text/plain", object, -1, ""},
		"broken":               {"GET", "application/json", object[:30], -1, ""},
		"too large":            {"GET", "application/json", padded, -1, ""},
		"a POST":               {"POST", "application/json", object, -1, ""},
	} {
		l := mustNew(t, Config{})
		tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) {
			return 200, map[string]string{"Content-Type": c.contentType}, c.body
		})}
		req, err := http.NewRequest(c.method, "https://api.meraki.com/api/v1/networks/N_1?x=y", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		limit := c.read
		if limit < 0 {
			limit = len(c.body)
		}
		got := make([]byte, limit)
		from := io.Reader(resp.Body)
		if len(c.body) < 1000 { // in the smallest pieces, unless that takes for ever
			from = iotest.OneByteReader(from)
		}
		if _, err := io.ReadFull(from, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != c.body[:limit] {
			t.Errorf("%s: the body was changed", name)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		for _, url := range []string{"/networks/N_1", "/networks/N_9"} {
			if org, _ := l.Resolve(url); org != c.org {
				t.Errorf("%s: %s is of %q, want %q", name, url, org, c.org)
			}
		}
	}
}

// The URL teaches when the body does not, and a body that is read to its end teaches
// before it is closed.
func TestTransportLearnsFromURL(t *testing.T) {
	l := mustNew(t, Config{})
	tr := &Transport{Limiter: l, Base: roundTripper(func(rt *roundTrip) (int, map[string]string, string) {
		return 200, map[string]string{"Content-Type": rt.Header.Get("Accept")}, "[]"
	})}
	get(t, tr, "https://api.meraki.com/api/v1/organizations/O_1/networks/N_1").Body.Close()
	if org, _ := l.Resolve("/networks/N_1"); org != "O_1" {
		t.Errorf("got %q", org)
	}
	req, err := http.NewRequest("GET", "https://api.meraki.com/api/v1/organizations/O_2/networks/N_2", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if org, _ := l.Resolve("/networks/N_2"); org != "O_2" {
		t.Errorf("got %q before the body was closed", org)
	}
	resp.Body.Close()
}

// An escaped slash is part of an identifier.
func TestTransportUsesThePathAsSent(t *testing.T) {
	l := mustNew(t, Config{})
	tr := &Transport{Limiter: l, Base: roundTripper(func(*roundTrip) (int, map[string]string, string) { return 204, nil, "" })}
	get(t, tr, "https://api.meraki.com/organizations/O%2F1/x").Body.Close()
	orgState(t, l, "O%2F1")
	req := &http.Request{Method: "GET", URL: httptest.NewRequest("GET", "/", nil).URL, Header: http.Header{}}
	req.URL.Opaque = "//api.meraki.com/organizations/O_2/x"
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	orgState(t, l, "O_2")
}

// The whole way through an http.Client and real connections.
func TestTransportInAClient(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "0.05")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"organizationId":"O_1","echo":%q}`, body)
	}))
	defer server.Close()
	l := mustNew(t, Config{})
	client := &http.Client{Transport: &Transport{Limiter: l}}
	defer client.CloseIdleConnections()
	resp, err := client.Post(server.URL+"/organizations/O_1/x", "text/plain", bytes.NewBufferString("hello"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != `{"organizationId":"O_1","echo":"hello"}` {
		t.Errorf("got %q, %v", body, err)
	}
	if resp, err = client.Get(server.URL + "/networks/N_1"); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if org, _ := l.Resolve("/networks/N_1"); org != "O_1" || calls.Load() != 3 {
		t.Errorf("the network is of %q after %d calls, want O_1 after 3", org, calls.Load())
	}
}

func TestBackoff(t *testing.T) {
	for retries := range 100 {
		for _, chance := range []float64{0, 0.5, 0.999999} {
			got := backoff(retries, time.Minute, chance)
			full := time.Minute
			if retries < 6 {
				full = time.Second << retries
			}
			if got <= full/2 || got > full {
				t.Errorf("backoff(%d, %v) = %v: not in (%v, %v]", retries, chance, got, full/2, full)
			}
		}
	}
	if got := backoff(0, time.Millisecond, 0.9); got <= 0 || got > time.Millisecond {
		t.Errorf("%v is above the longest wait", got)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 7, 8, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"1": time.Second, " 120\t": 2 * time.Minute, "0.5": 500 * time.Millisecond, "1.": time.Second, "007": 7 * time.Second,
		"99999999999999999999999999": 1<<63 - 1, strings.Repeat("9", 400): 1<<63 - 1,
		"Wed, 08 Jul 2026 12:00:30 GMT":     30 * time.Second,
		"Wednesday, 08-Jul-26 12:01:00 GMT": time.Minute,
		"Wed Jul  8 12:00:02 2026":          2 * time.Second,
	} {
		if got, ok := ParseRetryAfter(value, now); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", value, got, ok, want)
		}
	}
	for _, value := range []string{
		"", " ", "0", "0.0", "-1", "+1", "1e3", "0x10", "1_000", "1,5", "1.2.3", ".5", "NaN", "Inf", "soon",
		"Wed, 08 Jul 2026 12:00:00 GMT", "Wed, 08 Jul 2026 11:59:59 GMT", "2026-07-08T12:00:30Z",
	} {
		if got, ok := ParseRetryAfter(value, now); ok {
			t.Errorf("%q: %v, want nothing to wait for", value, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"1", "0.5", "Wed, 08 Jul 2026 12:00:30 GMT", "-1", "9e9", "99999999999999999999", "1.0000000000000000001"} {
		f.Add(value)
	}
	now := time.Date(2026, 7, 8, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		wait, ok := ParseRetryAfter(value, now)
		if ok != (wait > 0) && !(wait == 0 && !ok) {
			t.Fatalf("%q: %v, %v", value, wait, ok)
		}
		if wait < 0 {
			t.Fatalf("%q: a wait of %v", value, wait)
		}
		if at, err := http.ParseTime(strings.Trim(value, " \t")); err == nil && at.After(now) && (!ok || wait != at.Sub(now)) {
			t.Fatalf("%q: %v, %v; it says %v", value, wait, ok, at)
		}
	})
}
