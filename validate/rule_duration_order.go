package validate

import (
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
)

var ruleDurationOrder = &Rule{
	Name:     "duration-order",
	Severity: schema.SeverityError,
	Summary:  "a first or default wait must not be longer than the longest",
	Why: "retry.max bounds the waits that begin with retry.initial (default 1s to 1m); maxPenalty bounds defaultPenalty and every " +
		"limit's own penalty (default 2s to 24h). A bound below what it bounds contradicts it.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
retry: { initial: 30s, max: 10s }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
retry: { initial: 10s, max: 30s }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			if r := p.Spec.Retry; r != nil {
				f.ordered(p.Doc, "spec.retry.initial", r.Initial, "spec.retry.max", r.Max, time.Second, time.Minute)
			}
			var longest *schema.Duration
			if r := p.Spec.Errors.RateLimited; r != nil {
				longest = r.MaxPenalty
				f.ordered(p.Doc, "spec.errors.rateLimited.defaultPenalty", r.DefaultPenalty, "spec.errors.rateLimited.maxPenalty", longest, 2*time.Second, 24*time.Hour)
			}
			for i := range p.Spec.Limits {
				if penalty := p.Spec.Limits[i].Penalty; penalty != nil {
					f.ordered(p.Doc, index("spec.limits", i)+".penalty", penalty, "", longest, 0, 24*time.Hour)
				}
			}
		}
	},
}

// ordered reports a first wait above the longest. The one that is declared is pointed at, the first if both are; a path that is
// empty belongs to a field that is checked elsewhere.
func (f *finder) ordered(doc *schema.Document, firstPath string, first *schema.Duration, longestPath string, longest *schema.Duration, firstDefault, longestDefault time.Duration) {
	a, b := first.Or(firstDefault), longest.Or(longestDefault)
	if a <= b || first == nil && longest == nil || b <= 0 {
		return
	}
	name := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	longestName := "maxPenalty"
	if longestPath != "" {
		longestName = name(longestPath)
	}
	if longest == nil {
		longestName = "the default of " + longestName
	}
	if first == nil {
		f.at(doc, longestPath, "%s %s is below the default of %s, %s", longestName, schema.Duration(b), name(firstPath), schema.Duration(a))
		return
	}
	f.at(doc, firstPath, "%s %s is longer than %s, %s", name(firstPath), schema.Duration(a), longestName, schema.Duration(b))
}
