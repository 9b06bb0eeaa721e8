package engine

import (
	"math"
	"time"
)

// quota is what a key of a quota knows beyond its scope.
type quota struct {
	// start and end bound the window, [start, end). Of a rolling one they are the window that a report shows, where it shows
	// one (firstRequest).
	start, end int64
	// carried are the units that were in flight when the window began. They are part of scope.used until it ends.
	carried int64
	// firstGrant is the instant of the key's first grant ever, never before it.
	firstGrant int64
	timeline   timeline
	// touched: the window has a grant or a response.
	touched bool

	*quotaMore
}

// quotaMore is what only keys know whose limits read responses: a cache line. The others share an empty one.
type quotaMore struct {
	// learned is the maximum that a response named, 0 where none did. It lasts across windows.
	learned int64
	// latestReset is the latest end of this window that a response named, 0 where none did; periodNanos is then the length of the
	// computed window that held that response.
	latestReset, periodNanos int64
	// exhaustedUntil: before this instant the quota is spent, because a rate-limited response showed that nothing remained.
	exhaustedUntil int64
	seen           *seen       // what responses have shown; nil before the first
	flights        *flightList // nil where none has to be known
	// disagreed: the window has said that a header disagrees with the declared maximum.
	disagreed bool

	*quotaRare
}

// quotaRare is what few keys know: those of rolling windows, and all where windows are reported. The others share an empty one.
type quotaRare struct {
	// shown are the units granted in the window that a report shows, where that is not the one of admission (firstRequest).
	shown int64

	cells    *cells    // units by the instant at which they leave (rolling)
	counters *counters // of the window; nil unless windows are reported
}

// newQuotaMore is what a key of a limit starts with.
func (e *Engine) newQuotaMore(l *limit) *quotaMore {
	if l.plain && e.onWindow == nil {
		return e.noMore
	}
	more := &quotaMore{exhaustedUntil: -never, quotaRare: e.noMore.quotaRare}
	if l.rolling || e.onWindow != nil {
		more.quotaRare = new(quotaRare)
	}
	return more
}

func noQuotaMore() *quotaMore { return &quotaMore{exhaustedUntil: -never, quotaRare: new(quotaRare)} }

// earlySpan is the longest time after a window's start in which an observation may still speak of the window before: clocks
// differ.
const earlySpan = 30 * time.Second

// earlyEnd is the instant at which the first min(30 s, T/20) of the window are over.
func (q *quota) earlyEnd() int64 { return q.start + min(int64(earlySpan), (q.end-q.start)/20) }

// class is what decides how far into a quota a request may reach.
type class uint8

const (
	classNormal class = iota
	// classRetry may use the reserve until a critical request has dipped into it.
	classRetry
	classCritical
)

func classOf(priority uint8, retry bool) class {
	switch {
	case priority == priorityCritical:
		return classCritical
	case retry:
		return classRetry
	}
	return classNormal
}

// cap is what used must not exceed after a grant of this class.
func (s *scope) cap(c class) int64 {
	if c == classCritical || c == classRetry && !s.has(flagDipped) {
		return s.fullCap
	}
	return s.normalCap
}

// maximum is the effective one at an instant: overridden, else learned, else declared.
func (c *coldScope) maximum(at int64, variant uint32) int64 {
	if m, ok := c.limit.overridden(at); ok {
		return m
	}
	if c.quota != nil && c.quota.learned != 0 {
		return c.quota.learned
	}
	if variant == noVariant {
		variant = 0
	}
	if int(variant) >= len(c.limit.variants) {
		return 0
	}
	return c.limit.variants[variant].declared
}

// usable is U and R at an instant.
func (c *coldScope) usable(at int64, variant uint32) (usable, reserve int64) {
	if variant == noVariant {
		variant = 0
	}
	if int(variant) >= len(c.limit.variants) {
		return 0, 0
	}
	return c.limit.variants[variant].usable(c.maximum(at, variant))
}

// nothing is a cap that no request fits under.
const nothing = math.MinInt64

// capsAt are the caps as they will hold at an instant, if nothing but time changes: counts, and the observation while it holds.
// A request fits while used + cost is not above its cap; for the observation cost <= r_adm - R, with
// r_adm = r_obs - (used - usedThen) - v, is the same as used + cost <= r_obs + usedThen - v - R.
func (c *coldScope) capsAt(at int64, variant uint32) (normal, full int64) {
	q := c.quota
	usable, reserve := c.usable(at, variant)
	normal, full = usable-reserve, usable
	if at < q.exhaustedUntil {
		return nothing, nothing
	}
	if o := q.seen; o != nil && o.held && at < o.admitUntil {
		limit := o.remaining + o.usedThen - o.uncertain
		normal, full = min(normal, limit-reserve), min(full, limit)
	}
	return normal, full
}

// refresh brings a key of a quota or of a concurrency limit to the present: turns the window, lets cells leave, computes the caps
// for a variant. It is called when until has come, and when anything changes that the caps depend on.
func (e *Engine) refresh(now int64, s *scope, c *coldScope, variant uint32) {
	l := c.limit
	s.until = l.nextEdge(now)
	if l.kind == kindConcurrency {
		s.normalCap = c.maximum(now, variant)
		s.fullCap = s.normalCap
		return
	}
	q := c.quota
	switch {
	case l.rolling:
		e.leave(now, s, c)
		if next := q.cells.nextLeave(l.length); next < s.until {
			s.until = next
		}
		if usable, reserve := c.usable(now, variant); s.used <= usable-reserve {
			s.clear(flagDipped)
		}
	case now >= q.end:
		e.turn(now, s, c)
		fallthrough
	default:
		s.until = min(s.until, q.end)
	}
	if q.exhaustedUntil > now {
		s.until = min(s.until, q.exhaustedUntil)
	}
	if o := q.seen; o != nil && o.held {
		if l.rolling && now >= o.admitUntil {
			o.held = false
		} else if now < o.admitUntil {
			s.until = min(s.until, o.admitUntil)
		}
	}
	s.normalCap, s.fullCap = c.capsAt(now, variant)
}

// current makes a key's caps those of the present, for a variant.
func (e *Engine) current(now int64, en *entry) {
	if now >= en.scope.until || en.scope.has(flagMixed) {
		en.cold.variant = en.variant
		e.refresh(now, en.scope, en.cold, en.variant)
	}
}

// turn opens the window that holds now. What was in flight at the end of the last one may arrive on either side, and counts in
// both.
func (e *Engine) turn(now int64, s *scope, c *coldScope) {
	q := c.quota
	fresh := q.end == -never
	e.closeWindow(s, c)
	before, end, period := q.start, q.end, q.periodNanos
	span := c.limit.schedule.AtNanos(now)
	q.start, q.end = span.StartNanos, span.EndNanos
	switch {
	case c.limit.anchored: // a server's: it opens with this request
		q.start, q.end = now, saturatedAdd(now, c.limit.length)
	case !fresh && period != 0:
		// A reset ended the last window; the next one starts there and ends at the first computed boundary more than half a
		// period later.
		boundary := c.limit.schedule.AtNanos(end).EndNanos
		for 2*(boundary-end) <= period {
			boundary = c.limit.schedule.AtNanos(boundary).EndNanos
		}
		if now < boundary {
			q.start, q.end = end, boundary
		}
	}
	q.carried = s.flying
	if fresh {
		q.carried = 0
	}
	s.since, s.used = q.start, q.carried
	s.clear(flagDipped)
	s.set(flagFresh)
	q.touched = false
	if q.quotaMore != e.noMore {
		q.latestReset, q.periodNanos, q.exhaustedUntil, q.disagreed = 0, 0, -never, false
	}
	if q.seen != nil {
		q.seen.held = false
		q.seen.external = 0
	}
	if end != q.start {
		before = q.start // nothing was granted in the window before this one
	}
	q.timeline.since(before / c.limit.slotNanos)
}

// grantedIn tells whether a request granted at an instant was granted in the window that holds now.
func (c *coldScope) grantedIn(now, granted int64) bool {
	if c.limit.rolling {
		return now-granted < c.limit.length
	}
	return granted >= c.quota.start
}

// retryAt is the first instant at which a request that a quota refuses now would be allowed, with everything else as it is; 0
// where none is known. For a fixed window that is its end at the latest.
func (e *Engine) retryAt(now int64, en *entry, cl class) int64 {
	if en.limit.rolling {
		return e.rollingRetryAt(now, en, cl)
	}
	q := en.cold.quota
	for at := now; ; {
		next := en.limit.nextEdge(at)
		if q.exhaustedUntil > at {
			next = min(next, q.exhaustedUntil)
		}
		if o := q.seen; o != nil && o.held && o.admitUntil > at {
			next = min(next, o.admitUntil)
		}
		if next >= q.end {
			return q.end
		}
		at = next
		if en.fitsAt(at, en.scope.used, cl, en.scope.has(flagDipped)) {
			return at
		}
	}
}

// fitsAt tells whether a request would fit under the caps of an instant.
func (en *entry) fitsAt(at, used int64, cl class, dipped bool) bool {
	normal, full := en.cold.capsAt(at, en.variant)
	if cl == classNormal || cl == classRetry && dipped {
		return used+en.cost <= normal
	}
	return used+en.cost <= full
}

// rollingRetryAt follows the cells as they leave, the observation's end, and the edges of overrides.
func (e *Engine) rollingRetryAt(now int64, en *entry, cl class) int64 {
	q := en.cold.quota
	used, dipped := en.scope.used, en.scope.has(flagDipped)
	next, at := 0, now
	for {
		then := en.limit.nextEdge(at)
		if o := q.seen; o != nil && o.held && o.admitUntil > at {
			then = min(then, o.admitUntil)
		}
		if next < q.cells.len() {
			then = min(then, saturatedAdd(q.cells.at(next).last(), en.limit.length))
		}
		if then == never {
			return 0
		}
		at = max(at, then)
		for next < q.cells.len() && saturatedAdd(q.cells.at(next).last(), en.limit.length) <= at {
			used -= q.cells.at(next).units()
			next++
		}
		usable, reserve := en.cold.usable(at, en.variant)
		dipped = dipped && used > usable-reserve
		if en.fitsAt(at, used, cl, dipped) {
			return at
		}
	}
}
