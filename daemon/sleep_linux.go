package daemon

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepClock tells how long the machine has slept. Go's monotonic clock stands still meanwhile, and the wall clock may have been
// set, so neither tells alone; CLOCK_BOOTTIME goes on (clock_gettime(2)).
type sleepClock struct {
	boot  int64
	start time.Time
}

func bootNanos() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}

func newSleepClock() *sleepClock { return &sleepClock{bootNanos(), time.Now()} }

// slept is the sleep since the last call.
func (c *sleepClock) slept() time.Duration {
	boot, now := bootNanos(), time.Now()
	slept := time.Duration(boot-c.boot) - now.Sub(c.start)
	c.boot, c.start = boot, now
	return slept
}
