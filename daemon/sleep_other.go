//go:build !linux

package daemon

import "time"

// sleepClock is for systems whose monotonic clock goes on while the machine sleeps, or that do not tell.
type sleepClock struct{}

func newSleepClock() *sleepClock           { return &sleepClock{} }
func (c *sleepClock) slept() time.Duration { return 0 }
