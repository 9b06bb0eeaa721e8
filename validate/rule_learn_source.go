package validate

import (
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

var ruleLearnSource = &Rule{
	Name:     "learn-source",
	Severity: schema.SeverityError,
	Summary:  "a learned variable must be found somewhere",
	Why: "learn finds a scope variable in the URL (from), in bodies (body), or by identifiers that were seen with it before (keys). " +
		"With none of from and body nothing can ever be learned. A learned variable that no limit's scope uses is a warning.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
scope: { by: ["var:organizationId"] }`) + `  learn: [{ var: organizationId, keys: { network: { url: '/networks/([^/]+)' } } }]
`,
	Right: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
scope: { by: ["var:organizationId"] }`) + `  learn: [{ var: organizationId, from: ['/organizations/([^/]+)'], keys: { network: { url: '/networks/([^/]+)' } } }]
`,
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			for i := range p.Spec.Learn {
				l, path := &p.Spec.Learn[i], index("spec.learn", i)
				f.memberNames(p.Doc, path+".body", l.Body)
				for _, key := range sortedKeys(l.Keys) {
					f.memberNames(p.Doc, schema.JoinPath(path+".keys", key)+".body", l.Keys[key].Body)
				}
				switch {
				case l.Var == "":
				case len(l.From) == 0 && len(l.Body) == 0:
					f.missing(p.Doc, path, "from", "variable %q is found nowhere; write from, patterns over the URL, or body, paths in responses", l.Var)
				case !p.UsesVariable(l.Var):
					f.warn(p.Doc, path+".var", "no limit of this provider uses variable %q", l.Var)
				}
			}
		}
	},
}

// memberNames checks paths of a response's body.
func (f *finder) memberNames(doc *schema.Document, path string, places []string) {
	for i, place := range places {
		if slices.Contains(strings.Split(place, "."), "") {
			f.at(doc, index(path, i), "%q is no path in a response; write the names of members, joined by single dots, as organization.id", place)
		}
	}
}

// UsesVariable tells whether a limit looks at the variable.
func (p *Provider) UsesVariable(name string) bool {
	for _, l := range p.Limits {
		if slices.Contains(l.Spec.Scope.By, match.VariablePrefix+name) {
			return true
		}
		used := false
		l.eachSelector("", func(_ string, s *schema.Selector) { used = used || s.RequestsWithVar == name })
		if used {
			return true
		}
	}
	return false
}
