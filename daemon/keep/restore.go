package keep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/validate"
)

// Restore is what an engine starts from: the state as it was at the last flush, and on top of it whatever counts were written later,
// leases included. So after a crash a count is too high by at most its lease, and never too low.
func (k *Keeper) Restore(ctx context.Context, now time.Time, config *validate.Config) (*engine.Snapshot, error) {
	k.config.Store(config)
	from, err := k.store.Restore(ctx, now, Horizon(config))
	if err != nil {
		return nil, err
	}
	k.recorder.Restored(from)
	r := restorer{config: config, scopes: make(map[scopeName]*saved)}
	if err := r.states(from.States); err != nil {
		return nil, err
	}
	for _, s := range from.States {
		if s.Kind == statePaused {
			k.Pause(s.Name, true)
		}
	}
	for i := range from.Counters {
		r.counter(&from.Counters[i])
	}
	r.minutes(now.UnixNano(), from.Minutes)
	out := &engine.Snapshot{AtNanos: r.atNanos, Breakers: r.breakers}
	for _, scope := range r.scopes {
		out.Scopes = append(out.Scopes, scope.Scope)
	}
	slices.SortFunc(out.Scopes, func(a, b engine.ScopeState) int {
		return strings.Compare(a.Provider+"\x00"+a.Limit+"\x00"+a.Key, b.Provider+"\x00"+b.Limit+"\x00"+b.Key)
	})
	return out, nil
}

type scopeName struct{ provider, limit, key string }

// restorer puts the parts together.
type restorer struct {
	config   *validate.Config
	atNanos  int64
	scopes   map[scopeName]*saved
	breakers []engine.BreakerState
}

func (r *restorer) states(states []ledger.State) error {
	for _, s := range states {
		var err error
		switch s.Kind {
		case stateClock:
			err = json.Unmarshal(s.Value, &r.atNanos)
		case stateBreaker:
			var b engine.BreakerState
			if err = json.Unmarshal(s.Value, &b); err == nil {
				r.breakers = append(r.breakers, b)
			}
		case stateScope:
			one := new(saved)
			if err = json.Unmarshal(s.Value, one); err == nil {
				r.scopes[scopeName{one.Scope.Provider, one.Scope.Limit, one.Scope.Key}] = one
			}
		}
		if err != nil {
			return fmt.Errorf("the state holds an unreadable %s of %s %s: %w", s.Kind, s.Name, s.Key, err)
		}
	}
	return nil
}

func (r *restorer) scope(key ledger.CounterKey) *saved {
	name := scopeName{key.Provider, key.Limit, key.ScopeKey}
	if r.scopes[name] == nil {
		r.scopes[name] = &saved{AtNanos: r.atNanos, Scope: engine.ScopeState{Provider: key.Provider, Limit: key.Limit, Key: key.ScopeKey}}
	}
	return r.scopes[name]
}

// counter raises a window's count to what was written, which may be later than the state.
func (r *restorer) counter(c *ledger.Counter) {
	limit := limitOf(r.config, c.Provider, c.Limit)
	if limit == nil || limit.Window == nil || rolling(limit) {
		return
	}
	s := &r.scope(c.CounterKey).Scope
	switch {
	case s.EndNanos != 0 && s.StartNanos == c.StartNanos:
		s.Used = max(s.Used, c.Used)
	case s.EndNanos == 0 || s.StartNanos < c.StartNanos:
		// The window turned after the state was written. What it said of the old one is over; what was learned stays.
		s.StartNanos, s.EndNanos, s.Used, s.Carried = c.StartNanos, c.EndNanos, c.Used, 0
		s.Dipped, s.Observed, s.LatestResetNanos, s.PeriodNanos, s.ExhaustedUntilNanos = false, nil, 0, 0, 0
	}
	if s.FirstGrantNanos == 0 && s.Used > 0 {
		s.FirstGrantNanos = s.StartNanos
	}
}

// minutes are the timelines. For a rolling quota they also are the count: what they have beyond the state's was granted after it,
// and counts as used now, for it may have arrived as late as that.
func (r *restorer) minutes(now int64, minutes []ledger.Minute) {
	then := make(map[*saved]map[int64]int64) // the state's own last slots
	extra := make(map[*saved]int64)
	for i := range minutes {
		m := &minutes[i]
		limit := limitOf(r.config, m.Provider, m.Limit)
		if limit == nil || limit.Window == nil {
			continue
		}
		s := r.scope(m.CounterKey)
		if then[s] == nil {
			then[s] = make(map[int64]int64, len(s.Scope.Timeline))
			for _, slot := range s.Scope.Timeline {
				then[s][slot.StartNanos] = slot.Units
			}
			s.Scope.Timeline = nil
		}
		s.Scope.Timeline = append(s.Scope.Timeline, engine.Slot{StartNanos: m.StartNanos, Units: m.Used})
		if s.AtNanos == 0 || m.StartNanos >= s.AtNanos-2*slotNanos(limit) {
			extra[s] += max(0, m.Used-then[s][m.StartNanos])
		}
	}
	for s := range then {
		slices.SortFunc(s.Scope.Timeline, func(a, b engine.Slot) int { return int(min(1, max(-1, a.StartNanos-b.StartNanos))) })
		if limit := limitOf(r.config, s.Scope.Provider, s.Scope.Limit); rolling(limit) && extra[s] > 0 {
			s.Scope.Cells = append(s.Scope.Cells, engine.Slot{StartNanos: now, Units: extra[s]})
			if anchored := limit.Spec.Window.Anchor == "firstRequest"; anchored && s.Scope.EndNanos <= now {
				// The window that reports show opened with a request after the state was written, in the last slot or now.
				s.Scope.StartNanos, s.Scope.Shown = now, 0
				s.Scope.EndNanos = now + int64(limit.Window.Length())
			}
			s.Scope.Shown += extra[s]
		}
	}
}
