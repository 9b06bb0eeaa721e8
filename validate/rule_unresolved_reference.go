package validate

import (
	"slices"
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
		providerNames, accountNames, jobNames := f.config.names()
		providers, accounts, jobs := newNameSet(providerNames), newNameSet(accountNames), newNameSet(jobNames)
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

// nameSet is a list of names that can be searched fast.
type nameSet struct {
	list []string
	set  map[string]bool
}

func newNameSet(list []string) nameSet {
	n := nameSet{list, make(map[string]bool, len(list))}
	for _, name := range list {
		n.set[name] = true
	}
	return n
}

func (n nameSet) has(name string) bool { return n.set[name] }

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

// reference reports a name that is not among the known ones; what is a noun, perhaps with " of PROVIDER". An empty name is the business of missing-field.
func (f *finder) reference(doc *schema.Document, path, what, name string, known nameSet) {
	if name == "" || known.has(name) {
		return
	}
	what, of, _ := strings.Cut(what, " of ")
	if of != "" {
		of = " of " + of
	}
	f.at(doc, path, "there is no %s %q%s%s", what, name, of, f.hint(name, known.list))
}

// hint names the nearest of the known names, or all of them where they are few. Only the first findings of a rule get one:
// comparing ten thousand wrong names with ten thousand right ones takes minutes, and nobody reads that many.
func (f *finder) hint(name string, known []string) string {
	const hinted = 100
	if len(f.problems) >= hinted {
		return ""
	}
	return knownHint(name, known)
}

// knownHint names the nearest of the known names, or all of them where they are few.
func knownHint(name string, known []string) string {
	if hint := schema.DidYouMean(name, known); hint != "" {
		return hint
	}
	const few = 8
	if len(known) == 0 || len(known) > few {
		return ""
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return ", only " + list(slices.Compact(sorted))
}

func (f *finder) jobReferences(j *Job, jobs nameSet) {
	if j.Parent == nil && !j.InCycle && !j.TooDeep {
		doc, path := j.place("spec.forEach")
		f.reference(doc, path, "job", j.Spec.ForEach, jobs)
	}
	if j.Account == nil || j.Account.Provider == nil {
		return
	}
	provider := j.Account.Provider
	if name := j.Doc.Spec.(*schema.JobSpec).Template; name == "" || j.templateIndex() >= 0 {
		return
	}
	var templates []string
	for i := range provider.Spec.Templates {
		templates = append(templates, provider.Spec.Templates[i].Name)
	}
	f.reference(j.Doc, "spec.template", "template of provider "+provider.Name, j.Doc.Spec.(*schema.JobSpec).Template, nameSet{list: templates})
}

func (f *finder) limitFromReferences(p *Provider) {
	limited := p.Spec.Errors.RateLimited
	if limited == nil || limited.LimitFrom == nil {
		return
	}
	values, known := limited.LimitFrom.Values, newNameSet(p.limitNames())
	for _, value := range sortedKeys(values) {
		path := schema.JoinPath("spec.errors.rateLimited.limitFrom.values", value)
		if name := values[value]; !known.has(name) {
			f.warn(p.Doc, path, "there is no limit %q of this provider, so the header names nothing%s", name, f.hint(name, known.list))
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

func (f *finder) assertionReferences(providers nameSet) {
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
		f.reference(settings.Doc, path, "limit of provider "+p.Name, limit, newNameSet(p.limitNames()))
	}
}

// assertedLimit takes PROVIDER/LIMIT apart; the provider is nil where there is none of the name.
func (c *Config) assertedLimit(a schema.Assertion) (p *Provider, limit string) {
	provider, limit, _ := strings.Cut(a.Limit, "/")
	return c.Provider(provider), limit
}

func (f *finder) policyReferences(p *Policy, providers, accounts nameSet) {
	routes := newNameSet(sortedKeys(p.Spec.Routes))
	for _, name := range routes.list {
		path := schema.JoinPath("spec.routes", name)
		f.reference(p.Doc, path+".provider", "provider", p.Spec.Routes[name].Provider, providers)
		f.reference(p.Doc, path+".account", "account", p.Spec.Routes[name].Account, accounts)
	}
	for _, name := range sortedKeys(p.Spec.Capabilities) {
		for i, route := range p.Spec.Capabilities[name].Routes {
			path := index(schema.JoinPath("spec.capabilities", name)+".routes", i)
			f.reference(p.Doc, path, "route", route, routes)
		}
	}
}
