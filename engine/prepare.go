package engine

import (
	"fmt"
	"hash/maphash"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Request is what the engine needs to know of a request. It is not changed, and a Prepared refers to its maps.
type Request struct {
	// Request is what limits look at. Vars need not repeat the account's constant variables, which win over them.
	match.Request
	// Priority is critical, high, normal or low; empty means normal.
	Priority string
}

// Prepared is a request with everything resolved that does not change: which limits it meets, at which costs, under which keys.
// Reserving it again and again is several times as fast as from strings. It belongs to the engine that made it.
type Prepared struct {
	entries []entry
	request *Request
	account *account
	target  *breaker // nil where the request has no target
	// narrowest is the entry that a penalty falls on.
	narrowest int32
	priority  uint8
	// room for the entries of most requests, next to the rest in memory.
	room [3]entry
}

// entry is one limit that a request meets, under one key. The last entry of a request that meets no enforcing limit is one of
// kindNone.
type entry struct {
	scope *scope
	limit *limit
	cost  int64
	// state is that of the scope while its key lives and no slow flag is set.
	state   uint32
	variant uint32
	cold    *coldScope
	id      uint32 // of the key
}

// UnknownError says that a request names a provider or account that the configuration does not have.
type UnknownError struct {
	// What is provider or account.
	What string
	// Name is the name that is not known.
	Name string
}

// Error quotes the name.
func (e *UnknownError) Error() string { return fmt.Sprintf("no %s is named %q", e.What, e.Name) }

// provider is a vendor, compiled.
type provider struct {
	name    string
	source  *validate.Provider
	reserve schema.Decimal
	limits  []*limit
	// uncovered holds the penalties of requests that no enforcing limit applies to, one key an account.
	uncovered *limit
	errors    errorRules
	breaker   breakerRules
	// variables and parameters are the names that decide which limits apply; shapes know which of them a request has.
	variables, parameters []string
	shapes                map[shapeKey]*shape
}

// account is one set of credentials at a provider.
type account struct {
	name     string
	symbol   uint32
	provider *provider
	source   *validate.Account // nil on the server's side
	vars     map[string]string
	targets  map[string]map[string]string // the variables of each declared target
	breaker  breaker
	hosts    map[string]*breaker // by target
}

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

// priorityOf numbers the classes, the most urgent highest.
func priorityOf(name string) uint8 {
	switch name {
	case schema.PriorityCritical:
		return priorityCritical
	case schema.PriorityHigh:
		return 2
	case schema.PriorityLow:
		return 0
	}
	return 1
}

const (
	priorityCritical = 3
	priorities       = 4
)

// Prepare resolves a request. An *UnknownError names a provider or account that the configuration does not have, a *CostError a
// cost that no bucket can ever hold.
func (e *Engine) Prepare(now int64, r *Request) (*Prepared, error) {
	p := new(Prepared)
	copied := *r
	if err := e.resolve(e.tick(now), &copied, p); err != nil {
		return nil, err
	}
	return p, nil
}

// resolve fills p, whose room for entries is used again.
func (e *Engine) resolve(now int64, r *Request, p *Prepared) error {
	a := e.accounts[r.Account]
	if e.serverSide {
		a = e.accounts[r.Provider]
	}
	if a == nil || r.Provider != "" && r.Provider != a.provider.name {
		return e.unknown(r)
	}
	shape := e.shapeOf(a, r)
	p.request, p.account, p.priority, p.narrowest = r, a, priorityOf(r.Priority), int32(shape.narrowest)
	p.target = nil
	if r.Target != "" {
		p.target = a.host(r.Target)
	}
	if p.entries == nil {
		p.entries = p.room[:0]
	}
	p.entries = p.entries[:0]
	for i := range shape.limits {
		l := &shape.limits[i]
		if l.limit.kind == kindRate && l.cost > l.limit.burst {
			return &CostError{Limit: l.limit.name, Cost: l.cost, Burst: l.limit.burst}
		}
		p.entries = append(p.entries, e.entryFor(now, a, r, l))
	}
	return nil
}

func (e *Engine) unknown(r *Request) error {
	if _, there := e.providers[r.Provider]; !there && r.Provider != "" {
		return &UnknownError{What: "provider", Name: r.Provider}
	}
	return &UnknownError{What: "account", Name: r.Account}
}

// entryFor finds or opens the key of a limit for a request.
func (e *Engine) entryFor(now int64, a *account, r *Request, sl *shapeLimit) entry {
	l := sl.limit
	var symbols [maxSymbols]uint32
	for i := range l.parts {
		symbol := sl.fixed[i]
		if symbol == 0 {
			symbol = e.hold(a.value(r, &l.parts[i]))
		}
		e.put(&symbols, i, symbol)
	}
	id := e.findScope(l, symbols)
	if id == 0 {
		id = e.newScope(l, symbols, hashSymbols(symbols), now)
		e.owed += 2
	}
	e.letGo()
	s, c := e.slab.hot(id), e.slab.cold(id)
	out := entry{scope: s, cold: c, id: id, limit: l, cost: sl.cost, state: s.state &^ (generation - 1)}
	out.variant = sl.variantFor(a, r)
	if l.kind != kindRate && c.variant != out.variant {
		if c.variant != noVariant {
			s.set(flagMixed)
		}
		c.variant = out.variant
		s.until = -never
	}
	return out
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

// hold is the symbol of a value, held until letGo: long enough for a key to be found or to take a reference of its own.
func (e *Engine) hold(value string) uint32 {
	if id := e.symbols.find(value); id != 0 {
		return id
	}
	id := e.symbols.hold(value)
	e.held = append(e.held, id)
	return id
}

// letGo gives back what hold took.
func (e *Engine) letGo() {
	for _, id := range e.held {
		e.symbols.drop(id)
	}
	e.held = e.held[:0]
}

// put sets the i-th symbol of a key, those beyond the room joined into the last.
func (e *Engine) put(symbols *[maxSymbols]uint32, i int, symbol uint32) {
	if i >= maxSymbols {
		i, symbol = maxSymbols-1, e.join(symbols[maxSymbols-1], symbol)
	}
	symbols[i] = symbol
}

// symbolsOf a key's values.
func (e *Engine) symbolsOf(values []string) (symbols [maxSymbols]uint32) {
	for i, value := range values {
		e.put(&symbols, i, e.hold(value))
	}
	return symbols
}

// join makes one symbol of two: the length of the first, a colon, and both.
func (e *Engine) join(a, b uint32) uint32 {
	first := e.symbols.text(a)
	return e.hold(strconv.Itoa(len(first)) + ":" + first + e.symbols.text(b))
}

// split is the inverse of join.
func split(text string) (first, second string) {
	length, rest, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n > len(rest) {
		return text, ""
	}
	return rest[:n], rest[n:]
}

// keyValues are the values of a key's parts.
func (e *Engine) keyValues(c *coldScope) []string {
	n := len(c.limit.parts)
	values := make([]string, n)
	for i := range min(n, maxSymbols) {
		values[i] = e.symbols.text(c.symbols[i])
	}
	for i := n - 1; i >= maxSymbols; i-- {
		values[maxSymbols-1], values[i] = split(values[maxSymbols-1])
	}
	return values
}

func hashSymbols(symbols [maxSymbols]uint32) uint32 {
	h := uint64(symbols[0])*0x9E3779B97F4A7C15 ^ uint64(symbols[1])*0xC2B2AE3D27D4EB4F ^ uint64(symbols[2])*0x165667B19E3779F9
	h ^= h >> 29
	return uint32((h * 0xBF58476D1CE4E5B9) >> 32)
}

func (e *Engine) findScope(l *limit, symbols [maxSymbols]uint32) uint32 {
	mask := l.keys.mask()
	for i := hashSymbols(symbols) & mask; ; i = (i + 1) & mask {
		id := l.keys.slots[i]
		if id == 0 || e.slab.cold(id).symbols == symbols {
			return id
		}
	}
}

// value of one dimension for a request.
func (a *account) value(r *Request, p *part) string {
	switch p.dimension {
	case match.DimensionAccount:
		return r.Account
	case match.DimensionTarget:
		return r.Target
	case match.DimensionCredential:
		return r.Credential
	case match.DimensionEndpoint:
		return match.CleanPath(r.Endpoint)
	case match.DimensionMethod:
		return r.Method
	}
	value, _ := a.variable(r, p.variable)
	return value
}

// variable of a request: the account's constant, else the target's, else its own.
func (a *account) variable(r *Request, name string) (value string, there bool) {
	if value, there = a.vars[name]; there {
		return value, true
	}
	if r.Target != "" {
		if value, there = a.targets[r.Target][name]; there {
			return value, true
		}
	}
	value, there = r.Vars[name]
	return value, there
}

// merged are all variables of a request.
func (a *account) merged(r *Request) map[string]string {
	all := make(map[string]string, len(r.Vars)+len(a.vars))
	for name, value := range r.Vars {
		all[name] = value
	}
	for name, value := range a.targets[r.Target] {
		all[name] = value
	}
	for name, value := range a.vars {
		all[name] = value
	}
	return all
}

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

// keyText writes a key as it is shown.
func (l *limit) keyText(e *Engine, c *coldScope) string {
	values := e.keyValues(c)
	if l.kind == kindNone {
		return values[0]
	}
	r := match.Request{Provider: l.provider.name, Vars: map[string]string{}}
	for i := range l.parts {
		l.parts[i].put(&r, values[i])
	}
	key, _ := l.matcher.Key(&r)
	return key
}

// put is the inverse of value.
func (p *part) put(r *match.Request, value string) {
	switch p.dimension {
	case match.DimensionAccount:
		r.Account = value
	case match.DimensionTarget:
		r.Target = value
	case match.DimensionCredential:
		r.Credential = value
	case match.DimensionEndpoint:
		r.Endpoint = value
	case match.DimensionMethod:
		r.Method = value
	default:
		r.Vars[p.variable] = value
	}
}

// forever is a deadline that never ends.
const forever = math.MaxInt64
