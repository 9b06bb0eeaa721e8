package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// traffic makes a series of hours: busy by day, quiet at weekends, each day busier or quieter than expected as a whole, and each hour
// with its own noise.
func traffic(days int, seed uint64, dayNoise, hourNoise float64) *hourSeries {
	rnd := rand.New(rand.NewPCG(seed, 1))
	series := &hourSeries{}
	first := floorDiv(start.UnixNano(), hourNanos) // a Monday
	for day := range days {
		busy := math.Exp(dayNoise * rnd.NormFloat64())
		if day%7 >= 5 {
			busy *= 0.3
		}
		for hour := range 24 {
			expected := 20.0
			if hour >= 7 && hour < 19 {
				expected = 100
			}
			units := expected * busy * math.Exp(hourNoise*rnd.NormFloat64())
			series.add(first+int64(day*24+hour), int64(units))
		}
	}
	return series
}

// windowsOf are the days of a series as windows that are over.
func windowsOf(series *hourSeries, days int) (list []Window) {
	for day := range days {
		from := start.AddDate(0, 0, day)
		to := from.AddDate(0, 0, 1)
		list = append(list, Window{Start: from, End: to, At: to, Usable: 1500, Used: int64(sum(from.UnixNano(), to.UnixNano(), series.at))})
	}
	return list
}

// Four in five forecasts should end inside the band; over many kinds of traffic they do, within what chance allows.
func TestForecastCoverage(t *testing.T) {
	inside, forecasts := 0, 0
	for seed := uint64(1); seed <= 12; seed++ {
		noise := 0.05 * float64(seed)
		series := traffic(70, seed, noise, 0.1)
		b := (&predictor{series: series, zone: time.UTC}).backtest(windowsOf(series, 70))
		if b == nil || b.Forecasts != 3*(70-minHistoryDays) {
			t.Fatalf("seed %d: %+v, want %d forecasts", seed, b, 3*(70-minHistoryDays))
		}
		if b.Inside+b.Below+b.Above != b.Forecasts {
			t.Errorf("seed %d: %+v does not add up", seed, b)
		}
		if b.Coverage() < 0.6 || b.Coverage() > 0.97 {
			t.Errorf("seed %d: %.0f%% inside the band of 80%%", seed, 100*b.Coverage())
		}
		inside += b.Inside
		forecasts += b.Forecasts
	}
	if part := float64(inside) / float64(forecasts); part < 0.74 || part > 0.88 {
		t.Errorf("%.1f%% of %d forecasts ended inside the band of 80%%", 100*part, forecasts)
	}
}

// The profile knows the hours and the days: with no noise at all the forecast is exact, on a Monday morning and on a Saturday.
func TestForecastKnowsHoursAndDays(t *testing.T) {
	series := traffic(35, 1, 0, 0)
	p := predictor{series: series, zone: time.UTC}
	for _, day := range []int{28, 33} { // a Monday, a Saturday
		from := start.AddDate(0, 0, day)
		to := from.AddDate(0, 0, 1)
		truth := sum(from.UnixNano(), to.UnixNano(), series.at)
		at := from.Add(6 * time.Hour)
		used := sum(from.UnixNano(), at.UnixNano(), series.at)
		f := p.predict(from, to, at, used, truth+100)
		if f == nil {
			t.Fatal("no forecast with four weeks of history")
		}
		if math.Abs(f.P50-truth) > 0.02*truth || f.P90-f.P10 > 0.05*truth {
			t.Errorf("day %d: %+v, the truth is %.0f", day, *f, truth)
		}
		if linear := used * 4; math.Abs(linear-truth) < 0.2*truth {
			t.Errorf("day %d: the linear projection %.0f is as good, so the test shows nothing", day, linear)
		}
	}
}

// A day that is twice as busy as usual by noon is expected to stay busier, where days differ as a whole.
func TestForecastFollowsThePace(t *testing.T) {
	series := traffic(60, 5, 0.4, 0.02)
	p := predictor{series: series, zone: time.UTC}
	from := start.AddDate(0, 0, 56)
	at := from.Add(12 * time.Hour)
	used := sum(from.UnixNano(), at.UnixNano(), series.at)
	usual, busy := p.predict(from, from.AddDate(0, 0, 1), at, used, 1e9), p.predict(from, from.AddDate(0, 0, 1), at, 1.3*used, 1e9)
	if usual == nil || busy == nil {
		t.Fatal("no forecast")
	}
	if rest, more := usual.P50-used, busy.P50-1.3*used; more < 1.1*rest {
		t.Errorf("the rest of a busy day is %.0f, of a usual one %.0f", more, rest)
	}
}

// Without two weeks of history there is no band.
func TestForecastNeedsTwoWeeks(t *testing.T) {
	for _, days := range []int{0, 1, 13, 14} {
		series := traffic(days, 3, 0.2, 0.2)
		p := predictor{series: series, zone: time.UTC}
		from := start.AddDate(0, 0, days)
		f := p.predict(from, from.AddDate(0, 0, 1), from.Add(time.Hour), 10, 1000)
		if (f != nil) != (days >= minHistoryDays) {
			t.Errorf("%d days: %+v", days, f)
		}
	}
}

// Whatever the traffic: no NaN, the quantiles in order, never below what is used.
func TestForecastIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := &hourSeries{}
		first := floorDiv(start.UnixNano(), hourNanos)
		days := rapid.IntRange(14, 40).Draw(t, "days")
		for i := range days * 24 {
			series.add(first+int64(i), int64(rapid.SampledFrom([]int{0, 0, 1, 7, 1000}).Draw(t, "units")))
		}
		p := predictor{series: series, zone: time.UTC}
		from := start.AddDate(0, 0, days-rapid.IntRange(0, 2).Draw(t, "ago"))
		length := rapid.SampledFrom([]int{1, 7, 31}).Draw(t, "length")
		at := from.Add(time.Duration(rapid.IntRange(0, 23*60).Draw(t, "minutes")) * time.Minute)
		used := float64(rapid.IntRange(0, 100_000).Draw(t, "used"))
		f := p.predict(from, from.AddDate(0, 0, length), at, used, 5000)
		if f == nil {
			return
		}
		if !(f.P10 <= f.P50 && f.P50 <= f.P90) || f.P10 < used || math.IsInf(f.P90, 0) || f.OverUsable < 0 || f.OverUsable > 1 {
			t.Fatalf("%+v with %v used", *f, used)
		}
	})
}

// The whole way, from rows: the open window has a forecast, closed ones a backtest; a quota of an hour has neither.
func TestForecastFromRows(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 100, window: { period: day, timezone: Europe/Berlin }, scope: { by: [account] } }\n    - { name: hourly, kind: quota, max: 100, window: { period: hour }, scope: { by: [account] } }"))
	var lines []string
	for day := range 21 {
		for hour := range 24 {
			if day == 20 && hour > 9 {
				break
			}
			for n := range 1 + hour%3 {
				lines = append(lines, rowAt(start.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour+time.Duration(n)*time.Minute).Format(time.RFC3339), ""))
			}
		}
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, Forecast: true, Backtest: true})[0]
	for _, s := range report.Scopes {
		if s.Limit == "hourly" {
			if s.Forecast != nil || s.Backtest != nil {
				t.Errorf("an hour has a forecast: %+v %+v", s.Forecast, s.Backtest)
			}
			continue
		}
		if s.Forecast == nil || s.Backtest == nil {
			t.Fatalf("%s: %+v %+v", s.Limit, s.Forecast, s.Backtest)
		}
		if f := s.Forecast; math.Abs(f.P50-48) > 3 || f.OverUsable != 0 {
			t.Errorf("a day of 48 requests is forecast as %+v", *f)
		}
		if s.Backtest.Coverage() < 0.5 {
			t.Errorf("%+v", *s.Backtest)
		}
	}
	if got := fmt.Sprint(len(report.Scopes)); got != "2" {
		t.Errorf("%s scopes", got)
	}
}

// Hours are kept for about a year, and no longer.
func TestHourSeriesIsBounded(t *testing.T) {
	var h hourSeries
	for n := range int64(3 * mostHours) {
		h.add(n, n)
	}
	if len(h.units) > mostHours+mostHours/8 || h.at(3*mostHours-1) != 3*mostHours-1 || h.at(0) != 0 || h.at(h.first) != float64(h.first) {
		t.Errorf("%d hours from %d", len(h.units), h.first)
	}
	h.add(1, 5) // too old to count
	if h.at(1) != 0 {
		t.Error("an hour that was forgotten is back")
	}
}
