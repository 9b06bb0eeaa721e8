package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/mapping"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// world is one generation of the configuration, with all that is made from it. A reload makes another; runs that are under way keep
// theirs, but ask the gate of the one in force.
type world struct {
	generation int64
	// config is all documents, kept those whose jobs make calls.
	config, kept *validate.Config
	settings     settings
	gate         *engine.Gate
	schedule     *schedule.Schedule
	jobs         map[string]*mapping.Job
	paging       map[string]*schedule.Paging // by job
	hosts        map[hostName]*host
	headers      map[string]*recorded // by provider
	library      *learn.Library
}

// hostName names an account, or a target of one.
type hostName struct{ account, target string }

// host is where the requests of an account, or of a target of it, go.
type host struct {
	client     *client.Client
	credential string // keyed hash of the secrets
}

// keptJobs are the jobs that make calls: those with metrics or outputs, and those that such jobs run over.
func keptJobs(config *validate.Config) map[string]bool {
	kept := make(map[string]bool)
	for _, j := range config.Jobs {
		if len(j.Spec.Metrics) == 0 && len(j.Spec.Outputs) == 0 {
			continue
		}
		for up := j; up != nil; up = up.Parent {
			kept[up.Name] = true
		}
	}
	return kept
}

// newWorld makes everything but the gate, which needs a state to start from. Nothing is sent.
func (d *Daemon) newWorld(config *validate.Config, generation int64) (*world, error) {
	var err error
	if len(d.options.Jobs) > 0 {
		if config, err = config.Only(nil, nil, d.options.Jobs); err != nil {
			return nil, err
		}
	}
	w := &world{
		generation: generation, config: config, jobs: make(map[string]*mapping.Job), hosts: make(map[hostName]*host),
		headers: make(map[string]*recorded), paging: make(map[string]*schedule.Paging),
	}
	if w.settings, err = settingsOf(config); err != nil {
		return nil, err
	}
	// What stands in the documents and looks like a secret is one to everybody who reads logs. Short ones could be anything.
	const least = 8
	for _, literal := range config.LiteralSecrets() {
		if len(literal) >= least {
			d.redactor.Add(literal)
		}
	}
	kept := keptJobs(config)
	w.kept = config
	if len(kept) < len(config.Jobs) {
		if w.kept, err = config.Only(nil, nil, slices.Sorted(maps.Keys(kept))); err != nil {
			return nil, err
		}
	}
	for _, j := range w.kept.Jobs {
		if w.jobs[j.Name], err = mapping.Compile(j); err != nil {
			return nil, fmt.Errorf("job %q: %w", j.Name, err)
		}
		if w.paging[j.Name], err = schedule.NewPaging(j); err != nil {
			return nil, fmt.Errorf("job %q: %w", j.Name, err)
		}
	}
	for _, p := range config.Providers {
		w.headers[p.Name] = newRecorded(p)
	}
	w.schedule = schedule.New(w.kept)
	w.library = d.libraryFor(w)
	return w, nil
}

// lookUp finds the secrets of the accounts that have jobs, or that a route of paid calls sends through, by account.
func (d *Daemon) lookUp(w *world) (map[string]map[string]string, error) {
	all := make(map[string]map[string]string)
	paid := routed(w.config)
	for _, a := range w.config.Accounts {
		if !d.allAccounts && !paid[a.Name] && !slices.ContainsFunc(w.kept.Jobs, func(j *validate.Job) bool { return j.Account.Name == a.Name }) {
			continue
		}
		secrets, err := Secrets(a, d.options.Getenv)
		if err != nil {
			return nil, err
		}
		all[a.Name] = secrets
	}
	return all, nil
}

// connect makes the clients of the accounts that lookUp finds secrets of. The error is about a secret that is not there, or a certificate.
func (d *Daemon) connect(w *world) error {
	all, err := d.lookUp(w)
	if err != nil {
		return err
	}
	for _, a := range w.config.Accounts {
		secrets, ok := all[a.Name]
		if !ok {
			continue
		}
		targets := []*schema.Target{nil}
		if len(a.Spec.Targets) > 0 {
			targets = targets[:0]
			for i := range a.Spec.Targets {
				targets = append(targets, &a.Spec.Targets[i])
			}
		}
		for _, target := range targets {
			if err := d.connectTo(w, a, target, secrets); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Daemon) connectTo(w *world, a *validate.Account, target *schema.Target, secrets map[string]string) error {
	name := hostName{account: a.Name}
	if target != nil {
		name.target = target.Name
	}
	h := &host{}
	if len(secrets) > 0 {
		var values []string
		for _, credential := range slices.Sorted(maps.Keys(secrets)) {
			values = append(values, secrets[credential])
		}
		h.credential = engine.CredentialKey(d.salt, values...)
	}
	priority := schema.PriorityLow
	for _, j := range w.kept.Jobs {
		if j.Account.Name == a.Name && priorityRank(j.Priority) < priorityRank(priority) {
			priority = j.Priority
		}
	}
	if routed(w.config)[a.Name] && priorityRank(schema.PriorityNormal) < priorityRank(priority) {
		priority = schema.PriorityNormal
	}
	var err error
	h.client, err = client.New(client.Options{
		Account: a, Target: target, Secrets: secrets, Redactor: d.redactor, Timeout: d.options.Timeout, Dial: d.options.Dial,
		MaxBodyBytes: d.options.MaxBodyBytes, UserAgent: "tapyr/" + d.options.Version,
		// A token serves all jobs of the account, so it is as urgent as the most urgent of them.
		Admit: d.admitAuth(a, name, h, priority),
	})
	w.hosts[name] = h
	return err
}

// priorityRank is 0 for the most urgent.
func priorityRank(priority string) int {
	switch priority {
	case schema.PriorityCritical:
		return 0
	case schema.PriorityHigh:
		return 1
	case schema.PriorityLow:
		return 3
	}
	return 2
}

// close lets connections go.
func (w *world) close() {
	for _, h := range w.hosts {
		h.client.Close()
	}
}

// recorded are the headers of a provider's answers that a limit, a penalty or a rule reads: what the engine and the journal get.
type recorded struct {
	names map[string]bool // canonical
	// body tells that a rule reads the body, all that one may read any header: the names in an expression are not all that it can make.
	body, all bool
}

func newRecorded(p *validate.Provider) *recorded {
	r := &recorded{names: make(map[string]bool)}
	add := func(names ...string) {
		for _, name := range names {
			if name != "" {
				r.names[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	add("Retry-After", "Date", "Age", "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	for _, l := range p.Limits {
		if c := l.Spec.CostFrom; c != nil {
			add(c.Header)
		}
		if s := l.Spec.Sync; s != nil {
			for _, h := range []*schema.Header{s.LimitHeader, s.RemainingHeader, s.UsedHeader, s.RemainingPercentHeader, s.ResetHeader} {
				if h != nil {
					add(h.Name)
				}
			}
			if s.When != nil {
				add(s.When.Header)
			}
		}
	}
	if limited := p.Spec.Errors.RateLimited; limited != nil {
		if limited.LimitFrom != nil {
			add(limited.LimitFrom.Header)
		}
		r.body = limited.Match != "" || limited.RetryAfter != nil
		r.all = limited.Match != ""
		add(headersIn(limited.Match)...)
	}
	return r
}

// headersIn lists the names in quotes that an expression may look up among the headers.
func headersIn(expression string) []string {
	var names []string
	for _, quote := range []string{"'", `"`} {
		for i, part := range strings.Split(expression, quote) {
			if i%2 == 1 {
				names = append(names, part)
			}
		}
	}
	for _, part := range strings.Split(expression, "headers.")[1:] {
		name := strings.TrimPrefix(part, "?")
		if end := strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < '0' || r > 'z') }); end >= 0 {
			name = name[:end]
		}
		names = append(names, name)
	}
	return names
}
