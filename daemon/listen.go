package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// OpenAddressError says that the status address can be reached from elsewhere, but no token protects it.
type OpenAddressError struct{ Address string }

func (e *OpenAddressError) Error() string {
	return fmt.Sprintf("status.listen %q can be reached from other machines, so status.token must say where a token is found; "+
		"or listen on 127.0.0.1", e.Address)
}

// listen opens the status address. The error is an *OpenAddressError where it is open to others and unprotected.
func (d *Daemon) listen() (net.Listener, error) {
	token, err := d.statusToken(d.world)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", d.world.settings.listen) //nolint:noctx // a loopback or literal address opens at once
	if err != nil {
		return nil, fmt.Errorf("the status address does not open: %w; another one goes in status.listen", err)
	}
	d.token.Store(&token)
	d.exposed.Store(exposed(d.world.settings.listen))
	return listener, nil
}

// statusToken is the token that the documents of a world want. The error is an *OpenAddressError where their address is open to
// others and unprotected, or says that the token is not there.
func (d *Daemon) statusToken(w *world) (string, error) {
	address, token, err := Listen(w.config, d.options.Getenv)
	if err != nil {
		return "", err
	}
	if exposed(address) && token == "" {
		return "", &OpenAddressError{address}
	}
	d.redactor.Add(token)
	return token, nil
}

// exposed tells whether an address can be reached from other machines.
func exposed(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	if host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// serve answers on the status address, with bounds on what a client may take of time and memory. The function that it returns stops
// that and waits.
func (d *Daemon) serve(listener net.Listener) (stop func()) {
	server := &http.Server{
		Handler: d.options.Handler(d), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
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

// Token is the bearer token that the status address wants, empty for none. A reload can change it.
func (d *Daemon) Token() string {
	if token := d.token.Load(); token != nil {
		return *token
	}
	return ""
}

// Exposed tells whether the status address can be reached from other machines.
func (d *Daemon) Exposed() bool { return d.exposed.Load() }

// Redact takes the secrets that the daemon knows out of a text.
func (d *Daemon) Redact(text string) string { return d.redactor.Text(text) }
