package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/web"
)

// statusPage is what the status address of "tapyr run" serves: the page, the API and the metrics of package web, over the daemon
// and the book of paid calls of the documents in force. It is a web.Spend.
type statusPage struct {
	log *slog.Logger

	mu       sync.Mutex // guards what follows
	config   *validate.Config
	store    *sqlite.Spend // nil until there is a policy
	machines map[string]web.Machine
}

// remember makes a loader of documents that lets the page know what it has loaded.
func (p *statusPage) remember(load func(context.Context) (*validate.Config, error)) func(context.Context) (*validate.Config, error) {
	return func(ctx context.Context) (*validate.Config, error) {
		config, err := load(ctx)
		if err == nil {
			p.mu.Lock()
			p.config, p.machines = config, nil
			p.mu.Unlock()
		}
		return config, err
	}
}

// handler is the Handler of a daemon.
func (p *statusPage) handler(d *daemon.Daemon) http.Handler {
	return web.New(web.Options{
		Daemon: d, Series: d.Series(), Spend: p, Now: time.Now, Token: d.Token, Exposed: d.Exposed(), Redact: d.Redact, Log: p.log,
	})
}

// Machines implements web.Spend: one for each policy of the documents. The book is opened with the first.
func (p *statusPage) Machines() map[string]web.Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machines != nil || p.config == nil || len(p.config.Policies) == 0 {
		return p.machines
	}
	if p.store == nil {
		path, err := daemon.StatePath(p.config)
		if err == nil {
			p.store, err = sqlite.OpenSpend(context.Background(), path, sqlite.Options{})
		}
		if err != nil {
			p.log.Error("the book of paid calls does not open, so nothing is admitted", "error", err)
			return nil // asked again with the next request
		}
	}
	p.machines = make(map[string]web.Machine, len(p.config.Policies))
	for _, policy := range p.config.Policies {
		p.machines[policy.Name] = spend.New(p.store, policy.Name)
	}
	return p.machines
}

// Report implements web.Spend.
func (p *statusPage) Report(ctx context.Context, now time.Time, policy string) (*report.Report, error) {
	p.mu.Lock()
	store := p.store
	p.mu.Unlock()
	if store == nil {
		return nil, errors.New("the book of paid calls is not open")
	}
	return report.Make(ctx, store, policy, now)
}

// close gives the book back, after the last request.
func (p *statusPage) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.store == nil {
		return nil
	}
	return p.store.Close()
}
