package engine

import (
	"math"
	"math/big"
	"slices"
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
