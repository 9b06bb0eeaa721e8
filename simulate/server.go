package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// ServerOptions say how a Server behaves. The zero value is a vendor without faults, in real time.
type ServerOptions struct {
	// Seed decides the data and everything that is random.
	Seed uint64
	// Faults are what goes wrong. Pages is not one of a server's.
	Faults Faults
	// Items are numbers of items that one answer of a job lists in all its pages, by the job's name; estimates hold for the others.
	Items map[string]int64
	// Secrets are the values of credentials by account and name. Where there are none, anything of the declared form is accepted.
	Secrets map[string]map[string]string
	// Now and Sleep are the clock; nil for the real one.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Server is a provider over HTTP that enforces its limits. Any number of clients may use it.
type Server struct {
	provider *validate.Provider
	options  ServerOptions
	base     *url.URL
	routes   []*route
	owners   *owners

	// mu guards all below: whoever counts does so alone.
	mu      sync.Mutex
	vendor  *vendor
	doorman *doorman
	changes []LimitChange // that are still to come
	start   int64
	// others is when the other client sends its next request, which is like the last one that was answered.
	others int64
	last   *match.Request
	chance *rand.Rand
}

// NewServer is a server for a provider of a configuration. The error is a *validate.NoSuchNameError, or says what is wrong with the
// options.
func NewServer(config *validate.Config, provider string, options ServerOptions) (*Server, error) {
	part, err := config.Only([]string{provider}, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := options.Faults.Check(part); err != nil {
		return nil, err
	}
	s := &Server{provider: part.Provider(provider), options: options}
	now, sleep := realTime()
	if options.Now == nil {
		s.options.Now = now
	}
	if options.Sleep == nil {
		s.options.Sleep = sleep
	}
	if s.base, err = url.Parse(s.provider.Spec.BaseURL); err != nil {
		s.base = &url.URL{}
	}
	s.routes = routesOf(s.provider, config.Policies, options.Items) // a policy may have routes at other providers, too
	if s.owners = newOwners(part, s.provider); s.owners != nil {
		more := int64(mostListed)
		for _, j := range s.provider.Jobs {
			if j.Parent == nil {
				more = s.owners.list(options.Seed, s.routes, j, nil, more)
			}
		}
	}
	s.vendor = newVendor(part, options.Faults, options.Seed)
	s.vendor.alone, s.vendor.aside = nil, nil // whose requests are whose, a vendor cannot tell
	s.doorman = newDoorman(s.provider.Spec.Auth, s.base, options.Secrets)
	s.start = s.options.Now().UnixNano()
	s.changes = slices.SortedStableFunc(slices.Values(options.Faults.Changes), func(a, b LimitChange) int { return cmp.Compare(a.After, b.After) })
	s.chance = rand.New(rand.NewPCG(options.Seed, forExternal))
	s.others = s.start + s.pause()
	return s, nil
}

// Routes lists what the server answers, as "GET /path", in document order; token and login requests first.
func (s *Server) Routes() []string {
	var out []string
	if s.doorman.tokenAt != "" {
		out = append(out, s.doorman.method+" "+s.doorman.tokenAt)
	}
	for _, r := range s.routes {
		out = append(out, r.method+" "+r.template.Path)
	}
	return out
}

// pause is the time to the next request of the other client, never where there is none.
func (s *Server) pause() int64 {
	if s.options.Faults.External <= 0 {
		return 1 << 62
	}
	return max(1, int64(s.chance.ExpFloat64()/s.options.Faults.External*1e9))
}

// mostBody is how much of a request's body is read.
const mostBody = 1 << 20

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		s.fail(w, http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", mostBody)
		return
	}
	if s.doorman.isLogin(r.Method, r.URL.Path) {
		s.serveLogin(w, r, body)
		return
	}
	route, vars, known := findRoute(s.routes, r.Method, under(strings.TrimSuffix(s.base.Path, "/"), r.URL.Path))
	if route == nil {
		if known {
			s.fail(w, http.StatusMethodNotAllowed, "nobody asks %s with %s", r.URL.Path, r.Method)
			return
		}
		s.fail(w, http.StatusNotFound, "no job and no route of provider %q asks %s", s.provider.Name, r.URL.Path)
		return
	}
	s.mu.Lock()
	identity, why, ok := s.doorman.identify(s.now(), r)
	s.mu.Unlock()
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer realm="simulated"`)
		s.fail(w, http.StatusUnauthorized, "%s", why)
		return
	}
	page, ok := route.pageOf(asked(r))
	if !ok {
		s.fail(w, http.StatusBadRequest, "no such page: %s", strings.Join(paramNames(r.URL.Query()), ", "))
		return
	}
	asks := s.request(r, identity, route.template.Path, vars)
	path, _ := route.template.Expand(vars)
	asks.Vars = s.owners.complete(path, asks.Vars)
	s.answer(w, r, asks, func(now int64) (any, map[string]any) {
		m := &maker{seed: s.options.Seed, path: path, page: page, paged: route.paged}
		headers, _ := m.value(route.headers, "", "headers", 0).(map[string]any)
		if route.pages != nil && route.pages.Type == "link_header" {
			headers["Link"] = linkHeader(page, asked(r))
		}
		body := m.value(route.body, m.thing()+"s", "", 0)
		s.owners.truth(route, path, asks.Vars, body)
		return body, headers
	})
}

// now is ours; the vendor's may differ.
func (s *Server) now() int64 { return s.options.Now().UnixNano() }

// asked is the URL of a request as its client sees it.
func asked(r *http.Request) *url.URL {
	u := *r.URL
	u.Scheme, u.Host = "http", r.Host
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return &u
}

// request is what the limits look at.
func (s *Server) request(r *http.Request, identity, endpoint string, vars map[string]string) *match.Request {
	all := make(map[string]string)
	for _, a := range s.provider.Accounts {
		// The variables of the account that the credential belongs to; where nobody knows, of the only one.
		if a.Name == identity || len(s.provider.Accounts) == 1 {
			for name, value := range a.Spec.Vars {
				all[name] = value
			}
		}
	}
	query := make(map[string]string)
	for name, values := range r.URL.Query() {
		query[name] = values[0]
	}
	for name, value := range vars {
		all[name] = value
	}
	// A header may name a variable that no path has; nothing is known of it here.
	return &match.Request{
		Provider: s.provider.Name, Account: identity, Method: r.Method, Endpoint: endpoint, Query: query, Vars: all,
	}
}

// serveLogin issues a token. The request counts as an auth request.
func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	one, token, why, ok := s.doorman.login(s.now(), r, body)
	s.mu.Unlock()
	if !ok {
		s.fail(w, http.StatusUnauthorized, "%s", why)
		return
	}
	asks := s.request(r, one.identity, s.doorman.tokenAt, nil)
	asks.Auth = true
	s.answer(w, r, asks, func(now int64) (any, map[string]any) {
		d := s.doorman
		if d.auth.Type == "oauth2_client_credentials" {
			return map[string]any{
				"access_token": token, "token_type": "Bearer", "expires_in": (one.untilNanos - now) / int64(time.Second),
			}, nil
		}
		if d.auth.Cookie != "" {
			http.SetCookie(w, &http.Cookie{Name: d.auth.Cookie, Value: token, Path: "/", HttpOnly: true}) //nolint:gosec // a simulated vendor speaks HTTP
		}
		return tokenIn(d.body, token), tokenIn(d.headers, token).(map[string]any)
	})
}

// tokenIn is a login's answer, with the token where the documents look for it.
func tokenIn(s *shape, token string) any {
	if s.role == tokenRole {
		return token
	}
	out := make(map[string]any)
	for _, name := range s.names {
		out[name] = tokenIn(s.fields[name], token)
	}
	return out
}

// catchUp lets happen what others did since the last request, in the order of time.
func (s *Server) catchUp(now int64) {
	for {
		if len(s.changes) > 0 {
			// A change that was due before the beginning is true from then on.
			at := max(s.start, s.start+int64(s.changes[0].After))
			if at <= min(now, s.others) {
				s.vendor.change(at, s.changes[0])
				s.changes = s.changes[1:]
				continue
			}
		}
		if s.others > now {
			return
		}
		at := s.others
		s.others = at + s.pause()
		if s.last == nil {
			continue // nobody has shown it any credentials yet
		}
		if visitor, err := s.vendor.visitor(at, s.last); err == nil {
			a := s.vendor.arrive(at, visitor, false, nil)
			s.vendor.finish(at, &a)
		}
	}
}

// answer counts a request, waits as long as the vendor takes, which holds a slot, and writes what content makes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, asks *match.Request, content func(now int64) (any, map[string]any)) {
	s.mu.Lock()
	now := s.now()
	s.catchUp(now)
	s.last = asks
	visitor, err := s.vendor.visitor(now, asks)
	if err != nil {
		s.mu.Unlock()
		s.fail(w, http.StatusInternalServerError, "%s", err)
		return
	}
	a := s.vendor.arrive(now, visitor, false, nil)
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.vendor.finish(s.now(), &a)
	}()
	if s.options.Sleep(r.Context(), a.latency) != nil {
		return // the client is gone
	}
	if a.status == 0 {
		reset(w)
		return
	}
	for _, f := range a.fields {
		w.Header().Add(f.Name, f.Value)
	}
	w.Header().Set("Date", time.Unix(0, s.vendor.clock(s.now())).UTC().Format(http.TimeFormat))
	if a.status >= 400 {
		s.refuse(w, &a)
		return
	}
	body, headers := content(s.now())
	for name, value := range headers {
		if value != nil {
			w.Header().Set(name, fmt.Sprint(value))
		}
	}
	s.write(w, r, a.status, body)
}

// reset breaks the connection, without an answer and without a farewell.
func reset(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler) // HTTP/2, or a test's recorder: the server breaks the stream
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, not an end
	}
	_ = conn.Close()
}

// refuse writes an answer that is no success. Where the documents look for the wait in the body, it stands there too.
func (s *Server) refuse(w http.ResponseWriter, a *answer) {
	message := "service unavailable, a fault that was asked for"
	if a.limited {
		message = "rate limit exceeded"
		if limited := s.provider.Spec.Errors.RateLimited; limited != nil {
			if f := limited.RetryAfter; f != nil {
				if x := sampleOf(f.Pattern); x.ok {
					message += ", " + x.before + strconv.FormatInt(max(1, a.retryAfterSeconds), 10) + x.after
				}
			}
			if f := limited.LimitFrom; f != nil {
				for _, value := range sortedKeys(f.Values) {
					if f.Values[value] == a.limit {
						w.Header().Set(f.Header, value)
					}
				}
			}
		}
	}
	s.fail(w, a.status, "%s", message)
}

// fail writes an error as JSON.
func (s *Server) fail(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{fmt.Sprintf(format, args...)}}) // a client that is gone hears nothing
}

// chunks is how many pieces a slow body comes in.
const chunks = 8

// write sends a body, drop by drop where it is slow.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		s.fail(w, http.StatusInternalServerError, "%s", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return
	}
	s.mu.Lock()
	slow := s.vendor.happens(s.options.Faults.Slow)
	s.mu.Unlock()
	w.WriteHeader(status)
	pieces := 1
	if slow {
		pieces = min(chunks, max(1, len(data)))
	}
	for i := range pieces {
		_, err := w.Write(data[len(data)*i/pieces : len(data)*(i+1)/pieces])
		if err != nil || i == pieces-1 {
			return
		}
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		if s.options.Sleep(r.Context(), max(s.options.Faults.Latency, shortest)) != nil {
			return
		}
	}
}
