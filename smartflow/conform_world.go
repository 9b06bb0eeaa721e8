package smartflow

import (
	"context"
	"io/fs"
	"math"
	"time"
)

// This file is the world that Conform runs a limiter in: a clock and a file that do
// only what they are told to.

// steppedClock is the clock of Conform: it stands still unless it is set, or slept
// on in the mode in which a sleep moves it.
type steppedClock struct {
	now     int64     // nanoseconds
	wall    time.Time // the time of day when now was 0
	advance bool
}

func (c *steppedClock) Monotonic() time.Duration { return time.Duration(c.now) }

func (c *steppedClock) Wall() time.Time { return c.wall.Add(time.Duration(c.now)).UTC() }

// tick is the grain of recorded times.
const tick = int64(time.Second) / 512

// Sleep overshoots to the next tick, as a real sleep does.
func (c *steppedClock) Sleep(ctx context.Context, d time.Duration) error {
	if c.advance {
		ticks := int64(math.Ceil(d.Seconds()*512 - 1e-6))
		// A bucket that is nearly stalled must not turn the clock over.
		latest := nanoseconds(longestSeconds)
		c.now += min(max(0, ticks), max(0, latest-c.now)/tick) * tick
	}
	return ctx.Err()
}

// cacheFile is the file of a sequence and what else may happen to it.
type cacheFile interface {
	Cache
	write(text []byte) error
	remove() error
	// setFault makes Store fail, and Load find nothing, while it is on.
	setFault(on bool) error
}

// memoryFile is the cacheFile of Conform.
type memoryFile struct {
	text   []byte
	exists bool
	fault  bool // writes fail, and nothing is there
}

func (f *memoryFile) Load() ([]byte, error) {
	if !f.exists || f.fault {
		return nil, fs.ErrNotExist
	}
	return f.text, nil
}

func (f *memoryFile) Store(text []byte) error {
	if f.fault {
		return fs.ErrExist // a plain file stands where the folder should be
	}
	f.text, f.exists = text, true
	return nil
}

func (f *memoryFile) write(text []byte) error {
	f.text, f.exists = text, true
	return nil
}

func (f *memoryFile) remove() error {
	f.text, f.exists = nil, false
	return nil
}

func (f *memoryFile) setFault(on bool) error {
	f.fault = on
	return nil
}
