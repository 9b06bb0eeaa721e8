package engine

// Counted is how much of a quota's key has been used: what a store must cover before a request goes out, so that a crash loses no
// count. Instants are nanoseconds since the Unix epoch.
type Counted struct {
	// Provider, Limit and Key name it.
	Provider, Limit, Key string
	// Rolling tells that there is no window: the cells are the count.
	Rolling bool
	// StartNanos and EndNanos bound the present window, half open, and UsedUnits were used in it; 0 where Rolling.
	StartNanos, EndNanos, UsedUnits int64
	// CellNanos is the beginning of the present slot of the timeline, and CellUnits were granted in it.
	CellNanos, CellUnits int64
}

// Counted calls f with each quota that a prepared request takes of, as it stands at now, in declared order. It changes nothing.
func (e *Engine) Counted(now int64, p *Prepared, f func(Counted)) {
	now = e.tick(now)
	e.freshen(now, p)
	for i := range p.entries {
		en := &p.entries[i]
		if en.limit.kind != kindQuota {
			continue
		}
		s, q, per := en.scope, en.cold.quota, en.limit.slotNanos
		out := Counted{Provider: en.limit.provider.name, Limit: en.limit.name, Key: e.key(en.cold), Rolling: en.limit.rolling}
		if !out.Rolling {
			out.StartNanos, out.EndNanos, out.UsedUnits = q.start, q.end, s.used-q.carried
		}
		number := now / per
		out.CellNanos = number * per
		if live := q.timeline.live(); len(live) > 0 && int64(live[len(live)-1].number) == number {
			out.CellUnits = live[len(live)-1].units()
		}
		if e.minute/per == number {
			out.CellUnits += s.minute
		}
		f(out)
	}
}
