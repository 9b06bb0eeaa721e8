package daemon

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// OpenAddressError says that the status address can be reached from elsewhere, but no token protects it.
type OpenAddressError struct{ Address string }

func (e *OpenAddressError) Error() string {
	return fmt.Sprintf("status.listen %q can be reached from other machines, so status.token must say where a token is found; "+
		"or listen on 127.0.0.1 and put a reverse proxy in front", e.Address)
}

// listen opens the status address. The error is an *OpenAddressError where it is open to others and unprotected.
func (d *Daemon) listen() (net.Listener, error) {
	address, token, err := Listen(d.world.config, d.options.Getenv)
	if err != nil {
		return nil, err
	}
	if !loopback(address) && token == "" {
		return nil, &OpenAddressError{address}
	}
	d.redactor.Add(token)
	listener, err := net.Listen("tcp", address) //nolint:noctx // a loopback or literal address opens at once
	if err != nil {
		return nil, fmt.Errorf("the status address does not open: %w; another one goes in status.listen", err)
	}
	d.guard = guard{token: token, open: loopback(address)}
	return listener, nil
}

// loopback tells whether only this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// serve answers on the status address. The function that it returns stops that and waits.
func (d *Daemon) serve(listener net.Listener) (stop func()) {
	handler := d.API()
	if d.options.Handler != nil {
		handler = d.options.Handler(d)
	}
	server := &http.Server{
		Handler: d.guard.around(handler), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("the status address failed", "error", err)
		}
	}()
	d.log.Info("the status page is ready", "url", "http://"+listener.Addr().String()+"/")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	}
}

// guard decides who may ask. On loopback everybody on the machine may read; beyond it a token is wanted.
type guard struct {
	token string
	open  bool
}

// Authorized tells whether a request carries the status token: as a bearer token, or as the password of basic authentication, which
// browsers can ask for. It is false where no token is declared.
func (d *Daemon) Authorized(r *http.Request) bool { return d.guard.authorized(r) }

// Token is the bearer token that the status address wants, empty for none. It is known once the address is open.
func (d *Daemon) Token() string { return d.guard.token }

// Redact takes the secrets that the daemon knows out of a text.
func (d *Daemon) Redact(text string) string { return d.redactor.Text(text) }

func (g guard) authorized(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	return ok && g.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// around lets through what may come in. A web page that somebody on this machine looks at must neither read the status, by a name
// of its own that leads to 127.0.0.1 (DNS rebinding), nor change anything (cross-site requests).
func (g guard) around(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return crossOrigin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case g.open && !localName(r.Host):
			http.Error(w, "this address answers to 127.0.0.1, [::1] and localhost only", http.StatusMisdirectedRequest)
		case !g.open && !probe && !g.authorized(r):
			h.Set("WWW-Authenticate", `Basic realm="tapyr", charset="UTF-8"`)
			http.Error(w, "a token is wanted: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	}))
}

// localName tells whether a Host header names this machine from within.
func localName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}
