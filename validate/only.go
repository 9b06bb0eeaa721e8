package validate

import (
	"fmt"

	"github.com/tapyr/tapyr/schema"
)

// NoSuchNameError says that there is no document of a kind and name.
type NoSuchNameError struct {
	// Kind is provider, account or job.
	Kind string
	// Name is what was asked for.
	Name string
	// Known are the names that there are, in document order.
	Known []string
}

// Error names the nearest of the names that there are.
func (e *NoSuchNameError) Error() string {
	return fmt.Sprintf("there is no %s %q%s", e.Kind, e.Name, knownHint(e.Name, e.Known))
}

// Only is the part of the configuration that some names concern: a provider with its accounts and their jobs, an account with
// its provider and jobs, a job with those whose inventories it runs over, its account and its provider. Names of one map are
// those of a kind; the parts are united. Assertions and spend policies about anything else are left out. The error is a
// *NoSuchNameError.
func (c *Config) Only(providers, accounts, jobs []string) (*Config, error) {
	knownProviders, knownAccounts, knownJobs := c.names()
	keep := make(map[*schema.Document]bool)
	for _, name := range providers {
		p := c.Provider(name)
		if p == nil {
			return nil, &NoSuchNameError{"provider", name, knownProviders}
		}
		keep[p.Doc] = true
		for _, a := range p.Accounts {
			keepAccount(keep, a)
		}
	}
	for _, name := range accounts {
		a := c.Account(name)
		if a == nil {
			return nil, &NoSuchNameError{"account", name, knownAccounts}
		}
		keepAccount(keep, a)
	}
	for _, name := range jobs {
		j := c.Job(name)
		if j == nil {
			return nil, &NoSuchNameError{"job", name, knownJobs}
		}
		keepJob(keep, j)
	}
	return resolve(c.part(keep)), nil
}

func keepAccount(keep map[*schema.Document]bool, a *Account) {
	keep[a.Doc], keep[a.Provider.Doc] = true, true
	for _, j := range a.Jobs {
		keepJob(keep, j)
	}
}

func keepJob(keep map[*schema.Document]bool, j *Job) {
	for ; j != nil; j = j.Parent {
		keep[j.Doc], keep[j.Account.Doc], keep[j.Account.Provider.Doc] = true, true, true
	}
}

// part lists the documents to keep, the settings without assertions about others, and the policies that refer to no others.
func (c *Config) part(keep map[*schema.Document]bool) []*schema.Document {
	var docs []*schema.Document
	for _, doc := range c.Documents {
		switch spec := doc.Spec.(type) {
		case *schema.SettingsSpec:
			docs = append(docs, c.settingsPart(doc, spec, keep))
		case *schema.SpendPolicySpec:
			if c.policyIsPart(spec, keep) {
				docs = append(docs, doc)
			}
		default:
			if keep[doc] {
				docs = append(docs, doc)
			}
		}
	}
	return docs
}

func (c *Config) settingsPart(doc *schema.Document, spec *schema.SettingsSpec, keep map[*schema.Document]bool) *schema.Document {
	part := *spec
	part.Assert = nil
	for _, a := range spec.Assert {
		if p, _ := c.assertedLimit(a); p != nil && keep[p.Doc] {
			part.Assert = append(part.Assert, a)
		}
	}
	copied := *doc
	copied.Spec = &part
	return &copied
}

func (c *Config) policyIsPart(spec *schema.SpendPolicySpec, keep map[*schema.Document]bool) bool {
	for _, route := range spec.Routes {
		if p := c.Provider(route.Provider); p != nil && !keep[p.Doc] {
			return false
		}
		if a := c.Account(route.Account); a != nil && !keep[a.Doc] {
			return false
		}
	}
	return true
}
