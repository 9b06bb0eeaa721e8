package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleGlobSyntax = &Rule{
	Name:     "glob-syntax",
	Severity: schema.SeverityWarning,
	Summary:  "a glob knows *, ** and {name}, and nothing else",
	Why: "* stands for any characters within a segment, ** alone for any number of segments, and {name} for a variable segment. " +
		"?, [...] and {a,b} are taken literally here, and a query is never part of the path: use appliesTo.query.",
	Wrong: exampleLimit(`
kind: concurrency
max: 5
appliesTo: { endpoints: ["/dev**"] }`),
	Right: exampleLimit(`
kind: concurrency
max: 5
appliesTo: { endpoints: ["/dev*", "/devices/**"] }`) + "---\n" + exampleDocument("Job", "ports", `
account: main
interval: 1h
request: { endpoint: /devices/ports }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			l.eachSelector(path, func(path string, s *schema.Selector) {
				for i, pattern := range s.Endpoints {
					if why := globTrap(pattern); why != "" {
						f.at(p.Doc, index(path+".endpoints", i), "glob %q %s", pattern, why)
					}
				}
			})
		})
	},
}

// globTrap says what in a glob does not mean what it means elsewhere; "" where nothing does.
func globTrap(pattern string) string {
	if strings.Contains(pattern, "://") {
		return "is a URL; write the path below the base URL"
	}
	if strings.Contains(pattern, "?") {
		return "has a ?, which matches itself only; a query goes into appliesTo.query"
	}
	if strings.Contains(pattern, "[") {
		return "has a [, which matches itself only; write one glob for each case"
	}
	for _, segment := range strings.Split(pattern, "/") {
		switch {
		case strings.Contains(segment, "{") && strings.Contains(segment, ","):
			return "has a list in braces, which matches itself only; write one glob for each case"
		case segment != "**" && strings.Contains(segment, "**"):
			return "has ** within a segment, where it is no more than *; write it between two slashes"
		}
	}
	return ""
}
