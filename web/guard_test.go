package web_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

const (
	here  = "127.0.0.1:50000"
	there = "192.0.2.7:50000"
)

func basic(password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+password))
}

const pause, admit = "/api/v1/jobs/meraki-devices/pause", "/api/v1/spend/admit"

// accessCases say who may ask for what. Everything that is not here is a combination of these.
var accessCases = []struct {
	name          string
	token         bool // is set
	method, path  string
	remote, host  string
	authorization string
	header        string // another one, NAME: VALUE
	status        int
	why           string // in the answer
}{
	{"page here", false, "GET", "/", here, "localhost:9469", "", "", 200, ""},
	{"page here, by address", false, "GET", "/", here, "127.0.0.1:9469", "", "", 200, ""},
	{"page here, without a port", false, "GET", "/", here, "127.0.0.1", "", "", 200, ""},
	{"page here, IPv6", false, "GET", "/", "[::1]:50000", "[::1]:9469", "", "", 200, ""},
	{"page here, IPv4 in IPv6", false, "GET", "/", "[::ffff:127.0.0.1]:50000", "localhost", "", "", 200, ""},
	{"page here, a name below localhost", false, "GET", "/", here, "tapyr.localhost:9469", "", "", 200, ""},
	{"page here, a name that is allowed", false, "GET", "/", here, "monitor.example:9469", "", "", 200, ""},
	{"page here, although a token is set", true, "GET", "/", here, "localhost", "", "", 200, ""},
	{"a Unix socket", false, "GET", "/", "@", "localhost", "", "", 200, ""},

	{"rebinding", false, "GET", "/", here, "evil.example:9469", "", "", 403, `for the host \"evil.example:9469\"`},
	{"rebinding to the API", true, "GET", "/api/v1/status", here, "evil.example", "", "", 401, `for the host \"evil.example\"`},
	{"rebinding with a digit more", false, "GET", "/", here, "127.0.0.1.evil.example", "", "", 403, "evil.example"},
	{"rebinding to another address", false, "GET", "/", here, "192.0.2.7", "", "", 403, "192.0.2.7"},
	{"rebinding to a pause", false, "POST", pause, here, "evil.example", "", "", 403, "evil.example"},
	{"no host at all", false, "GET", "/", here, " ", "", "", 403, "host"},

	{"a proxy here", false, "GET", "/", here, "localhost", "", "X-Forwarded-For: 203.0.113.9", 403, "by a proxy"},
	{"a proxy here, by the standard", true, "GET", "/metrics", here, "localhost", "", "Forwarded: for=203.0.113.9", 401, "by a proxy"},
	{"a proxy here, Via", true, "POST", pause, here, "localhost", "", "Via: 1.1 proxy", 401, "by a proxy"},
	{"a proxy here that brings the token", true, "GET", "/", here, "status.example", "Bearer " + token, "X-Forwarded-For: 203.0.113.9", 200, ""},

	{"page from there, no token set", false, "GET", "/", there, "192.0.2.1:9469", "", "", 403, "declare status.token"},
	{"page from there, any token, none set", false, "GET", "/", there, "192.0.2.1:9469", "Bearer ", "", 403, "declare status.token"},
	{"empty password, none set", false, "GET", "/", there, "192.0.2.1:9469", basic(""), "", 403, "declare status.token"},
	{"page from there", true, "GET", "/", there, "192.0.2.1:9469", "", "", 401, "need the token"},
	{"health from there", true, "GET", "/healthz", there, "192.0.2.1:9469", "", "", 200, "ok"},
	{"readiness from there", false, "GET", "/readyz", there, "192.0.2.1:9469", "", "", 200, "ready"},
	{"health of a pod, by a proxy", true, "HEAD", "/healthz", there, "10.0.0.7:9469", "", "X-Forwarded-For: 203.0.113.9", 200, ""},
	{"posting to health from there", true, "POST", "/healthz", there, "x", "", "", 401, "need the token"},
	{"below health from there", true, "GET", "/healthz/", there, "x", "", "", 401, "need the token"},
	{"beside health from there", true, "GET", "/healthz/../api/v1/status", there, "x", "", "", 401, "need the token"},
	{"token in the URL", true, "GET", "/?token=" + token + "&access_token=" + token, there, "x", "", "", 401, "need the token"},
	{"token in the path", true, "GET", "/" + token, there, "x", "", "", 401, "need the token"},
	{"metrics from there", true, "GET", "/metrics", there, "192.0.2.1:9469", "", "", 401, "need the token"},
	{"nothing from there", true, "GET", "/nothing", there, "192.0.2.1:9469", "", "", 401, "need the token"},
	{"loopback as host from there", true, "GET", "/", there, "localhost", "", "", 401, "need the token"},
	{"no address", true, "GET", "/", "nonsense", "localhost", "", "", 401, "need the token"},

	{"token from there", true, "GET", "/", there, "192.0.2.1:9469", "Bearer " + token, "", 200, ""},
	{"token, scheme in any case", true, "GET", "/metrics", there, "x", "bEARER  " + token, "", 200, ""},
	{"token as a password", true, "GET", "/", there, "x", basic(token), "", 200, ""},
	{"token with an end", true, "GET", "/", there, "x", "Bearer " + token + "x", "", 401, "is not the one"},
	{"half a token", true, "GET", "/", there, "x", "Bearer " + token[:10], "", 401, "is not the one"},
	{"token in another case", true, "GET", "/", there, "x", "Bearer " + strings.ToUpper(token), "", 401, "is not the one"},
	{"token without a scheme", true, "GET", "/", there, "x", token, "", 401, "Authorization: Bearer TOKEN"},
	{"wrong password", true, "GET", "/", there, "x", basic("guess"), "", 401, "is not the one"},

	{"pause here", false, "POST", pause, here, "localhost", "", "", 204, ""},
	{"pause from there", true, "POST", pause, there, "x", "", "", 401, "need the token"},
	{"pause from there, no token set", false, "POST", pause, there, "x", "", "", 403, "declare status.token"},
	{"reload from there", true, "POST", "/api/v1/reload", there, "x", "", "", 401, "need the token"},
	{"pause with the token", true, "POST", pause, there, "x", "Bearer " + token, "", 204, ""},
	{"pause with a password: a browser sends it unasked", true, "POST", pause, there, "x", basic(token), "", 401, "Bearer TOKEN"},
	{"pause from another site's page", false, "POST", pause, here, "localhost", "", "Sec-Fetch-Site: cross-site", 403, "another site"},
	{"pause from another site's page, an older browser", false, "POST", pause, here, "localhost", "", "Origin: https://evil.example", 403, "another site"},
	{"pause from a page without origin", false, "POST", pause, here, "localhost", "", "Origin: null", 403, "another site"},
	{"another site's page with the token", true, "POST", pause, there, "x", "Bearer " + token, "Sec-Fetch-Site: cross-site", 403, "another site"},

	{"admission here, no token set", false, "POST", admit, here, "localhost", "", "", 403, "admissions need a bearer token"},
	{"admission here without the token", true, "POST", admit, here, "localhost", "", "", 401, "from loopback too"},
	{"admission with a password", true, "POST", admit, here, "localhost", basic(token), "", 401, "Bearer TOKEN"},
	{"admission with the token", true, "POST", admit, there, "x", "Bearer " + token, "", 415, "content type"},
	{"settlement here without the token", true, "POST", "/api/v1/spend/settle", here, "localhost", "", "", 401, "from loopback too"},
	{"spend is read like the rest", false, "GET", "/api/v1/spend", here, "localhost", "", "", 200, ""},
}

func TestAccess(t *testing.T) {
	for _, test := range accessCases {
		t.Run(test.name, func(t *testing.T) {
			o := web.Options{Daemon: stillOf(webtest.Degraded, 3), Hosts: []string{"monitor.example"}}
			if test.token {
				o.Token = tokenOf
			}
			header := map[string]string{}
			if test.authorization != "" {
				header["Authorization"] = test.authorization
			}
			if name, value, ok := strings.Cut(test.header, ": "); ok {
				header[name] = value
			}
			w := call{method: test.method, path: test.path, remote: test.remote, host: test.host, header: header}.do(web.New(o))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.why) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, test.status, test.why)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != (challenge == `Bearer realm="tapyr"`) {
				t.Errorf("WWW-Authenticate: %q", challenge)
			}
			if w.Code >= 400 && strings.Contains(w.Body.String(), token) {
				t.Errorf("the answer holds the token: %s", w.Body)
			}
			checkHeaders(t, w.Header())
		})
	}
}

// At an address that other machines reach, this machine needs the token as well: a tunnel makes anybody look like it.
func TestExposedAddressWantsTheTokenFromEverybody(t *testing.T) {
	for _, set := range []bool{true, false} {
		o := web.Options{Daemon: stillOf(webtest.Degraded, 3), Hosts: []string{"monitor.example"}, Exposed: true}
		refusal := http.StatusForbidden
		if set {
			o.Token, refusal = tokenOf, http.StatusUnauthorized
		}
		h := web.New(o)
		for _, remote := range []string{here, "[::1]:50000", "@", there} {
			for _, host := range []string{"localhost", "127.0.0.1:9469", "monitor.example", "192.0.2.1"} {
				for _, path := range []string{"/", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/spend", "/nothing"} {
					c := call{path: path, remote: remote, host: host}
					if w := c.do(h); w.Code != refusal {
						t.Errorf("%v: %+v: %d %s", set, c, w.Code, w.Body)
					}
				}
				for _, path := range []string{pause, "/api/v1/reload", admit} {
					c := call{method: "POST", path: path, remote: remote, host: host}
					if w := c.do(h); w.Code != refusal {
						t.Errorf("%v: %+v: %d %s", set, c, w.Code, w.Body)
					}
				}
				for _, path := range []string{"/healthz", "/readyz"} {
					if w := (call{path: path, remote: remote, host: host}).do(h); w.Code != http.StatusOK {
						t.Errorf("%s: %d %s", path, w.Code, w.Body)
					}
				}
				header := map[string]string{"Authorization": "Bearer " + token}
				if w := (call{path: "/", remote: remote, host: host, header: header}).do(h); set && w.Code != http.StatusOK {
					t.Errorf("with the token: %d %s", w.Code, w.Body)
				}
			}
		}
	}
}

// A probe tells everybody one word, and why only to those who may ask.
func TestProbesTellNoDetailToEverybody(t *testing.T) {
	d := stillOf(webtest.Degraded, 3)
	d.sick, d.unready = errors.New("the state of acme is locked"), errors.New("the plan of acme is missing")
	bearer := map[string]string{"Authorization": "Bearer " + token}
	for _, c := range []struct {
		exposed bool
		call    call
		detail  bool
	}{
		{false, call{}, true},
		{false, call{remote: there}, false},
		{false, call{host: "evil.example"}, false},
		{true, call{}, false},
		{true, call{remote: there, header: bearer}, true},
		{true, call{remote: there, header: map[string]string{"Authorization": "Bearer guess"}}, false},
	} {
		h := web.New(web.Options{Daemon: d, Token: tokenOf, Exposed: c.exposed})
		for path, word := range map[string]string{"/healthz": "not ok", "/readyz": "not ready"} {
			c.call.path = path
			w := c.call.do(h)
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"`+word+`"`) || strings.Contains(w.Body.String(), "acme") != c.detail {
				t.Errorf("%+v: %d %s", c, w.Code, w.Body)
			}
		}
	}
}

// Two Authorization headers could mean one thing to a proxy and another to us.
func TestTwoAuthorizationsAreNone(t *testing.T) {
	h := web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3), Token: tokenOf})
	r, w := request(there, "x"), recorder()
	r.Header["Authorization"] = []string{"Bearer " + token, "Bearer other"}
	h.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Error(w.Code)
	}
}

// The token of a reload counts from then on, and the old one no more.
func TestTheTokenCanChange(t *testing.T) {
	now := "first-token"
	h := web.New(web.Options{Daemon: stillOf(webtest.Healthy, 3), Token: func() string { return now }})
	with := func(token string) int {
		return call{path: "/api/v1/jobs", remote: there, header: map[string]string{"Authorization": "Bearer " + token}}.do(h).Code
	}
	if a, b := with("first-token"), with("second-token"); a != 200 || b != 401 {
		t.Error(a, b)
	}
	now = "second-token"
	if a, b := with("first-token"), with("second-token"); a != 401 || b != 200 {
		t.Error(a, b)
	}
}

// checkHeaders: every answer has what keeps a browser from harm.
func checkHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q has no %s", policy, want)
		}
	}
	for _, weak := range []string{"unsafe", "*", "http:", "https:"} {
		if strings.Contains(policy, weak) {
			t.Errorf("the policy %q has %s", policy, weak)
		}
	}
	if h.Get("Access-Control-Allow-Origin") != "" {
		t.Error("other sites may read the answer")
	}
}

// FuzzRequest: whatever the address line, the host, the token and the query are, the answer is one of ours, has the headers, and
// nobody from elsewhere sees anything without the token.
func FuzzRequest(f *testing.F) {
	f.Add("/", "q=meraki&refresh=10", "localhost", "Bearer x", true)
	f.Add("/api/v1/scopes", "provider=meraki&key=%00", "[::1]:80", "Basic Og==", false)
	f.Add("/api/v1/jobs/meraki-devices", "q=<script>alert(1)</script>", "127.0.0.1.evil.example", "", false)
	f.Add("/metrics", "name[]=x", "\xff", "\x00", true)
	f.Add("/", "q=%F0%9F%92%A9%ff&refresh=99999999999999999999", "localhost:99999", "", true)
	h := web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3), Token: tokenOf})
	f.Fuzz(func(t *testing.T, path, query, host, authorization string, local bool) {
		r := request(there, host)
		if local {
			r.RemoteAddr = here
		}
		r.URL.Path, r.URL.RawQuery = "/"+strings.TrimPrefix(path, "/"), query
		r.Header["Authorization"] = []string{authorization}
		w := recorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 301, 307, 404: // ServeMux redirects to a path without // and ..
			if probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !local && !probe && !strings.Contains(authorization, token) {
				t.Errorf("%d without a token", w.Code)
			}
		case 401, 403:
			if local && host == "localhost" {
				t.Errorf("%d on loopback", w.Code)
			}
		default:
			t.Errorf("status %d", w.Code)
		}
		checkHeaders(t, w.Header())
		if strings.Contains(w.Body.String(), "<script>alert") {
			t.Error("a script from the query is in the answer")
		}
	})
}
