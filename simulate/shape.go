package simulate

import (
	"regexp"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/ext"
)

// kind is what a value of a made-up response is.
type kind int

const (
	unknown kind = iota
	object
	list
	text
	number
	truth
)

// role is what a value is for, where it leads to the next page.
type role int

const (
	noRole role = iota
	// cursorRole and urlRole name the next page, moreRole says whether there is one, totalRole counts all items, pagesRole all pages,
	// pageRole is the number of this page, offsetRole where the next one begins; tokenRole is a session's token.
	cursorRole
	urlRole
	moreRole
	totalRole
	pagesRole
	pageRole
	offsetRole
	tokenRole
)

// shape is what the expressions of the documents say of a value in a vendor's responses: which fields it must have, so that they
// find what they ask for.
type shape struct {
	kind    kind
	fields  map[string]*shape
	names   []string // of the fields, in the order in which they were met
	element *shape
	choices []any // values that it is compared with
	prices  []any // what a paid call may have cost
	role    role
}

// field of an object, made where it is not there yet.
func (s *shape) field(name string) *shape {
	if s.kind == unknown {
		s.kind = object
	}
	if s.fields == nil {
		s.fields = make(map[string]*shape)
	}
	f := s.fields[name]
	if f == nil {
		f = &shape{}
		s.fields[name] = f
		s.names = append(s.names, name)
	}
	return f
}

// item is the shape of a list's elements.
func (s *shape) item() *shape {
	if s.kind == unknown {
		s.kind = list
	}
	if s.element == nil {
		s.element = &shape{}
	}
	return s.element
}

// is says what a value is, unless something else has said so before.
func (s *shape) is(k kind) {
	if s != nil && s.kind == unknown {
		s.kind = k
	}
}

// parser reads expressions; it need not know the names in them.
var parser = func() *cel.Env {
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.Encoders(), ext.Regex())
	if err != nil {
		panic(err) // a mistake in this file
	}
	return env
}()

// reader follows one expression through the shapes of the names that it knows.
type reader struct {
	scope map[string]*shape
	// leaves are the values that the expression ends in, and keys the literal keys of maps in it.
	leaves []*shape
	names  map[*shape]string // what the leaf is called
	keys   []string
	// pageSize is what the page's number is multiplied with, 0 where it is not.
	pageSize int64
}

// read follows an expression, and returns the shape that it evaluates to, nil where that is none of a response's.
func read(expression string, scope map[string]*shape) (*shape, *reader) {
	r := &reader{scope: scope, names: make(map[*shape]string)}
	parsed, issues := parser.Parse(expression)
	if issues != nil && issues.Err() != nil {
		return nil, r // a valid configuration has no such expression
	}
	return r.walk(parsed.NativeRep().Expr()), r
}

func (r *reader) walk(e ast.Expr) *shape {
	switch e.Kind() {
	case ast.IdentKind:
		return r.scope[e.AsIdent()]
	case ast.SelectKind:
		f := r.selected(r.walk(e.AsSelect().Operand()), e.AsSelect().FieldName())
		if e.AsSelect().IsTestOnly() {
			return nil // has(): true or false, whatever the field is
		}
		return f
	case ast.CallKind:
		return r.call(e.AsCall())
	case ast.ListKind:
		for _, one := range e.AsList().Elements() {
			r.walk(one)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if key, ok := literal(entry.AsMapEntry().Key()).(string); ok {
				r.keys = append(r.keys, key)
			}
			r.walk(entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		return r.comprehension(e.AsComprehension())
	}
	return nil
}

// selected is a field of a value; a value that is called by name is no leaf any more.
func (r *reader) selected(of *shape, name string) *shape {
	if of == nil {
		return nil
	}
	f := of.field(name)
	r.leaves = slices.DeleteFunc(r.leaves, func(leaf *shape) bool { return leaf == of || leaf == f })
	r.leaves = append(r.leaves, f)
	r.names[f] = name
	return f
}

// literal is the value of a constant, nil for anything else.
func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

func (r *reader) call(c ast.CallExpr) *shape {
	args := c.Args()
	switch c.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		of := r.walk(args[0])
		switch key := literal(args[1]).(type) {
		case string:
			return r.selected(of, key)
		case int64:
			if of != nil {
				return of.item()
			}
		}
		return nil
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		r.compare(c.FunctionName(), args)
		return nil
	case operators.Conditional:
		r.walk(args[0]).is(truth)
		a, b := r.walk(args[1]), r.walk(args[2])
		if a != nil {
			return a
		}
		return b
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		for _, arg := range args {
			r.walk(arg).is(truth)
		}
		return nil
	case operators.In:
		r.walk(args[0])
		if of := r.walk(args[1]); of != nil {
			of.item()
		}
		return nil
	}
	return r.function(c)
}

// compare learns from operators: the other side says of what kind a value is, and which values it may have.
func (r *reader) compare(operator string, args []ast.Expr) {
	a, b := r.walk(args[0]), r.walk(args[1])
	for i, arg := range args {
		size, whole := literal(args[1-i]).(int64)
		if operator == operators.Multiply && whole && arg.Kind() == ast.IdentKind && arg.AsIdent() == "page" {
			r.pageSize = size
		}
	}
	for i, s := range []*shape{a, b} {
		if s == nil {
			continue
		}
		value := literal(args[1-i])
		switch value.(type) {
		case string:
			s.is(text)
		case int64, uint64, float64:
			s.is(number)
		case bool:
			s.is(truth)
		default:
			continue // null, or no constant
		}
		if operator == operators.Equals || operator == operators.NotEquals {
			s.choices = append(s.choices, value)
		}
	}
	switch operator {
	case operators.Equals, operators.NotEquals, operators.Add: // of anything
	default: // an order of texts would have shown itself above
		a.is(number)
		b.is(number)
	}
}

// function learns from what a value is given to.
func (r *reader) function(c ast.CallExpr) *shape {
	var target *shape
	if c.IsMemberFunction() {
		target = r.walk(c.Target())
	}
	var first *shape
	for i, arg := range c.Args() {
		if s := r.walk(arg); i == 0 {
			first = s
		}
	}
	switch c.FunctionName() {
	case "double", "int", "uint", "math.round", "math.abs", "math.ceil", "math.floor":
		first.is(number)
	case "size":
		if target == nil {
			target = first
		}
		if target != nil && target.kind == unknown {
			target.item()
		}
	case "timestamp", "duration":
		first.is(text)
	case "string":
		return first
	case "startsWith", "endsWith", "contains", "matches", "split", "lowerAscii", "upperAscii", "replace", "substring", "trim":
		target.is(text)
	case "orValue", "or", "value", "first", "last", "sort", "distinct", "slice", "reverse":
		return target
	}
	return nil
}

// comprehension follows all, exists, map and filter, which CEL's parser has unfolded: what a map or a filter gives is a list of what
// its step appends.
func (r *reader) comprehension(c ast.ComprehensionExpr) *shape {
	of := r.walk(c.IterRange())
	inner := &reader{scope: make(map[string]*shape, len(r.scope)+2), names: r.names}
	for name, s := range r.scope {
		inner.scope[name] = s
	}
	delete(inner.scope, c.AccuVar())
	if of != nil {
		inner.scope[c.IterVar()] = of.item()
	}
	inner.walk(c.LoopCondition())
	var appended *shape
	step := c.LoopStep()
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
		inner.walk(step.AsCall().Args()[0]).is(truth)
		step = step.AsCall().Args()[1]
	}
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Add {
		last := step.AsCall().Args()[1]
		if last.Kind() == ast.ListKind && len(last.AsList().Elements()) == 1 {
			appended = inner.walk(last.AsList().Elements()[0])
		}
	} else {
		inner.walk(step).is(truth)
	}
	if appended != nil {
		return &shape{kind: list, element: appended}
	}
	return nil
}

// The words that vendors use for what leads to the next page.
var (
	moreWord   = regexp.MustCompile(`(?i)more|hasnext|has_next`)
	pagesWord  = regexp.MustCompile(`(?i)(total|num|page).*(pages|count)|last_?page|pagecount|pages`)
	totalWord  = regexp.MustCompile(`(?i)total|count|size`)
	offsetWord = regexp.MustCompile(`(?i)offset|skip|start`)
	pageWord   = regexp.MustCompile(`(?i)page`)
	cursorWord = regexp.MustCompile(`(?i)cursor|token|after|marker|continuation|before|scroll`)
)

// setRoles decides what each leaf of an expression for the next page is for. A text is what preset says, unless its name says more.
func (r *reader) setRoles(preset role) {
	for _, leaf := range r.leaves {
		name := r.names[leaf]
		if leaf.kind == list || leaf.kind == object || leaf.role != noRole {
			continue
		}
		switch {
		case leaf.kind == truth || moreWord.MatchString(name):
			leaf.role, leaf.kind = moreRole, truth
		case preset == cursorRole && leaf.kind != number:
			leaf.role = cursorRole
		case cursorWord.MatchString(name) && leaf.kind != number:
			leaf.role = cursorRole
		case leaf.kind == number && pagesWord.MatchString(name) && !regexp.MustCompile(`(?i)^(total|count|size)$`).MatchString(name):
			leaf.role = pagesRole
		case leaf.kind == number && totalWord.MatchString(name):
			leaf.role = totalRole
		case offsetWord.MatchString(name):
			leaf.role, leaf.kind = offsetRole, number
		case leaf.kind == number && pageWord.MatchString(name):
			leaf.role = pageRole
		case leaf.kind == number:
			leaf.role = totalRole
		default:
			leaf.role = preset
		}
	}
}
