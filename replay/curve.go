package replay

import (
	"math"
	"time"

	"github.com/tapyr/tapyr/engine"
)

// CurvePoint is a quota at an instant.
type CurvePoint struct {
	At time.Time
	// Start is that of the window.
	Start time.Time
	// Used, External and Usable are as in a Window.
	Used, External, Usable int64
}

// curves sample the quotas' courses. How long a journal is shows only at its end, so sampling begins with a minute between points
// and doubles that each time there are too many.
type curves struct {
	engine  *engine.Engine
	most    int
	step    int64
	at      int64 // the next sample
	samples int
	byScope map[scopeID][]CurvePoint
}

// mostCurves bounds the keys whose curves are kept.
const mostCurves = 2000

func newCurves(e *engine.Engine, most int) *curves {
	return &curves{engine: e, most: max(most, 16), step: int64(time.Minute), at: noInstant, byScope: make(map[scopeID][]CurvePoint)}
}

// next is the instant of the next sample. The first is at the first row, later ones at multiples of the step.
func (c *curves) next(now int64) int64 {
	if c.at == noInstant {
		c.at = now
	}
	return c.at
}

// sample takes a point of every key, and says when the next is due.
func (c *curves) sample(at int64) {
	c.points(at)
	c.samples++
	if c.samples >= c.most {
		c.thin()
	}
	c.at = (floorDiv(at, c.step) + 1) * c.step
}

func (c *curves) points(at int64) {
	c.engine.Projections(at, func(p *engine.Projection) {
		id := scopeID{p.Provider, p.Limit, p.Key}
		if _, known := c.byScope[id]; !known && len(c.byScope) >= mostCurves {
			return
		}
		c.byScope[id] = append(c.byScope[id], CurvePoint{
			At: instantOf(at), Start: instantOf(p.StartNanos), Used: p.Used, External: p.External, Usable: p.Usable,
		})
	})
}

// thin doubles the step and drops the points that are off it. The last point of each window stays, the tip of a saw's tooth, unless
// the windows are shorter than the step.
func (c *curves) thin() {
	c.step *= 2
	c.samples = 0
	for id, list := range c.byScope {
		kept := c.thinned(list, true)
		if len(kept) > c.most*3/4 {
			kept = c.thinned(list, false)
		}
		c.byScope[id] = kept
		c.samples = max(c.samples, len(kept))
	}
}

func (c *curves) thinned(list []CurvePoint, tips bool) []CurvePoint {
	var kept []CurvePoint
	for i, p := range list {
		tip := tips && i+1 < len(list) && !list[i+1].Start.Equal(p.Start)
		if i == 0 || tip || p.At.UnixNano()%c.step == 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// finish takes the last point.
func (c *curves) finish(at int64) {
	if at != math.MaxInt64 {
		c.points(at)
	}
}

func (c *curves) of(id scopeID) []CurvePoint { return c.byScope[id] }
