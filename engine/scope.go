package engine

import "math"

// scope is what a grant needs to know of one key of a limit: a cache line.
type scope struct {
	// used: tokens taken since the bucket was full (rate), requests in flight (concurrency), or units that count in the window,
	// those carried over from the last one included (quota).
	used int64
	// since is the instant at which the bucket was last full (rate), of the last use (concurrency, rolling windows), or the
	// window's start.
	since int64
	// until is the first instant at which time alone may change the caps: the window's end, an edge of an override, the end of
	// an early observation, or, in a rolling window, of the oldest cell. Before it the caps hold.
	until int64
	// normalCap and fullCap bound used after a grant: of a request that may not touch the reserve, and of one that may. The
	// observation is part of them. (Concurrency: both the maximum.)
	normalCap, fullCap int64
	// flying are the units of requests in flight (quota).
	flying int64
	// minute are the units granted in the present minute (quota).
	minute int64
	// state is the generation, which changes when the key is dropped, and below it the flags.
	state uint32
	// pins counts the requests, in flight or waiting, that refer to the key; it lives at least as long.
	pins int32
}

// The flags of a scope. While none of the slow ones is set, a grant needs to look at nothing but the scope.
const (
	// flagPenalized: a penalty was set; it may be over.
	flagPenalized = 1 << iota
	// flagWaited: a request waits that would take of this key.
	flagWaited
	// flagMixed: requests with different maxima or shares use the key, so caps must be computed for each.
	flagMixed
	// flagUncommon: an adaptive rate, a shadow, or a key of kindNone.
	flagUncommon
	// flagFresh: the window has no grant yet.
	flagFresh
	// flagDipped: a critical request was granted beyond U - R. Not a slow flag.
	flagDipped
	// flagRefusals: there is a penalty, and its row is not 0. Not a slow flag.
	flagRefusals

	flagBits   = 8
	generation = 1 << flagBits
)

func (s *scope) has(flag uint32) bool { return s.state&flag != 0 }
func (s *scope) set(flag uint32)      { s.state |= flag }
func (s *scope) clear(flag uint32)    { s.state &^= flag }

// coldScope is the rest of what is known of a key.
type coldScope struct {
	limit   *limit
	quota   *quota        // kindQuota only
	penalty *penalty      // nil before the first
	rate    *adaptiveRate // nil unless the limit is adaptive
	symbols [maxSymbols]uint32
	id      uint32
	// waiters counts those that flagWaited is about.
	waiters int32
	// mark is the number of the last pass over the waiters in which one of them blocked the key.
	mark uint32
	// variant is the one that the caps hold for.
	variant uint32
	// lastUse is the minute in which a request last let go of the key, or it was opened: looking at a key is no use of it.
	lastUse uint32
}

// minuteOf is an instant's minute, for lastUse.
func minuteOf(now int64) uint32 { return uint32(min(max(now, 0)/minuteNanos, math.MaxUint32-1)) }

// noVariant says that no request has come yet.
const noVariant = ^uint32(0)

// maxSymbols is how many dimensions a key holds as they are; further ones are folded into the last symbol.
const maxSymbols = 3

const (
	chunkBits = 8
	chunkSize = 1 << chunkBits
)

type chunk struct {
	hot  [chunkSize]scope
	cold [chunkSize]coldScope
}

// slab holds all live keys of an engine. An id is a key's place; 0 is nobody's.
type slab struct {
	chunks []*chunk
	free   []uint32
	next   uint32
	live   int
}

func (b *slab) hot(id uint32) *scope      { return &b.chunks[id>>chunkBits].hot[id&(chunkSize-1)] }
func (b *slab) cold(id uint32) *coldScope { return &b.chunks[id>>chunkBits].cold[id&(chunkSize-1)] }

func (b *slab) take() uint32 {
	b.live++
	if n := len(b.free); n > 0 {
		id := b.free[n-1]
		b.free = b.free[:n-1]
		return id
	}
	b.next++
	if int(b.next>>chunkBits) == len(b.chunks) {
		b.chunks = append(b.chunks, new(chunk))
	}
	return b.next
}

// give takes a key's place back. Whoever still knows its address sees another generation.
func (b *slab) give(id uint32) {
	s := b.hot(id)
	*s = scope{state: (s.state &^ (generation - 1)) + generation}
	*b.cold(id) = coldScope{}
	b.free = append(b.free, id)
	b.live--
}

// newScope opens a key of a limit. The symbols are held by it.
func (e *Engine) newScope(l *limit, symbols [maxSymbols]uint32, now int64) uint32 {
	id := e.slab.take()
	s, c := e.slab.hot(id), e.slab.cold(id)
	*c = coldScope{limit: l, symbols: symbols, id: id, variant: noVariant, lastUse: minuteOf(now)}
	for _, symbol := range symbols {
		if symbol != 0 {
			e.symbols.keep(symbol)
		}
	}
	s.since, s.until = now, never
	switch l.kind {
	case kindConcurrency:
		s.until = -never // caps are computed at the first use
	case kindQuota:
		c.quota = &quota{start: now, end: -never, firstGrant: never, quotaMore: e.newQuotaMore(l)}
		e.openTally(id, l)
		s.until = -never
		s.set(flagFresh)
	case kindNone:
		s.set(flagUncommon)
	}
	if l.shadow || l.adaptive != nil {
		s.set(flagUncommon)
	}
	l.keys.insert(id)
	return id
}

// keepIdle is how long a key is kept that nothing needs any more, and keepMemory how long one that has learned something.
const (
	keepIdle   = recentNanos
	keepMemory = 7 * 24 * 60 * 60 * 1e9
)

// tidy looks for idle keys, at two places for each key that was opened, so that the slab does not grow while there are some. It is
// called where no keys are being resolved, which could lose them.
func (e *Engine) tidy(now int64) {
	for ; e.owed > 0; e.owed-- {
		e.sweep(now)
	}
	if e.tuples > maxTuples || e.dropped > 64+e.tuples {
		e.forgetTuples()
	}
}

// sweepMinute looks for idle keys at a sixteenth of all places, so that memory follows what is live within some minutes.
func (e *Engine) sweepMinute(now int64) {
	for range e.slab.next/16 + 1 {
		e.sweep(now)
	}
}

// sweep looks at the next place of the slab and drops its key where it is idle: not in flight, not waited for, refilled, its
// window and one more over.
func (e *Engine) sweep(now int64) {
	if e.keepKeys || e.slab.next == 0 {
		return
	}
	e.hand = e.hand%e.slab.next + 1
	s, c := e.slab.hot(e.hand), e.slab.cold(e.hand)
	if c.limit != nil && c.limit.kind != kindNone && s.pins == 0 && now >= e.idleAt(s, c) {
		e.dropScope(e.hand)
	}
}

// idleAt is the first instant at which a key that nobody uses until then may be dropped.
func (e *Engine) idleAt(s *scope, c *coldScope) int64 {
	used := (int64(c.lastUse) + 1) * minuteNanos
	at := used
	switch c.limit.kind {
	case kindRate:
		if s.used != 0 {
			at = max(at, saturatedAdd(s.since, c.ratio().nanosFor(s.used)))
		}
	case kindQuota:
		q := c.quota
		// The log names a key by its id for 15 minutes, which keepIdle outlasts.
		if s.minute != 0 {
			return never
		}
		switch length := q.end - q.start; {
		case c.limit.rolling:
			at = saturatedAdd(used, c.limit.length)
		case s.used != 0: // it holds for this window, and for the next one
			at = saturatedAdd(q.end, length)
		case q.end != -never:
			at = saturatedAdd(used, 2*length)
		}
		if q.learned != 0 {
			at = saturatedAdd(at, keepMemory)
		}
	}
	at = saturatedAdd(at, keepIdle)
	if c.penalty != nil {
		at = max(at, saturatedAdd(c.penalty.end, keepMemory))
	}
	return at
}

func (e *Engine) dropScope(id uint32) {
	c := e.slab.cold(id)
	e.dropped++
	c.limit.keys.remove(id)
	for _, symbol := range c.symbols {
		if symbol != 0 {
			e.symbols.drop(symbol)
		}
	}
	e.slab.give(id)
}

// key is the scope key in words.
func (e *Engine) key(c *coldScope) string { return c.limit.keyText(e, c) }
