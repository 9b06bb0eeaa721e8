package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleStatusOverlap = &Rule{
	Name:     "status-overlap",
	Severity: schema.SeverityWarning,
	Summary:  "a status should be rate limited or transient, not both, and no success",
	Why: "A rate-limited response is waited for and never counts as a failure; a transient one is retried and counts for the " +
		"circuit breaker. A status in both lists is taken as rate limited.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
errors: { rateLimited: { status: [429, 503] }, transient: { status: [500, 503] } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
errors: { rateLimited: { status: [429, 503] }, transient: { status: [500, 502] } }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			var limited []int
			if r := p.Spec.Errors.RateLimited; r != nil {
				limited = r.Status
				for i, status := range r.Status {
					f.success(p, index("spec.errors.rateLimited.status", i), status)
				}
			}
			if t := p.Spec.Errors.Transient; t != nil {
				for i, status := range t.Status {
					path := index("spec.errors.transient.status", i)
					f.success(p, path, status)
					if slices.Contains(limited, status) {
						f.at(p.Doc, path, "status %d is rate limited, too, and counts as that", status)
					}
				}
			}
		}
	},
}

func (f *finder) success(p *Provider, path string, status int) {
	if status >= 200 && status < 300 {
		f.at(p.Doc, path, "status %d is a success; answers with it would never be used", status)
	}
}
