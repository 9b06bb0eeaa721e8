package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
)

// access is how a request may come in.
type access struct {
	// loopback tells that it comes from this machine, by no proxy, to a host of this machine, at an address that no other reaches.
	loopback bool
	// bearer tells that it brings the token as a bearer token, basic that it brings it as a password.
	bearer, basic bool
	// closed tells that there is no token to bring.
	closed bool
}

// guard lets through what may be answered, and gives every answer the headers that keep browsers from harm.
func (s *server) guard(next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		defer s.recoverPanic(w, r)
		a := s.accessOf(r)
		if status, why := s.refusal(a, r); status != 0 && !isProbe(r) {
			if status == http.StatusUnauthorized {
				// Browsers ask for a name and a password at Basic; everybody else reads the first.
				w.Header().Add("WWW-Authenticate", `Bearer realm="tapyr"`)
				if r.Method == http.MethodGet || r.Method == http.MethodHead {
					w.Header().Add("WWW-Authenticate", `Basic realm="tapyr", charset="UTF-8"`)
				}
			}
			s.Log.Warn("request refused", "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "status", status, "why", why)
			s.fail(w, status, why)
			return
		}
		if err := sameSite.Check(r); err != nil {
			s.fail(w, http.StatusForbidden, "a page of another site may not send this: "+err.Error())
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

// The probes' paths.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// isProbe tells whether a request asks no more than whether tapyr does its work. Whoever starts and stops it asks that, from
// anywhere and without a token, and is told one word.
func isProbe(r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return read && (r.URL.Path == healthPath || r.URL.Path == readyPath)
}

// maxBodyBytes bounds the body of every request.
const maxBodyBytes = 1 << 20

// setHeaders: nothing is kept, framed, sniffed or loaded from elsewhere. The page replaces the policy by one for its own style
// and script.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// refusal is the status and the reason with which a request is refused; 0 where it is not.
func (s *server) refusal(a access, r *http.Request) (status int, why string) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	spends := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/api/v1/spend/")
	switch {
	case a.bearer, a.basic && read, a.loopback && !spends:
		return 0, ""
	case a.closed && spends:
		return http.StatusForbidden, "admissions need a bearer token, and none is set: declare status.token in the Settings document"
	case a.closed:
		return http.StatusForbidden, "requests that may come from beyond loopback need a bearer token, and none is set: declare status.token in the Settings document, " +
			"or ask from the machine itself, as " + quoted("localhost") + " (this request came from " + quoted(r.RemoteAddr) + s.detour(r) + ")"
	case r.Header.Get("Authorization") != "":
		return http.StatusUnauthorized, "the token is not the one of status.token, or not in the form \"Authorization: Bearer TOKEN\""
	case spends:
		return http.StatusUnauthorized, "admissions need the token of status.token as \"Authorization: Bearer TOKEN\", from loopback too"
	default:
		return http.StatusUnauthorized, "requests that may come from beyond loopback need the token of status.token as \"Authorization: Bearer TOKEN\"" +
			" (this request came from " + quoted(r.RemoteAddr) + s.detour(r) + ")"
	}
}

// detour says what else keeps a request from counting as one of this machine.
func (s *server) detour(r *http.Request) string {
	switch {
	case proxied(r.Header):
		return " by a proxy"
	case !s.knownHost(r.Host):
		return " for the host " + quoted(r.Host)
	case s.Exposed && fromLoopback(r.RemoteAddr):
		return " to an address that others reach, too"
	}
	return ""
}

// accessOf looks at where a request comes from and what it brings.
func (s *server) accessOf(r *http.Request) access {
	want := s.Token()
	a := access{loopback: !s.Exposed && fromLoopback(r.RemoteAddr) && !proxied(r.Header) && s.knownHost(r.Host), closed: want == ""}
	authorization := r.Header.Values("Authorization")
	if a.closed || len(authorization) != 1 {
		return a
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	if strings.EqualFold(scheme, "Bearer") {
		a.bearer = equal(strings.TrimLeft(token, " "), want)
	} else if _, password, ok := r.BasicAuth(); ok {
		a.basic = equal(password, want)
	}
	return a
}

// equal compares in a time that tells nothing, not even the length: both are hashed first.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// fromLoopback tells whether an address ("host:port") is of this machine's loopback. "@" and "" are of Unix sockets, which only
// this machine has.
func fromLoopback(remote string) bool {
	if remote == "@" || remote == "" {
		return true
	}
	address, err := netip.ParseAddrPort(remote)
	return err == nil && address.Addr().Unmap().IsLoopback()
}

// proxied tells whether somebody else sent the request first: whoever asks a proxy of this machine is not of this machine.
func proxied(h http.Header) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// knownHost tells whether a request names a host that can only be this machine. A page whose own name was bound to 127.0.0.1
// would send that name (DNS rebinding).
func (s *server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if address, err := netip.ParseAddr(name); err == nil {
		return address.Unmap().IsLoopback()
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true // RFC 6761, 6.3: never resolved by anybody else
	}
	return slices.ContainsFunc(s.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// recoverPanic keeps a mistake in one answer from ending the daemon's other work, and tells where it is.
func (s *server) recoverPanic(w http.ResponseWriter, r *http.Request) {
	problem := recover()
	if problem == nil {
		return
	}
	if problem == http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http compares it
		panic(problem)
	}
	s.Log.Error("a request could not be answered", "path", r.URL.Path, "problem", s.Redact(fmt.Sprint(problem)), "stack", string(debug.Stack()))
	s.fail(w, http.StatusInternalServerError, "a mistake in tapyr: this could not be answered; the log says where")
}
