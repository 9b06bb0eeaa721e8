package validate

import (
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

var ruleSpendRoute = &Rule{
	Name:     "spend-route",
	Severity: schema.SeverityError,
	Summary:  "a route with a request needs an account and an endpoint",
	Why: "With a request, tapyr run sends the event itself, through the account's credentials and limits. actual reads the response of " +
		"that request, and has no effect without one; neither have priority and idempotent. The event decides which variables it brings, " +
		"beside {event_id}, {class} and {size}; {eventId} and the like are errors. An account with several targets does " +
		"not say which of them is meant. A route that is idempotent without naming the event in what it sends is a warning: the vendor " +
		"cannot know it again. So is a route that no capability uses.",
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
		if r.Idempotent {
			f.key(p.Doc, path+".idempotent", "idempotent is about the request of a route, and route %q has none; remove it, or write request", name)
		}
		if r.Priority != "" {
			f.key(p.Doc, path+".priority", "priority is about the request of a route, and route %q has none; remove it, or write request", name)
		}
	case r.Account == "":
		f.missing(p.Doc, path, "account", "route %q has a request and needs an account to send it through", name)
	case r.Request.Endpoint == "":
		f.missing(p.Doc, path+".request", "endpoint", "the request of route %q has no endpoint", name)
	}
	a := f.config.Account(r.Account)
	if r.Request != nil {
		f.routeRequest(p, path, name, a)
	}
	if a != nil && r.Provider != "" && a.Spec.Provider != r.Provider {
		f.at(p.Doc, path+".provider", "route %q has provider %q, but its account %q is at %q; remove provider", name, r.Provider, a.Name, a.Spec.Provider)
	}
	if !used {
		f.warn(p.Doc, path, "no capability uses route %q", name)
	}
}

// routeRequest looks for what only a sent request shows: which variables it needs, and where it goes.
func (f *finder) routeRequest(p *Policy, path, name string, a *Account) {
	r := p.Spec.Routes[name]
	named := false
	look := func(at, text string) {
		for _, variable := range match.VariablesIn(text) {
			named = named || variable == "event_id"
			plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(variable))
			if plain == "eventid" && variable != "event_id" && (a == nil || a.Spec.Vars[variable] == "") {
				f.at(p.Doc, at, "no event has a variable {%s}; its id is {event_id}", variable)
			}
		}
	}
	request := path + ".request"
	look(request+".endpoint", r.Request.Endpoint)
	for _, key := range sortedKeys(r.Request.Query) {
		look(schema.JoinPath(request+".query", key), r.Request.Query[key])
	}
	for _, key := range sortedKeys(r.Request.Headers) {
		look(schema.JoinPath(request+".headers", key), r.Request.Headers[key])
	}
	eachText(r.Request.Body, request+".body", look)
	if a != nil && len(a.Spec.Targets) > 1 {
		f.at(p.Doc, path+".account", "account %q has %d targets, and a route does not say which of them it means; name an account with one", a.Name, len(a.Spec.Targets))
	}
	if r.Idempotent && !named {
		f.warn(p.Doc, path+".idempotent", "route %q is idempotent, but its request does not hold {event_id}, by which the vendor could know an event that it is sent twice", name)
	}
}
