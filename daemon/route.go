package daemon

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/validate"
)

// onlyTarget is the name of an account's target; empty where it has none. A valid route has no account with several.
func onlyTarget(a *validate.Account) string {
	if len(a.Spec.Targets) == 1 {
		return a.Spec.Targets[0].Name
	}
	return ""
}

// eventVars are the variables of an event's request: its own, what names it, and those of the account, which win.
func eventVars(a *validate.Account, e *book.Event) map[string]string {
	vars := maps.Clone(e.Vars)
	if vars == nil {
		vars = make(map[string]string)
	}
	vars["event_id"], vars["class"], vars["size"] = e.ID, e.Class, strconv.FormatInt(e.Size, 10)
	if len(a.Spec.Targets) == 1 {
		maps.Copy(vars, a.Spec.Targets[0].Vars)
	}
	maps.Copy(vars, a.Spec.Vars)
	return vars
}

// routeRequest makes the request of a route for an event, and what limits see of it. The error says what the event lacks.
func routeRequest(a *validate.Account, route *schema.SpendRoute, e *book.Event, h *host) (*client.Request, engine.Request, error) {
	var asks engine.Request
	template, err := match.ParseTemplate(route.Request.Endpoint)
	if err != nil {
		return nil, asks, err
	}
	vars := eventVars(a, e)
	x := &expansion{vars: vars}
	path, missing := template.Expand(vars)
	if missing != "" {
		x.missing = missing
	}
	method := route.Request.Method
	if method == "" {
		method = "GET"
	}
	declared := maps.Clone(template.Query)
	if declared == nil {
		declared = make(map[string]string)
	}
	maps.Copy(declared, route.Request.Query)
	out := &client.Request{Method: method, Header: make(map[string]string)}
	query := make(map[string]string, len(declared))
	for name, value := range declared {
		query[name] = x.text(value)
	}
	for name, value := range route.Request.Headers {
		out.Header[name] = x.text(value)
		if strings.ContainsFunc(out.Header[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, asks, fmt.Errorf("header %s would hold a control character", name)
		}
	}
	x.look(route.Request.Body)
	if x.missing != "" {
		return nil, asks, fmt.Errorf("the event has no variable %q, which the request of route %q needs", x.missing, e.Route)
	}
	if out.URL, err = h.client.URL(path, query); err != nil {
		return nil, asks, err
	}
	if out.Body, err = client.ExpandBody(route.Request.Body, vars); err != nil {
		return nil, asks, err
	}
	asks = engine.Request{
		Request: match.Request{
			Provider: a.Provider.Name, Account: a.Name, Target: onlyTarget(a), Credential: h.credential, Method: method,
			Endpoint: template.Path, Query: declared, Vars: limitVars(a.Provider, template.Path, vars),
		},
		Priority: route.Priority,
	}
	return out, asks, nil
}

// expansion puts variables into texts, and remembers one that has no value.
type expansion struct {
	vars    map[string]string
	missing string
}

// variable is what stands between braces where it is one: a text in JSON is full of other braces.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (x *expansion) text(text string) string {
	for _, name := range match.VariablesIn(text) {
		if _, ok := x.vars[name]; !ok && variable.MatchString(name) {
			x.missing = name
		}
	}
	return client.Expand(text, x.vars)
}

// look goes through a body.
func (x *expansion) look(body any) {
	switch b := body.(type) {
	case string:
		x.text(b)
	case []any:
		for _, one := range b {
			x.look(one)
		}
	case map[string]any:
		for _, one := range b {
			x.look(one)
		}
	}
}

// limitVars are the variables that an endpoint or a limit names. The others are the event's own business: the engine and the
// journal need not see them.
func limitVars(p *validate.Provider, endpoint string, vars map[string]string) map[string]string {
	named := make(map[string]string)
	see := func(name string) {
		if value, ok := vars[name]; ok && name != "" {
			named[name] = value
		}
	}
	for _, name := range match.VariablesIn(endpoint) {
		see(name)
	}
	for _, l := range p.Limits {
		for _, dimension := range l.By() {
			if name, ok := strings.CutPrefix(dimension, "var:"); ok {
				see(name)
			}
		}
		if l.Spec.AppliesTo != nil {
			see(l.Spec.AppliesTo.RequestsWithVar)
		}
		if l.Spec.Max != nil {
			see(l.Spec.Max.ByVar)
		}
	}
	return named
}
