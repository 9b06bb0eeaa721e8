package engine

import (
	"fmt"
	"math"
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
	// Unresolved tells that the request belongs to a value of a scope variable that is to be learned and not known yet. A refusal
	// that names no limit is taken to be that value's: it penalizes and slows down nobody else.
	Unresolved bool
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
}

// prepared3 is a Prepared with room for the entries of most requests: one piece of memory, which is read from end to end.
type prepared3 struct {
	Prepared

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

// RequestError says why a request cannot be resolved: its provider or account is not in the configuration, or it can never be
// granted, because it costs more than a bucket can hold.
type RequestError struct {
	// Provider and Account are the request's.
	Provider, Account string
	// Limit is the bucket's, Cost and Burst in tokens; empty and 0 where a name is unknown.
	Limit       string
	Cost, Burst int64
}

// Error quotes the names.
func (e *RequestError) Error() string {
	if e.Limit == "" {
		return fmt.Sprintf("no account %q at a provider %q: name one of the configuration's", e.Account, e.Provider)
	}
	return fmt.Sprintf("cost %d is above burst %d of limit %q and can never be granted: raise the burst or lower the cost",
		e.Cost, e.Burst, e.Limit)
}

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
	flying   int                 // requests in flight
}

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

// Prepare resolves a request. The error is a *RequestError.
func (e *Engine) Prepare(now int64, r *Request) (*Prepared, error) {
	p := new(prepared3)
	copied := *r
	if err := e.resolve(e.tick(now), &copied, &p.Prepared, nil); err != nil {
		return nil, err
	}
	p.entries = append(p.room[:0], p.entries...) // nobody else's
	return &p.Prepared, nil
}

// resolve fills p. Its entries may belong to all requests like it; else they stand in room, if there is some.
func (e *Engine) resolve(now int64, r *Request, p *Prepared, room []entry) error {
	a := e.accounts[r.Account]
	if e.serverSide {
		a = e.accounts[r.Provider]
	}
	if a == nil || r.Provider != "" && r.Provider != a.provider.name {
		return &RequestError{Provider: r.Provider, Account: r.Account}
	}
	shape := e.shapeOf(a, r)
	p.request, p.account, p.priority, p.narrowest = r, a, priorityOf(r.Priority), int32(shape.narrowest)
	p.target = nil
	if r.Target != "" {
		p.target = a.host(r.Target)
	}
	if shape.refused != nil {
		refused := *shape.refused
		refused.Provider, refused.Account = a.provider.name, r.Account
		return &refused
	}
	if shape.tuples != nil {
		p.entries = e.entriesOf(now, a, r, shape)
		return nil
	}
	p.entries = room[:0]
	for i := range shape.limits {
		p.entries = append(p.entries, e.entryFor(now, a, r, &shape.limits[i]))
		e.letGo()
	}
	return nil
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
		id = e.newScope(l, symbols, now)
		e.owed += 2
	}
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
