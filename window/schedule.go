package window

import (
	"errors"
	"time"
)

// Kind is the form of a window, which decides what an instant alone tells.
type Kind string

const (
	// Calendar windows turn by the wall clock of a zone.
	Calendar Kind = "calendar"
	// Every windows have one length and start at multiples of it.
	Every Kind = "every"
	// FirstRequest windows have one length and open with a request, at the
	// vendor's arrival time, which tapyr does not know. Admission therefore
	// treats them as rolling; reports show what Schedule.Opened returns.
	FirstRequest Kind = "firstRequest"
	// Rolling windows have one length and end at every instant.
	Rolling Kind = "rolling"
)

// Schedule maps instants to windows. It never changes and any number of
// goroutines may use it at once.
type Schedule struct {
	kind     Kind
	spec     Spec // with its defaults
	location *time.Location
	calendar calendar
	// lengthNanos and phaseNanos belong to every, firstRequest and rolling;
	// 0 <= phaseNanos < lengthNanos.
	lengthNanos int64
	phaseNanos  int64
}

// Compile checks a spec and makes its schedule. The error joins one *SpecError
// for each mistake; Spec.Check returns them one by one. Listing the offsets of
// a zone with daylight saving takes some 0.3 ms: compile a limit once.
func Compile(spec Spec) (*Schedule, error) {
	schedule, problems := compile(spec, loadLocation)
	if len(problems) > 0 {
		return nil, joined(problems)
	}
	return schedule, nil
}

// compile takes the zone's source as an argument so that tests can bring zones
// which no country has thought of yet.
func compile(spec Spec, load func(string) (*time.Location, error)) (*Schedule, []*SpecError) {
	kind, problem := spec.shape()
	if problem != nil {
		return nil, []*SpecError{problem}
	}
	problems := spec.checkFields(kind)
	if kind != Calendar {
		if len(problems) > 0 {
			return nil, problems
		}
		length := spec.Every + spec.Rolling // one of them is zero
		phase := spec.Phase % length
		if phase < 0 {
			phase += length
		}
		return &Schedule{
			kind: kind, spec: spec, location: time.UTC,
			lengthNanos: int64(length), phaseNanos: int64(phase),
		}, nil
	}

	spec = spec.withDefaults()
	reset, err := ParseTimeOfDay(spec.ResetAt)
	if e := (*SpecError)(nil); errors.As(err, &e) {
		problems = append(problems, &SpecError{Field: "resetAt", Value: e.Value, Reason: e.Reason})
	}
	location, z, err := loadZone(spec.Timezone, load)
	if err != nil {
		problems = append(problems, &SpecError{
			Field: "timezone", Value: spec.Timezone,
			Reason: "cannot be used (" + err.Error() + `): write an IANA name such as "Europe/Paris", or "UTC"; ` +
				`a fixed offset is "Etc/GMT-2" for two hours east of Greenwich`,
		})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return &Schedule{kind: kind, spec: spec, location: location, calendar: newCalendar(spec, reset, z)}, nil
}

func loadZone(name string, load func(string) (*time.Location, error)) (*time.Location, *zone, error) {
	location, err := load(name)
	if err != nil {
		return nil, nil, err
	}
	z, err := newZone(location)
	return location, z, err
}

// withDefaults fills in a calendar spec.
func (s Spec) withDefaults() Spec {
	s.Count = max(s.Count, 1)
	if s.ResetAt == "" {
		s.ResetAt = TimeOfDay(0).String()
	}
	if s.Timezone == "" {
		s.Timezone = "UTC"
	}
	if s.WeekStart == "" {
		s.WeekStart = "monday"
	}
	s.MonthDay = max(s.MonthDay, 1)
	return s
}

// Kind is the form of the windows.
func (s *Schedule) Kind() Kind { return s.kind }

// Spec is what was compiled. For calendar windows the defaults are filled in,
// those of other periods too, so it is to be shown, not compiled again.
func (s *Schedule) Spec() Spec { return s.spec }

// Location is the zone of calendar windows, and UTC for the others.
func (s *Schedule) Location() *time.Location { return s.location }

// Length is the length of every, firstRequest and rolling windows. Calendar
// windows have no single one, and the answer is zero: see Window.Length for
// one of them, and Longest for the most.
func (s *Schedule) Length() time.Duration { return time.Duration(s.lengthNanos) }

// At returns the window that holds t. For rolling and firstRequest windows,
// which an instant alone does not tell, it is the one that ends with t: units
// in it count at t, and a unit exactly one length old has left. It allocates
// nothing. See MinNanos for the range of t.
func (s *Schedule) At(t time.Time) Window {
	return s.AtNanos(saturatedNanos(t)).Window()
}

// AtNanos is At in nanoseconds since the Unix epoch.
func (s *Schedule) AtNanos(nanos int64) Span {
	nanos = min(max(nanos, MinNanos), MaxNanos-1)
	switch s.kind {
	case Calendar:
		start, end := s.calendar.at(floorDiv(nanos, nanosPerSecond))
		return Span{StartNanos: start * nanosPerSecond, EndNanos: end * nanosPerSecond}
	case Every:
		start := floorDiv(nanos-s.phaseNanos, s.lengthNanos)*s.lengthNanos + s.phaseNanos
		return Span{StartNanos: start, EndNanos: start + s.lengthNanos}
	default: // FirstRequest, Rolling
		return Span{StartNanos: nanos + 1 - s.lengthNanos, EndNanos: nanos + 1}
	}
}

// Next returns the window that holds w.End: for calendar and every windows the
// one that follows w, also where w was cut short or prolonged by a vendor's
// reset. A firstRequest window's successor opens with a request, at w.End or
// later: Next is the earliest it can be, and so it is for rolling windows. At
// the end of the range (MaxNanos) calendar and every windows have no next, and
// the last one is returned again.
func (s *Schedule) Next(w Window) Window {
	if s.kind == Rolling || s.kind == FirstRequest {
		return s.Opened(w.End)
	}
	return s.At(w.End)
}

// Opened returns the window that a first request at t opens, [t, t + length),
// which reports show for firstRequest windows. A calendar or every window does
// not open with a request: for these it is At(t).
func (s *Schedule) Opened(t time.Time) Window {
	if s.kind == Calendar || s.kind == Every {
		return s.At(t)
	}
	start := min(max(saturatedNanos(t), MinNanos), MaxNanos-1)
	return Span{StartNanos: start, EndNanos: start + s.lengthNanos}.Window()
}

// Buckets returns the buckets in which the units of a rolling window, or of a
// firstRequest window (which is admitted as a rolling one), are counted. The
// other kinds have none, and ok is false.
func (s *Schedule) Buckets() (b Buckets, ok bool) {
	if s.kind != Rolling && s.kind != FirstRequest {
		return Buckets{}, false
	}
	return Buckets{lengthNanos: s.lengthNanos}, true
}

// Longest returns the longest of the windows from the one that holds from to
// the last that starts before from + horizon; of equally long ones the first.
// Over a coming year that is a month of 31 days, or a day of 25 hours. It
// looks at each window in turn, except for minutes and hours, none of which is
// longer than an uncut one.
func (s *Schedule) Longest(from time.Time, horizon time.Duration) Window {
	longest := s.AtNanos(saturatedNanos(from))
	if s.kind != Calendar {
		return longest.Window()
	}
	until := saturatedNanos(from.Add(horizon))
	length := func(x Span) int64 { return x.EndNanos - x.StartNanos }
	for w := longest; w.EndNanos < min(until, MaxNanos); {
		if s.calendar.truncate && length(longest) == s.calendar.stepSeconds*nanosPerSecond {
			break
		}
		w = s.AtNanos(w.EndNanos)
		if length(w) > length(longest) {
			longest = w
		}
	}
	return longest.Window()
}
