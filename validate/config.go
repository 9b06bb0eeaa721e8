// Package validate turns documents into a resolved Config, or lists every problem. A Config that Check returned is proof that
// the documents are valid: no other package checks them again.
package validate

import (
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/window"
)

// Config is a set of documents with their references resolved and their defaults filled in. It is never changed.
type Config struct {
	// Documents are all documents, in the order of files and lines.
	Documents []*schema.Document
	// Providers, Accounts, Jobs and Policies are in document order.
	Providers []*Provider
	Accounts  []*Account
	Jobs      []*Job
	Policies  []*Policy
	// Settings are the defaults where no document sets them.
	Settings Settings

	windows windows
}

// Provider is a vendor's API.
type Provider struct {
	Name string
	Doc  *schema.Document
	Spec *schema.ProviderSpec
	// Limits are in declared order.
	Limits []*Limit
	// Accounts and Jobs are those at this provider, in document order.
	Accounts []*Account
	Jobs     []*Job

	templates map[string]int // indexes by name, of equals the first
}

// Limit is a provider's limit, made ready.
type Limit struct {
	*match.Limit

	Provider *Provider
	// Window is the quota's; nil for other kinds.
	Window *window.Schedule
	// Burst is the bucket's capacity, the default filled in; 0 for other kinds.
	Burst int64
	// DefaultBurst tells that the burst was not declared.
	DefaultBurst bool
}

// Account is one set of credentials at a provider.
type Account struct {
	Name     string
	Doc      *schema.Document
	Spec     *schema.AccountSpec
	Provider *Provider
	// Share is the part of every quota that may be used.
	Share schema.Decimal
	// Jobs are in document order.
	Jobs []*Job
}

// Job is a repeated request, its template merged in.
type Job struct {
	Name    string
	Doc     *schema.Document
	Spec    *schema.JobSpec
	Account *Account
	// Parent is the job whose inventory this one runs over; nil for a job that runs once an interval.
	Parent *Job
	// Children are the jobs that run over this one's inventory, in document order.
	Children []*Job
	// Endpoint is the request's path as a template.
	Endpoint *match.Template
	// Method is in capitals.
	Method string
	// Query are the parameters of the request and of its endpoint.
	Query map[string]string
	// Priority is critical, high, normal or low.
	Priority string
	// Interval is above 0.
	Interval time.Duration
	// Deadline is how long one request may wait.
	Deadline time.Duration
	// FromTemplate tells which of the spec's fields stand in the template, not in the job's document, by name.
	FromTemplate map[string]bool
	// InCycle tells that following forEach leads back to the job, an error; it then has no parent.
	InCycle bool
	// TooDeep tells that the forEach chain above the job is longer than anything real, an error; it then has no parent.
	TooDeep bool
}

// Policy is a spend policy.
type Policy struct {
	Name string
	Doc  *schema.Document
	Spec *schema.SpendPolicySpec
	// Window is the account limit's; nil where it holds for ever.
	Window *window.Schedule
}

// Settings are what is true for all accounts.
type Settings struct {
	// Doc is nil where no document sets anything.
	Doc  *schema.Document
	Spec *schema.SettingsSpec
	// RetryReserve is the part of the usable budget that is kept for retries.
	RetryReserve schema.Decimal
	// MaxStretch is at least 1.
	MaxStretch schema.Decimal
	// RetryOverhead is the part of requests that are retries.
	RetryOverhead schema.Decimal
	// ReplanInterval is how often a running plan is made again.
	ReplanInterval time.Duration
}

// Provider of the name, or nil.
func (c *Config) Provider(name string) *Provider {
	for _, p := range c.Providers {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Account of the name, or nil.
func (c *Config) Account(name string) *Account {
	for _, a := range c.Accounts {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Job of the name, or nil.
func (c *Config) Job(name string) *Job {
	for _, j := range c.Jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// Limit of the name, or nil.
func (p *Provider) Limit(name string) *Limit {
	for _, l := range p.Limits {
		if l.Spec.Name == name {
			return l
		}
	}
	return nil
}

// Max is the declared maximum of a quota or of requests in flight, for requests with these variables: the initial one where the
// vendor tells it, 0 where the variable has no such value. auto tells that responses may correct it.
func (l *Limit) Max(vars map[string]string) (maximum int64, auto bool) {
	m := l.Spec.Max
	switch {
	case m == nil:
		return 0, false
	case m.Auto:
		if l.Spec.InitialMax == nil {
			return 0, true
		}
		return *l.Spec.InitialMax, true
	case m.ByVar != "":
		return m.Values[vars[m.ByVar]], false
	}
	return m.Number, false
}

// Share is the part of a quota that counts for requests of an account: the account's own where the scope keeps accounts apart,
// else the smallest of all accounts of the provider.
func (l *Limit) Share(account *Account) schema.Decimal {
	for _, dimension := range l.By() {
		if dimension == match.DimensionAccount || dimension == match.DimensionTarget || dimension == match.DimensionCredential {
			return account.Share
		}
	}
	share := account.Share
	for _, a := range l.Provider.Accounts {
		if a.Share.Cmp(share) < 0 {
			share = a.Share
		}
	}
	return share
}

// Shadow tells that the limit only watches.
func (l *Limit) Shadow() bool { return l.Spec.Mode == "shadow" }

// Vars are the variables that every instance of the job has: those of its account, its targets and its forEach chain. The values
// are known only for an account's; of others the value is "*".
func (j *Job) Vars() map[string]string {
	vars := make(map[string]string)
	for up := j.Parent; up != nil; up = up.Parent {
		if up.Spec.Inventory != nil {
			for name := range up.Spec.Inventory.Vars {
				vars[name] = "*"
			}
		}
	}
	if j.Account != nil {
		for _, t := range j.Account.Spec.Targets {
			for name := range t.Vars {
				vars[name] = "*"
			}
		}
		for name, value := range j.Account.Spec.Vars {
			vars[name] = value
		}
	}
	return vars
}

// Request is what the job's requests look like to a limit; variables that differ by instance have the value "*".
func (j *Job) Request() *match.Request {
	r := &match.Request{Method: j.Method, Endpoint: j.Endpoint.Path, Query: j.Query, Vars: j.Vars()}
	if j.Account != nil {
		r.Account = j.Account.Name
		if j.Account.Provider != nil {
			r.Provider = j.Account.Provider.Name
		}
		switch len(j.Account.Spec.Targets) {
		case 0:
		case 1:
			r.Target = j.Account.Spec.Targets[0].Name
		default:
			r.Target = "*"
		}
	}
	return r
}
