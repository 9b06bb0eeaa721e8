package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleDuplicateName = &Rule{
	Name:     "duplicate-name",
	Severity: schema.SeverityError,
	Summary:  "a name must be unique among what it tells apart",
	Why: "Documents are told apart by kind and name, limits, templates and targets by their names within the provider or account, " +
		"metrics within the job. Of two of the same name only one would be found.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
limits:
  - { name: daily, kind: quota, max: 5000, window: { period: day } }
  - { name: daily, kind: quota, max: 200, window: { period: hour } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
limits:
  - { name: daily, kind: quota, max: 5000, window: { period: day } }
  - { name: hourly, kind: quota, max: 200, window: { period: hour } }`),
	check: func(f *finder) {
		f.duplicateDocuments()
		for _, p := range f.config.Providers {
			f.duplicates(p.Doc, "spec.limits", ".name", "limit", p.limitNames())
			var templates, learned []string
			for i := range p.Spec.Templates {
				templates = append(templates, p.Spec.Templates[i].Name)
			}
			f.duplicates(p.Doc, "spec.templates", ".name", "template", templates)
			for i := range p.Spec.Learn {
				learned = append(learned, p.Spec.Learn[i].Var)
			}
			f.duplicates(p.Doc, "spec.learn", ".var", "learned variable", learned)
		}
		for _, a := range f.config.Accounts {
			var targets []string
			for i := range a.Spec.Targets {
				targets = append(targets, a.Spec.Targets[i].Name)
			}
			f.duplicates(a.Doc, "spec.targets", ".name", "target", targets)
		}
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			var metrics []string
			for i := range fields.Metrics {
				metrics = append(metrics, fields.Metrics[i].Name)
			}
			f.duplicates(doc, path+".metrics", ".name", "metric", metrics)
		})
		for _, p := range f.config.Policies {
			for _, name := range sortedKeys(p.Spec.Capabilities) {
				f.duplicates(p.Doc, schema.JoinPath("spec.capabilities", name)+".routes", "", "route", p.Spec.Capabilities[name].Routes)
			}
		}
	},
}

func (f *finder) duplicateDocuments() {
	type key struct{ kind, name string }
	first := make(map[key]*schema.Document)
	for _, doc := range f.config.Documents {
		k := key{doc.Kind, doc.Name}
		if doc.Kind == "" || doc.Name == "" || doc.Kind == schema.KindSettings {
			continue // single-settings tells about a second one
		}
		if other := first[k]; other != nil {
			at := other.Position("metadata.name")
			f.at(doc, "metadata.name", "%s %q stands twice, first at %s:%d", strings.ToLower(doc.Kind), doc.Name, at.File, at.Line)
			continue
		}
		first[k] = doc
	}
}

// duplicates reports the elements of a list whose name an earlier one has.
func (f *finder) duplicates(doc *schema.Document, path, field, what string, names []string) {
	first := make(map[string]int)
	for i, name := range names {
		at, seen := first[name]
		switch {
		case name == "":
		case seen:
			f.at(doc, index(path, i)+field, "%s %q stands twice, first in line %d", what, name, doc.Position(index(path, at)+field).Line)
		default:
			first[name] = i
		}
	}
}
