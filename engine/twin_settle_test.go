package engine

import (
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/tapyr/tapyr/match"
)

// settle reads all responses that are due, and releases their requests.
func (t *twin) settle() {
	var batch []*twinCall
	for len(t.landing) > 0 && t.landing[0].granted+t.landing[0].row.latency <= t.now {
		batch = append(batch, t.landing[0])
		t.landing = t.landing[1:]
	}
	for _, c := range batch {
		c.settled = t.now
		for _, p := range c.pairs {
			c.kept[p.key] = t.actual(c, p)
			if k := p.key; k.kind() == "rate" && !k.shadow() {
				t.nextToken(p) // refills
				k.tokens.Sub(k.tokens, new(big.Rat).SetInt64(c.kept[k]-p.cost))
			}
		}
	}
	for _, c := range batch {
		t.learn(c)
	}
}

func (c *twinCall) header(name string) string { return c.row.Headers[name] }

// actual is what a request really took: the response's word, or what was reserved; nothing where its status does not count.
func (t *twin) actual(c *twinCall, p *twinPair) int64 {
	l := p.key.limit
	if l == nil {
		return 0
	}
	cost := p.cost
	if l.Spec.CostFrom != nil {
		if f, err := strconv.ParseFloat(c.header(l.Spec.CostFrom.Header), 64); err == nil && f >= 0 {
			cost = int64(math.Ceil(f))
		}
	}
	if counts := l.Spec.Counts; counts != nil && !slices.Contains(counts.Status, c.row.Status) {
		cost = 0
	}
	return cost
}

func (t *twin) learn(c *twinCall) {
	limited, transient := c.row.Status == 429, c.row.Status >= 500
	age := c.header("Age")
	for _, p := range c.pairs {
		if k := p.key; k.kind() == "quota" && k.limit.Spec.Sync != nil && (age == "" || age == "0") {
			t.observe(c, p, limited)
		}
		if k := p.key; !limited && !transient && c.granted > k.penaltySet {
			k.row = 0
		}
	}
	if limited {
		t.penalize(c)
	}
	for _, b := range t.breakersOf(c) {
		t.hear(b, c, limited, transient)
	}
}

func (t *twin) observe(c *twinCall, p *twinPair, limited bool) {
	k, y := p.key, p.key.limit.Spec.Sync
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(c.header(name), 10, 64)
		return n, err == nil
	}
	if y.LimitHeader != nil {
		if n, ok := number(y.LimitHeader.Name); ok && n > 0 {
			k.learned = n
		}
	}
	if y.ResetHeader != nil && !k.rolling() {
		if seconds, ok := number(y.ResetHeader.Name); ok && seconds >= 0 {
			if seconds == 0 {
				return
			}
			at, span := t.now+seconds*1e9, k.limit.Window.AtNanos(t.now)
			if period := span.EndNanos - span.StartNanos; seconds*1e9 <= 2*period && at > k.reset {
				k.reset, k.period, k.end = at, period, at
			}
		}
	}
	if y.RemainingHeader == nil || k.rolling() && t.now-c.granted >= k.length() || !k.rolling() && c.granted < k.start {
		return
	}
	n, ok := number(y.RemainingHeader.Name)
	if !ok || n < 0 || n > k.max(c, t.now) {
		return
	}
	until := int64(never)
	if k.rolling() {
		until = t.now + k.length()
	} else if t.now < k.early() {
		until = k.early()
	}
	if limited && n == 0 && !k.rolling() {
		k.spentUntil = max(k.spentUntil, until)
	}
	held := k.seen
	if held != nil && k.rolling() && t.now >= held.until {
		held = nil
	}
	if !limited && !k.rolling() {
		c.shown[k] = n + 1
		if held != nil && n > held.remaining {
			delete(held.members, c)
		}
	}
	if held != nil && n > held.remaining && (c.granted <= held.own.granted || held.answered == t.now) {
		return
	}
	k.seen = &twinSeen{remaining: n, usedThen: k.used(t.now), until: until, answered: t.now, own: c, members: map[*twinCall]int64{}}
	for _, f := range k.flights {
		if f != c && f.settled > c.granted && f.shown[k] <= n+1 { // in a rolling window nothing is ever noted as shown
			k.seen.members[f] = f.units(k)
		}
	}
}

func (t *twin) penalize(c *twinCall) {
	rules := c.pairs[0].key.rules(t, c)
	base := int64(0)
	if n, err := strconv.ParseFloat(c.header("Retry-After"), 64); err == nil && n > 0 {
		base = int64(math.Ceil(n * 1e9))
	}
	var hit []*twinPair
	var narrowest *twinPair
	for _, p := range c.pairs {
		switch {
		case p.key.shadow():
		case rules.all:
			hit = append(hit, p)
		case narrowest == nil || narrower(p.key, narrowest.key):
			narrowest = p
		}
	}
	if narrowest != nil {
		hit = append(hit, narrowest)
	}
	for _, p := range c.pairs {
		if name := rules.limitOf[c.header("X-Why")]; name != "" && p.key.limit != nil && p.key.limit.Spec.Name == name && !p.key.shadow() {
			hit = []*twinPair{p}
		}
	}
	for _, p := range hit {
		k, wait := p.key, base
		if wait == 0 {
			wait = rules.defaultNanos
			if k.limit != nil && k.limit.Spec.Penalty != nil {
				wait = int64(*k.limit.Spec.Penalty)
			}
		}
		if c.granted > k.penaltySet {
			k.row++
		}
		k.penaltySet = t.now
		product := float64(wait) * math.Pow(2, float64(max(k.row-1, 0)))
		product = min(product, math.Max(600e9, float64(wait)), float64(rules.maxNanos))
		k.penaltyEnd = max(k.penaltyEnd, t.now+int64(product))
	}
}

func (k *twinKey) rules(t *twin, c *twinCall) errorRules {
	return compileErrors(t.config.Account(c.request.Account).Provider.Spec)
}

func narrower(a, b *twinKey) bool {
	rank := func(k *twinKey) int {
		best := len(narrowness)
		if k.limit == nil {
			return best
		}
		for _, dimension := range k.limit.By() {
			for i, n := range []string{"var:", match.DimensionEndpoint, match.DimensionMethod, match.DimensionTarget, match.DimensionCredential, match.DimensionAccount, match.DimensionProvider, match.DimensionInstance} {
				if dimension == n || n == "var:" && len(dimension) > 4 && dimension[:4] == n {
					best = min(best, i)
				}
			}
		}
		return best
	}
	if a.dimensions() != b.dimensions() {
		return a.dimensions() > b.dimensions()
	}
	return rank(a) <= rank(b) // a is declared later
}

func (t *twin) hear(b *twinBreaker, c *twinCall, limited, transient bool) {
	rules := compileBreaker(t.config.Account(c.request.Account).Provider.Spec.CircuitBreaker)
	if c.probe[b] {
		b.probing = false
		switch {
		case limited:
		case transient:
			b.openFor = min(2*b.openFor, max(600e9, rules.openForNanos))
			b.open, b.halfOpen, b.until = true, false, t.now+b.openFor
		default:
			*b = twinBreaker{name: b.name}
		}
		return
	}
	switch {
	case b.open || b.halfOpen || limited:
	case !transient:
		b.failures = 0
	default:
		if b.failures++; b.failures >= rules.failures {
			b.open, b.failures, b.openFor, b.until = true, 0, rules.openForNanos, t.now+rules.openForNanos
		}
	}
}

// run feeds rows in order of time and returns what became of each.
func (t *twin) run(rows []*row) map[int]decision {
	for i := 0; i < len(rows); {
		now := rows[i].at
		for at := t.next(); at < now; at = t.next() {
			t.instant(at, nil)
		}
		var calls []*twinCall
		t.now = now
		for ; i < len(rows) && rows[i].at == now; i++ {
			calls = append(calls, t.call(rows[i]))
		}
		t.instant(now, calls)
	}
	for at := t.next(); at < never; at = t.next() {
		t.instant(at, nil)
	}
	return t.verdicts
}
