package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
)

// Snapshot is everything that must survive a restart. Instants are nanoseconds since the Unix epoch. Requests in flight are not
// part of it: their units count as arrived.
type Snapshot struct {
	// AtNanos is when it was taken.
	AtNanos int64 `json:"at"`
	// Scopes are the live keys, by provider, limit and key.
	Scopes []ScopeState `json:"scopes"`
	// Breakers are the circuit breakers that are not closed and untouched.
	Breakers []BreakerState `json:"breakers"`
}

// ScopeState is one key of one limit. Fields that do not concern the limit's kind are zero.
type ScopeState struct {
	Provider string `json:"provider"`
	// Limit is empty for the penalty of an account's requests that no limit covers.
	Limit string `json:"limit,omitempty"`
	Key   string `json:"key"`

	// LastUseNanos is the minute in which a request last used the key, 0 where that is not known.
	LastUseNanos int64 `json:"lastUse,omitempty"`
	// Used counts, in a quota, the units of the window without Carried; in a bucket, the tokens taken since StartNanos, when it
	// was full.
	Used int64 `json:"used,omitempty"`
	// StartNanos and EndNanos bound a quota's window; of a firstRequest one, the one that reports show.
	StartNanos int64 `json:"start,omitempty"`
	EndNanos   int64 `json:"end,omitempty"`
	// Carried units were in flight when the window began. Shown are those of the window that reports show (firstRequest).
	Carried int64 `json:"carried,omitempty"`
	Shown   int64 `json:"shown,omitempty"`
	// Dipped: a critical request has used the reserve.
	Dipped bool `json:"dipped,omitempty"`
	// Learned is the maximum that a response named, 0 where none did.
	Learned int64 `json:"learned,omitempty"`
	// RateMicros is an adaptive rate in millionths of a request a second, 0 where it is the declared one.
	RateMicros int64 `json:"rateMicros,omitempty"`
	// FirstGrantNanos is the key's first grant ever, 0 where there was none.
	FirstGrantNanos int64 `json:"firstGrant,omitempty"`
	// LatestResetNanos and PeriodNanos are of the reset that ends the window, 0 where none was seen.
	LatestResetNanos int64 `json:"latestReset,omitempty"`
	PeriodNanos      int64 `json:"period,omitempty"`
	// ExhaustedUntilNanos: a rate-limited response showed that nothing remained, 0 where none did.
	ExhaustedUntilNanos int64 `json:"exhaustedUntil,omitempty"`

	// Observed is what a response has shown; nil where nothing is held.
	Observed *struct {
		Remaining       int64 `json:"remaining"`
		UsedThen        int64 `json:"usedThen"`
		Uncertain       int64 `json:"uncertain"`
		GrantedNanos    int64 `json:"granted"`
		AnsweredNanos   int64 `json:"answered"`
		AdmitUntilNanos int64 `json:"admitUntil"`
		External        int64 `json:"external"`
	} `json:"observed,omitempty"`

	// Cells are the units of a rolling window by the instant of their last response. A cell restored from a store that knows only
	// a bucket's end has that.
	Cells []Slot `json:"cells,omitempty"`
	// Timeline is the consumption by minute or hour.
	Timeline []Slot `json:"timeline,omitempty"`

	// PenaltyEndNanos, PenaltySetNanos and PenaltyRow are of the last penalty: its end, when it was set, and how many there were
	// in a row. PenaltySetNanos is 0 where there was none.
	PenaltyEndNanos int64 `json:"penaltyEnd,omitempty"`
	PenaltySetNanos int64 `json:"penaltySet,omitempty"`
	PenaltyRow      int   `json:"penaltyRow,omitempty"`
}

// BreakerState is one circuit breaker.
type BreakerState struct {
	Account string `json:"account"`
	// Target is empty for the account's own.
	Target string `json:"target,omitempty"`
	// Open: it is open, or half open when OpenUntilNanos is over.
	Open           bool  `json:"open,omitempty"`
	Failures       int   `json:"failures,omitempty"`
	OpenUntilNanos int64 `json:"openUntil,omitempty"`
	OpenForNanos   int64 `json:"openFor,omitempty"`
}

// Snapshot takes down everything that must survive. It changes nothing that a decision depends on.
func (e *Engine) Snapshot(now int64) *Snapshot {
	now = e.tick(now)
	out := &Snapshot{AtNanos: now}
	for id := uint32(1); id <= e.slab.next; id++ {
		c := e.slab.cold(id)
		if c.limit == nil {
			continue
		}
		s := e.slab.hot(id)
		state := ScopeState{Provider: c.limit.provider.name, Limit: c.limit.name, Key: e.key(c), LastUseNanos: int64(c.lastUse) * minuteNanos}
		if p := c.penalty; p != nil {
			state.PenaltyEndNanos, state.PenaltySetNanos, state.PenaltyRow = p.end, p.set, p.row
		}
		switch c.limit.kind {
		case kindRate:
			s.refill(now, c.ratio())
			state.Used, state.StartNanos = s.used, s.since
			if c.rate != nil {
				state.RateMicros = c.rate.micros
			}
		case kindQuota:
			e.snapshotQuota(now, s, c, &state)
		}
		out.Scopes = append(out.Scopes, state)
	}
	slices.SortFunc(out.Scopes, func(a, b ScopeState) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
	})
	e.snapshotBreakers(out)
	return out
}

func (e *Engine) snapshotQuota(now int64, s *scope, c *coldScope, out *ScopeState) {
	e.refresh(now, s, c, c.variant)
	q := c.quota
	out.StartNanos, out.EndNanos = q.start, q.end
	if q.end == -never {
		out.StartNanos, out.EndNanos = 0, 0
	}
	out.Used, out.Carried, out.Shown, out.Dipped = s.used-q.carried, q.carried, q.shown, s.has(flagDipped)
	out.Learned, out.LatestResetNanos, out.PeriodNanos = q.learned, q.latestReset, q.periodNanos
	if q.firstGrant != never {
		out.FirstGrantNanos = q.firstGrant
	}
	if q.exhaustedUntil > now {
		out.ExhaustedUntilNanos = q.exhaustedUntil
	}
	if o := q.seen; o != nil && o.held {
		out.Observed = &struct {
			Remaining       int64 `json:"remaining"`
			UsedThen        int64 `json:"usedThen"`
			Uncertain       int64 `json:"uncertain"`
			GrantedNanos    int64 `json:"granted"`
			AnsweredNanos   int64 `json:"answered"`
			AdmitUntilNanos int64 `json:"admitUntil"`
			External        int64 `json:"external"`
		}{o.remaining, o.usedThen, o.uncertain, o.granted, o.answered, o.admitUntil, o.external}
	}
	for i := range q.cells.len() {
		out.Cells = append(out.Cells, Slot{StartNanos: q.cells.at(i).last(), Units: q.cells.at(i).units()})
	}
	if c.limit.rolling && s.flying > 0 {
		out.Cells = append(out.Cells, Slot{StartNanos: now, Units: s.flying})
	}
	out.Timeline = e.timelineOf(s, c)
}

func (e *Engine) snapshotBreakers(out *Snapshot) {
	add := func(account, target string, b *breaker) {
		if b.state == breakerClosed && b.failures == 0 {
			return
		}
		out.Breakers = append(out.Breakers, BreakerState{
			Account: account, Target: target, Open: b.state != breakerClosed, Failures: b.failures,
			OpenUntilNanos: b.openUntil, OpenForNanos: b.openFor,
		})
	}
	for name, a := range e.accounts {
		add(name, "", &a.breaker)
		for target, b := range a.hosts {
			add(name, target, b)
		}
	}
	slices.SortFunc(out.Breakers, func(a, b BreakerState) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Target, b.Target))
	})
}

// Restore brings a new engine to where a snapshot was taken. What the documents no longer know is left out, and so are counts of
// a window that the documents now cut differently; skipped is their number.
func (e *Engine) Restore(now int64, snapshot *Snapshot) (skipped int) {
	now = e.tick(now)
	var recent []recentGrant
	for i := range snapshot.Scopes {
		id := e.restoreScope(now, &snapshot.Scopes[i])
		if id == 0 {
			skipped++
			continue
		}
		for _, slot := range snapshot.Scopes[i].Timeline {
			if slot.StartNanos > now-recentNanos {
				recent = append(recent, recentGrant{slot.StartNanos, id, clampUnits(slot.Units)})
			}
		}
	}
	slices.SortStableFunc(recent, func(a, b recentGrant) int { return cmp.Compare(a.at, b.at) })
	for _, g := range recent {
		e.remember(g.at, g.scope, int64(g.units))
		if e.onWindow != nil {
			e.tallies[g.scope].units += int64(g.units)
		}
	}
	for _, b := range snapshot.Breakers {
		a := e.accounts[b.Account]
		if a == nil {
			skipped++
			continue
		}
		into := &a.breaker
		if b.Target != "" {
			into = a.host(b.Target)
		}
		into.failures, into.openUntil, into.openFor = b.Failures, b.OpenUntilNanos, b.OpenForNanos
		if b.Open {
			into.state = breakerOpen
		}
	}
	// Keys whose time is over go at once: documents that are reloaded every few minutes make a new engine each time, and none of them
	// would live until its sweep has come round.
	for range e.slab.next {
		e.sweep(now)
	}
	return skipped
}

// restoreScope opens a key with its past; 0 where the documents do not know it.
func (e *Engine) restoreScope(now int64, from *ScopeState) uint32 {
	p := e.providers[from.Provider]
	if p == nil {
		return 0
	}
	l := p.uncovered
	if from.Limit != "" {
		l = nil
		for _, candidate := range p.limits {
			if candidate.name == from.Limit {
				l = candidate
			}
		}
	}
	if l == nil {
		return 0
	}
	values, ok := l.parseKey(from.Key)
	if !ok {
		return 0
	}
	symbols := e.symbolsOf(values)
	id := e.findScope(l, symbols)
	if id == 0 {
		id = e.newScope(l, symbols, now)
	}
	e.letGo()
	s, c := e.slab.hot(id), e.slab.cold(id)
	if from.PenaltySetNanos != 0 {
		c.penalty = &penalty{end: from.PenaltyEndNanos, set: from.PenaltySetNanos, row: from.PenaltyRow}
		s.set(flagPenalized | flagRefusals)
	}
	if from.LastUseNanos != 0 {
		c.lastUse = minuteOf(min(from.LastUseNanos, now))
	}
	switch l.kind {
	case kindRate:
		s.used, s.since = from.Used, min(from.StartNanos, now)
		c.restoreRate(from.RateMicros)
	case kindQuota:
		if c.quota.quotaMore == e.noMore && (from.Learned != 0 || from.LatestResetNanos != 0 || from.Observed != nil || from.ExhaustedUntilNanos != 0) {
			c.quota.quotaMore = &quotaMore{exhaustedUntil: -never, quotaRare: e.noMore.quotaRare} // the limit read responses then
		}
		if from.Learned != 0 {
			c.quota.learned = from.Learned
		}
		c.variant = e.restoredVariant(l, from.Key)
		if l.cutsAs(from) {
			e.restoreQuota(s, c, from)
		}
	}
	return id
}

// cutsAs tells whether a window of the past is one that the limit has now, or that a reset has ended.
func (l *limit) cutsAs(from *ScopeState) bool {
	if l.rolling || from.EndNanos == 0 {
		return true
	}
	// A window that begins with a reset is half as long as a computed one, or up to half as long again.
	span := l.schedule.AtNanos(from.EndNanos - 1)
	longest := (span.EndNanos - span.StartNanos) / 2 * 3
	return from.PeriodNanos != 0 || span.EndNanos == from.EndNanos && from.EndNanos-from.StartNanos <= longest
}

func (e *Engine) restoreQuota(s *scope, c *coldScope, from *ScopeState) {
	q := c.quota
	if from.EndNanos != 0 {
		q.start, q.end = from.StartNanos, from.EndNanos
		s.since = q.start
	}
	s.used, q.carried = from.Used+from.Carried, from.Carried
	if c.limit.anchored {
		q.shown = from.Shown
	}
	if from.Dipped {
		s.set(flagDipped)
	}
	if from.LatestResetNanos != 0 {
		q.latestReset, q.periodNanos = from.LatestResetNanos, from.PeriodNanos
	}
	if from.FirstGrantNanos != 0 {
		q.firstGrant = from.FirstGrantNanos
	}
	if from.ExhaustedUntilNanos != 0 {
		q.exhaustedUntil = from.ExhaustedUntilNanos
	}
	if o := from.Observed; o != nil {
		q.seen = &seen{
			held: true, admitUntil: o.AdmitUntilNanos, remaining: o.Remaining, usedThen: o.UsedThen, uncertain: o.Uncertain,
			granted: o.GrantedNanos, answered: o.AnsweredNanos, external: o.External,
		}
	}
	if c.limit.rolling {
		s.used = 0
		q.cells = new(cells)
		for _, cell := range from.Cells {
			q.cells.bucketEnd = cell.StartNanos
			q.cells.add(cell.StartNanos, cell.Units, cell.StartNanos)
			s.used += cell.Units
			// What comes in the last cell's bucket joins it.
			q.cells.bucketEnd = c.limit.buckets.StartNanos(c.limit.buckets.Number(cell.StartNanos) + 1)
		}
	}
	for _, slot := range from.Timeline {
		q.timeline.add(slot.StartNanos/c.limit.slotNanos, slot.Units)
	}
	q.timeline.from = 0
}

// parseKey is the inverse of keyText: the values of the parts.
func (l *limit) parseKey(key string) (values []string, ok bool) {
	if l.kind == kindNone {
		return []string{key}, key != ""
	}
	words := strings.Split(key, "/")
	by := l.matcher.By()
	if len(words) != len(by) {
		return nil, false
	}
	for i, dimension := range by {
		switch name, isVar := cutVariable(dimension); {
		case isVar:
			value, found := strings.CutPrefix(words[i], name+"=")
			if !found {
				return nil, false
			}
			values = append(values, unescape(value))
		case dimension != match.DimensionInstance && dimension != match.DimensionProvider:
			values = append(values, unescape(words[i]))
		}
	}
	return values, true
}

// unescape is the inverse of the percent-encoding of scope keys.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			hi, lo := strings.IndexByte(hexDigits, text[i+1]), strings.IndexByte(hexDigits, text[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"
