package simulate

import (
	"context"
	"time"
)

// realTime is the clock of a server whose options name no other: the wall clock at its start plus what has passed since, and real
// waiting. It is the only place of this package that waits.
func realTime() (now func() time.Time, sleep func(ctx context.Context, d time.Duration) error) {
	start := time.Now()
	now = func() time.Time { return start.Add(time.Since(start)) }
	sleep = func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return now, sleep
}
