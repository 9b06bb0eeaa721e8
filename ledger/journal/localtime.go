package journal

import (
	"fmt"
	"time"
)

// wallClock turns wall times without an offset into instants, in one zone and for the rows of one file, in their order.
//
// An hour that occurs twice is told apart by that order: times that go back by more than jitter have entered the second
// pass. Times that stay equal have not, or every busy second of a web server's log would be taken for the turn. A file that
// runs backwards (newest first) is read the same way, mirrored. A wall time that does not exist moves forward by the length
// of the gap, as in package window.
type wallClock struct {
	zone *time.Location
	warn func(format string, args ...any)

	last       int64 // the previous naive row's instant; meaningful once any > 0
	any        int64
	ups, downs int64 // steps forward and backward between unambiguous rows
}

// jitter is how far back a row may lie behind its predecessor for other reasons than a clock put back: servers log a request
// when it ends, with the time at which it began.
const jitter = int64(30 * time.Second)

// instant resolves a wall time, given as if it were in UTC.
func (c *wallClock) instant(wall int64) int64 {
	if c.zone == nil || c.zone == time.UTC {
		return wall
	}
	before, after := c.offset(wall-26*int64(time.Hour)), c.offset(wall+26*int64(time.Hour))
	first, second := wall-max(before, after), wall-min(before, after)
	firstReal := c.offset(first) == max(before, after)
	secondReal := c.offset(second) == min(before, after)
	at := first
	switch {
	case firstReal && secondReal && first != second:
		at = c.choose(first, second)
		c.warn("local times in %s that occur twice were told apart by the order of the rows, as far as it tells", c.zone)
	case firstReal:
		c.step(at)
	case secondReal:
		at = second
		c.step(at)
	default:
		at = wall - before
		c.warn("local times that do not exist in %s (the clock jumps over them) were moved forward by the length of the gap", c.zone)
	}
	c.last = at
	c.any++
	return at
}

// choose picks the pass of an hour that occurs twice.
func (c *wallClock) choose(first, second int64) int64 {
	if c.any == 0 {
		return first
	}
	if c.downs > c.ups {
		if second <= c.last+jitter {
			return second
		}
		return first
	}
	if first >= c.last-jitter {
		return first
	}
	return second
}

// step notes in which direction the file runs.
func (c *wallClock) step(at int64) {
	switch {
	case c.any == 0:
	case at > c.last:
		c.ups++
	case at < c.last:
		c.downs++
	}
}

func (c *wallClock) offset(at int64) int64 {
	_, seconds := time.Unix(0, at).In(c.zone).Zone()
	return int64(seconds) * int64(time.Second)
}

// warnings collects what was odd but not bad, each text once, with a count.
type warnings struct {
	order  []string
	counts map[string]int64
}

func (w *warnings) add(file string, format string, args ...any) {
	text := file + ": " + fmt.Sprintf(format, args...)
	if w.counts == nil {
		w.counts = map[string]int64{}
	}
	if w.counts[text] == 0 {
		w.order = append(w.order, text)
	}
	w.counts[text]++
}

// texts are the first ten warnings.
func (w *warnings) texts() []string {
	var out []string
	for _, text := range w.order[:min(len(w.order), shownBad)] {
		if n := w.counts[text]; n > 1 {
			text = fmt.Sprintf("%s (%d rows)", text, n)
		}
		out = append(out, text)
	}
	return out
}
