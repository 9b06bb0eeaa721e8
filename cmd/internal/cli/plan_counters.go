package cli

import (
	"fmt"
	"time"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// foreignCounter is a counter of a file that somebody may have written by hand.
type foreignCounter struct {
	ledger.Counter
	line int64
}

// doubtful is what is remarkable about counters, as lines that begin with file and line: what the plan does not look at, and why,
// and what cannot be.
func doubtful(file string, counters []foreignCounter, p *plan.Plan, config *validate.Config) (remarks []string) {
	remark := func(c *foreignCounter, format string, args ...any) {
		remarks = append(remarks, fmt.Sprintf("%s:%d: %s", file, c.line, fmt.Sprintf(format, args...)))
	}
	current, at := 0, p.At.UnixNano()
	for i := range counters {
		c := &counters[i]
		provider := config.Provider(c.Provider)
		if provider == nil {
			var known []string
			for _, p := range config.Providers {
				known = append(known, p.Name)
			}
			remark(c, "not used, since there is no provider %q%s", c.Provider, schema.DidYouMeanOneOf(c.Provider, known))
			continue
		}
		limit := provider.Limit(c.Limit)
		if limit == nil {
			var known []string
			for _, l := range provider.Limits {
				known = append(known, l.Spec.Name)
			}
			remark(c, "not used, since provider %s has no limit %q%s", c.Provider, c.Limit, schema.DidYouMeanOneOf(c.Limit, known))
			continue
		}
		if c.ObservedRemaining != nil && c.ObservedMax != nil && *c.ObservedRemaining > *c.ObservedMax {
			remark(c, "observed_remaining %d is more than observed_max %d", *c.ObservedRemaining, *c.ObservedMax)
		}
		if c.UpdatedNanos > at {
			remark(c, "updated_at %s is after %s, which the plan is for (--at)", instantText(time.Unix(0, c.UpdatedNanos)), instantText(p.At))
		}
		if !(window.Window{Start: time.Unix(0, c.StartNanos), End: time.Unix(0, c.EndNanos)}).Contains(p.At) {
			continue // an export holds windows that are over
		}
		current++
		if !p.Covers(c.Provider, c.Limit, c.ScopeKey) {
			remark(c, "not used, since no job uses the key %q of %s/%s%s", c.ScopeKey, c.Provider, c.Limit, schema.DidYouMeanOneOf(c.ScopeKey, keysOf(p, c.Provider, c.Limit)))
		}
	}
	switch {
	case len(counters) == 0:
		remarks = append(remarks, fmt.Sprintf("%s: holds no counters, so the plan begins afresh", file))
	case current == 0 && len(remarks) == 0:
		remarks = append(remarks, fmt.Sprintf("%s: no counter is of a window that holds %s (--at), so the plan begins afresh", file, instantText(p.At)))
	}
	return remarks
}

func keysOf(p *plan.Plan, provider, limit string) (keys []string) {
	for i := range p.Scopes {
		if s := &p.Scopes[i]; s.Provider == provider && s.Limit == limit {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// mostRemarks is how many remarks on a file are written; the rest is counted.
const mostRemarks = 20

// noteDoubtful writes them to standard error.
func (c *Call) noteDoubtful(file string, counters []foreignCounter, p *plan.Plan, config *validate.Config) {
	remarks := doubtful(file, counters, p, config)
	for i, remark := range remarks {
		if i == mostRemarks {
			c.Note("tapyr: %d more remarks on %s", len(remarks)-mostRemarks, plaintext.Printable(file))
			return
		}
		c.Note("tapyr: warning: %s", plaintext.Printable(remark))
	}
}
