package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/keep"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// CheckResult is what one live call has shown.
type CheckResult struct {
	Account  string `json:"account"`
	Provider string `json:"provider"`
	Target   string `json:"target"`
	// Method and URL are those of the call, the URL without its query's values.
	Job    string `json:"job"`
	Method string `json:"method"`
	URL    string `json:"url"`
	// Redirects are the URLs that the call was led on to.
	Redirects []string `json:"redirects"`
	// OK tells that the credentials work: a success, in JSON.
	OK bool `json:"ok"`
	// Status is the answer's, 0 where none came, Error why it is no success.
	Status         int     `json:"status"`
	Error          string  `json:"error"`
	LatencySeconds float64 `json:"latencySeconds"`
	// Items is the number of items on the page, -1 where the pagination finds no list.
	Items int `json:"items"`
	// Headers are those of the answer's that a limit, a penalty or a rule of the provider reads.
	Headers map[string]string `json:"headers"`
	// Limits are those that the call takes of, and Reading what the engine reads from the answer.
	Limits  []engine.Met    `json:"limits"`
	Reading *engine.Reading `json:"reading"`
}

// CheckJob is the job whose request a check of an account sends: the one that is named, else the first that needs no inventory.
// The error says that there is none.
func CheckJob(config *validate.Config, account, job string) (*validate.Job, error) {
	a := config.Account(account)
	if a == nil {
		_, err := config.Only(nil, []string{account}, nil)
		return nil, err
	}
	var names []string
	for _, j := range a.Jobs {
		names = append(names, j.Name)
		if job == "" && j.Parent == nil && j.Method == "GET" || job == j.Name {
			if j.Parent != nil {
				return nil, fmt.Errorf("job %q runs over an inventory, so its request has no single form; name a job without forEach", job)
			}
			return j, nil
		}
	}
	if job == "" {
		return nil, fmt.Errorf("account %q has no job with a GET request and without forEach to check it with", account)
	}
	return nil, fmt.Errorf("account %q has no job %q; its jobs are %q", account, job, names)
}

// Check sends one request of a job, with a token request before it where the provider wants one, and reports what came. It keeps to
// the limits as far as one call can exceed them, but the call is not part of any state: a daemon's counts learn of it only by what
// the provider tells. The error means that nothing could be sent.
func (d *Daemon) Check(ctx context.Context, config *validate.Config, job *validate.Job) (*CheckResult, error) {
	d.allAccounts = true
	part, err := config.Only(nil, []string{job.Account.Name}, nil)
	if err != nil {
		return nil, err
	}
	w, err := d.newWorld(part, 1)
	if err != nil {
		return nil, err
	}
	d.salt, d.keeper = freshSalt(), keep.New(nil)
	if err := d.connect(w); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.install(w, nil)
	d.mu.Unlock()
	defer func() {
		d.door.shut(true)
		w.close()
	}()
	job = part.Job(job.Name)
	instance := &schedule.Instance{Name: job.Name, Job: job}
	if targets := job.Account.Spec.Targets; len(targets) > 0 {
		instance.Target = targets[0].Name
	}
	c := &check{daemon: d, world: w, instance: instance, host: w.hosts[hostName{job.Account.Name, instance.Target}]}
	return c.run(ctx)
}

// check is one live call.
type check struct {
	daemon   *Daemon
	world    *world
	instance *schedule.Instance
	host     *host
	ask      ask
	out      CheckResult
}

func (c *check) run(ctx context.Context) (*CheckResult, error) {
	job := c.instance.Job
	c.out = CheckResult{
		Account: job.Account.Name, Provider: job.Account.Provider.Name, Target: c.instance.Target, Job: job.Name, Method: job.Method,
		Redirects: []string{}, Headers: map[string]string{}, Items: -1, Limits: []engine.Met{},
	}
	c.ask.request = askOf(c.world, c.instance)
	if err := c.ask.prepare(c.world); err != nil {
		return nil, err
	}
	c.world.gate.Do(func(e *engine.Engine, _ int64) { c.out.Limits = append(c.out.Limits, e.Met(c.ask.prepared)...) })
	pager, err := schedule.NewPager(job)
	if err != nil {
		return nil, err
	}
	request, err := first(job, c.host.client, pager, c.ask.vars)
	if err != nil {
		return nil, err
	}
	c.out.URL = request.URL.Scheme + "://" + request.URL.Host + request.URL.Path
	got, err := c.send(ctx, request)
	if ctx.Err() != nil { // interrupted: nothing is known of the account
		return nil, ctx.Err()
	}
	if err != nil {
		c.out.Error = c.daemon.redactor.Text(err.Error())
		return &c.out, nil // that it failed is the answer
	}
	c.read(ctx, pager, got)
	return &c.out, nil
}

// send sends the request and follows its redirects.
func (c *check) send(ctx context.Context, request *client.Request) (*sent, error) {
	credential, err := c.host.client.Credential(ctx)
	if err != nil {
		return nil, err
	}
	for {
		p, err := c.daemon.acquire(ctx, &c.ask, false, c.daemon.now()+int64(time.Minute))
		if err != nil {
			return nil, err
		}
		got := c.daemon.send(ctx, p, c.instance.Job.Name, c.host, request, credential)
		c.out.LatencySeconds += got.latency.Seconds()
		if got.err != nil || got.answer == nil {
			return &got, got.err
		}
		next, err := c.host.client.Redirect(request, got.answer)
		if err != nil || next == nil {
			return &got, err
		}
		c.out.Redirects = append(c.out.Redirects, next.URL.Scheme+"://"+next.URL.Host+next.URL.Path)
		request = next
	}
}

// read tells what the answer shows.
func (c *check) read(ctx context.Context, pager *schedule.Pager, got *sent) {
	answer := got.answer
	c.out.Status = answer.Status
	recorded := c.world.headers[c.out.Provider]
	for name := range recorded.names {
		if value := answer.Header.Values(name); len(value) > 0 {
			c.out.Headers[name] = strings.Join(value, ", ")
		}
	}
	response := &engine.Response{Status: answer.Status, Fields: fieldsOf(answer, nil), Body: string(answer.Body[:min(len(answer.Body), maxEngineBody)])}
	c.world.gate.Do(func(e *engine.Engine, now int64) {
		if reading, err := e.Read(now, &c.ask.request, response); err == nil {
			c.out.Reading = reading
		}
	})
	switch {
	case answer.Status == 401:
		c.out.Error = (&client.AuthError{Account: c.out.Account, Status: 401}).Error()
		return
	case answer.Status > 299:
		c.out.Error = (&client.StatusError{Status: answer.Status, Excerpt: c.host.client.Excerpt(answer.Body)}).Error()
		return
	}
	body, err := client.Decode(answer.Body)
	if err != nil {
		c.out.Error = err.Error()
		return
	}
	c.out.OK = true
	if items, ok, err := pager.Items(ctx, body); ok && err == nil {
		c.out.Items = len(items)
	}
}

// HeaderNames are the headers of a check's answer, sorted.
func (r *CheckResult) HeaderNames() []string { return slices.Sorted(maps.Keys(r.Headers)) }
