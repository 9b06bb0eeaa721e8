package simulate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// route is one endpoint of a vendor: what the jobs that ask it say about it, together.
type route struct {
	method   string
	template *match.Template
	jobs     []*validate.Job
	// body and headers are the shapes of its answers.
	body, headers *shape
	// paged is the list that pages are made of; nil where the answer is one object.
	paged *shape
	// pages is how they are asked for; nil for none.
	pages *schema.Pagination
	// nextKeys are query parameters that an expression asks for the next page with.
	nextKeys []string
	// items in all pages, and the most of them in one.
	items, pageItems int64
}

// routes are made from the jobs of a provider, in document order, and then from the routes of spend policies.
type routes []*route

func routesOf(p *validate.Provider, policies []*validate.Policy, items map[string]int64) []*route {
	var all routes
	for _, j := range p.Jobs {
		r := all.of(j.Method, j.Endpoint, schedule.PagesOf(j))
		r.jobs = append(r.jobs, j)
		r.learn(j, items)
	}
	for _, policy := range policies {
		for _, name := range slices.Sorted(maps.Keys(policy.Spec.Routes)) {
			all.sell(p, policy.Spec.Routes[name])
		}
	}
	for _, r := range all {
		r.finish()
	}
	return all
}

// of is the route of an endpoint, made where it is not there yet.
func (all *routes) of(method string, endpoint *match.Template, pages *schema.Pagination) *route {
	path := match.CleanPath(endpoint.Path)
	at := slices.IndexFunc(*all, func(r *route) bool { return r.method == method && r.template.Path == path })
	if at < 0 {
		at = len(*all)
		*all = append(*all, &route{method: method, template: endpoint, body: &shape{}, headers: &shape{kind: object}, pages: pages})
	}
	return (*all)[at]
}

// sell answers paid calls, with what they cost where the policy's actual looks for it: a half, three quarters or all of the
// declared cost.
func (all *routes) sell(p *validate.Provider, paid schema.SpendRoute) {
	at := slices.IndexFunc(p.Accounts, func(a *validate.Account) bool { return a.Name == paid.Account })
	if at < 0 || paid.Request == nil {
		return
	}
	endpoint, err := match.ParseTemplate(paid.Request.Endpoint)
	if err != nil {
		return // a valid configuration has no such endpoint
	}
	r := all.of(cmp.Or(paid.Request.Method, "GET"), endpoint, nil)
	r.body.is(object)
	if paid.Actual == "" {
		return
	}
	cost, err := paid.Cost.Float64()
	if err != nil {
		return // more than a float holds
	}
	_, found := read(paid.Actual, map[string]*shape{"response": r.body, "headers": r.headers})
	for _, leaf := range found.leaves {
		for _, part := range []float64{0.5, 0.75, 1} {
			leaf.prices = append(leaf.prices, cost*part)
		}
	}
}

// learn takes in what a job expects of the answers.
func (r *route) learn(j *validate.Job, items map[string]int64) {
	scope := func(item *shape) map[string]*shape {
		return map[string]*shape{"response": r.body, "headers": r.headers, "item": item}
	}
	listed := func(expression string) *shape {
		s, _ := read(expression, scope(nil))
		if s == nil {
			return nil
		}
		return s.item()
	}
	if p := r.pages; p != nil && p.Items != "" {
		if s, _ := read(p.Items, scope(nil)); s != nil {
			s.item()
			r.paged = s
		}
	}
	if i := j.Spec.Inventory; i != nil {
		item := listed(i.Items)
		for _, name := range sortedKeys(i.Vars) {
			s, _ := read(i.Vars[name], scope(item))
			s.is(text)
		}
	}
	for k := range j.Spec.Metrics {
		m := &j.Spec.Metrics[k]
		item := r.body
		if m.Items != "" {
			item = listed(m.Items)
		}
		for _, name := range sortedKeys(m.Labels) {
			s, _ := read(m.Labels[name], scope(item))
			s.is(text)
		}
		if m.Value != "" {
			s, _ := read(m.Value, scope(item))
			s.is(number)
		}
	}
	for _, o := range j.Spec.Outputs {
		if o.JSONL != nil && o.JSONL.Items != "" {
			listed(o.JSONL.Items)
		}
	}
	r.size(j, items)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// fewItems is how many a list has that nobody says more about.
const fewItems = 5

// mostPageItems is the page size of a vendor whose documents name none.
const mostPageItems = 1000

// size decides how many items there are, and how many fit a page.
func (r *route) size(j *validate.Job, items map[string]int64) {
	pages, limit := int64(1), int64(mostPageItems)
	e := j.Spec.Estimate
	if e != nil && e.PagesPerRun != nil {
		pages = max(1, int64(e.PagesPerRun.Float64()+0.5))
	}
	if r.pages == nil {
		pages = 1
	} else if r.pages.Limit != nil {
		limit = int64(*r.pages.Limit)
	}
	n, given := items[j.Name]
	switch {
	case given:
	case e != nil && e.Items != nil:
		n = *e.Items
	case pages > 1 && r.pages.Limit != nil:
		n = limit*(pages-1) + (limit+1)/2 // the last page is half full
	default:
		n = max(fewItems, pages)
	}
	r.items = max(r.items, n)
	if r.pages != nil && r.pages.Type != "offset" && r.pages.Type != "page" {
		limit = min(limit, max(1, ceilDiv(n, pages))) // so that there are as many pages as estimated
	}
	if r.pageItems == 0 || limit < r.pageItems {
		r.pageItems = limit
	}
}

// finish completes the shapes: what leads from page to page, and what nobody has said anything about.
func (r *route) finish() {
	if p := r.pages; p != nil {
		scope := map[string]*shape{"response": r.body, "headers": r.headers}
		switch p.Type {
		case "cursor":
			_, found := read(p.Cursor, scope)
			found.setRoles(cursorRole)
		case "expression":
			_, found := read(p.Next, scope)
			found.setRoles(urlRole)
			r.nextKeys = found.keys
			if found.pageSize > 0 {
				r.pageItems = found.pageSize
			}
		}
	}
	if r.body.kind == unknown {
		r.body.item()
	}
	if r.paged == nil {
		r.paged = onlyList(r.body)
	}
	if r.paged == nil && r.pages != nil {
		r.paged = r.body.field("items")
		r.paged.item()
	}
	r.body.complete()
}

// onlyList is the shape itself, or its only list.
func onlyList(s *shape) *shape {
	if s.kind == list {
		return s
	}
	var found *shape
	for _, name := range s.names {
		f := s.fields[name]
		if f.kind == list {
			if found != nil {
				return nil
			}
			found = f
		} else if f.kind == object && found == nil {
			found = onlyList(f)
		}
	}
	return found
}

// complete gives elements that nobody looks into an id and a name, as every vendor's have.
func (s *shape) complete() {
	if s.kind == list && s.item().kind == unknown && len(s.element.choices) == 0 {
		s.element.field("id")
		s.element.field("name")
	}
	if s.element != nil {
		s.element.complete()
	}
	for _, name := range s.names {
		s.fields[name].complete()
	}
}

// findRoute is the route of a request: its path decides, then its method. known tells whether another method has that path.
func findRoute(routes []*route, method, path string) (found *route, vars map[string]string, known bool) {
	templates := make([]*match.Template, 0, len(routes))
	var of []*route
	for _, r := range routes {
		if _, fits := r.template.Match(path); fits {
			known = true
		}
		if r.method == method || method == "HEAD" && r.method == "GET" {
			templates = append(templates, r.template)
			of = append(of, r)
		}
	}
	at, vars := match.Best(templates, path)
	if at < 0 {
		return nil, nil, known
	}
	return of[at], vars, true
}

// under strips the path of a base URL.
func under(base, path string) string {
	if rest, ok := strings.CutPrefix(path, base); ok && base != "" && (rest == "" || rest[0] == '/') {
		return match.CleanPath(rest)
	}
	return match.CleanPath(path)
}
