package validate

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleHeaderName = &Rule{
	Name:     "header-name",
	Severity: schema.SeverityError,
	Summary:  "a header's name must be a token of HTTP, and its value one line",
	Why: "RFC 9110, section 5.6.2: letters, digits and !#$%&'*+-.^_`|~. A name with a space or a colon is never received, and a value " +
		"with a line break cannot be sent.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: "X-RateLimit-Remaining:" }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: X-RateLimit-Remaining }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			if limited := p.Spec.Errors.RateLimited; limited != nil && limited.LimitFrom != nil {
				f.headerName(p.Doc, "spec.errors.rateLimited.limitFrom.header", limited.LimitFrom.Header)
			}
			if auth := p.Spec.Auth; auth != nil {
				f.headerName(p.Doc, "spec.auth.header", auth.Header)
				f.headerName(p.Doc, "spec.auth.cookie", auth.Cookie)
				f.headerValue(p.Doc, "spec.auth.prefix", auth.Prefix)
			}
		}
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			for _, h := range syncHeaders(l.Spec.Sync) {
				at := path + ".sync." + h.field
				if p.Doc.Has(at + ".name") {
					at += ".name"
				}
				f.headerName(p.Doc, at, h.header.Name)
			}
			if l.Spec.Sync != nil && l.Spec.Sync.When != nil {
				f.headerName(p.Doc, path+".sync.when.header", l.Spec.Sync.When.Header)
			}
			if l.Spec.CostFrom != nil {
				f.headerName(p.Doc, path+".costFrom.header", l.Spec.CostFrom.Header)
			}
		})
		f.config.eachRequest(func(doc *schema.Document, path string, r *schema.Request) {
			for _, name := range sortedKeys(r.Headers) {
				at := schema.JoinPath(path+".headers", name)
				if name == "" || !headerToken.MatchString(name) {
					f.key(doc, at, "header name %q is not a token: want letters, digits and !#$%%&'*+-.^_`|~", name)
				}
				f.headerValue(doc, at, r.Headers[name])
			}
		})
	},
}

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// headerName reports a name that is no token; an empty one names none.
func (f *finder) headerName(doc *schema.Document, path, name string) {
	if name == "" || headerToken.MatchString(name) {
		return
	}
	hint := ""
	if trimmed := strings.TrimSpace(strings.TrimSuffix(name, ":")); headerToken.MatchString(trimmed) {
		hint = "; did you mean " + strconv.Quote(trimmed) + "?"
	}
	f.at(doc, path, "header name %q is not a token: want letters, digits and !#$%%&'*+-.^_`|~%s", name, hint)
}

func (f *finder) headerValue(doc *schema.Document, path, value string) {
	if strings.ContainsAny(value, "\r\n\x00") {
		f.at(doc, path, "a header's value must be one line")
		f.conceal()
	}
}
