package daemon

import (
	"context"
	"time"

	"github.com/tapyr/tapyr/schedule"
)

// clock is the wall clock, in nanoseconds since the Unix epoch. Tests set it.
type clock func() int64

func wallClock() int64 { return time.Now().UnixNano() }

const (
	// tolerance is by how much the gate's clock and the wall clock may differ. Clocks are slewed over less, and a step of less moves no
	// window that matters.
	tolerance = time.Second
	// rhythm is up to which step starts stay where they are.
	rhythm = 10 * time.Second
)

// followClock notices that the wall clock is not where the gate's is: the machine has slept, during which the gate's stood still
// (clock_gettime(2), CLOCK_MONOTONIC), or somebody has set the clock, as NTP does a moment after a machine without a battery has
// started. Windows end by the vendor's clock, which is the wall clock, so the gate follows, in both directions. What is counted
// stays: a window that has begun already does not begin again when the clock is set back over its beginning. It is for the loop's
// goroutine.
func (d *Daemon) followClock(ctx context.Context) {
	step := time.Duration(d.wall() - d.now())
	if step.Abs() <= tolerance {
		return
	}
	d.log.Info("the machine slept, or its clock was set", "step", step.Round(time.Millisecond).String())
	d.mu.Lock()
	next := *d.world
	d.mu.Unlock()
	if step.Abs() > rhythm {
		// Starts were set by the old clock. Those of the new one follow from when the instances started last: what was missed is made
		// up for once, and nobody waits until a clock that was set back is where it was.
		next.schedule = schedule.New(next.kept)
		d.mu.Lock()
		for instance, at := range d.started {
			d.started[instance] = min(at, d.wall())
		}
		d.mu.Unlock()
	}
	d.restart(ctx, &next, "clock")
}
