package validate

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleUnresolvedReference = &Rule{
	Name:     "unresolved-reference",
	Severity: schema.SeverityError,
	Summary:  "a name that refers to a document, limit, template or route must be that of one",
	Why: "An account names its provider, a job its account, the job whose inventory it runs over, and perhaps a template; " +
		"limitFrom and assertions name limits, and spend policies name providers, accounts and routes. A name that nothing has " +
		"would leave a job without limits, or a limit without effect. Names are case-sensitive. In limitFrom it is a warning: such a " +
		"refusal is treated like any other.",
	Wrong: `apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: branch }
spec: { provider: exmaple }
`,
	Right: `apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: branch }
spec: { provider: example }
`,
	check: func(f *finder) {
		providers, accounts, jobs := f.config.names()
		for _, a := range f.config.Accounts {
			f.reference(a.Doc, "spec.provider", "provider", a.Spec.Provider, providers)
		}
		for _, j := range f.config.Jobs {
			f.reference(j.Doc, "spec.account", "account", j.Spec.Account, accounts)
			f.jobReferences(j, jobs)
		}
		for _, p := range f.config.Providers {
			f.limitFromReferences(p)
		}
		f.assertionReferences(providers)
		for _, p := range f.config.Policies {
			f.policyReferences(p, providers, accounts)
		}
	},
}

// names lists the names of the documents by kind.
func (c *Config) names() (providers, accounts, jobs []string) {
	for _, p := range c.Providers {
		providers = append(providers, p.Name)
	}
	for _, a := range c.Accounts {
		accounts = append(accounts, a.Name)
	}
	for _, j := range c.Jobs {
		jobs = append(jobs, j.Name)
	}
	return providers, accounts, jobs
}

// reference reports a name that is not among the known ones. An empty one is the business of missing-field.
func (f *finder) reference(doc *schema.Document, path, what, name string, known []string) {
	if name != "" && !slices.Contains(known, name) {
		f.at(doc, path, "there is no %s %q%s", what, name, knownHint(name, known))
	}
}

// knownHint names the nearest of the known names, or all of them where they are few.
func knownHint(name string, known []string) string {
	if hint := schema.DidYouMean(name, known); hint != "" {
		return hint
	}
	if len(known) == 0 || len(known) > 8 {
		return ""
	}
	sorted := slices.Clone(known)
	sort.Strings(sorted)
	return ", only " + list(slices.Compact(sorted))
}

func (f *finder) jobReferences(j *Job, jobs []string) {
	if j.Parent == nil && !j.InCycle {
		doc, path := j.place("spec.forEach")
		f.reference(doc, path, "job", j.Spec.ForEach, jobs)
	}
	if j.Account == nil || j.Account.Provider == nil {
		return
	}
	provider := j.Account.Provider
	var templates []string
	for i := range provider.Spec.Templates {
		templates = append(templates, provider.Spec.Templates[i].Name)
	}
	name := j.Doc.Spec.(*schema.JobSpec).Template
	f.reference(j.Doc, "spec.template", "template of provider "+provider.Name, name, templates)
}

func (f *finder) limitFromReferences(p *Provider) {
	limited := p.Spec.Errors.RateLimited
	if limited == nil || limited.LimitFrom == nil {
		return
	}
	values := limited.LimitFrom.Values
	for _, value := range slices.Sorted(maps.Keys(values)) {
		path := schema.JoinPath("spec.errors.rateLimited.limitFrom.values", value)
		if name, known := values[value], p.limitNames(); !slices.Contains(known, name) {
			f.warn(p.Doc, path, "there is no limit %q of this provider, so the header names nothing%s", name, knownHint(name, known))
		}
	}
}

func (p *Provider) limitNames() []string {
	var names []string
	for _, l := range p.Limits {
		names = append(names, l.Spec.Name)
	}
	return names
}

func (f *finder) assertionReferences(providers []string) {
	settings := f.config.Settings
	if settings.Doc == nil {
		return
	}
	for i, a := range settings.Spec.Assert {
		path := index("spec.assert", i) + ".limit"
		p, limit := f.config.assertedLimit(a)
		if p == nil {
			provider, _, _ := strings.Cut(a.Limit, "/")
			f.reference(settings.Doc, path, "provider", provider, providers)
			continue
		}
		f.reference(settings.Doc, path, "limit of provider "+p.Name, limit, p.limitNames())
	}
}

// assertedLimit takes PROVIDER/LIMIT apart; the provider is nil where there is none of the name.
func (c *Config) assertedLimit(a schema.Assertion) (p *Provider, limit string) {
	provider, limit, _ := strings.Cut(a.Limit, "/")
	return c.Provider(provider), limit
}

func (f *finder) policyReferences(p *Policy, providers, accounts []string) {
	routes := slices.Sorted(maps.Keys(p.Spec.Routes))
	for _, name := range routes {
		path := schema.JoinPath("spec.routes", name)
		f.reference(p.Doc, path+".provider", "provider", p.Spec.Routes[name].Provider, providers)
		f.reference(p.Doc, path+".account", "account", p.Spec.Routes[name].Account, accounts)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Capabilities)) {
		for i, route := range p.Spec.Capabilities[name].Routes {
			path := index(schema.JoinPath("spec.capabilities", name)+".routes", i)
			f.reference(p.Doc, path, "route", route, routes)
		}
	}
}
