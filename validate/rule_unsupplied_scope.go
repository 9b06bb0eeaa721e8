package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

var ruleUnsuppliedScope = &Rule{
	Name:     "unsupplied-scope",
	Severity: schema.SeverityWarning,
	Summary:  "a limit's scope should be one that some job can supply",
	Why: "A limit whose scope has a variable, target or credential that no request has does not apply to any request, and bounds " +
		"nothing. The same goes for requestsWithVar. Usually a name is misspelt, or the inventory that should supply it is missing.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
scope: { by: [account, "var:organisationId"] }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
vars: { organizationId: "42" }`),
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
scope: { by: [account, "var:organizationId"] }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
vars: { organizationId: "42" }`),
	check: func(f *finder) {
		known := make(map[*Provider][]string)
		for _, p := range f.config.Providers {
			known[p] = p.variables()
		}
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if len(p.Jobs) == 0 {
				return // a provider by itself: who uses it is not known
			}
			for i, dimension := range l.Spec.Scope.By {
				f.unsuppliedDimension(p, dimension, index(path+".scope.by", i), known[p])
			}
			l.eachSelector(path, func(path string, s *schema.Selector) {
				if s.RequestsWithVar != "" {
					f.unsuppliedDimension(p, match.VariablePrefix+s.RequestsWithVar, path+".requestsWithVar", known[p])
				}
			})
		})
	},
}

// variables lists what some request of the provider can have, sorted.
func (p *Provider) variables() []string {
	names := make(map[string]bool)
	for _, j := range p.Jobs {
		for name := range j.Vars() {
			names[name] = true
		}
	}
	for _, l := range p.Spec.Learn {
		names[l.Var] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (f *finder) unsuppliedDimension(p *Provider, dimension, path string, known []string) {
	name, isVar := strings.CutPrefix(dimension, match.VariablePrefix)
	switch {
	case isVar && !slices.Contains(known, name):
		hint := f.hint(name, known)
		f.at(p.Doc, path, "no job of provider %s has a variable %q, so this never applies%s", p.Name, name, hint)
	case dimension == match.DimensionCredential && (p.Spec.Auth == nil || p.Spec.Auth.Type == "none"):
		f.at(p.Doc, path, "provider %s has no auth, so no request has a credential and this never applies", p.Name)
	case dimension == match.DimensionTarget:
		for _, a := range p.Accounts {
			if len(a.Spec.Targets) > 0 {
				return
			}
		}
		f.at(p.Doc, path, "no account of provider %s has targets, so this never applies", p.Name)
	}
}
