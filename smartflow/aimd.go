package smartflow

// AIMD is additive increase, multiplicative decrease: the arithmetic by which a
// rate follows a limit that only refusals reveal (section 5 of the specification).
// It holds no state. Rates are in requests a second.
type AIMD struct {
	// Decrease is the factor of one refusal, between 0 and 1.
	Decrease float64
	// Increase is what one success adds, at least 0.
	Increase float64
	// Floor is the rate that no decrease goes below, so that a burst of refusals
	// slows a client down but never stops it.
	Floor float64
}

// The published constants: https://github.com/meraki/dashboard-api-python, SMARTFLOW.md, section 5.
var (
	orgAIMD    = AIMD{Decrease: 0.7, Increase: 0.2, Floor: rateFloor}
	globalAIMD = AIMD{Decrease: 0.7, Increase: 0.5, Floor: rateFloor}
)

// rateFloor is the lowest rate the setter of section 1 accepts, in requests a second.
const rateFloor = 0.5

// Down returns the rate after one refusal.
func (a AIMD) Down(rate float64) float64 {
	return max(a.Floor, float64(rate*a.Decrease))
}

// Up returns the rate after one success. A rate that is at limit or above is returned
// as it is; any other ends up between the larger of itself and Floor, and limit.
func (a AIMD) Up(rate, limit float64) float64 {
	if rate >= limit {
		return rate
	}
	return max(a.Floor, min(limit, rate+a.Increase))
}

// cappedAt returns a with a floor that is not above the configured rate: a
// refusal must not speed a slow client up.
func (a AIMD) cappedAt(rate float64) AIMD {
	a.Floor = min(a.Floor, rate)
	return a
}
