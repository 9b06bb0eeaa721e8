package validate

import (
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var rulePositiveDuration = &Rule{
	Name:     "positive-duration",
	Severity: schema.SeverityError,
	Summary:  "a time to wait, to keep or between two runs must be above 0",
	Why: "A pause of 0 between attempts hammers a vendor that has just asked for less, and a retention of 0 keeps nothing. To have " +
		"the default, leave the field out.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
circuitBreaker: { openFor: 0s }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
circuitBreaker: { openFor: 30s }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			f.providerDurations(p)
		}
		if s := f.config.Settings; s.Doc != nil {
			f.positive(s.Doc, "spec.budget.replanInterval", s.Spec.Budget.ReplanInterval)
			f.positive(s.Doc, "spec.state.flushInterval", s.Spec.State.FlushInterval)
			f.positive(s.Doc, "spec.state.journalRetention", s.Spec.State.JournalRetention)
		}
		for _, p := range f.config.Policies {
			f.policyDurations(p)
		}
	},
}

func (f *finder) positive(doc *schema.Document, path string, d *schema.Duration) {
	if d != nil && *d <= 0 {
		f.at(doc, path, "%s is %s, want a time above 0", path[strings.LastIndexByte(path, '.')+1:], d)
	}
}

func (f *finder) providerDurations(p *Provider) {
	if r := p.Spec.Errors.RateLimited; r != nil {
		f.positive(p.Doc, "spec.errors.rateLimited.defaultPenalty", r.DefaultPenalty)
		f.positive(p.Doc, "spec.errors.rateLimited.maxPenalty", r.MaxPenalty)
	}
	if r := p.Spec.Retry; r != nil {
		f.positive(p.Doc, "spec.retry.initial", r.Initial)
		f.positive(p.Doc, "spec.retry.max", r.Max)
	}
	if b := p.Spec.CircuitBreaker; b != nil {
		f.positive(p.Doc, "spec.circuitBreaker.openFor", b.OpenFor)
	}
	if a := p.Spec.Auth; a != nil {
		f.positive(p.Doc, "spec.auth.ttl", a.TTL)
	}
	for i := range p.Spec.Limits {
		f.positive(p.Doc, index("spec.limits", i)+".penalty", p.Spec.Limits[i].Penalty)
	}
	for i := range p.Spec.Learn {
		if c := p.Spec.Learn[i].Cache; c != nil {
			f.positive(p.Doc, index("spec.learn", i)+".cache.ttl", c.TTL)
		}
	}
}

func (f *finder) policyDurations(p *Policy) {
	for _, name := range sortedKeys(p.Spec.Capabilities) {
		path, c := schema.JoinPath("spec.capabilities", name), p.Spec.Capabilities[name]
		f.positive(p.Doc, path+".deadline", c.Deadline)
		if c.Retain != nil {
			f.positive(p.Doc, path+".retain.reference", c.Retain.Reference)
			f.positive(p.Doc, path+".retain.decision", c.Retain.Decision)
			f.positive(p.Doc, path+".retain.response", c.Retain.Response)
		}
	}
	if r := p.Spec.Reconcile; r != nil {
		f.positive(p.Doc, "spec.reconcile.every", r.Every)
		f.positive(p.Doc, "spec.reconcile.stale", r.Stale)
	}
}
