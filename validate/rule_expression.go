package validate

import (
	"errors"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
)

var ruleExpression = &Rule{
	Name:     "expression",
	Severity: schema.SeverityError,
	Summary:  "an expression must be CEL, know the names it uses, and give what its place takes",
	Why: "Expressions (see cel.dev) read responses. Each place knows other names: response, item, headers, vars, status, body, page. " +
		"Fields of a response are not known in advance; write item.?name.orValue(\"\") for one that may be missing.",
	Wrong: exampleJob(`
request: { endpoint: /devices }
inventory: { items: respons.devices }`),
	Right: exampleJob(`
request: { endpoint: /devices }
inventory: { items: response.devices }`),
	check: func(f *finder) {
		e := expressions{finder: f, errors: make(map[expressionKey]*expr.Error)}
		for _, p := range f.config.Providers {
			if limited := p.Spec.Errors.RateLimited; limited != nil {
				e.check(p.Doc, "spec.errors.rateLimited.match", expr.RateLimited, limited.Match)
			}
			if p.Spec.Auth != nil {
				e.check(p.Doc, "spec.auth.token", expr.SessionToken, p.Spec.Auth.Token)
			}
			e.pagination(p.Doc, "spec", p.Spec.Pagination)
		}
		f.config.eachFields(e.fields)
		for _, p := range f.config.Policies {
			for _, name := range sortedKeys(p.Spec.Routes) {
				e.check(p.Doc, schema.JoinPath("spec.routes", name)+".actual", expr.SpendActual, p.Spec.Routes[name].Actual)
			}
		}
	},
}

// maxExpressions is the number of different expressions that a set of documents may have: a hundred times what a large one has, and
// a second's work.
const maxExpressions = 10_000

// expressions compiles every expression once: a thousand jobs of a template's kind often share theirs.
type expressions struct {
	*finder
	errors map[expressionKey]*expr.Error
}

type expressionKey struct {
	place *expr.Place
	text  string
}

func (e *expressions) check(doc *schema.Document, path string, place *expr.Place, text string) {
	const enough = 100 // findings; compiling megabytes of expressions takes seconds, and the documents are invalid by now
	if text == "" || len(e.problems) >= enough {
		return
	}
	key := expressionKey{place, text}
	found, seen := e.errors[key]
	if !seen && len(e.errors) >= maxExpressions {
		e.at(doc, path, "there are more than %d different expressions; this one was not looked at", maxExpressions)
		return
	}
	if !seen {
		_, err := place.Compile(text)
		errors.As(err, &found)
		e.errors[key] = found
	}
	if found == nil {
		return
	}
	if e.add(e.rule.Severity, doc, path, found.Error()) {
		e.problems[len(e.problems)-1].Position = doc.PositionWithin(path, found.Line, found.Column)
	}
}

func (e *expressions) pagination(doc *schema.Document, path string, p *schema.Pagination) {
	if p == nil {
		return
	}
	e.check(doc, path+".pagination.items", expr.PageItems, p.Items)
	e.check(doc, path+".pagination.cursor", expr.PageCursor, p.Cursor)
	e.check(doc, path+".pagination.next", expr.PageNext, p.Next)
}

func (e *expressions) fields(doc *schema.Document, path string, fields *schema.JobFields) {
	e.pagination(doc, path, fields.Pagination)
	if inventory := fields.Inventory; inventory != nil {
		e.check(doc, path+".inventory.items", expr.InventoryItems, inventory.Items)
		for _, name := range sortedKeys(inventory.Vars) {
			e.check(doc, schema.JoinPath(path+".inventory.vars", name), expr.InventoryVar, inventory.Vars[name])
		}
	}
	for i := range fields.Metrics {
		m, at := &fields.Metrics[i], index(path+".metrics", i)
		e.check(doc, at+".items", expr.MetricItems, m.Items)
		e.check(doc, at+".value", expr.MetricValue, m.Value)
		for _, label := range sortedKeys(m.Labels) {
			e.check(doc, schema.JoinPath(at+".labels", label), expr.MetricLabel, m.Labels[label])
		}
	}
	for i, output := range fields.Outputs {
		if output.JSONL != nil {
			e.check(doc, index(path+".outputs", i)+".jsonl.items", expr.OutputItems, output.JSONL.Items)
		}
	}
}
