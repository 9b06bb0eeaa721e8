package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/mapping"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// How a run ended.
const (
	// statusOK: all pages, all of their items.
	statusOK = "ok"
	// statusPartial: it has what it could get, but there is more than maxPages, or items that an expression makes nothing of.
	statusPartial = "partial"
	// statusFailed: something failed for good. Nothing is published; what the last run found stays.
	statusFailed = "failed"
	// statusInterrupted: the daemon stopped before it was done. Nothing is published.
	statusInterrupted = "interrupted"
)

// errCut says that a run ended at its last allowed page.
var errCut = errors.New("there are more pages than maxPages; raise pagination.maxPages if they are wanted")

// run is one run of an instance. It has a goroutine of its own.
type run struct {
	daemon   *Daemon
	world    *world
	instance *schedule.Instance
	// heir is the same instance of a later generation, whose turn came while this run was under way. Guarded by Daemon.mu.
	heir *schedule.Instance

	core    schedule.Run
	pager   *schedule.Pager
	harvest *mapping.Harvest
	host    *host
	ask     ask
	latency time.Duration // of all requests
	status  string
	err     error
}

// newRun is a run that begins now.
func (d *Daemon) newRun(w *world, i *schedule.Instance, now int64) (*run, error) {
	j := i.Job
	r := &run{daemon: d, world: w, instance: i, core: schedule.Begin(now, i), host: w.hosts[hostName{j.Account.Name, i.Target}]}
	if r.host == nil {
		return nil, fmt.Errorf("job %q: no such target %q of account %q", j.Name, i.Target, j.Account.Name)
	}
	r.pager, r.harvest = w.paging[j.Name].Begin(), w.jobs[j.Name].Begin()
	r.ask.request, r.ask.subject, r.ask.line = askOf(w, i), subjectOf(w, i), d.line(j.Name)
	return r, nil
}

// askOf is what limits see of an instance's requests.
func askOf(w *world, i *schedule.Instance) engine.Request {
	j := i.Job
	request := engine.Request{
		Request: match.Request{
			Provider: j.Account.Provider.Name, Account: j.Account.Name, Target: i.Target, Method: j.Method,
			Endpoint: j.Endpoint.Path, Query: j.Query, Vars: i.Vars,
		},
		Priority: j.Priority,
	}
	if h := w.hosts[hostName{j.Account.Name, i.Target}]; h != nil {
		request.Credential = h.credential
	}
	return request
}

// first is the request of the first page.
func first(j *validate.Job, c *client.Client, pager *schedule.Pager, vars map[string]string) (*client.Request, error) {
	path, missing := j.Endpoint.Expand(vars)
	if missing != "" {
		return nil, fmt.Errorf("the endpoint's variable %q has no value", missing)
	}
	query := make(map[string]string, len(j.Query))
	for name, value := range j.Query {
		query[name] = client.Expand(value, vars)
	}
	u, err := c.URL(path, query)
	if err != nil {
		return nil, err
	}
	out := &client.Request{Method: j.Method, URL: pager.First(u), Header: make(map[string]string)}
	if j.Spec.Request == nil {
		return out, nil
	}
	for name, value := range j.Spec.Request.Headers {
		out.Header[name] = client.Expand(value, vars)
	}
	out.Body, err = client.ExpandBody(j.Spec.Request.Body, vars)
	return out, err
}

// do is the whole run.
func (r *run) do(ctx context.Context) {
	err := r.pages(ctx)
	switch {
	case err == nil && r.harvest.Err != nil:
		r.status, r.err = statusPartial, fmt.Errorf("%d items were left out: %w", r.harvest.Failed, r.harvest.Err)
	case err == nil:
		r.status = statusOK
	case errors.Is(err, errCut):
		r.status, r.err = statusPartial, err
	case errors.Is(err, errStopping), errors.Is(err, context.Canceled):
		r.status, r.err = statusInterrupted, err
	default:
		r.status, r.err = statusFailed, err
	}
}

// pages asks for page after page.
func (r *run) pages(ctx context.Context) error {
	w, err := r.daemon.door.enter(ctx)
	if err != nil {
		return err
	}
	err = r.ask.prepare(w)
	r.daemon.door.leave()
	if err != nil {
		return err
	}
	request, err := first(r.instance.Job, r.host.client, r.pager, r.ask.vars)
	if err != nil {
		return err
	}
	for {
		answer, err := r.page(ctx, request)
		if err != nil {
			return err
		}
		next, cut, err := r.take(ctx, answer)
		switch {
		case err != nil:
			return err
		case cut:
			return errCut
		case next == nil:
			return nil
		}
		if err := r.host.client.Follow(answer.URL, next); err != nil {
			return err
		}
		request = &client.Request{Method: request.Method, URL: next, Header: request.Header, Body: request.Body}
	}
}

// take gathers what a page brings, and finds the next.
func (r *run) take(ctx context.Context, answer *client.Answer) (next *url.URL, cut bool, err error) {
	body, err := client.Decode(answer.Body)
	if err != nil {
		return nil, false, err
	}
	var headers map[string]string
	if r.pager.NeedsHeaders() || r.world.jobs[r.instance.Job.Name].NeedsHeaders() {
		headers = client.Headers(answer.Header)
	}
	items, _, err := r.pager.Items(ctx, body)
	if err != nil {
		return nil, false, err
	}
	r.learn(body, items)
	page := &mapping.Page{Status: answer.Status, Headers: headers, Body: body, Vars: r.ask.vars, Items: items}
	if err := r.harvest.Add(ctx, page); err != nil {
		return nil, false, err
	}
	next, cut, err = r.pager.Next(ctx, schedule.Answer{URL: answer.URL, Body: body, Headers: headers, Items: items})
	r.core.Answered(r.daemon.now(), schedule.Succeeded, next != nil, 0)
	return next, cut, err
}

// page sends a request until it succeeds or fails for good, and follows where it is redirected.
func (r *run) page(ctx context.Context, request *client.Request) (*client.Answer, error) {
	d, provider := r.daemon, r.instance.Job.Account.Provider
	var renewed, again bool
	for attempts := 1; ; attempts++ {
		credential, err := r.host.client.Credential(ctx)
		if err != nil {
			if err := r.again(ctx, loginOutcome(provider, err), err); err != nil {
				return nil, err
			}
			continue
		}
		p, err := r.admit(ctx, again || r.core.Retry())
		if err != nil {
			return nil, err
		}
		got := d.send(ctx, p, r.instance.Job.Name, r.host, request, credential)
		r.latency += got.latency
		outcome := outcomeOf(provider, &got)
		d.count(r, outcome, &got, again || r.core.Retry())
		if outcome == schedule.Succeeded {
			next, err := r.host.client.Redirect(request, got.answer)
			if err != nil {
				return nil, err
			}
			if next == nil {
				return got.answer, notSuccess(r, &got, attempts)
			}
			request = next
			r.core.Requests++ // a redirect is a request of the same page
			continue
		}
		if got.answer != nil && got.answer.Status == 401 && !got.limited {
			_, ok, err := r.host.client.Renew(ctx, credential)
			if renewed || !ok {
				return nil, errors.Join(&client.AuthError{Account: r.instance.Job.Account.Name, Status: 401, Renewed: renewed}, err)
			}
			renewed, again = true, true
			r.core.Requests++
			r.core.Retries++
			continue
		}
		cause := failure(r, &got, attempts)
		if err := r.pauseUnresolved(ctx, &got, cause); err != nil {
			return nil, err
		}
		if err := r.again(ctx, outcome, cause); err != nil {
			return nil, err
		}
	}
}

// notSuccess is an error where an answer that is no failure is no page either, such as a redirect without a location.
func notSuccess(r *run, got *sent, attempts int) error {
	if got.answer.Status < 300 {
		return nil
	}
	return failure(r, got, attempts)
}

// again waits for the next attempt, or returns why there is none: cause.
func (r *run) again(ctx context.Context, outcome schedule.Outcome, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	step, at := r.core.Answered(r.daemon.now(), outcome, false, draw())
	if step != schedule.Send {
		return cause
	}
	return r.daemon.sleep(ctx, at)
}

// failure is the error of an answer that is none, or no success.
func failure(r *run, got *sent, attempts int) error {
	if got.err != nil && (got.answer == nil || got.answer.Status < 300) {
		return got.err
	}
	return &client.StatusError{Status: got.answer.Status, Attempts: attempts, Excerpt: r.host.client.Excerpt(got.answer.Body)}
}

// loginOutcome is what a failed token request means for the run: what passes is tried again like the request itself.
func loginOutcome(p *validate.Provider, err error) schedule.Outcome {
	var auth *client.AuthError
	var refused *engine.RefusedError
	switch {
	case errors.As(err, &refused), errors.Is(err, errStopping), !errors.As(err, &auth):
		return schedule.Rejected
	case auth.Status == 429:
		return schedule.RateLimited
	}
	if outcome := schedule.OutcomeOf(p, auth.Status, false); outcome != schedule.Succeeded {
		return outcome
	}
	return schedule.Rejected // an answer without a token
}

// admit waits for the budget, and is seen to wait.
func (r *run) admit(ctx context.Context, retry bool) (*pass, error) {
	deadline := r.core.DeadlineNanos()
	forget := r.daemon.waits(r, deadline)
	defer forget()
	return r.daemon.admit(ctx, &r.ask, retry, deadline, r.instance.Job.Name, func(reason engine.Reason) {
		r.daemon.mu.Lock()
		defer r.daemon.mu.Unlock()
		one := r.daemon.waiting[r]
		one.Reason = string(reason)
		r.daemon.waiting[r] = one
	})
}
