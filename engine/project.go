package engine

import "time"

// recentNanos is the span over which the present pace is measured.
const recentNanos = int64(15 * time.Minute)

// recentLog holds the grants of the last 15 minutes, of all quotas, oldest first: a ring of 16 bytes a grant.
type recentLog struct {
	ring  []recentGrant // len is a power of two, or 0
	first uint64        // number of the oldest
	next  uint64
}

type recentGrant struct {
	at    int64
	scope uint32
	units uint32 // more than fit count as the most that do
}

func (l *recentLog) at(number uint64) *recentGrant { return &l.ring[number&uint64(len(l.ring)-1)] }

func clampUnits(units int64) uint32 { return uint32(min(max(units, 0), 1<<32-1)) }

// remember notes a grant.
func (e *Engine) remember(now int64, id uint32, units int64) {
	l := &e.recent
	if l.next-l.first == uint64(len(l.ring)) {
		l.grow()
	}
	*l.at(l.next) = recentGrant{at: now, scope: id, units: clampUnits(units)}
	l.next++
}

func (l *recentLog) grow() {
	old := *l
	l.ring = make([]recentGrant, max(64, 2*len(old.ring)))
	for n := old.first; n < old.next; n++ {
		*l.at(n) = *old.at(n)
	}
}

// recentTally is what a quota's key took in the last 15 minutes, kept only where windows are reported. The tallies stand apart from
// the keys, because each grant is looked at once more when it is 15 minutes old, and nothing else of its key then.
type recentTally struct {
	units int64
	// anchored: the window that a report shows may end without the caps' end.
	anchored bool
}

// openTally begins a key's tally.
func (e *Engine) openTally(id uint32, l *limit) {
	if e.onWindow == nil {
		return
	}
	for len(e.tallies) <= int(id) {
		e.tallies = append(e.tallies, recentTally{})
	}
	e.tallies[id] = recentTally{anchored: l.anchored}
}

// forget takes out what is 15 minutes old. Where windows are reported, a window that ended before now is closed first if the grant
// still counts at its end.
func (e *Engine) forget(now int64) {
	l := &e.recent
	for l.first < l.next && l.at(l.first).at <= now-recentNanos {
		if e.onWindow != nil {
			g := l.at(l.first)
			s, tally := e.slab.hot(g.scope), &e.tallies[g.scope]
			if tally.anchored || now >= s.until { // else the window is not over
				c := e.slab.cold(g.scope)
				if c.quota.end <= now && g.at > saturatedAdd(c.quota.end, -recentNanos) {
					e.closeWindow(s, c)
				}
			}
			tally.units -= int64(g.units)
		}
		l.first++
	}
}

// recentUnits are the units of the last 15 minutes of each key, by its id.
func (e *Engine) recentUnits() []int64 {
	units := make([]int64, e.slab.next+1)
	for n := e.recent.first; n < e.recent.next; n++ {
		g := e.recent.at(n)
		units[g.scope] += int64(g.units)
	}
	return units
}

// correct changes what a grant took, where it is still among the recent ones, and in the timeline.
func (e *Engine) correct(granted int64, en *entry, kept int64) {
	q := en.cold.quota
	if granted >= e.minute {
		en.scope.minute += kept - en.cost
	} else {
		q.timeline.correct(granted/en.limit.slotNanos, kept-en.cost)
	}
	if en.limit.anchored && granted >= q.start {
		q.shown += kept - en.cost
	}
	l := &e.recent
	lo, hi := l.first, l.next
	for lo < hi {
		if mid := (lo + hi) / 2; l.at(mid).at < granted {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for ; lo < l.next && l.at(lo).at == granted; lo++ {
		if g := l.at(lo); g.scope == en.cold.id && g.units == clampUnits(en.cost) {
			if e.onWindow != nil {
				e.tallies[g.scope].units += int64(clampUnits(kept)) - int64(g.units)
			}
			g.units = clampUnits(kept)
			return
		}
	}
}

// Projection is the state of a quota's key at an instant, and where it leads. Instants are nanoseconds since the Unix epoch, rates
// units a second.
type Projection struct {
	// Provider, Limit and Key name the quota.
	Provider, Limit, Key string
	// AtNanos is the instant.
	AtNanos int64
	// StartNanos and EndNanos bound the window, half open.
	StartNanos, EndNanos int64
	// Max is M, Usable U, Reserve R.
	Max, Usable, Reserve int64
	// Used is c; External what others had used when a response showed it; Remaining what is left, below 0 by how much the quota
	// was overrun.
	Used, External, Remaining int64
	// Recent is the pace of the last 15 minutes, Own that since the window's start, ExternalRate the others'.
	Recent, Own, ExternalRate float64
	// ProjectedEnd is the own consumption at the window's end at the recent pace, ProjectedTotal everybody's.
	ProjectedEnd, ProjectedTotal float64
	// ExhaustsAtNanos is when nothing will be left, where Exhausts.
	ExhaustsAtNanos int64
	Exhausts        bool
}

// WindowReport is a window of a quota: as it was at its end, or as it is.
type WindowReport struct {
	Projection

	// RateLimited responses, and those among them that no limit predicted.
	RateLimited, UnexpectedRateLimited int64
	// Refused requests by reason. Those that a limit in shadow mode would have refused count as QuotaExhausted.
	Refused map[Reason]int64
}

// counters count what happened in one window of a quota.
type counters struct {
	limited, unexpected int64
	refused             [len(reasons)]int64 // in the order of reasons
}

// report is a key's window as it is at an instant that is not after its end.
func (e *Engine) report(at int64, s *scope, c *coldScope) *WindowReport {
	out := &WindowReport{Projection: e.project(at, s, c, e.tallies[c.id].units)}
	if n := c.quota.counters; n != nil {
		out.RateLimited, out.UnexpectedRateLimited = n.limited, n.unexpected
		out.Refused = make(map[Reason]int64)
		for i, reason := range reasons {
			if n.refused[i] > 0 {
				out.Refused[reason] = n.refused[i]
			}
		}
	}
	return out
}

// project computes a key's projection at an instant that is not after its window's end, with the units of the last 15 minutes.
func (e *Engine) project(at int64, s *scope, c *coldScope, recent int64) Projection {
	q, l := c.quota, c.limit
	p := Projection{Provider: l.provider.name, Limit: l.name, Key: e.key(c), AtNanos: at, StartNanos: q.start, EndNanos: q.end}
	p.Used = s.used - q.carried
	left := q.end - at
	switch {
	case l.anchored && l.rolling:
		p.Used = q.shown
	case l.rolling:
		p.StartNanos, p.EndNanos, left = at-l.length, at, l.length
	}
	// The maximum of a window that is over is that of its last instant.
	then := at
	if at >= q.end && !l.rolling {
		then = q.end - 1
	}
	p.Max = c.maximum(then, c.variant)
	p.Usable, p.Reserve = c.usable(then, c.variant)
	own := p.Usable - p.Used
	p.Remaining = own
	observed, seenNow := int64(never), q.seen != nil && q.seen.held
	if seenNow {
		observed = q.seen.remaining - (s.used - q.seen.usedThen)
		p.Remaining = min(own, observed)
		p.External = q.seen.external
	}
	length := p.EndNanos - p.StartNanos
	elapsed := at - p.StartNanos
	if l.rolling && !l.anchored {
		elapsed = l.length
	}
	p.Recent = perSecond(float64(recent), recentSpan(at, q))
	p.Own = perSecond(float64(p.Used), elapsed)
	p.ExternalRate = perSecond(float64(p.External), max(elapsed, length/24))
	p.ProjectedEnd = float64(p.Used) + p.Recent*seconds(left)
	if l.rolling && !l.anchored {
		p.ProjectedEnd -= float64(p.Used - s.flying) // by then all that has arrived has left
	}
	p.ProjectedTotal = p.ProjectedEnd + float64(p.External) + p.ExternalRate*seconds(left)
	p.exhaustion(c, own, observed, seenNow, left)
	return p
}

// recentSpan is the time that the recent grants are spread over.
func recentSpan(at int64, q *quota) int64 {
	since := int64(0)
	if q.firstGrant != never {
		since = at - q.firstGrant
	}
	return min(recentNanos, max(since, int64(time.Minute)))
}

// exhaustion finds when nothing will be left.
func (p *Projection) exhaustion(c *coldScope, own, observed int64, seenNow bool, left int64) {
	if c.limit.rolling && !c.limit.anchored {
		p.rollingExhaustion(c, own, observed, seenNow, left)
		return
	}
	in, ok := runsOut(float64(own), p.Recent, float64(left))
	if seenNow {
		if other, too := runsOut(float64(observed), p.Recent+p.ExternalRate, float64(left)); too && (!ok || other < in) {
			in, ok = other, true
		}
	}
	if ok {
		p.ExhaustsAtNanos, p.Exhausts = p.AtNanos+int64(in), true
	}
}

// runsOut is after how many nanoseconds so many units are gone at a pace; ok is false where that is more than left.
func runsOut(units, pace, left float64) (nanos float64, ok bool) {
	if units <= 0 {
		return 0, true
	}
	if pace <= 0 {
		return 0, false
	}
	nanos = units / pace * 1e9
	return nanos, nanos <= left
}

// rollingExhaustion goes from cell to cell: what leaves is given back in order.
func (p *Projection) rollingExhaustion(c *coldScope, own, observed int64, seenNow bool, left int64) {
	cs := c.quota.cells
	from, mine, others := int64(0), float64(own), float64(observed)
	for i := 0; ; i++ {
		to, back := left, int64(0)
		if i < cs.len() {
			to, back = min(left, max(from, saturatedAdd(cs.at(i).last(), c.limit.length)-p.AtNanos)), cs.at(i).units()
		}
		in, ok := runsOut(mine, p.Recent, float64(to-from))
		if seenNow {
			if other, too := runsOut(others, p.Recent+p.ExternalRate, float64(to-from)); too && (!ok || other < in) {
				in, ok = other, true
			}
		}
		if ok {
			p.ExhaustsAtNanos, p.Exhausts = p.AtNanos+from+int64(in), true
			return
		}
		if i >= cs.len() || to >= left {
			return
		}
		mine += float64(back) - p.Recent*seconds(to-from)
		others += float64(back) - (p.Recent+p.ExternalRate)*seconds(to-from)
		from = to
	}
}

func seconds(nanos int64) float64 { return float64(nanos) / 1e9 }

// perSecond is 0 where no time has passed.
func perSecond(units float64, nanos int64) float64 {
	if nanos <= 0 {
		return 0
	}
	return units / seconds(nanos)
}

// closeWindow reports a window that is over, once, where it had a grant or a response.
func (e *Engine) closeWindow(s *scope, c *coldScope) {
	q := c.quota
	if e.onWindow == nil || !q.touched || q.end == -never {
		return
	}
	report := e.report(q.end, s, c)
	q.touched, q.counters = false, nil
	e.onWindow(report)
}

// openShown opens the window that a report shows of a firstRequest quota, where the last one is over.
func (e *Engine) openShown(now int64, s *scope, c *coldScope) {
	q := c.quota
	if q.end != -never && now < q.end {
		return
	}
	e.closeWindow(s, c)
	q.start, q.end, q.shown, q.touched = now, saturatedAdd(now, c.limit.length), 0, true
}

// Windows calls f with the window of each key of a quota as it is at now, where it has a grant or a response, in no particular
// order, after it has reported those that are over. It is for engines with OnWindow.
func (e *Engine) Windows(now int64, f func(*WindowReport)) {
	now = e.tick(now)
	e.eachQuota(func(s *scope, c *coldScope) {
		q := c.quota
		if c.limit.anchored && c.limit.rolling && q.end <= now || !c.limit.rolling && q.end <= now {
			e.closeWindow(s, c)
			return
		}
		e.refresh(now, s, c, c.variant)
		if !q.touched {
			return
		}
		f(e.report(now, s, c))
	})
}

// Projections calls f with the projection of each live key of a quota at now, in no particular order.
func (e *Engine) Projections(now int64, f func(*Projection)) {
	now = e.tick(now)
	recent := e.recentUnits()
	e.eachQuota(func(s *scope, c *coldScope) {
		e.refresh(now, s, c, c.variant)
		if c.limit.anchored && c.limit.rolling && c.quota.end <= now {
			c.quota.start, c.quota.end, c.quota.shown = now, saturatedAdd(now, c.limit.length), 0
		}
		p := e.project(now, s, c, recent[c.id])
		f(&p)
	})
}

func (e *Engine) eachQuota(f func(s *scope, c *coldScope)) {
	for id := uint32(1); id <= e.slab.next; id++ {
		if c := e.slab.cold(id); c.limit != nil && c.limit.kind == kindQuota {
			f(e.slab.hot(id), c)
		}
	}
}
