package daemon

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Options of New.
type Options struct {
	// Load reads and checks the documents, at the start and for every reload.
	Load func(context.Context) (*validate.Config, error)
	// Watch are the files and folders that the documents come from: a change of one is a reload. None is none.
	Watch []string
	// Log takes what an operator wants to know. Secrets are taken out of it.
	Log *slog.Logger
	// Getenv looks up secrets.
	Getenv func(name string) string
	// Version is the program's.
	Version string
	// Jobs restricts the daemon to these, and those whose inventories they need; none is no restriction.
	Jobs []string
	// Handler makes what the status address serves, such as web.New; it decides who may ask. nil opens no address.
	Handler func(*Daemon) http.Handler
	// Grace is how long running requests may take to finish at the end; 0 is 20 seconds.
	Grace time.Duration
	// Dial opens connections to providers; nil for the network's own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout and MaxBodyBytes bound an answer; 0 is the default of package client.
	Timeout      time.Duration
	MaxBodyBytes int64
}

const (
	// defaultListen is where the status page is, unless the documents say otherwise.
	defaultListen = "127.0.0.1:9469"
	// defaultStatePath is where state is kept, unless the documents say otherwise.
	defaultStatePath = "tapyr.db"
	// defaultFlush is how often counts are written, defaultRetention how long the journal is kept.
	defaultFlush     = 5 * time.Second
	defaultRetention = 35 * 24 * time.Hour
	// defaultInFlight is how many requests may be under way, defaultInFlightEach how many of one account: enough for a vendor far away,
	// and few enough for the descriptors that a process has.
	defaultInFlight     = 256
	defaultInFlightEach = 64
	// defaultGrace is how long running requests may take at the end.
	defaultGrace = 20 * time.Second
)

// settings are those of the documents, with the defaults.
type settings struct {
	statePath        string
	flush, retention time.Duration
	listen           string
	// inFlight bounds the requests under way, inFlightEach those of each account.
	inFlight, inFlightEach int
	token                  *schema.SecretRef
}

func settingsOf(c *validate.Config) (settings, error) {
	s := settings{
		statePath: defaultStatePath, flush: defaultFlush, retention: defaultRetention, listen: defaultListen,
		inFlight: defaultInFlight, inFlightEach: defaultInFlightEach,
	}
	if c.Settings.Spec == nil {
		return s, nil
	}
	state, status := &c.Settings.Spec.State, &c.Settings.Spec.Status
	if state.DSN != nil {
		return s, fmt.Errorf("state.dsn: this tapyr keeps its state in a SQLite file only; name one in state.path")
	}
	if state.Path != "" {
		s.statePath = state.Path
	}
	s.flush, s.retention = state.FlushInterval.Or(s.flush), state.JournalRetention.Or(s.retention)
	if most := c.Settings.Spec.Budget.MaxInFlight; most != nil {
		s.inFlight = *most
	}
	if each := c.Settings.Spec.Budget.MaxInFlightPerAccount; each != nil {
		s.inFlightEach = *each
	}
	if status.Listen != "" {
		s.listen = status.Listen
	}
	s.token = status.Token
	return s, nil
}

// StatePath is where a configuration keeps its state.
func StatePath(c *validate.Config) (string, error) {
	s, err := settingsOf(c)
	return s.statePath, err
}

// Listen is where a daemon with this configuration shows its status, and the token that its API wants; empty for none.
func Listen(c *validate.Config, getenv func(string) string) (address, token string, err error) {
	s, err := settingsOf(c)
	if err != nil || s.token == nil {
		return s.listen, "", err
	}
	token, err = secret(s.token, getenv)
	if err != nil {
		err = fmt.Errorf("status.token: %w", err)
	}
	return s.listen, token, err
}

// secret looks up a secret. The error never holds it.
func secret(ref *schema.SecretRef, getenv func(string) string) (string, error) {
	if ref.File != "" {
		text, err := client.ReadFile(ref.File)
		if err != nil {
			return "", err
		}
		value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if value == "" {
			return "", fmt.Errorf("the file %s is empty; it should hold the secret", ref.File)
		}
		return value, nil
	}
	value := getenv(ref.Env)
	if value == "" {
		return "", fmt.Errorf("the environment variable %s is not set; it should hold the secret", ref.Env)
	}
	return value, nil
}

// Secrets looks up the credentials of an account, by name.
func Secrets(a *validate.Account, getenv func(string) string) (map[string]string, error) {
	out := make(map[string]string, len(a.Spec.Credentials))
	for name, ref := range a.Spec.Credentials {
		value, err := secret(&ref, getenv)
		if err != nil {
			return nil, fmt.Errorf("account %q, credential %q: %w", a.Name, name, err)
		}
		out[name] = value
	}
	return out, nil
}

// freshSalt is for a state that has none yet.
func freshSalt() []byte {
	salt := make([]byte, 32)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	return salt
}
