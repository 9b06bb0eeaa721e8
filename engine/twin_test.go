package engine

import (
	"math"
	"math/big"
	"slices"
	"sort"
	"strconv"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// The twin is the engine once more, from the text of the rules alone: it keeps every flight for ever and computes everything from
// them when it is asked. It shares with the engine what has tests of its own: which limits a request meets, and calendars.
type twin struct {
	config   *validate.Config
	now      int64
	keys     map[string]*twinKey
	breakers map[string]*twinBreaker
	waiting  []*twinCall // the oldest first
	landing  []*twinCall // by settle, then by grant
	verdicts map[int]decision
}

type twinKey struct {
	limit                  *validate.Limit
	name                   string
	tokens                 *big.Rat
	last                   int64
	flights                []*twinCall
	start, end             int64
	reset                  int64 // the latest seen in this window
	period                 int64
	learned                int64
	dipped                 bool
	spentUntil             int64
	seen                   *twinSeen
	penaltyEnd, penaltySet int64
	row                    int
}

type twinSeen struct {
	remaining, usedThen, until, answered int64
	own                                  *twinCall
	members                              map[*twinCall]int64 // v: units by flight
}

type twinCall struct {
	row                *row
	request            *match.Request
	pairs              []*twinPair
	deadline, priority int64
	retry              bool
	granted, settled   int64 // settled is never while in flight
	kept               map[*twinKey]int64
	shown              map[*twinKey]int64
	probe              map[*twinBreaker]bool
}

type twinPair struct {
	key  *twinKey
	cost int64
}

type twinBreaker struct {
	name           string
	open, halfOpen bool
	failures       int
	until, openFor int64
	probing        bool
}

func (k *twinKey) shadow() bool { return k.limit != nil && k.limit.Shadow() }
func (k *twinKey) kind() string {
	if k.limit == nil {
		return "none"
	}
	return k.limit.Spec.Kind
}

// rolling admission: a rolling window, or one that opens with a request of unknown arrival.
func (k *twinKey) rolling() bool {
	kind := k.limit.Window.Kind()
	return kind == window.Rolling || kind == window.FirstRequest
}

func (k *twinKey) length() int64 { return int64(k.limit.Window.Length()) }

func (k *twinKey) max(c *twinCall, at int64) int64 {
	for _, o := range k.limit.Spec.Overrides {
		if o.From.UnixNano() <= at && at < o.To.UnixNano() {
			return o.Max
		}
	}
	if k.learned > 0 {
		return k.learned
	}
	declared, _ := k.limit.Max(c.request.Vars)
	return declared
}

func (t *twin) usable(k *twinKey, c *twinCall, at int64) (u, r int64) {
	u = k.limit.Share(t.config.Account(c.request.Account)).MulFloor(k.max(c, at))
	if k.limit.Spec.Counts == nil {
		r = t.config.Settings.RetryReserve.MulFloor(u)
	}
	return u, r
}

func (c *twinCall) units(k *twinKey) int64 {
	if c.settled != never {
		return c.kept[k]
	}
	return c.cost(k)
}

func (c *twinCall) cost(k *twinKey) int64 {
	for _, p := range c.pairs {
		if p.key == k {
			return p.cost
		}
	}
	return 0
}

// used counts a quota's units at an instant, all flights as they are.
func (k *twinKey) used(at int64) (sum int64) {
	for _, f := range k.flights {
		switch {
		case k.rolling():
			if f.settled == never || at-k.bucketLast(f) < k.length() {
				sum += f.units(k)
			}
		case f.granted >= k.start:
			sum += f.units(k)
		case f.settled >= k.start:
			sum += f.cost(k)
		}
	}
	return sum
}

// bucketLast is the last response with units in a flight's bucket.
func (k *twinKey) bucketLast(f *twinCall) int64 {
	buckets, _ := k.limit.Window.Buckets()
	last := f.settled
	for _, o := range k.flights {
		if o.settled != never && o.kept[k] > 0 && buckets.Number(o.settled) == buckets.Number(f.settled) {
			last = max(last, o.settled)
		}
	}
	return last
}

// turn opens the window of now.
func (k *twinKey) turn(now int64) {
	if k.kind() != "quota" || k.rolling() || now < k.end {
		return
	}
	span := k.limit.Window.AtNanos(now)
	if k.reset != 0 {
		end := k.limit.Window.AtNanos(k.end).EndNanos
		for 2*(end-k.end) <= k.period {
			end = k.limit.Window.AtNanos(end).EndNanos
		}
		if now < end {
			span = window.Span{StartNanos: k.end, EndNanos: end}
		}
	}
	k.start, k.end = span.StartNanos, span.EndNanos
	k.reset, k.dipped, k.seen, k.spentUntil = 0, false, nil, 0
}

func (k *twinKey) early() int64 { return k.start + min(30e9, (k.end-k.start)/20) }

// fits tells whether a quota has room for a request at an instant, with so many units used.
func (t *twin) fits(p *twinPair, c *twinCall, at, used int64, dipped bool) bool {
	k := p.key
	u, r := t.usable(k, c, at)
	if c.priority == priorityCritical || c.retry && !dipped {
		r = 0
	}
	if at < k.spentUntil || used+p.cost > u-r {
		return false
	}
	if s := k.seen; s != nil && at < s.until {
		left := s.remaining - (used - s.usedThen)
		for _, units := range s.members {
			left -= units
		}
		return p.cost <= left-r
	}
	return true
}

func (k *twinKey) overrideEdges(now int64) (all []int64) {
	if k.limit != nil {
		for _, o := range k.limit.Spec.Overrides {
			all = append(all, o.From.UnixNano(), o.To.UnixNano())
		}
	}
	return slices.DeleteFunc(all, func(at int64) bool { return at <= now })
}

// edges are the instants after now at which something about a quota changes by time alone.
func (k *twinKey) edges(now int64) []int64 {
	all := append(k.overrideEdges(now), k.spentUntil)
	if k.seen != nil {
		all = append(all, k.seen.until)
	}
	for _, f := range k.flights {
		if k.rolling() && f.settled != never && f.kept[k] > 0 {
			all = append(all, k.bucketLast(f)+k.length())
		}
	}
	all = slices.DeleteFunc(all, func(at int64) bool { return at <= now || at == never })
	slices.Sort(all)
	return all
}

func (t *twin) retryAt(p *twinPair, c *twinCall) int64 {
	k, dipped := p.key, p.key.dipped
	for _, at := range k.edges(t.now) {
		if !k.rolling() && at >= k.end {
			break
		}
		u, r := t.usable(k, c, at)
		dipped = dipped && !(k.rolling() && k.used(at) <= u-r)
		if t.fits(p, c, at, k.used(at), dipped) {
			return at
		}
	}
	if k.rolling() {
		return 0
	}
	return k.end
}

// nextToken steps the bucket to now and tells when it holds what a request needs.
func (t *twin) nextToken(p *twinPair) int64 {
	k := p.key
	rate := new(big.Rat).Quo(k.limit.Spec.Rate.Count.Rat(), new(big.Rat).SetInt64(int64(k.limit.Spec.Rate.Per)))
	k.tokens.Add(k.tokens, new(big.Rat).Mul(rate, new(big.Rat).SetInt64(t.now-k.last)))
	if burst := new(big.Rat).SetInt64(k.limit.Burst); k.tokens.Cmp(burst) > 0 {
		k.tokens.Set(burst)
	}
	k.last = t.now
	lack := new(big.Rat).Sub(new(big.Rat).SetInt64(min(p.cost+1, k.limit.Burst)), k.tokens)
	if lack.Sign() <= 0 {
		return t.now
	}
	lack.Quo(lack, rate)
	q, rest := new(big.Int).QuoRem(lack.Num(), lack.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return t.now + q.Int64()
}

// lacks: tokens, a slot, peace.
func (t *twin) lacks(p *twinPair, c *twinCall) (tokens, slot, peace bool) {
	k := p.key
	if k.shadow() {
		return
	}
	peace = k.penaltyEnd > t.now
	switch k.kind() {
	case "rate":
		tokens = t.nextToken(p) > t.now
	case "concurrency":
		n := int64(0)
		for _, f := range k.flights {
			if f.settled == never {
				n++
			}
		}
		slot = n >= k.max(c, t.now)
	}
	return tokens, slot, peace
}

// blocks lists the keys that a waiter blocks.
func (t *twin) blocks(c *twinCall) map[*twinKey]bool {
	out, fewest := map[*twinKey]bool{}, math.MaxInt
	for _, p := range c.pairs {
		if _, slot, peace := t.lacks(p, c); slot || peace {
			out[p.key] = true
			fewest = min(fewest, p.key.dimensions())
		}
	}
	for _, p := range c.pairs {
		if !p.key.shadow() && (fewest == math.MaxInt || p.key.kind() == "concurrency" && p.key.dimensions() >= fewest) {
			out[p.key] = true
		}
	}
	return out
}

func (k *twinKey) dimensions() int {
	if k.limit == nil {
		return 1
	}
	return len(k.limit.By())
}

// blockedOn is the first of a request's pairs that an earlier waiter blocks.
func (t *twin) blockedOn(c *twinCall) *twinPair {
	blocked := map[*twinKey]bool{}
	for _, w := range t.waiting {
		if w != c && (w.priority > c.priority || w.priority == c.priority && t.older(w, c)) {
			for k := range t.blocks(w) {
				blocked[k] = true
			}
		}
	}
	for _, p := range c.pairs {
		if blocked[p.key] && !p.key.shadow() {
			return p
		}
	}
	return nil
}

func (t *twin) older(a, b *twinCall) bool {
	i, j := slices.Index(t.waiting, a), slices.Index(t.waiting, b)
	return j < 0 || i < j
}

func (t *twin) named(reason Reason, p *twinPair, at int64) *RefusedError {
	out := &RefusedError{Reason: reason, Key: p.key.name, RetryAtNanos: at, RetryKnown: at != 0}
	if p.key.limit != nil {
		out.Limit = p.key.limit.Spec.Name
	}
	return out
}

// refusal at once, late tokens apart.
func (t *twin) refusal(c *twinCall) *RefusedError {
	for _, b := range t.breakersOf(c) {
		if b.open && t.now >= b.until {
			b.open, b.halfOpen = false, true
		}
		if b.open {
			return &RefusedError{Reason: CircuitOpen, Key: b.name, RetryAtNanos: b.until, RetryKnown: true}
		}
		if b.halfOpen && b.probing {
			return &RefusedError{Reason: CircuitOpen, Key: b.name}
		}
	}
	for _, p := range c.pairs {
		if !p.key.shadow() && p.key.penaltyEnd > max(t.now, c.deadline) {
			return t.named(Penalized, p, p.key.penaltyEnd)
		}
	}
	for _, p := range c.pairs {
		if p.key.kind() == "quota" && !p.key.shadow() {
			t.undip(p.key, c)
			if !t.fits(p, c, t.now, p.key.used(t.now), p.key.dipped) {
				return t.named(QuotaExhausted, p, t.retryAt(p, c))
			}
		}
	}
	return nil
}

func (t *twin) undip(k *twinKey, c *twinCall) {
	k.turn(t.now)
	if u, r := t.usable(k, c, t.now); k.rolling() && k.used(t.now) <= u-r {
		k.dipped = false
	}
}

func (t *twin) mayGo(c *twinCall) bool {
	if t.refusal(c) != nil || t.blockedOn(c) != nil {
		return false
	}
	for _, p := range c.pairs {
		if tokens, slot, peace := t.lacks(p, c); tokens || slot || peace {
			return false
		}
	}
	return true
}

func (t *twin) grant(c *twinCall) {
	t.verdicts[c.row.index] = decision{at: t.now}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *twinCall) bool { return w == c })
	c.granted, c.settled = t.now, never
	for _, p := range c.pairs {
		k := p.key
		switch k.kind() {
		case "rate":
			if !k.shadow() {
				k.tokens.Sub(k.tokens, new(big.Rat).SetInt64(p.cost))
			}
		case "quota":
			if u, r := t.usable(k, c, t.now); c.priority == priorityCritical && !c.retry && k.used(t.now)+p.cost > u-r {
				k.dipped = true
			}
		}
		k.flights = append(k.flights, c)
	}
	for _, b := range t.breakersOf(c) {
		if b.halfOpen && !b.probing {
			b.probing, c.probe[b] = true, true
		}
	}
	t.landing = append(t.landing, c)
	sort.SliceStable(t.landing, func(i, j int) bool {
		return t.landing[i].granted+t.landing[i].row.latency < t.landing[j].granted+t.landing[j].row.latency
	})
}

func (t *twin) refuse(c *twinCall, r *RefusedError) {
	t.verdicts[c.row.index] = decision{at: t.now, refused: r}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *twinCall) bool { return w == c })
}

// order of the waiters.
func (t *twin) order() []*twinCall {
	all := slices.Clone(t.waiting)
	sort.SliceStable(all, func(i, j int) bool { return all[i].priority > all[j].priority })
	return all
}

func (t *twin) pass() (changed bool) {
	for _, c := range t.order() {
		if r := t.refusal(c); r != nil {
			t.refuse(c, r)
			changed = true
		}
	}
	for _, c := range t.order() {
		if t.mayGo(c) {
			t.grant(c)
			changed = true
		}
	}
	return changed
}

func (t *twin) deadlines() (changed bool) {
	for _, c := range t.order() {
		if c.deadline > t.now {
			continue
		}
		var at *twinPair
		for _, p := range c.pairs {
			if tokens, slot, peace := t.lacks(p, c); at == nil && (tokens || slot || peace) {
				at = p
			}
		}
		if at == nil {
			at = t.blockedOn(c)
		}
		if at == nil {
			at = c.pairs[0]
		}
		instant := int64(0)
		if at.key.kind() == "rate" {
			instant = t.nextToken(at)
		}
		if at.key.penaltyEnd > t.now {
			instant = max(instant, at.key.penaltyEnd)
		}
		t.refuse(c, t.named(DeadlineExceeded, at, instant))
		changed = true
	}
	return changed
}

func (t *twin) arrive(c *twinCall) {
	r := t.refusal(c)
	for _, p := range c.pairs {
		if r == nil && p.key.kind() == "rate" && !p.key.shadow() {
			if next := t.nextToken(p); next > max(c.deadline, t.now) {
				r = t.named(DeadlineExceeded, p, next)
			}
		}
	}
	switch {
	case r != nil:
		t.refuse(c, r)
	case t.mayGo(c):
		t.grant(c)
	default:
		t.waiting = append(t.waiting, c)
	}
}

// next instant at which something may happen by itself.
func (t *twin) next() (at int64) {
	at = never
	for _, c := range t.landing {
		at = min(at, c.granted+c.row.latency)
	}
	for _, c := range t.waiting {
		at = min(at, c.deadline)
		for _, p := range c.pairs {
			if p.key.shadow() {
				continue
			}
			if p.key.kind() == "rate" {
				if next := t.nextToken(p); next > t.now {
					at = min(at, next)
				}
			}
			if p.key.penaltyEnd > t.now {
				at = min(at, p.key.penaltyEnd)
			}
			for _, edge := range p.key.overrideEdges(t.now) {
				at = min(at, edge)
			}
		}
	}
	return at
}

// instant lets everything happen that is due now, in its order.
func (t *twin) instant(now int64, arrivals []*twinCall) {
	t.now = now
	for _, k := range t.keys {
		k.turn(now)
	}
	for {
		t.settle()
		t.pass()
		t.deadlines()
		t.pass()
		for _, c := range arrivals {
			t.arrive(c)
		}
		arrivals = nil
		for t.pass() || t.deadlines() {
		}
		if len(t.landing) == 0 || t.landing[0].granted+t.landing[0].row.latency > now {
			return
		}
	}
}

func (t *twin) breakersOf(c *twinCall) []*twinBreaker {
	names := []string{c.request.Account}
	if c.request.Target != "" {
		names = append(names, hostKey(c.request.Account, c.request.Target))
	}
	var out []*twinBreaker
	for _, name := range names {
		if t.breakers[name] == nil {
			t.breakers[name] = &twinBreaker{name: name}
		}
		out = append(out, t.breakers[name])
	}
	return out
}

// call makes a row's request.
func (t *twin) call(r *row) *twinCall {
	q := r.request(t.config).Request
	account := t.config.Account(q.Account)
	q.Vars = map[string]string{}
	for k, v := range r.Vars {
		q.Vars[k] = v
	}
	for k, v := range account.Spec.Vars {
		q.Vars[k] = v
	}
	c := &twinCall{
		row: r, request: &q, priority: int64(priorityOf(r.Priority)), retry: r.Retry, deadline: r.at,
		kept: map[*twinKey]int64{}, shown: map[*twinKey]int64{}, probe: map[*twinBreaker]bool{},
	}
	if job := t.config.Job(r.Job); job != nil {
		c.deadline += int64(job.Deadline)
	}
	covered := false
	for _, l := range account.Provider.Limits {
		if v := l.Match(&q); v.Applies {
			c.pairs = append(c.pairs, &twinPair{t.key(l, v.Key), v.Cost})
			covered = covered || !l.Shadow()
		}
	}
	if !covered {
		c.pairs = append(c.pairs, &twinPair{t.key(nil, q.Account), 1})
	}
	return c
}

func (t *twin) key(l *validate.Limit, name string) *twinKey {
	id := name
	if l != nil {
		id = strconv.Itoa(l.Index) + " " + name
	}
	if t.keys[id] == nil {
		k := &twinKey{limit: l, name: name, end: math.MinInt64, penaltySet: math.MinInt64, penaltyEnd: math.MinInt64}
		if k.kind() == "rate" {
			k.tokens, k.last = new(big.Rat).SetInt64(l.Burst), t.now
		}
		t.keys[id] = k
		k.turn(t.now)
	}
	return t.keys[id]
}
