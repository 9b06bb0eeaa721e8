package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSpendRoute = &Rule{
	Name:     "spend-route",
	Severity: schema.SeverityError,
	Summary:  "a route with a request needs an account and an endpoint",
	Why: "With a request, tapyr run sends the event itself, through the account's credentials and limits. actual reads the response of " +
		"that request, and has no effect without one. A route that no capability uses is a warning.",
	Wrong: exampleDocument("SpendPolicy", "paid", `
version: v1
unit: EUR
account: { limit: "100" }
routes: { standard: { cost: "2", request: { method: POST, endpoint: /events } } }
capabilities: { tracking: { limit: "100", routes: [standard], fallback: reject } }`),
	Right: exampleDocument("SpendPolicy", "paid", `
version: v1
unit: EUR
account: { limit: "100" }
routes: { standard: { cost: "2", account: main, request: { method: POST, endpoint: /events } } }
capabilities: { tracking: { limit: "100", routes: [standard], fallback: reject } }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			used := make(map[string]bool)
			for _, c := range p.Spec.Capabilities {
				for _, route := range c.Routes {
					used[route] = true
				}
			}
			for _, name := range sortedKeys(p.Spec.Routes) {
				f.route(p, name, used[name])
			}
		}
	},
}

func (f *finder) route(p *Policy, name string, used bool) {
	r, path := p.Spec.Routes[name], schema.JoinPath("spec.routes", name)
	switch {
	case r.Request == nil:
		if r.Actual != "" {
			f.key(p.Doc, path+".actual", "actual reads the response of a request, and route %q has none; remove it, or write request", name)
		}
	case r.Account == "":
		f.missing(p.Doc, path, "account", "route %q has a request and needs an account to send it through", name)
	case r.Request.Endpoint == "":
		f.missing(p.Doc, path+".request", "endpoint", "the request of route %q has no endpoint", name)
	}
	a := f.config.Account(r.Account)
	if a != nil && r.Provider != "" && a.Spec.Provider != r.Provider {
		f.at(p.Doc, path+".provider", "route %q has provider %q, but its account %q is at %q; remove provider", name, r.Provider, a.Name, a.Spec.Provider)
	}
	if !used {
		f.warn(p.Doc, path, "no capability uses route %q", name)
	}
}
