package engine

import "math"

// cell holds units of one bucket of a rolling window: twelve bytes, so that a month of minutes is half a megabyte. It leaves when
// the window's length has passed since its last unit.
type cell struct {
	lastLow, lastHigh uint32
	count             uint32
}

func newCell(last, units int64) cell {
	return cell{lastLow: uint32(last), lastHigh: uint32(uint64(last) >> 32), count: uint32(units)}
}

func (c cell) last() int64  { return int64(uint64(c.lastHigh)<<32 | uint64(c.lastLow)) }
func (c cell) units() int64 { return int64(c.count) }

// cells are the units of a rolling window that have arrived, in order of time. Adding is at the end, leaving at the front.
type cells struct {
	list []cell
	head int
	// bucketEnd is the first instant after the last cell's bucket: before it, units may join that cell.
	bucketEnd int64
}

func (c *cells) len() int {
	if c == nil {
		return 0
	}
	return len(c.list) - c.head
}

func (c *cells) at(i int) cell { return c.list[c.head+i] }

// nextLeave is the instant at which the oldest cell leaves.
func (c *cells) nextLeave(length int64) int64 {
	if c.len() == 0 {
		return never
	}
	return saturatedAdd(c.at(0).last(), length)
}

// add puts units into the bucket of now, which ends at bucketEnd. More than a cell can hold stand in several.
func (c *cells) add(now, units, bucketEnd int64) {
	if last := len(c.list) - 1; c.len() > 0 && now < c.bucketEnd && c.list[last].units()+units <= math.MaxUint32 {
		c.list[last] = newCell(now, c.list[last].units()+units)
		return
	}
	for units > 0 {
		part := min(units, math.MaxUint32)
		c.push(newCell(now, part))
		units -= part
	}
	c.bucketEnd = bucketEnd
}

// push appends a cell; room is made by moving what is left to the front, else by growing an eighth.
func (c *cells) push(one cell) {
	if len(c.list) == cap(c.list) {
		live := c.list[c.head:]
		if c.head < len(c.list)/8+1 {
			grown := make([]cell, len(live), len(live)+len(live)/8+4)
			copy(grown, live)
			c.list = grown
		} else {
			c.list = append(c.list[:0], live...)
		}
		c.head = 0
	}
	c.list = append(c.list, one)
}

// leave takes the units out whose time is over.
func (e *Engine) leave(now int64, s *scope, c *coldScope) {
	cs := c.quota.cells
	for cs.len() > 0 && saturatedAdd(cs.at(0).last(), c.limit.length) <= now {
		s.used -= cs.at(0).units()
		cs.head++
	}
	c.quota.timeline.since((now - 2*c.limit.length) / c.limit.slotNanos)
}

// arrive puts units that are no longer in flight into the bucket of now. A cell that grows also leaves later.
func (e *Engine) arrive(now, units int64, c *coldScope) {
	if units <= 0 {
		return
	}
	q := c.quota
	if q.cells == nil {
		q.cells = new(cells)
	}
	var end int64
	switch {
	case c.limit.exact:
		end = saturatedAdd(now, 1)
	case now < q.cells.bucketEnd:
		end = q.cells.bucketEnd
	default:
		end = c.limit.buckets.StartNanos(c.limit.buckets.Number(now) + 1)
	}
	q.cells.add(now, units, end)
}
