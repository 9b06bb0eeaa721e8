package window

import "fmt"

// TimeOfDay is a wall-clock time in whole minutes after midnight, 0 to 1439.
// In a zone with daylight saving it is what the clock on the wall shows, not
// the time that has passed since midnight.
type TimeOfDay int16

const (
	minutesPerHour = 60
	minutesPerDay  = 24 * minutesPerHour
)

// ParseTimeOfDay reads "HH:MM", two digits each, 00:00 to 23:59. Everything
// else is a *SpecError without a field: "24:00", because a day would then have
// two names for one boundary; "600", which is what an unquoted 10:00 becomes
// in YAML 1.1; "7:00" and "07:00:00".
func ParseTimeOfDay(s string) (TimeOfDay, error) {
	if len(s) != len("HH:MM") || s[2] != ':' {
		return 0, timeOfDayError(s)
	}
	hour, okHour := twoDigits(s[0], s[1])
	minute, okMinute := twoDigits(s[3], s[4])
	if !okHour || !okMinute || hour >= 24 || minute >= minutesPerHour {
		return 0, timeOfDayError(s)
	}
	return TimeOfDay(hour*minutesPerHour + minute), nil
}

// String is the time as ParseTimeOfDay reads it.
func (t TimeOfDay) String() string {
	return fmt.Sprintf("%02d:%02d", int(t)/minutesPerHour, int(t)%minutesPerHour)
}

func timeOfDayError(s string) error {
	reason := `is not a time of day: write HH:MM in quotes, from "00:00" to "23:59"`
	if s == "24:00" {
		reason += ` (midnight is "00:00")`
	}
	return &SpecError{Value: s, Reason: reason}
}

func twoDigits(tens, ones byte) (int, bool) {
	if tens < '0' || tens > '9' || ones < '0' || ones > '9' {
		return 0, false
	}
	return int(tens-'0')*10 + int(ones-'0'), true
}
