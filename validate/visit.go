package validate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

// The rules that look at one field wherever it may stand walk over these. They see documents as written: what a job takes from
// a template is checked in the template, once.

// eachLimit calls visit for every limit whose kind is known, with its path.
func (c *Config) eachLimit(visit func(p *Provider, l *Limit, path string)) {
	for _, p := range c.Providers {
		for i, l := range p.Limits {
			if l.Spec.Kind != "" {
				visit(p, l, index("spec.limits", i))
			}
		}
	}
}

// eachFields calls visit for the fields of every job and every template, as written, with the path that they stand under.
func (c *Config) eachFields(visit func(doc *schema.Document, path string, fields *schema.JobFields)) {
	for _, doc := range c.Documents {
		switch spec := doc.Spec.(type) {
		case *schema.JobSpec:
			visit(doc, "spec", &spec.JobFields)
		case *schema.ProviderSpec:
			for i := range spec.Templates {
				visit(doc, index("spec.templates", i), &spec.Templates[i].JobFields)
			}
		}
	}
}

// eachRequest calls visit for every request that a document describes: of jobs, templates, logins and spend routes.
func (c *Config) eachRequest(visit func(doc *schema.Document, path string, r *schema.Request)) {
	c.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
		if fields.Request != nil {
			visit(doc, path+".request", fields.Request)
		}
	})
	for _, p := range c.Providers {
		if p.Spec.Auth != nil && p.Spec.Auth.Login != nil {
			visit(p.Doc, "spec.auth.login", p.Spec.Auth.Login)
		}
	}
	for _, p := range c.Policies {
		for _, name := range slices.Sorted(maps.Keys(p.Spec.Routes)) {
			if r := p.Spec.Routes[name].Request; r != nil {
				visit(p.Doc, schema.JoinPath("spec.routes", name)+".request", r)
			}
		}
	}
}

// eachSelector calls visit for every selector of a limit: appliesTo, its exceptions, and costs.
func (l *Limit) eachSelector(path string, visit func(path string, s *schema.Selector)) {
	if filter := l.Spec.AppliesTo; filter != nil {
		visit(path+".appliesTo", &filter.Selector)
		if filter.Except != nil {
			visit(path+".appliesTo.except", filter.Except)
		}
	}
	for i := range l.Spec.Costs {
		visit(index(path+".costs", i), &l.Spec.Costs[i].Selector)
	}
}

// syncHeader is one header of a limit's sync.
type syncHeader struct {
	field  string
	header *schema.Header
}

// syncHeaders lists the headers that are declared; an empty name declares none.
func syncHeaders(s *schema.Sync) []syncHeader {
	if s == nil {
		return nil
	}
	var out []syncHeader
	for _, h := range []syncHeader{
		{"limitHeader", s.LimitHeader},
		{"remainingHeader", s.RemainingHeader},
		{"usedHeader", s.UsedHeader},
		{"remainingPercentHeader", s.RemainingPercentHeader},
		{"resetHeader", s.ResetHeader},
	} {
		if h.header != nil && h.header.Name != "" {
			out = append(out, h)
		}
	}
	return out
}

// missing reports a field that must be there and is not, unless one that was probably meant for it is there and unknown.
func (f *finder) missing(doc *schema.Document, parent, field, format string, args ...any) {
	for _, b := range f.broken[doc] {
		name, ok := strings.CutPrefix(b, parent+".")
		if ok && schema.Nearest(name, []string{field}) != "" {
			return
		}
	}
	f.at(doc, parent+"."+field, format, args...)
}

// conceal hides the source line of the last finding.
func (f *finder) conceal() {
	if n := len(f.problems); n > 0 {
		f.problems[n-1].Concealed = true
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variablesIn lists the variables of a text, in order, each once. Braces around anything else are not a variable: a JSON text
// is full of them.
func variablesIn(text string) []string {
	var names []string
	for _, name := range match.VariablesIn(text) {
		if variableName.MatchString(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// eachText calls visit for every text of a plain value, with its path.
func eachText(value any, path string, visit func(path, text string)) {
	switch v := value.(type) {
	case string:
		visit(path, v)
	case []any:
		for i, item := range v {
			eachText(item, index(path, i), visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachText(v[key], schema.JoinPath(path, key), visit)
		}
	}
}

// sortedKeys lists a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// exampleDocument writes a document for a rule's page.
func exampleDocument(kind, name, spec string) string {
	lines := strings.Split(strings.TrimSpace(spec), "\n")
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: { name: %s }\nspec:\n  %s\n", schema.APIVersion, kind, name, strings.Join(lines, "\n  "))
}

// exampleLimit writes a provider with one limit, whose fields follow its name.
func exampleLimit(fields string) string {
	lines := strings.Split(strings.TrimSpace(fields), "\n")
	return exampleDocument(schema.KindProvider, "example",
		"baseURL: https://api.example.com/v1\nlimits:\n  - name: limit\n    "+strings.Join(lines, "\n    "))
}

// exampleJob writes the job "devices" with further fields.
func exampleJob(fields string) string {
	return exampleDocument(schema.KindJob, "devices", "account: main\ninterval: 5m\n"+strings.TrimSpace(fields))
}

// examplePolicy writes a spend policy with one capability, whose fields follow its limit.
func examplePolicy(account, capability string) string {
	return exampleDocument(schema.KindSpendPolicy, "paid", "version: v1\nunit: EUR\naccount: "+account+
		"\nroutes: { standard: { cost: \"2\" } }\ncapabilities:\n  tracking: "+capability)
}
