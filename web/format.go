package web

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/plan"
)

// How figures, instants and spans are written on the page. Everything is UTC: the page is read by people in several places, and
// most quotas reset by it.

// figure writes a number as plans do: thousands apart.
func figure(f float64) string { return plan.Figure(f) }

// units writes a count.
func units(n int64) string { return plan.Figure(float64(n)) }

// percent writes a part; what is not 0 does not look like 0, and what is not all not like all.
func percent(part float64) string {
	switch {
	case math.IsNaN(part) || math.IsInf(part, 0):
		return "–"
	case part > 0 && part < 0.01:
		return "<1%"
	case part > 0.99 && part < 1:
		return ">99%"
	}
	return strconv.Itoa(int(math.Round(part*100))) + "%"
}

// duration writes a span with its two largest units: 45s, 3m 20s, 2h 5m, 4d 3h.
func duration(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || math.Abs(seconds) > 1e11 {
		return "–"
	}
	if seconds < 0 {
		return "-" + duration(-seconds)
	}
	if seconds < 10 && seconds != math.Trunc(seconds) {
		return strconv.FormatFloat(math.Max(0.1, math.Round(seconds*10)/10), 'f', -1, 64) + "s"
	}
	left := int64(math.Round(seconds))
	for i, unit := range spanUnits {
		if left < unit.seconds {
			continue
		}
		text := strconv.FormatInt(left/unit.seconds, 10) + unit.name
		if rest := left % unit.seconds; i+1 < len(spanUnits) && rest >= spanUnits[i+1].seconds {
			text += " " + strconv.FormatInt(rest/spanUnits[i+1].seconds, 10) + spanUnits[i+1].name
		}
		return text
	}
	return "0s"
}

var spanUnits = []struct {
	name    string
	seconds int64
}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}

// clock writes an instant as near as it is: the time of today, else with the day, else with the year.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.IsZero():
		return "–"
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04")
	case t.Sub(now).Abs() < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006")
}

// moment is an instant for a time element: as people read it, and as machines do.
type moment struct{ Text, Machine string }

func (m moment) String() string { return m.Text }

// ago is an instant in the past, as how long ago it was.
func ago(t *time.Time, now time.Time) moment {
	if t == nil || t.IsZero() {
		return moment{Text: "never"}
	}
	span := now.Sub(*t)
	if span < time.Second {
		return moment{"just now", t.UTC().Format(time.RFC3339)}
	}
	return moment{duration(span.Seconds()) + " ago", t.UTC().Format(time.RFC3339)}
}

// in is an instant in the future, as how long it is until then.
func in(t *time.Time, now time.Time) moment {
	if t == nil || t.IsZero() {
		return moment{Text: "–"}
	}
	if !t.After(now) {
		return moment{"due", t.UTC().Format(time.RFC3339)}
	}
	return moment{"in " + duration(t.Sub(now).Seconds()), t.UTC().Format(time.RFC3339)}
}

// at is an instant by the clock.
func at(t, now time.Time) moment { return moment{clock(t, now), t.UTC().Format(time.RFC3339)} }

// counted writes a number with its noun: 1 job, 2 jobs.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", units(int64(n)), many)
}
