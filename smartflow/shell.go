package smartflow

import (
	"context"
	"math/rand/v2"
	"time"
)

// This file is the shell of the package: the only one that reads the clock of the
// machine, sets timers and draws random numbers.

// systemClock is the time of this machine.
type systemClock struct{ start time.Time }

func newSystemClock() systemClock { return systemClock{start: time.Now()} }

func (c systemClock) Monotonic() time.Duration { return time.Since(c.start) }

func (systemClock) Wall() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeBound is how long Close waits for the last write of the cache.
const closeBound = 10 * time.Second

// bounded returns a context that ends after closeBound.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), closeBound)
}

// jitter is a random number in [0, 1), so that clients that were refused together
// do not come back together.
func jitter() float64 { return rand.Float64() }
