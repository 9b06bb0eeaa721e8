package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var rulePaginationFields = &Rule{
	Name:     "pagination-fields",
	Severity: schema.SeverityError,
	Summary:  "a pagination must have the fields of its type, and no others",
	Why: "offset needs offsetParam, page needs pageParam, cursor needs cursorParam and cursor, expression needs next. A field of " +
		"another type would have no effect.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
pagination: { type: cursor, cursorParam: after }`),
	Right: exampleJob(`
request: { endpoint: /devices }
pagination: { type: cursor, cursorParam: after, cursor: response.meta.next }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			f.pagination(p.Doc, "spec.pagination", p.Spec.Pagination)
		}
		f.config.eachFields(func(doc *schema.Document, path string, fields *schema.JobFields) {
			f.pagination(doc, path+".pagination", fields.Pagination)
		})
	},
}

// paginationFields says which types have the fields that not all have.
var paginationFields = []struct {
	name     string
	types    []string
	required bool
}{
	{"items", []string{"none", "offset", "page", "cursor", "link_header", "expression"}, false},
	{"limitParam", []string{"offset", "page", "cursor", "link_header", "expression"}, false},
	{"limit", []string{"offset", "page", "cursor", "link_header", "expression"}, false},
	{"maxPages", []string{"offset", "page", "cursor", "link_header", "expression"}, false},
	{"offsetParam", []string{"offset"}, true},
	{"pageParam", []string{"page"}, true},
	{"firstPage", []string{"page"}, false},
	{"cursorParam", []string{"cursor"}, true},
	{"cursor", []string{"cursor"}, true},
	{"next", []string{"expression"}, true},
}

func (f *finder) pagination(doc *schema.Document, path string, p *schema.Pagination) {
	if p == nil || p.Type == "" {
		return
	}
	for _, field := range paginationFields {
		has, belongs := doc.Has(path+"."+field.name), slices.Contains(field.types, p.Type)
		switch {
		case has && !belongs:
			f.key(doc, path+"."+field.name, "%s belongs to pagination of type %s, and this one is %s; remove it, or change the type", field.name, list(field.types), p.Type)
		case !has && belongs && field.required:
			f.missing(doc, path, field.name, "missing field %q: pagination of type %s needs one", field.name, p.Type)
		}
	}
	if p.LimitParam != "" && p.Limit == nil {
		f.missing(doc, path, "limit", "limitParam %q has no limit to send; write limit, the page size", p.LimitParam)
	}
}
