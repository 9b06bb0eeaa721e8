// Package expr compiles and evaluates the CEL expressions of documents. Each place of a document where an expression may stand
// knows other names and gives another kind of value; this package holds all of them, so that what validate accepts is what runs.
//
// Expressions come from a configuration, but their data comes from a vendor: evaluation is limited in cost, in memory and by a
// context. See https://cel.dev for the language. Beside its standard functions there are optional values (item.?name),
// and cel-go's string, list, set, math, encoder and regular expression functions.
package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// The bounds of one expression and of one evaluation. Filtering 100,000 items by a field costs 1.6 million; a unit takes 100 to
// 200 ns, so that the most one evaluation can take is about two seconds, and a context can end it earlier. A unit also stands
// for about ten characters of text that are copied, which bounds the memory.
const (
	maxTextLength   = 10_000
	maxCost         = 10_000_000
	maxRangeSize    = 100_000
	interruptEvery  = 100
	maxNestingDepth = 100
)

// Place is where an expression stands: which names it knows, and what it must give.
type Place struct {
	name  string
	vars  []string
	gives result
	env   func() *cel.Env
}

// Name says in words what an expression of this place is for, such as "inventory items".
func (p *Place) Name() string { return p.name }

// Vars are the names that an expression of this place knows, in the order in which they are explained.
func (p *Place) Vars() []string { return slices.Clone(p.vars) }

// result is what an expression must give.
type result struct {
	words string
	kinds []types.Kind
}

var (
	aTruth  = result{"true or false", []types.Kind{types.BoolKind}}
	aList   = result{"a list", []types.Kind{types.ListKind}}
	aText   = result{"a text, a number, true or false", []types.Kind{types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind}}
	aNumber = result{"a number, or true or false", []types.Kind{types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind, types.StringKind}}
	aCursor = result{"a text or a number", []types.Kind{types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.NullTypeKind}}
	aNext   = result{"a URL or a map of query parameters", []types.Kind{types.StringKind, types.MapKind, types.NullTypeKind}}
	anyOne  = result{"an amount: a number or a text", []types.Kind{types.StringKind, types.IntKind, types.UintKind, types.DoubleKind}}
)

// The places. response is the decoded body, headers the response's headers with lower-case names (several values of one name
// are joined by ", "), status its status, body its text, item one element of the place's list, vars the variables of the
// request, and page the number of the page just read, from 1.
var (
	// RateLimited is errors.rateLimited.match: whether a response means that a limit was exceeded.
	RateLimited = newPlace("errors.rateLimited.match", aTruth, "status", "headers", "body")
	// InventoryItems is inventory.items: the list of a job's items.
	InventoryItems = newPlace("inventory.items", aList, "response")
	// InventoryVar is a value of inventory.vars: a variable of one item.
	InventoryVar = newPlace("inventory.vars", aText, "item")
	// MetricItems is metrics[].items: the list that one series each is made from.
	MetricItems = newPlace("metrics.items", aList, "response", "vars", "status", "headers")
	// MetricLabel is a value of metrics[].labels.
	MetricLabel = newPlace("metrics.labels", aText, "item", "response", "vars", "status", "headers")
	// MetricValue is metrics[].value.
	MetricValue = newPlace("metrics.value", aNumber, "item", "response", "vars", "status", "headers")
	// OutputItems is outputs[].jsonl.items: the list of the items that are written.
	OutputItems = newPlace("outputs.jsonl.items", aList, "response")
	// PageItems is pagination.items: the list of a page.
	PageItems = newPlace("pagination.items", aList, "response")
	// PageCursor is pagination.cursor: the next cursor; null or empty ends.
	PageCursor = newPlace("pagination.cursor", aCursor, "response", "headers", "page")
	// PageNext is pagination.next: the next URL or a map of query parameters; null ends.
	PageNext = newPlace("pagination.next", aNext, "response", "headers", "page")
	// SessionToken is auth.token: the session's token in the login's answer.
	SessionToken = newPlace("auth.token", aText, "response", "headers")
	// SpendActual is routes.actual of a spend policy: the amount really spent.
	SpendActual = newPlace("routes.actual", anyOne, "response", "headers", "status")
)

var varTypes = map[string]*cel.Type{
	"response": cel.DynType,
	"item":     cel.DynType,
	"headers":  cel.MapType(cel.StringType, cel.StringType),
	"vars":     cel.MapType(cel.StringType, cel.StringType),
	"status":   cel.IntType,
	"page":     cel.IntType,
	"body":     cel.StringType,
}

// base holds what all places share; it is built at the first use, since many commands use no expression.
var base = sync.OnceValue(func() *cel.Env {
	return mustEnv(cel.NewEnv(
		cel.OptionalTypes(), ext.Strings(), ext.Lists(ext.ListsMaxRangeSize(maxRangeSize)), ext.Sets(), ext.Math(), ext.Encoders(), ext.Regex(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxTextLength),
		cel.ParserRecursionLimit(maxNestingDepth),
	))
})

func newPlace(name string, gives result, vars ...string) *Place {
	return &Place{name: name, vars: vars, gives: gives, env: sync.OnceValue(func() *cel.Env {
		var options []cel.EnvOption
		for _, v := range vars {
			options = append(options, cel.Variable(v, varTypes[v]))
		}
		return mustEnv(base().Extend(options...))
	})}
}

// mustEnv holds a constant set of options, which a test builds for every place.
func mustEnv(env *cel.Env, err error) *cel.Env {
	if err != nil {
		panic(fmt.Sprintf("CEL environment: %v", err))
	}
	return env
}

// Program is a compiled expression. It may be evaluated by many goroutines at once.
type Program struct {
	place *Place
	text  string
	// plain tells that nothing watches its cost; see there.
	plain   bool
	program cel.Program
}

// Text is the expression as it was written.
func (p *Program) Text() string { return p.text }

// Compile reads an expression of this place. The error is an *Error: a text that is not CEL, a name that the place does not
// know, or a result of the wrong kind.
func (p *Place) Compile(text string) (*Program, error) { return p.compile(text, maxCost) }

// compile bounds what an evaluation may cost.
func (p *Place) compile(text string, cost uint64) (*Program, error) {
	if strings.TrimSpace(text) == "" {
		return nil, p.errorAt(text, 1, 1, "the expression is empty")
	}
	if len(text) > maxTextLength {
		return nil, p.errorAt(text, 1, 1, fmt.Sprintf("the expression is longer than %d characters", maxTextLength))
	}
	ast, issues := p.env().Compile(text)
	if issues.Err() != nil {
		return nil, p.explain(text, issues.Errors())
	}
	if kind := ast.OutputType().Kind(); kind != types.DynKind && !p.allows(ast.OutputType()) {
		return nil, p.errorAt(text, 1, 1, fmt.Sprintf("the expression gives %s, want %s", typeWords(ast.OutputType()), p.gives.words))
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	isPlain := plain(ast)
	if !isPlain {
		options = append(options, cel.CostLimit(cost), cel.InterruptCheckFrequency(interruptEvery))
	}
	program, err := p.env().Program(ast, options...)
	if err != nil {
		return nil, p.errorAt(text, 1, 1, err.Error())
	}
	return &Program{place: p, text: text, plain: isPlain, program: program}, nil
}

// allows tells whether a type is one that the place can use; an optional counts as its value.
func (p *Place) allows(t *cel.Type) bool {
	if t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	return t.Kind() == types.DynKind || slices.Contains(p.gives.kinds, t.Kind())
}

func typeWords(t *cel.Type) string {
	words := map[types.Kind]string{
		types.BoolKind: "true or false", types.StringKind: "a text", types.IntKind: "a whole number", types.UintKind: "a whole number",
		types.DoubleKind: "a number", types.ListKind: "a list", types.MapKind: "a map", types.NullTypeKind: "null",
		types.BytesKind: "bytes", types.TimestampKind: "a timestamp", types.DurationKind: "a duration",
	}
	if w, ok := words[t.Kind()]; ok {
		return w
	}
	return cel.FormatCELType(t)
}

// Functions lists the names of all functions that an expression may call, sorted; for messages and documentation.
func Functions() []string {
	return slices.Sorted(maps.Keys(base().Functions()))
}
