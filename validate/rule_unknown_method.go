package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleUnknownMethod = &Rule{
	Name:     "unknown-method",
	Severity: schema.SeverityWarning,
	Summary:  "a method should be one of HTTP",
	Why:      "Servers refuse methods that they do not know, and a limit for a misspelt one never applies.",
	Wrong:    exampleJob(`request: { method: PSOT, endpoint: /devices }`),
	Right:    exampleJob(`request: { method: POST, endpoint: /devices }`),
	check: func(f *finder) {
		look := func(doc *schema.Document, path, method string) {
			if method != "" && !slices.Contains(knownMethods, method) {
				f.at(doc, path, "%q is not a method of HTTP%s", method, f.hint(method, knownMethods))
			}
		}
		f.config.eachRequest(func(doc *schema.Document, path string, r *schema.Request) { look(doc, path+".method", r.Method) })
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			l.eachSelector(path, func(path string, s *schema.Selector) {
				for i, method := range s.Methods {
					look(p.Doc, index(path+".methods", i), method)
				}
			})
		})
	},
}

// knownMethods are those of RFC 9110, section 9, PATCH of RFC 5789, and the QUERY that is to come.
var knownMethods = []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
