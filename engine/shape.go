package engine

import (
	"hash/maphash"
	"slices"
	"sort"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// shapeKey is what decides which limits a request meets and at which cost, their keys apart.
type shapeKey struct {
	account, endpoint, method uint32
	present                   uint32 // bit set: auth, target, credential
	variables                 uint64 // which of the provider's variables the request has, hashed beyond 64
	parameters                uint64 // hash of the values of the provider's parameters
}

// shape is the answer, found once and reused for all requests that look the same.
type shape struct {
	limits    []shapeLimit
	narrowest int
	// symbols of the endpoint and method, which the shape holds.
	endpoint, method uint32
	// refused is why no request of this shape can be resolved; nil as a rule.
	refused *RequestError
	// dynamic are the parts of keys that differ between requests of the shape, and tuples the entries by their values; nil where
	// a search for each limit is as good.
	dynamic []dynamic
	tuples  map[tuple][]entry
}

// dynamic is a part of a key: a dimension, or a variable by its number among the provider's.
type dynamic struct {
	part
	variable int
}

// tuple is the symbols of a request's dynamic parts.
type tuple [maxSymbols]uint32

type shapeLimit struct {
	limit   *limit
	cost    int64
	variant uint32
	// fixed are the symbols of the parts that are the same for all requests of the shape, 0 for the others.
	fixed []uint32
	// byVar is the variable of the request on which the variant depends, "" where none does, and variants what was found by
	// its value.
	byVar    string
	variants map[string]uint32
}

// maxShapes bounds the cache: callers that use concrete paths as endpoints must not fill the memory.
const maxShapes = 4096

const (
	presentAuth = 1 << iota
	presentTarget
	presentCredential
)

// shapeOf finds the shape of a request, or makes it.
func (e *Engine) shapeOf(a *account, r *Request) *shape {
	p := a.provider
	if len(e.values) < len(p.variables) {
		e.values = make([]string, len(p.variables))
	}
	key := shapeKey{account: a.symbol, endpoint: e.symbols.find(r.Endpoint), method: e.symbols.find(r.Method)}
	if r.Auth {
		key.present |= presentAuth
	}
	if r.Target != "" {
		key.present |= presentTarget
	}
	if r.Credential != "" {
		key.present |= presentCredential
	}
	for i, name := range p.variables {
		value, there := a.variable(r, name)
		e.values[i] = value
		if there {
			if i < 64 {
				key.variables |= 1 << i
			} else {
				key.parameters ^= maphash.String(e.symbols.seed, name)
			}
		}
	}
	for _, name := range p.parameters {
		if value, there := r.Query[name]; there {
			key.parameters = (key.parameters ^ maphash.String(e.symbols.seed, name)) * 0x9E3779B97F4A7C15
			key.parameters ^= maphash.String(e.symbols.seed, value)
		}
	}
	if key.endpoint != 0 && key.method != 0 {
		if s := p.shapes[key]; s != nil {
			return s
		}
	}
	return e.makeShape(a, r, key)
}

func (e *Engine) makeShape(a *account, r *Request, key shapeKey) *shape {
	p := a.provider
	if len(p.shapes) >= maxShapes {
		for k, s := range p.shapes {
			e.clearTuples(s)
			e.symbols.drop(s.endpoint)
			e.symbols.drop(s.method)
			delete(p.shapes, k)
		}
	}
	key.endpoint, key.method = e.symbols.hold(r.Endpoint), e.symbols.hold(r.Method)
	s := &shape{endpoint: key.endpoint, method: key.method, narrowest: -1}
	full := r.Request
	full.Provider, full.Vars = p.name, a.merged(r)
	for _, l := range p.limits {
		verdict := l.matcher.Match(&full)
		if !verdict.Applies {
			continue
		}
		sl := shapeLimit{limit: l, cost: verdict.Cost, fixed: e.fixedSymbols(a, r, l)}
		if m := l.source.Spec.Max; m != nil && m.ByVar != "" {
			sl.byVar, sl.variants = m.ByVar, map[string]uint32{}
		} else {
			sl.variant = l.variantOf(a, full.Vars)
		}
		s.limits = append(s.limits, sl)
		if at := len(s.limits) - 1; !l.shadow && (s.narrowest < 0 || l.narrower(s.limits[s.narrowest].limit)) {
			s.narrowest = at
		}
		if l.kind == kindRate && sl.cost > l.burst {
			s.refused = &RequestError{Limit: l.name, Cost: sl.cost, Burst: l.burst}
		}
	}
	if s.narrowest < 0 {
		s.narrowest = len(s.limits)
		s.limits = append(s.limits, shapeLimit{limit: p.uncovered, fixed: []uint32{a.symbol}, cost: 1})
	}
	s.findDynamic(p)
	p.shapes[key] = s
	return s
}

// findDynamic lists the parts that differ, each once.
func (s *shape) findDynamic(p *provider) {
	add := func(d dynamic) {
		if !slices.Contains(s.dynamic, d) {
			s.dynamic = append(s.dynamic, d)
		}
	}
	for i := range s.limits {
		sl := &s.limits[i]
		for j, part := range sl.limit.parts {
			if sl.fixed[j] == 0 {
				add(dynamic{part, slices.Index(p.variables, part.variable)})
			}
		}
		if sl.byVar != "" {
			add(dynamic{part{match.VariablePrefix, sl.byVar}, slices.Index(p.variables, sl.byVar)})
		}
	}
	if len(s.limits) > 1 && len(s.dynamic) <= maxSymbols {
		s.tuples = make(map[tuple][]entry)
	}
}

// maxTuples bounds what is remembered of requests that are not prepared.
const maxTuples = 1 << 16

// entriesOf a request whose shape remembers tuples: found by one search for all limits.
func (e *Engine) entriesOf(now int64, a *account, r *Request, s *shape) []entry {
	var t tuple
	for i := range s.dynamic {
		var value string
		if d := &s.dynamic[i]; d.variable >= 0 {
			value = e.values[d.variable]
		} else {
			value = a.value(r, &d.part)
		}
		t[i] = e.hold(value)
	}
	entries, known := s.tuples[t]
	if !known {
		entries = make([]entry, len(s.limits))
	}
	for i := range entries {
		// A key that was dropped is found, or opened, anew.
		if en := &entries[i]; !known || en.scope.state>>flagBits != en.state>>flagBits {
			*en = e.entryFor(now, a, r, &s.limits[i])
		}
	}
	if !known {
		for _, symbol := range t[:len(s.dynamic)] {
			e.symbols.keep(symbol)
		}
		s.tuples[t] = entries
		e.tuples++
	}
	e.letGo()
	return entries
}

// forgetTuples lets go of all that is remembered of requests: there is too much, or many of their keys are gone.
func (e *Engine) forgetTuples() {
	for _, p := range e.providers {
		for _, s := range p.shapes {
			e.clearTuples(s)
		}
	}
	e.dropped = 0
}

func (e *Engine) clearTuples(s *shape) {
	for t := range s.tuples {
		for _, symbol := range t[:len(s.dynamic)] {
			e.symbols.drop(symbol)
		}
	}
	e.tuples -= len(s.tuples)
	clear(s.tuples)
}

// fixedSymbols are the symbols of those parts of a key that the shape decides. The account's is held by the account; of endpoint
// and method only those are used that the shape holds as they are.
func (e *Engine) fixedSymbols(a *account, r *Request, l *limit) []uint32 {
	fixed := make([]uint32, len(l.parts))
	for i := range l.parts {
		switch p := &l.parts[i]; {
		case p.dimension == match.DimensionAccount && a.source != nil:
			fixed[i] = a.symbol
		case p.dimension == match.DimensionMethod,
			p.dimension == match.DimensionEndpoint && match.CleanPath(r.Endpoint) == r.Endpoint:
			fixed[i] = e.symbols.find(a.value(r, p))
		}
	}
	return fixed
}

// decidingNames are the variables and query parameters on which it depends whether some limit applies.
func decidingNames(source *validate.Provider) (variables, parameters []string) {
	vars, params := map[string]bool{}, map[string]bool{}
	selector := func(s *schema.Selector) {
		if s.RequestsWithVar != "" {
			vars[s.RequestsWithVar] = true
		}
		for name := range s.Query {
			params[name] = true
		}
	}
	for _, l := range source.Limits {
		if f := l.Spec.AppliesTo; f != nil {
			selector(&f.Selector)
			if f.Except != nil {
				selector(f.Except)
			}
		}
		for i := range l.Spec.Costs {
			selector(&l.Spec.Costs[i].Selector)
		}
		if m := l.Spec.Max; m != nil && m.ByVar != "" {
			vars[m.ByVar] = true
		}
		for _, dimension := range l.By() {
			if name, isVar := cutVariable(dimension); isVar {
				vars[name] = true
			}
		}
	}
	return sortedNames(vars), sortedNames(params)
}

func sortedNames(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func cutVariable(dimension string) (name string, isVar bool) {
	const n = len(match.VariablePrefix)
	if len(dimension) > n && dimension[:n] == match.VariablePrefix {
		return dimension[n:], true
	}
	return "", false
}

// variantFor is the variant that holds for a request.
func (sl *shapeLimit) variantFor(a *account, r *Request) uint32 {
	if sl.byVar == "" {
		return sl.variant
	}
	value, _ := a.variable(r, sl.byVar)
	v, there := sl.variants[value]
	if !there {
		v = sl.limit.variantOf(a, map[string]string{sl.byVar: value})
		if len(sl.variants) < maxShapes {
			sl.variants[value] = v
		}
	}
	return v
}
