package replay

import (
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
)

const hourNanos = int64(3600e9)

// hourly keeps what each quota's key consumed in each hour: what forecasts are made from.
type hourly struct {
	side *side
	// byScope is nil where nobody asks.
	byScope map[scopeID]*hourSeries
	// touched are the keys with grants in the present hour.
	touched []*hourSeries
	number  int64 // of the present hour, since the Unix epoch
}

// hourlyUse is a key that a request takes of.
type hourlyUse struct {
	series *hourSeries
	cost   int64
}

// hourSeries is the consumption of a key by the hour.
type hourSeries struct {
	// present is the consumption of the present hour, which is not in units yet.
	present int64
	first   int64 // number of the first hour
	units   []float64
}

// mostHours bounds a series to about a year; older hours are forgotten.
const mostHours = 9000

func (h *hourSeries) add(number, units int64) {
	if len(h.units) == 0 {
		h.first = number
	}
	if number < h.first {
		return
	}
	for int64(len(h.units)) <= number-h.first {
		h.units = append(h.units, 0)
	}
	h.units[number-h.first] += float64(units)
	if n := len(h.units) - mostHours; n > mostHours/8 {
		h.units = append(h.units[:0], h.units[n:]...)
		h.first += int64(n)
	}
}

// at is the consumption of an hour.
func (h *hourSeries) at(number int64) float64 {
	if i := number - h.first; i >= 0 && i < int64(len(h.units)) {
		return h.units[i]
	}
	return 0
}

// uses are the quotas among what a request meets.
func (h *hourly) uses(met []engine.Met) []hourlyUse {
	if h.byScope == nil {
		return nil
	}
	var list []hourlyUse
	for _, m := range met {
		if m.Kind != schema.KindQuota {
			continue
		}
		id := scopeID{m.Provider, m.Limit, m.Key}
		series := h.byScope[id]
		if series == nil {
			series = new(hourSeries)
			h.byScope[id] = series
		}
		list = append(list, hourlyUse{series, m.Cost})
	}
	return list
}

// count notes a grant.
func (h *hourly) count(u *hourlyUse) {
	if u.series.present == 0 {
		h.touched = append(h.touched, u.series)
	}
	u.series.present += u.cost
}

// turn ends the hours before now, and returns the end of the one that holds it.
func (h *hourly) turn(now int64) (next int64) {
	number := floorDiv(now, hourNanos)
	if number != h.number {
		h.write()
		h.number = number
	}
	return (number + 1) * hourNanos
}

// write ends the present hour.
func (h *hourly) write() {
	for _, s := range h.touched {
		s.add(h.number, s.present)
		s.present = 0
	}
	h.touched = h.touched[:0]
}

func floorDiv(a, b int64) int64 {
	n := a / b
	if a%b < 0 {
		n--
	}
	return n
}
