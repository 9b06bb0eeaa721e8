package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/web"
)

// statusHandler makes the Handler of a daemon: the page, the API and the metrics of package web, over the daemon and its book of
// paid calls.
func statusHandler(log *slog.Logger) func(*daemon.Daemon) http.Handler {
	return func(d *daemon.Daemon) http.Handler {
		return web.New(web.Options{
			Daemon: d, Series: d.Series(), Spend: paidCalls{d}, Now: time.Now, Token: d.Token, Exposed: d.Exposed(), Redact: d.Redact, Log: log,
		})
	}
}

// paidCalls are those of a daemon, for package web. It is a web.Spend.
type paidCalls struct{ daemon *daemon.Daemon }

// Machines implements web.Spend: one for each policy of the documents.
func (p paidCalls) Machines() map[string]web.Machine {
	machines := make(map[string]web.Machine)
	for name, m := range p.daemon.Machines() {
		machines[name] = m
	}
	return machines
}

// Report implements web.Spend.
func (p paidCalls) Report(ctx context.Context, now time.Time, policy string) (*report.Report, error) {
	store := p.daemon.Book()
	if store == nil {
		return nil, errors.New("the book of paid calls is not open")
	}
	r, err := report.Make(ctx, store, policy, now)
	if err == nil {
		r.Reconcile = p.daemon.Reconciling(policy)
	}
	return r, err
}
