package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// LimitChange replaces the maximum of a quota or of requests in flight, or the rate of a bucket.
type LimitChange struct {
	// After is how long after the beginning.
	After time.Duration
	// Provider and Limit say which limit.
	Provider, Limit string
	// Max is the new maximum, where Rate is nil.
	Max int64
	// Rate is the new rate of a bucket, whose burst and tokens stay as they are.
	Rate *schema.Rate
}

// String writes a change as ParseLimitChange reads it.
func (c LimitChange) String() string {
	value := fmt.Sprintf("max=%d", c.Max)
	if c.Rate != nil {
		value = "rate=" + c.Rate.String()
	}
	return fmt.Sprintf("%s:provider.%s.limits.%s.%s", schema.Duration(c.After), c.Provider, c.Limit, value)
}

// ParseLimitChange reads TIME:provider.P.limits.L.max=N, or rate=N/s for a bucket. TIME is an instant (RFC 3339) or a duration
// after the beginning.
func ParseLimitChange(text string, begin time.Time) (LimitChange, error) {
	wrong := fmt.Errorf("limit change %q: want TIME:provider.P.limits.L.max=N, or rate=N/s for a bucket, TIME being a duration such as 12h or an instant", text)
	cut := strings.Index(text, ":provider.")
	if cut < 0 {
		return LimitChange{}, wrong
	}
	var c LimitChange
	if at, err := time.Parse(time.RFC3339Nano, text[:cut]); err == nil {
		c.After = at.Sub(begin)
	} else if d, err := schema.ParseDuration(text[:cut]); err == nil {
		c.After = time.Duration(d)
	} else {
		return LimitChange{}, wrong
	}
	path, value, _ := strings.Cut(text[cut+1:], "=")
	parts := strings.Split(path, ".")
	if len(parts) != 5 || parts[2] != "limits" {
		return LimitChange{}, wrong
	}
	c.Provider, c.Limit = parts[1], parts[3]
	switch parts[4] {
	case "max":
		maximum, err := strconv.ParseInt(value, 10, 64)
		if err != nil || maximum < 0 {
			return LimitChange{}, wrong
		}
		c.Max = maximum
	case "rate":
		rate, err := schema.ParseRate(value)
		if err != nil {
			return LimitChange{}, fmt.Errorf("limit change %q: %w", text, err)
		}
		c.Rate = &rate
	default:
		return LimitChange{}, wrong
	}
	return c, nil
}

// Check tells whether the changes name limits of a configuration, and replace what those have: buckets have a rate, others a
// maximum.
func (f *Faults) Check(config *validate.Config) error {
	for _, c := range f.Changes {
		p := config.Provider(c.Provider)
		if p == nil || p.Limit(c.Limit) == nil {
			return fmt.Errorf("limit change %q: there is no limit %s/%s", c, c.Provider, c.Limit)
		}
		isRate := p.Limit(c.Limit).Spec.Kind == schema.KindRate
		switch {
		case isRate && c.Rate == nil:
			return fmt.Errorf("limit change %q: %s is a rate and has no maximum; write rate=N/s, such as rate=5/s", c, c.Limit)
		case !isRate && c.Rate != nil:
			return fmt.Errorf("limit change %q: %s is no rate; write max=N, such as max=5000", c, c.Limit)
		}
	}
	return nil
}

// change makes a limit another one. The count of our own requests goes by the most generous one that was ever true.
func (v *vendor) change(now int64, c LimitChange) {
	v.apply(v.enforcer, v.clock(now), c)
	if v.alone == nil || !v.moreGenerous(c) {
		return
	}
	v.apply(v.alone, now, c)
	if v.aside != nil {
		v.apply(v.aside, v.clock(now), c)
	}
}

func (v *vendor) apply(e *engine.Enforcer, now int64, c LimitChange) {
	if c.Rate != nil {
		e.SetRate(now, c.Provider, c.Limit, *c.Rate)
		return
	}
	e.SetMax(now, c.Provider, c.Limit, c.Max)
}

// moreGenerous tells whether a change allows more than the declaration and all changes before it.
func (v *vendor) moreGenerous(c LimitChange) bool {
	l := v.config.Provider(c.Provider).Limit(c.Limit)
	most, known := v.most[l]
	if !known {
		if c.Rate == nil {
			declared, _ := l.Max(nil)
			most = float64(declared)
		} else if l.Spec.Rate != nil {
			most = l.Spec.Rate.PerSecond()
		}
	}
	now := float64(c.Max)
	if c.Rate != nil {
		now = c.Rate.PerSecond()
	}
	if now <= most {
		return false
	}
	v.most[l] = now
	return true
}
