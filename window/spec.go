package window

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Period is the unit of a calendar window.
type Period string

// The periods. A minute and an hour are cut from the wall clock; a day, a week
// and a month turn at a wall time of the declared zone.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Week   Period = "week"
	Month  Period = "month"
)

// AnchorFirstRequest is the anchor of windows that the vendor opens with the
// first request after the last window closed.
const AnchorFirstRequest = "firstRequest"

// MinLength and MaxLength bound Every and Rolling. The lower one keeps a
// sixtieth of a window longer than a nanosecond; the upper one (ten years)
// keeps both ends of a window representable.
const (
	MinLength = time.Millisecond
	MaxLength = 10 * 366 * 24 * time.Hour
)

// Spec is a window as a document declares it. Exactly one of Period, Every and
// Rolling is set. A field that is left at its zero value takes its default; a
// field that does not belong to the chosen form is an error, default or not,
// because whoever wrote it expects it to do something.
type Spec struct {
	// Period makes calendar windows.
	Period Period
	// Count makes windows of that many minutes (a divisor of 60) or hours (a
	// divisor of 24). Default 1; the other periods allow only that.
	Count int
	// ResetAt is the wall time at which days, weeks and months turn, "HH:MM".
	// Default "00:00".
	ResetAt string
	// Timezone is the IANA name of the zone of a calendar window. Default UTC.
	Timezone string
	// WeekStart is the day on which weeks turn, "monday" to "sunday". Default
	// "monday".
	WeekStart string
	// MonthDay is the day on which months turn, 1 to 31; in a shorter month,
	// that month's last day. Default 1.
	MonthDay int

	// Every makes windows of this length that start at Phase + n*Every since
	// the Unix epoch, or, with an anchor, at a request. MinLength to MaxLength.
	Every time.Duration
	// Phase shifts the start. Any value will do: only its remainder by Every
	// counts, and a negative one shifts to earlier.
	Phase time.Duration
	// Anchor is "" or AnchorFirstRequest.
	Anchor string

	// Rolling makes a window of this length that ends now, at every instant.
	// MinLength to MaxLength.
	Rolling time.Duration
}

// SpecError is one mistake in a Spec or in a time of day.
type SpecError struct {
	// Field is the name of the field as documents spell it, such as "resetAt";
	// "window" where the mistake is in how fields go together, and empty from
	// ParseTimeOfDay, which does not know what it reads.
	Field string
	// Value is the offending value as text; empty where there is none.
	Value string
	// Reason says what is wrong, what is allowed and what to do.
	Reason string
}

// Error is field, quoted value and reason in one line.
func (e *SpecError) Error() string {
	var parts []string
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	if e.Value != "" {
		parts = append(parts, strconv.Quote(e.Value))
	}
	return strings.Join(append(parts, e.Reason), " ")
}

// Check returns every mistake in the spec, in an order that depends on the spec
// alone, and nothing if Compile accepts it.
func (s Spec) Check() []*SpecError {
	_, problems := compile(s, loadLocation)
	return problems
}

// joined is the problems as one error, from which errors.As takes the first.
func joined(problems []*SpecError) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// shape returns which of the three forms the spec has.
func (s Spec) shape() (Kind, *SpecError) {
	var set []string
	kind := Kind("")
	if s.Period != "" {
		set, kind = append(set, "period"), Calendar
	}
	if s.Every != 0 {
		set, kind = append(set, "every"), Every
		if s.Anchor == AnchorFirstRequest {
			kind = FirstRequest
		}
	}
	if s.Rolling != 0 {
		set, kind = append(set, "rolling"), Rolling
	}
	if len(set) == 1 {
		return kind, nil
	}
	reason := "has no length: set one of period, every and rolling, above zero"
	if len(set) > 1 {
		reason = "has " + strings.Join(set, " and ") + ": keep one of them"
	}
	return "", &SpecError{Field: "window", Reason: reason}
}

// checkFields reports the fields that do not belong to the form, and values
// out of range. The zone and the time of day are read where they are compiled.
func (s Spec) checkFields(kind Kind) []*SpecError {
	var problems []*SpecError
	add := func(ok bool, field string, value any, reason string) {
		if !ok {
			problems = append(problems, &SpecError{Field: field, Value: fmt.Sprint(value), Reason: reason})
		}
	}
	periodIs := func(periods ...Period) bool { return slices.Contains(periods, s.Period) }
	turns := periodIs(Day, Week, Month)
	calendar := kind == Calendar

	if calendar && !turns && !periodIs(Minute, Hour) {
		// What the other fields may be depends on it: say no more.
		add(false, "period", s.Period, "is not a period: use minute, hour, day, week or month")
		return problems
	}
	s.checkCount(calendar, add)
	add(s.ResetAt == "" || turns, "resetAt", s.ResetAt, "applies to periods of day, week and month only: remove it")
	add(s.Timezone == "" || calendar, "timezone", s.Timezone,
		"applies to windows with a period only; the others count from the Unix epoch: remove it")
	add(s.WeekStart == "" || periodIs(Week), "weekStart", s.WeekStart, "applies to a period of week only: remove it")
	if s.WeekStart != "" {
		_, ok := weekdayByName(s.WeekStart)
		add(ok, "weekStart", s.WeekStart, "is not a day of the week: use monday to sunday, in lower case")
	}
	add(s.MonthDay == 0 || periodIs(Month), "monthDay", s.MonthDay, "applies to a period of month only: remove it")
	add(s.MonthDay >= 0 && s.MonthDay <= 31, "monthDay", s.MonthDay,
		"is not a day of a month: use 1 to 31 (31 is the last day of every month)")
	s.checkDurations(kind, add)
	return problems
}

func (s Spec) checkCount(calendar bool, add func(ok bool, field string, value any, reason string)) {
	switch {
	case s.Count == 0:
	case !calendar:
		add(false, "count", s.Count, "applies to windows with a period only: remove it, or multiply the length")
	case s.Count < 0:
		add(false, "count", s.Count, "is below 1: use 1 or more")
	case s.Period == Minute:
		add(60%s.Count == 0, "count", s.Count, "does not divide 60: use 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30 or 60")
	case s.Period == Hour:
		add(24%s.Count == 0, "count", s.Count, "does not divide 24: use 1, 2, 3, 4, 6, 8, 12 or 24")
	default:
		add(s.Count == 1, "count", s.Count, "applies to periods of minute and hour only: remove it, or use every")
	}
}

func (s Spec) checkDurations(kind Kind, add func(ok bool, field string, value any, reason string)) {
	const outside = "is out of range: use 1ms to 87840h (ten years)"
	inRange := func(d time.Duration) bool { return d == 0 || d >= MinLength && d <= MaxLength }
	add(inRange(s.Every), "every", s.Every, outside)
	add(s.Phase == 0 || s.Every != 0, "phase", s.Phase, "applies to every only: remove it")
	add(s.Phase == 0 || kind != FirstRequest, "phase", s.Phase,
		"has no effect on windows that open with a request: remove it, or the anchor")
	add(s.Anchor == "" || s.Every != 0, "anchor", s.Anchor, "applies to every only: remove it")
	add(s.Anchor == "" || s.Anchor == AnchorFirstRequest, "anchor", s.Anchor,
		"is not an anchor: use firstRequest, or remove it for windows aligned to the Unix epoch")
	add(inRange(s.Rolling), "rolling", s.Rolling, outside)
}

// weekdayByName reads "monday" to "sunday".
func weekdayByName(name string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.ToLower(d.String()) == name {
			return d, true
		}
	}
	return 0, false
}
