package engine

import (
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Engine decides which request may go. It is not safe for use by several goroutines at once; see Gate.
type Engine struct {
	config    *validate.Config
	providers map[string]*provider
	accounts  map[string]*account
	observer  Observer
	onWindow  func(*WindowReport)

	now     int64
	symbols *symbols
	held    []uint32 // symbols that a resolution has opened
	values  []string // of the provider's variables, for the request being resolved
	tuples  int      // remembered by shapes
	dropped int      // keys dropped since tuples were forgotten
	slab    slab
	noMore  *quotaMore // of quota keys that need no more
	// spareFlights are lists that no key uses.
	spareFlights []*flightList
	recent       recentLog
	tallies      []recentTally // by key
	minute       int64         // start of the present minute
	active       []uint32      // quota keys with a grant in it
	touched      uint32        // what fold has read, so that it reads

	// serverSide: the engine stands for the vendor.
	serverSide bool
	// maxFlying and maxFlyingEach bound the requests in flight, of all and of each account; 0 is no bound. flying counts them.
	maxFlying, maxFlyingEach, flying int
	// keepKeys: no key is dropped.
	keepKeys bool
	hand     uint32 // the place that sweep looked at last
	owed     int    // looks of sweep that are due

	records     []*record
	freeRecords []uint32
	lines       [priorities]line
	waiting     int
	pass        uint32
	wakeAt      int64
	events      []event
	settling    []landing // room for a batch
	notes       []note    // room for those of one response

	// ignored and disagreements count headers that were not believed, and those that contradict the documents.
	ignored, disagreements int64
}

// Options of New. The zero value will do.
type Options struct {
	// Observer hears what happens; nil for nobody.
	Observer Observer
	// OnWindow is called with each window of a quota that has a grant or a response, when it is over. The report is the
	// receiver's. Nil for nobody.
	OnWindow func(*WindowReport)
	// MaxInFlight bounds the requests in flight of all providers together, MaxInFlightEach those of each account; 0 is no bound. They
	// protect the machine, not a vendor: who waits for a slot waits in the order of priorities, and holds up no other account.
	MaxInFlight, MaxInFlightEach int
	// KeepKeys keeps what is known of keys that are no longer used, for reports over all time.
	KeepKeys bool
}

// New is an engine for the limits of a configuration, with all of them untouched.
func New(config *validate.Config, options Options) *Engine {
	return newEngine(config, options, false)
}

func newEngine(config *validate.Config, options Options, serverSide bool) *Engine {
	e := &Engine{
		config: config, observer: options.Observer, onWindow: options.OnWindow, keepKeys: options.KeepKeys,
		providers: make(map[string]*provider), accounts: make(map[string]*account), symbols: newSymbols(),
		maxFlying: options.MaxInFlight, maxFlyingEach: options.MaxInFlightEach,
		now: -never, noMore: noQuotaMore(), records: make([]*record, 1), serverSide: serverSide, wakeAt: never,
	}
	for _, source := range config.Providers {
		p := e.compileProvider(source)
		e.providers[p.name] = p
		if serverSide {
			e.accounts[p.name] = &account{provider: p, symbol: e.symbols.hold(p.name)}
			continue
		}
		for _, a := range source.Accounts {
			e.accounts[a.Name] = e.compileAccount(p, a)
		}
	}
	return e
}

func (e *Engine) compileProvider(source *validate.Provider) *provider {
	p := &provider{name: source.Name, source: source, shapes: make(map[shapeKey]*shape), reserve: e.config.Settings.RetryReserve}
	p.variables, p.parameters = decidingNames(source)
	p.errors = compileErrors(source.Spec)
	p.breaker = compileBreaker(source.Spec.CircuitBreaker)
	for i, l := range source.Limits {
		p.limits = append(p.limits, e.compileLimit(p, l, i))
	}
	p.uncovered = &limit{provider: p, kind: kindNone, dimensions: 1, narrowest: len(narrowness)}
	p.uncovered.parts = []part{{dimension: match.DimensionAccount}}
	p.uncovered.keys.hashOf = func(id uint32) uint32 { return hashSymbols(e.slab.cold(id).symbols) }
	p.uncovered.keys.grow()
	return p
}

func (e *Engine) compileAccount(p *provider, source *validate.Account) *account {
	a := &account{
		name: source.Name, symbol: e.symbols.hold(source.Name), provider: p, source: source, vars: source.Spec.Vars,
		targets: make(map[string]map[string]string), hosts: make(map[string]*breaker),
	}
	a.breaker.key = source.Name
	for i := range source.Spec.Targets {
		a.targets[source.Spec.Targets[i].Name] = source.Spec.Targets[i].Vars
	}
	return a
}

// host is the breaker of a target, declared or not.
func (a *account) host(target string) *breaker {
	if a.hosts == nil {
		return nil
	}
	b := a.hosts[target]
	if b == nil {
		b = &breaker{key: hostKey(a.name, target)}
		a.hosts[target] = b
	}
	return b
}

// hostKey is account/target, written as scope keys are.
func hostKey(account, target string) string {
	limit := match.Compile(&schema.Limit{Scope: schema.Scope{By: []string{match.DimensionAccount, match.DimensionTarget}}}, 0)
	key, _ := limit.Key(&match.Request{Account: account, Target: target})
	return key
}

// tick is the present: now, or the latest instant seen where the clock went back.
func (e *Engine) tick(now int64) int64 {
	if now > e.now {
		e.now = now
		if now-e.minute >= minuteNanos {
			e.fold(now)
			e.sweepMinute(now)
		}
		e.forget(now)
	}
	return e.now
}

// Keys is the number of live keys.
func (e *Engine) Keys() int { return e.slab.live }
