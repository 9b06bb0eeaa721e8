package replay

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/tapyr/tapyr/window"
)

const (
	// minHistoryDays is how much history a forecast needs: two of each day of the week.
	minHistoryDays = 14
	// mostHistoryDays is how much of it counts: what was half a year ago says little.
	mostHistoryDays = 63
)

// Forecast says where a window leads, from a profile of the hours of the day and the days of the week.
type Forecast struct {
	// P10, P50 and P90 are own units at the window's end: with a chance of one in ten it is less than P10, or more than P90.
	P10, P50, P90 float64
	// OverUsable is the part of comparable days that would end above what may be used, from 0 to 1.
	OverUsable float64
	// HistoryDays is how many comparable days it rests on.
	HistoryDays int
}

// Backtest is how forecasts have held: for each window after the first 14 days, one a quarter, half and three quarters through,
// from what was known by then.
type Backtest struct {
	// Forecasts were made, Inside of them ended between P10 and P90, where four in five should; Below and Above are the others.
	Forecasts, Inside, Below, Above int
	// MedianErrorPercent is the median distance of P50 from the truth, in percent of the truth.
	MedianErrorPercent float64
}

// Coverage is the part that ended inside the band.
func (b *Backtest) Coverage() float64 {
	if b.Forecasts == 0 {
		return 0
	}
	return float64(b.Inside) / float64(b.Forecasts)
}

// forecast adds to a scope what its history tells of its windows.
func (s *side) forecast(sc *Scope, h *hourSeries) {
	schedule := s.schedule(sc)
	if schedule == nil || len(h.units) == 0 {
		return
	}
	p := predictor{series: h, zone: schedule.Location()}
	if n := len(sc.Windows); s.options.Forecast && n > 0 && sc.Windows[n-1].Open {
		w := &sc.Windows[n-1]
		sc.Forecast = p.predict(w.Start, w.End, w.At, float64(w.Used), float64(w.Usable))
	}
	if s.options.Backtest {
		sc.Backtest = p.backtest(sc.Windows)
	}
}

// schedule is that of a quota whose windows are fixed and longer than an hour; nil for others, in which a profile of hours says
// nothing.
func (s *side) schedule(sc *Scope) *window.Schedule {
	provider := s.config.Provider(sc.Provider)
	if provider == nil {
		return nil
	}
	l := provider.Limit(sc.Limit)
	if l == nil || l.Window == nil || l.Window.Kind() == window.Rolling || l.Window.Kind() == window.FirstRequest || len(sc.Windows) == 0 {
		return nil
	}
	if w := sc.Windows[0]; w.End.Sub(w.Start) <= time.Hour {
		return nil
	}
	return l.Window
}

// predictor makes forecasts from a series of hours.
type predictor struct {
	series *hourSeries
	zone   *time.Location
}

// profile is what the hours before an instant have in common: a level, times a factor for the hour of the day, times one for the
// day of the week.
type profile struct {
	level   float64
	hour    [24]float64
	weekday [7]float64
	zone    *time.Location
}

// profile is made from the last days before an instant.
func (p *predictor) profile(before int64) profile {
	out := profile{zone: p.zone}
	var hourUnits, hourCount [24]float64
	var dayUnits, dayCount [7]float64
	var all []float64
	end := floorDiv(before, hourNanos)
	for n := max(p.series.first, end-mostHistoryDays*24); n < end; n++ {
		at := instantOf(n * hourNanos).In(p.zone)
		units := p.series.at(n)
		all = append(all, units)
		hourUnits[at.Hour()] += units
		hourCount[at.Hour()]++
		dayUnits[at.Weekday()] += units
		dayCount[at.Weekday()]++
	}
	if len(all) == 0 {
		return out
	}
	out.level = stat.Mean(all, nil)
	for h := range out.hour {
		out.hour[h] = ratio(hourUnits[h], hourCount[h]*out.level)
	}
	for d := range out.weekday {
		out.weekday[d] = ratio(dayUnits[d], dayCount[d]*out.level)
	}
	return out
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// units that the profile expects in an hour.
func (f *profile) units(number int64) float64 {
	at := instantOf(number * hourNanos).In(f.zone)
	return f.level * f.hour[at.Hour()] * f.weekday[at.Weekday()]
}

// sum adds up hours between two instants, the first and last in part.
func sum(from, to int64, units func(number int64) float64) float64 {
	total := 0.0
	for n := floorDiv(from, hourNanos); n*hourNanos < to; n++ {
		start, end := max(from, n*hourNanos), min(to, (n+1)*hourNanos)
		if end > start {
			total += units(n) * float64(end-start) / float64(hourNanos)
		}
	}
	return total
}

// predict is the forecast for a window as it is at an instant, with what it has used and may use. nil where there is not enough
// history, or nothing to go by.
//
// Every day before is comparable: the same times of the day, its own expectation. How much busier than expected it was before this
// time of the day tells, by linear regression, how much busier it was afterwards; what the regression does not explain makes the
// band.
func (p *predictor) predict(start, end, at time.Time, used, usable float64) *Forecast {
	now := at.UnixNano()
	f := p.profile(start.UnixNano())
	expected := sum(now, end.UnixNano(), f.units)
	var before, after []float64
	for day := 1; day <= mostHistoryDays; day++ {
		from, turn, to := p.daysBefore(start, day), p.daysBefore(at, day), p.daysBefore(end, day)
		if from < p.series.first*hourNanos || to > now {
			if to > now {
				continue // the window is longer than a day: part of it has not happened
			}
			break
		}
		done, rest := sum(from, turn, f.units), sum(turn, to, f.units)
		if rest <= 0 {
			continue
		}
		before = append(before, ratio(sum(from, turn, p.series.at), done))
		after = append(after, sum(turn, to, p.series.at)/rest)
	}
	if len(after) < minHistoryDays || expected <= 0 {
		return nil
	}
	pace := ratio(used, sum(start.UnixNano(), now, f.units))
	return band(before, after, pace, used, expected, usable)
}

// daysBefore is the same time of an earlier day.
func (p *predictor) daysBefore(t time.Time, days int) int64 {
	return t.In(p.zone).AddDate(0, 0, -days).UnixNano()
}

// band turns what comparable days did into quantiles.
func band(before, after []float64, pace, used, expected, usable float64) *Forecast {
	base, slope := stat.Mean(after, nil), 0.0
	if stat.Variance(before, nil) > 0 {
		base, slope = stat.LinearRegression(before, after, nil, false)
		// A pace outside of all that was seen, or a regression that says the contrary of a pace, is not followed.
		if slope < 0 || slope > 2 {
			base, slope = stat.Mean(after, nil), 0
		}
		pace = min(max(pace, slices.Min(before)), slices.Max(before)*1.5)
	}
	ends := make([]float64, len(after))
	over := 0
	// The days made the regression themselves, so their distances from it are a little too small.
	n := float64(len(after))
	widen := (n + 1) / (n - 2)
	for i := range after {
		residual := (after[i] - base - slope*before[i]) * widen
		ends[i] = max(used, used+expected*(base+slope*pace+residual))
		if ends[i] > usable {
			over++
		}
	}
	slices.Sort(ends)
	quantile := func(q float64) float64 { return stat.Quantile(q, stat.LinInterp, ends, nil) }
	return &Forecast{P10: quantile(0.1), P50: quantile(0.5), P90: quantile(0.9), OverUsable: float64(over) / n, HistoryDays: len(after)}
}

// backtest makes the forecasts that would have been made in the windows that are over.
func (p *predictor) backtest(windows []Window) *Backtest {
	out := &Backtest{}
	var distances []float64
	for i := range windows {
		w := &windows[i]
		if w.Open {
			continue
		}
		for quarter := 1; quarter <= 3; quarter++ {
			at := w.Start.Add(w.End.Sub(w.Start) * time.Duration(quarter) / 4)
			used := sum(w.Start.UnixNano(), at.UnixNano(), p.series.at)
			f := p.predict(w.Start, w.End, at, used, float64(w.Usable))
			if f == nil {
				continue
			}
			out.Forecasts++
			switch truth := float64(w.Used); {
			case truth < f.P10:
				out.Below++
			case truth > f.P90:
				out.Above++
			default:
				out.Inside++
			}
			if w.Used > 0 {
				distances = append(distances, 100*abs(f.P50-float64(w.Used))/float64(w.Used))
			}
		}
	}
	if out.Forecasts == 0 {
		return nil
	}
	if len(distances) > 0 {
		slices.Sort(distances)
		out.MedianErrorPercent = stat.Quantile(0.5, stat.LinInterp, distances, nil)
	}
	return out
}

func abs(f float64) float64 { return max(f, -f) }
