package simulate

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// login is how an account of a provider with tokens or sessions gets one: a request like others, which meets the limits as an auth
// request. Who needs a token while one is asked for waits for it.
type login struct {
	w          *world
	job        *validate.Job
	states     map[string]*instanceState // by the priority of who asks first
	untilNanos int64
	busy       bool
	waiting    []*actor
}

// loginDeadline is how long a token request may wait for its budget.
const loginDeadline = time.Minute

// newLogins are the logins of all accounts that need one.
func newLogins(w *world) map[*validate.Account]*login {
	out := make(map[*validate.Account]*login)
	for _, a := range w.Config.Accounts {
		method, endpoint, needed := loginEndpoint(a.Provider.Spec.Auth)
		if !needed {
			continue
		}
		job := &validate.Job{
			Name: "login " + a.Name, Account: a, Method: method, Endpoint: &match.Template{Path: endpoint}, Deadline: loginDeadline, Interval: loginDeadline,
			Spec: &schema.JobSpec{JobFields: schema.JobFields{Idempotent: true}},
		}
		out[a] = &login{w: w, job: job, states: make(map[string]*instanceState), untilNanos: -1 << 62}
	}
	return out
}

// loginEndpoint is the request that issues a token; needed is false where credentials go with every request.
func loginEndpoint(a *schema.Auth) (method, endpoint string, needed bool) {
	if a == nil {
		return "", "", false
	}
	switch a.Type {
	case "oauth2_client_credentials":
		endpoint = a.TokenURL
		if u, err := url.Parse(a.TokenURL); err == nil {
			endpoint = u.Path
		}
		return http.MethodPost, match.CleanPath(endpoint), true
	case "session_login":
		method = http.MethodPost
		if l := a.Login; l != nil {
			endpoint, _, _ = strings.Cut(l.Endpoint, "?")
			if l.Method != "" {
				method = l.Method
			}
		}
		return method, match.CleanPath(endpoint), true
	}
	return "", "", false
}

// hold keeps an actor back until its account has a token; false where it has one.
func (l *login) hold(now int64, a *actor) bool {
	if l == nil || a.state.login || now < l.untilNanos {
		return false
	}
	l.waiting = append(l.waiting, a)
	if !l.busy {
		l.busy = true
		l.begin(now, a.state.request.Priority)
	}
	return true
}

// begin asks for a token.
func (l *login) begin(now int64, priority string) {
	w := l.w
	state := l.states[priority]
	if state == nil {
		account := l.job.Account
		state = &instanceState{login: true, job: &jobState{job: l.job, lastSeen: make(map[*schedule.Instance]int64)}}
		state.request = engine.Request{Priority: priority, Request: match.Request{
			Provider: account.Provider.Name, Account: account.Name, Credential: account.Name, Method: l.job.Method,
			Endpoint: l.job.Endpoint.Path, Vars: account.Spec.Vars, Auth: true,
		}}
		w.resolve(now, state)
		l.states[priority] = state
	}
	a := &state.actor
	a.run, a.pages, a.latencyNanos = schedule.Begin(now, &schedule.Instance{Name: l.job.Name, Job: l.job}), 1, 0
	w.watch.started++
	a.ask(now)
}

// ended lets those go that waited for a token, or ends their runs where there is none.
func (l *login) ended(now int64, step schedule.Step) {
	l.busy = false
	waiting := l.waiting
	l.waiting = nil
	if step == schedule.Done {
		l.untilNanos = now + int64(l.job.Account.Provider.Spec.Auth.TTL.Or(defaultTokenTTL))
	}
	for _, a := range waiting {
		if step == schedule.Done && now < l.w.end {
			l.w.push(event{at: now, actor: a, send: true})
			continue
		}
		a.follow(schedule.Failed, now)
	}
}
