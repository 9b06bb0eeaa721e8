package daemon

import (
	"math"
	"runtime/debug"
)

// ballastBytes is how much garbage there may be beside as much as there is of what lives.
const ballastBytes = 32 << 20

// ballast is memory that nobody writes to, so that it takes none of the machine's. A daemon's own data are a few megabytes, and the
// collector, which runs when as much garbage has come about as there is data, would run some twenty times a second while many answers
// come in. Where somebody has set a limit (GOMEMLIMIT), there is none: it would count.
func ballast() []byte {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	return make([]byte, ballastBytes)
}
