package validate

import (
	"net/url"
	"slices"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

var ruleUnusedGlob = &Rule{
	Name:     "unused-glob",
	Severity: schema.SeverityWarning,
	Summary:  "a limit's endpoint glob should match some job's endpoint",
	Why: "Globs are held against the templated path, segment by segment: * is one segment, ** any number, {name} any variable. One " +
		"that no job, template, login or token request matches is usually misspelt, and the limit or cost then does not hold.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
appliesTo: { endpoints: ["/device/**"] }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
appliesTo: { endpoints: ["/devices/**"] }`),
	check: func(f *finder) {
		endpoints := make(map[*Provider]nameSet)
		for _, p := range f.config.Providers {
			endpoints[p] = newNameSet(f.config.endpointsOf(p))
		}
		comparisons := 0
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if len(p.Jobs) == 0 {
				return // a provider by itself: who uses it is not known
			}
			l.eachSelector(path, func(path string, s *schema.Selector) {
				for i, pattern := range s.Endpoints {
					if endpoints[p].has(match.CleanPath(pattern)) {
						continue
					}
					if comparisons += len(endpoints[p].list); comparisons > mostComparisons {
						return
					}
					if !anyMatches(pattern, endpoints[p].list) {
						f.at(p.Doc, index(path+".endpoints", i), "glob %q matches no job's endpoint%s", pattern, f.hint(pattern, endpoints[p].list))
					}
				}
			})
		})
	},
}

// mostComparisons bounds the work on documents that nobody wrote by hand: it takes about half a second. What is left is not
// looked at.
const mostComparisons = 3_000_000

func anyMatches(pattern string, endpoints []string) bool {
	glob := match.CompileGlob(pattern)
	return slices.ContainsFunc(endpoints, glob.Match)
}

// endpointsOf lists the templated paths that requests to the provider can have.
func (c *Config) endpointsOf(p *Provider) []string {
	var out []string
	add := func(endpoint string) {
		if t, err := match.ParseTemplate(endpoint); err == nil && endpoint != "" {
			out = append(out, t.Path)
		}
	}
	for _, j := range p.Jobs {
		out = append(out, j.Endpoint.Path)
	}
	for i := range p.Spec.Templates {
		if r := p.Spec.Templates[i].Request; r != nil {
			add(r.Endpoint)
		}
	}
	if auth := p.Spec.Auth; auth != nil {
		if auth.Login != nil {
			add(auth.Login.Endpoint)
		}
		if u, err := url.Parse(auth.TokenURL); err == nil {
			add(u.Path)
		}
	}
	for _, policy := range c.Policies {
		for _, name := range sortedKeys(policy.Spec.Routes) {
			route := policy.Spec.Routes[name]
			a := c.Account(route.Account)
			if route.Request != nil && (route.Provider == p.Name || a != nil && a.Provider == p) {
				add(route.Request.Endpoint)
			}
		}
	}
	return out
}
