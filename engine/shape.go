package engine

import (
	"hash/maphash"
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
}

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
		if _, there := a.variable(r, name); there {
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
	}
	if s.narrowest < 0 {
		s.narrowest = len(s.limits)
		s.limits = append(s.limits, shapeLimit{limit: p.uncovered, fixed: []uint32{a.symbol}, cost: 1})
	}
	p.shapes[key] = s
	return s
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
