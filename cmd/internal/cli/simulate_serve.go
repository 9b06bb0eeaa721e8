package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate"
)

func newSimulateServeCommand() *Command {
	return &Command{
		Name:      "serve",
		Usage:     "serve a provider over HTTP that enforces its limits",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Serves the endpoints of a provider's jobs, with data made from --seed that the jobs' expressions find their fields in, " +
			"pages, credentials, limits and their headers as the documents declare them. Any client can be pointed at it. The first " +
			"line is its URL, to be an account's baseURL; it ends with an interrupt, or after --for.\n\n" +
			"Credentials whose values are at hand, in the environment or in files, are the only ones accepted; where there are none, " +
			"any of the declared form are.",
		Examples: []Example{
			{Comment: "what it serves", Line: "tapyr simulate serve examples/meraki --listen 127.0.0.1:0 --for 100ms"},
			{Comment: "a slow vendor with errors and another client", Line: "tapyr simulate serve examples/aruba-central --listen 127.0.0.1:0 --for 100ms --latency 50ms±20ms --errors 1% --external 30/m --clock-skew 2s"},
		},
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "provider", Usage: "the `NAME` of the provider; may be left out where there is one"},
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:9470", Usage: "listen at `ADDR`; port 0 is any that is free"},
			&cli.StringFlag{Name: "for", Usage: "stop after `SPAN`"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "the `NUMBER` that decides the data and everything random"},
			fanoutFlag(), setFlag(), onlyFlag(),
		}, faultFlags()...),
		Run: runSimulateServe,
	}
}

func runSimulateServe(call *Call) error {
	config, err := call.loadChanged()
	if err != nil {
		return err
	}
	provider, err := call.oneProvider(config)
	if err != nil {
		return err
	}
	options, err := call.serverOptions(config, provider)
	if err != nil {
		return err
	}
	server, err := simulate.NewServer(config, provider.Name, options)
	if err != nil {
		return call.Usagef("%s", err)
	}
	ctx := call.Ctx()
	if text := call.String("for"); text != "" {
		span, err := schema.ParseDuration(text)
		if err != nil {
			return call.Usagef("--for: %s", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(span))
		defer cancel()
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", call.String("listen"))
	if err != nil {
		return fmt.Errorf("cannot listen at %q: %w", call.String("listen"), err)
	}
	base, err := url.Parse(provider.Spec.BaseURL)
	if err != nil {
		base = &url.URL{} // a valid configuration has none such
	}
	call.Out.Printf("http://%s%s\n", listener.Addr(), strings.TrimSuffix(base.Path, "/"))
	for _, route := range server.Routes() {
		call.Out.Printf("  %s\n", route)
	}
	if err := call.Out.Flush(); err != nil {
		_ = listener.Close()
		return err
	}
	if len(options.Secrets) == 0 && provider.Spec.Auth != nil && provider.Spec.Auth.Type != "none" {
		call.Note("no values of credentials are at hand: any of the form %s are accepted", provider.Spec.Auth.Type)
	}
	return serveUntil(ctx, call, listener, server)
}

// serverOptions reads how the server is to behave.
func (c *Call) serverOptions(config *validate.Config, provider *validate.Provider) (simulate.ServerOptions, error) {
	sizes, err := c.fanout(config)
	if err != nil {
		return simulate.ServerOptions{}, err
	}
	options := simulate.ServerOptions{Seed: c.Uint64("seed"), Items: make(map[string]int64), Secrets: c.secrets(provider)}
	for name, total := range sizes {
		// The total is spread over the instances of the job that lists them.
		of := int64(1)
		for j := config.Job(name).Parent; j != nil; j = j.Parent {
			n, given := sizes[j.Name]
			if e := j.Spec.Estimate; !given && e != nil && e.Items != nil {
				n, given = *e.Items, true
			}
			if given {
				of = max(of, n)
			}
		}
		options.Items[name] = (total + of - 1) / of
	}
	options.Faults, err = c.faults(config, c.Env.Now())
	return options, err
}

// secrets are the values of the credentials of all accounts that are at hand, by account and name.
func (c *Call) secrets(provider *validate.Provider) map[string]map[string]string {
	all := make(map[string]map[string]string)
	for _, a := range provider.Accounts {
		if values, err := daemon.Secrets(a, c.Env.Getenv); err == nil && len(values) > 0 {
			all[a.Name] = values
		}
	}
	return all
}

// shutdownTime is how long answers that are under way may take when the server ends.
const shutdownTime = 2 * time.Second

// serveUntil serves until the context ends.
func serveUntil(ctx context.Context, call *Call, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(call.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close() // answers that take longer are cut off
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
