package match

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tapyr/tapyr/schema"
)

// Request is what a limit looks at before a request is sent.
type Request struct {
	// Provider, Account and Target are names; Target is empty for an account without targets.
	Provider, Account, Target string
	// Credential is the keyed hash of the secret in use; empty where none is.
	Credential string
	// Method is in capitals.
	Method string
	// Endpoint is the templated path; CleanPath normalises it.
	Endpoint string
	// Query are the request's query parameters.
	Query map[string]string
	// Vars are the request's variables and its account's.
	Vars map[string]string
	// Auth marks token and login requests.
	Auth bool
}

// Limit is a limit of a provider, made ready to be held against requests.
type Limit struct {
	// Spec is the limit as declared.
	Spec *schema.Limit
	// Index is the limit's place in the provider's list; where one of several must be named, the first is.
	Index int

	applies selector
	except  *selector
	costs   []costRule
	by      []string
}

type costRule struct {
	selector
	cost int64
}

// selector is a schema.Selector with compiled globs.
type selector struct {
	*schema.Selector
	globs []Glob
}

func compileSelector(s *schema.Selector) selector {
	out := selector{Selector: s}
	for _, g := range s.Endpoints {
		out.globs = append(out.globs, CompileGlob(g))
	}
	return out
}

// Compile makes a limit ready.
func Compile(spec *schema.Limit, index int) *Limit {
	l := &Limit{Spec: spec, Index: index, by: spec.Scope.By}
	if len(l.by) == 0 {
		l.by = []string{DimensionInstance}
	}
	filter := spec.AppliesTo
	if filter == nil {
		filter = &schema.Filter{}
	}
	l.applies = compileSelector(&filter.Selector)
	if filter.Except != nil {
		except := compileSelector(filter.Except)
		l.except = &except
	}
	for i := range spec.Costs {
		rule := &spec.Costs[i]
		l.costs = append(l.costs, costRule{compileSelector(&rule.Selector), rule.Cost})
	}
	return l
}

// The scope dimensions, apart from var:NAME.
const (
	// DimensionInstance is this process: one machine, one source address.
	DimensionInstance = "instance"
	// DimensionProvider is the provider.
	DimensionProvider = "provider"
	// DimensionAccount is the account.
	DimensionAccount = "account"
	// DimensionTarget is one host of an account.
	DimensionTarget = "target"
	// DimensionCredential is the secret in use.
	DimensionCredential = "credential"
	// DimensionEndpoint is the templated path.
	DimensionEndpoint = "endpoint"
	// DimensionMethod is the HTTP method.
	DimensionMethod = "method"
	// VariablePrefix begins the dimension of a variable.
	VariablePrefix = "var:"
)

// By lists the limit's scope dimensions in declared order; never empty.
func (l *Limit) By() []string { return l.by }

// Verdict says whether and how a limit applies to a request.
type Verdict struct {
	// Applies tells whether the request takes of the limit.
	Applies bool
	// Key is the scope key, where the limit applies.
	Key string
	// Cost is the number of units that the request takes, where the limit applies.
	Cost int64
	// Why says in words what decided.
	Why string
}

// Match holds the limit against a request. A limit whose filters do not match, whose scope cannot be resolved, or whose cost is
// 0 does not apply.
func (l *Limit) Match(r *Request) Verdict {
	if why := l.applies.mismatch(r); why != "" {
		return Verdict{Why: why}
	}
	if l.except != nil && l.except.mismatch(r) == "" {
		return Verdict{Why: "it is among the limit's exceptions"}
	}
	key, missing := l.Key(r)
	if missing != "" {
		return Verdict{Why: "the request has no " + missing}
	}
	cost, why := l.cost(r)
	if cost == 0 {
		return Verdict{Why: "it costs 0 by " + why}
	}
	return Verdict{Applies: true, Key: key, Cost: cost, Why: why}
}

// mismatch says which field does not match; "" where all do.
func (s *selector) mismatch(r *Request) string {
	if len(s.globs) > 0 && !anyGlob(s.globs, r.Endpoint) {
		return fmt.Sprintf("endpoint %s is none of %s", r.Endpoint, strings.Join(s.Endpoints, ", "))
	}
	if len(s.Methods) > 0 && !slices.Contains(s.Methods, r.Method) {
		return fmt.Sprintf("method %s is none of %s", r.Method, strings.Join(s.Methods, ", "))
	}
	for name, want := range s.Query {
		if got, there := r.Query[name]; !there || want != "*" && got != want {
			return fmt.Sprintf("query parameter %s is not %s", name, want)
		}
	}
	if s.RequestsWithVar != "" {
		if _, there := r.Vars[s.RequestsWithVar]; !there {
			return "the request has no variable " + s.RequestsWithVar
		}
	}
	switch {
	case s.AuthRequests == "only" && !r.Auth:
		return "it is no auth request"
	case s.AuthRequests == "exclude" && r.Auth:
		return "it is an auth request"
	}
	return ""
}

func anyGlob(globs []Glob, path string) bool {
	for _, g := range globs {
		if g.Match(path) {
			return true
		}
	}
	return false
}

// cost is the number of units that a request takes, and which rule says so.
func (l *Limit) cost(r *Request) (units int64, why string) {
	if l.Spec.Kind == schema.KindConcurrency {
		return 1, "one slot"
	}
	for i := range l.costs {
		if l.costs[i].mismatch(r) == "" {
			return l.costs[i].cost, fmt.Sprintf("costs[%d]", i)
		}
	}
	if l.Spec.Cost != nil {
		return *l.Spec.Cost, "cost"
	}
	return 1, "the default cost"
}

// MaxCost is the largest cost that any request can have.
func (l *Limit) MaxCost() int64 {
	most := int64(1)
	if l.Spec.Cost != nil {
		most = *l.Spec.Cost
	}
	for i := range l.costs {
		most = max(most, l.costs[i].cost)
	}
	return most
}

// Key is the scope key of a request: the values of the dimensions in declared order, joined by "/". missing names the first
// dimension that the request has no value for.
func (l *Limit) Key(r *Request) (key, missing string) {
	var b strings.Builder
	for i, dimension := range l.by {
		if i > 0 {
			b.WriteByte('/')
		}
		if !writeDimension(&b, dimension, r) {
			return "", dimension
		}
	}
	return b.String(), ""
}

// writeDimension writes one part of a scope key; false where the request has no value for it.
func writeDimension(b *strings.Builder, dimension string, r *Request) bool {
	var value string
	switch dimension {
	case DimensionInstance:
		b.WriteString(DimensionInstance)
		return true
	case DimensionProvider:
		value = r.Provider
	case DimensionAccount:
		value = r.Account
	case DimensionTarget:
		value = r.Target
	case DimensionCredential:
		value = r.Credential
	case DimensionEndpoint:
		value = CleanPath(r.Endpoint)
	case DimensionMethod:
		value = r.Method
	default:
		name := strings.TrimPrefix(dimension, VariablePrefix)
		v, there := r.Vars[name]
		if !there {
			return false
		}
		b.WriteString(name)
		b.WriteByte('=')
		writeEscaped(b, v)
		return true
	}
	writeEscaped(b, value)
	return value != ""
}

// writeEscaped percent-encodes what would make a key ambiguous or unreadable: "%", "/", control characters, and bytes that are
// not UTF-8.
func writeEscaped(b *strings.Builder, value string) {
	for len(value) > 0 {
		c, size := utf8.DecodeRuneInString(value)
		escape := c == '%' || c == '/' || unicode.IsControl(c) || c == utf8.RuneError && size == 1
		if !escape {
			b.WriteString(value[:size])
		}
		for i := 0; escape && i < size; i++ {
			fmt.Fprintf(b, "%%%02X", value[i])
		}
		value = value[size:]
	}
}
