package engine

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// kind is what a limit bounds.
type kind uint8

const (
	// kindRate is a token bucket.
	kindRate kind = iota
	// kindConcurrency bounds requests in flight.
	kindConcurrency
	// kindQuota bounds the units of a window.
	kindQuota
	// kindNone bounds nothing: its keys only hold the penalties of requests to which no limit applies.
	kindNone
)

// limit is a declared limit, compiled.
type limit struct {
	name     string
	provider *provider
	matcher  *match.Limit // nil for kindNone
	source   *validate.Limit
	kind     kind
	shadow   bool
	order    int // place in the provider's list

	rate     ratio
	burst    int64
	guard    int64 // tokens that stay behind: 1, or 0 for a server
	adaptive *adaptive

	// quota
	schedule  *window.Schedule
	rolling   bool // a rolling window, or for admission a firstRequest one
	exact     bool // no buckets: every unit leaves on its own (enforcer)
	anchored  bool // a firstRequest window, as a report or a server shows it
	length    int64
	buckets   window.Buckets
	sync      *syncHeaders
	costFrom  *reader
	counts    []int
	overrides []override
	variants  []variant
	// special: a grant must look beyond the scope; plain: the end of a flight need not.
	special, plain bool
	// watched: flights are noted, because an observation needs to know which of them overlapped.
	watched bool
	// slotNanos is how much of the timeline one cell holds.
	slotNanos int64

	// shadowRefusals counts what the limit would have refused, were it not in shadow mode.
	shadowRefusals int64

	penaltyNanos int64 // the limit's own default, 0 where it has none

	// dimensions and narrowest order limits by how narrow their scope is.
	dimensions int
	narrowest  int
	// parts are the dimensions of the key that differ between requests, in declared order.
	parts []part

	keys index
}

// override replaces the maximum in [from, to).
type override struct{ from, to, max int64 }

// syncHeaders holds the readers of a limit's headers.
type syncHeaders struct {
	limit, remaining, used, percent, reset *reader
	policy                                 string
	whenName, whenEquals                   string
}

// part is one dimension of a scope key that differs between requests.
type part struct {
	dimension string
	variable  string // of var:NAME
}

// variant is a declared maximum with a share: requests that come under one limit may differ in both.
type variant struct {
	declared int64
	auto     bool
	share    schema.Decimal
	reserve  schema.Decimal
	// the last maximum and what followed from it; decimals are slow.
	cachedMax, cachedUsable, cachedReserve int64
}

// usable is U and R for an effective maximum M, exactly.
func (v *variant) usable(maximum int64) (usable, reserve int64) {
	if maximum != v.cachedMax {
		v.cachedMax = maximum
		v.cachedUsable = v.share.MulFloor(maximum)
		v.cachedReserve = v.reserve.MulFloor(v.cachedUsable)
	}
	return v.cachedUsable, v.cachedReserve
}

// never is an instant that does not come.
const never = math.MaxInt64

func (e *Engine) compileLimit(p *provider, source *validate.Limit, order int) *limit {
	l := &limit{
		name: source.Spec.Name, provider: p, matcher: source.Limit, source: source, order: order,
		shadow: source.Shadow(), penaltyNanos: int64(source.Spec.Penalty.Or(0)),
	}
	for _, o := range source.Spec.Overrides {
		l.overrides = append(l.overrides, override{instantNanos(o.From), instantNanos(o.To), o.Max})
	}
	l.compileScope()
	l.keys.hashOf = func(id uint32) uint32 { return hashSymbols(e.slab.cold(id).symbols) }
	l.keys.grow()
	if c := source.Spec.CostFrom; c != nil {
		l.costFrom = compileReader(c.Header, c.Index, c.Pattern, "")
	}
	switch source.Spec.Kind {
	case schema.KindRate:
		l.kind, l.burst = kindRate, source.Burst
		if source.Spec.Rate != nil {
			l.rate = ratioOf(*source.Spec.Rate)
		}
		if !e.serverSide {
			l.guard = 1
			l.adaptive = compileAdaptive(source.Spec)
		}
	case schema.KindConcurrency:
		l.kind = kindConcurrency
	default:
		l.compileQuota(source, e.serverSide)
	}
	return l
}

func (l *limit) compileQuota(source *validate.Limit, serverSide bool) {
	l.kind, l.schedule = kindQuota, source.Window
	l.length = int64(l.schedule.Length())
	l.anchored = l.schedule.Kind() == window.FirstRequest
	l.rolling = l.schedule.Kind() == window.Rolling || l.anchored && !serverSide
	l.exact = serverSide
	l.buckets, _ = l.schedule.Buckets()
	if c := source.Spec.Counts; c != nil {
		l.counts = c.Status
	}
	l.slotNanos = int64(time.Minute)
	if longest := l.schedule.Longest(time.Unix(0, 0), 400*24*time.Hour).Length(); longest > 25*time.Hour {
		l.slotNanos = int64(time.Hour) // a day of 25 hours is still a day
	}
	if serverSide {
		l.special = true
		return
	}
	l.sync = compileSync(source.Spec.Sync)
	l.watched = l.sync != nil
	l.special = l.watched || l.anchored
	l.plain = !l.rolling && !l.watched && l.counts == nil && l.costFrom == nil
}

func compileSync(s *schema.Sync) *syncHeaders {
	if s == nil {
		return nil
	}
	c := &syncHeaders{
		limit: newReader(s.LimitHeader), remaining: newReader(s.RemainingHeader), used: newReader(s.UsedHeader),
		percent: newReader(s.RemainingPercentHeader), reset: newReader(s.ResetHeader), policy: s.Policy,
	}
	if s.When != nil {
		c.whenName, c.whenEquals = s.When.Header, s.When.Equals
	}
	return c
}

// narrowness lists the dimensions from the narrowest to the widest.
var narrowness = []string{
	match.VariablePrefix, match.DimensionEndpoint, match.DimensionMethod, match.DimensionTarget, match.DimensionCredential,
	match.DimensionAccount, match.DimensionProvider, match.DimensionInstance,
}

func (l *limit) compileScope() {
	by := l.matcher.By()
	l.dimensions, l.narrowest = len(by), len(narrowness)
	for _, dimension := range by {
		name, isVar := strings.CutPrefix(dimension, match.VariablePrefix)
		rank := slices.Index(narrowness, dimension)
		if isVar {
			rank = 0
		}
		l.narrowest = min(l.narrowest, rank)
		switch {
		case isVar:
			l.parts = append(l.parts, part{dimension: match.VariablePrefix, variable: name})
		case dimension != match.DimensionInstance && dimension != match.DimensionProvider:
			l.parts = append(l.parts, part{dimension: dimension})
		}
	}
}

// narrower tells whether a penalty falls on l rather than on o.
func (l *limit) narrower(o *limit) bool {
	if l.dimensions != o.dimensions {
		return l.dimensions > o.dimensions
	}
	if l.narrowest != o.narrowest {
		return l.narrowest < o.narrowest
	}
	return l.order > o.order
}

// variantOf is the number of the variant for requests of an account with these variables.
func (l *limit) variantOf(a *account, vars map[string]string) uint32 {
	v := variant{share: schema.DecimalOf(1), cachedMax: -1}
	v.declared, v.auto = l.source.Max(vars)
	if a.source != nil {
		v.share = l.source.Share(a.source)
		if l.counts == nil {
			v.reserve = l.provider.reserve
		}
	}
	for i := range l.variants {
		o := &l.variants[i]
		if o.declared == v.declared && o.auto == v.auto && o.share.Cmp(v.share) == 0 {
			return uint32(i)
		}
	}
	l.variants = append(l.variants, v)
	return uint32(len(l.variants) - 1)
}

// overridden is the maximum that an override gives at an instant; ok is false where none holds.
func (l *limit) overridden(at int64) (maximum int64, ok bool) {
	for i := range l.overrides {
		if o := &l.overrides[i]; o.from <= at && at < o.to {
			return o.max, true
		}
	}
	return 0, false
}

// nextEdge is the first instant after now at which an override begins or ends.
func (l *limit) nextEdge(now int64) int64 {
	next := int64(never)
	for i := range l.overrides {
		o := &l.overrides[i]
		if o.from > now {
			next = min(next, o.from)
		}
		if o.to > now {
			next = min(next, o.to)
		}
	}
	return next
}
