package engine

import (
	"sort"
	"time"
)

// timeline is a key's consumption by minute or hour, over the current and the previous window, oldest first: twelve bytes a slot
// with anything in it. What a key takes in the present minute stands in its scope until the minute is over.
type timeline struct {
	slots []slot
	head  uint32
	// from is the number of the first slot of the previous window; what is before it goes.
	from uint32
}

// live are the slots that have not been dropped.
func (t *timeline) live() []slot { return t.slots[t.head:] }

// slot holds the units of one minute or hour, by its number since the Unix epoch.
type slot struct {
	number    uint32
	low, high uint32 // of an int64
}

func (s slot) units() int64 { return int64(uint64(s.high)<<32 | uint64(s.low)) }

func newSlot(number, units int64) slot {
	return slot{number: uint32(number), low: uint32(units), high: uint32(uint64(units) >> 32)}
}

// add counts units in the slot of a number, which is the last one or later.
func (t *timeline) add(number, units int64) {
	if n := len(t.slots); n > int(t.head) && t.slots[n-1].number == uint32(number) {
		t.slots[n-1] = newSlot(number, t.slots[n-1].units()+units)
		return
	}
	if len(t.slots) == cap(t.slots) {
		live := t.live()
		if int(t.head) < len(t.slots)/8+1 {
			grown := make([]slot, len(live), len(live)+len(live)/8+4)
			copy(grown, live)
			t.slots = grown
		} else {
			t.slots = append(t.slots[:0], live...)
		}
		t.head = 0
	}
	t.slots = append(t.slots, newSlot(number, units))
}

// correct changes the units of a slot that is still there.
func (t *timeline) correct(number, by int64) {
	live := t.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].number >= uint32(number) })
	if i < len(live) && live[i].number == uint32(number) {
		live[i] = newSlot(number, live[i].units()+by)
	}
}

// since forgets the slots before a number, now and from now on.
func (t *timeline) since(number int64) {
	t.from = uint32(max(number, 0))
	t.drop()
}

// drop forgets the slots before the previous window.
func (t *timeline) drop() {
	for int(t.head) < len(t.slots) && t.slots[t.head].number < t.from {
		t.head++
	}
}

// Slot is the consumption of a minute, or of an hour of windows longer than a day.
type Slot struct {
	// StartNanos is its beginning, in nanoseconds since the Unix epoch.
	StartNanos int64
	// Units were granted in it.
	Units int64
}

// Timeline is the consumption of a quota's key in the current and the previous window, oldest first; slots without any are left
// out. nil where the key is not known.
func (e *Engine) Timeline(now int64, provider, limitName, key string) []Slot {
	now = e.tick(now)
	var out []Slot
	e.eachQuota(func(s *scope, c *coldScope) {
		if c.limit.name == limitName && c.limit.provider.name == provider && e.key(c) == key {
			e.refresh(now, s, c, c.variant)
			out = e.timelineOf(s, c)
		}
	})
	return out
}

// timelineOf a key joins what is over with the minute that is not.
func (e *Engine) timelineOf(s *scope, c *coldScope) []Slot {
	t, per := &c.quota.timeline, c.limit.slotNanos
	t.drop()
	all := timeline{slots: append([]slot(nil), t.live()...)}
	if s.minute != 0 {
		all.add(e.minute/per, s.minute)
	}
	out := make([]Slot, len(all.slots))
	for i, s := range all.slots {
		out[i] = Slot{StartNanos: int64(s.number) * per, Units: s.units()}
	}
	return out
}

const minuteNanos = int64(time.Minute)

// fold moves what the keys took in the minute that is over into their timelines.
func (e *Engine) fold(now int64) {
	for _, id := range e.active { // so that waits for the timelines' ends pass together
		if slots := e.slab.cold(id).quota.timeline.slots; len(slots) > 0 {
			e.touched += slots[len(slots)-1].number
		}
	}
	for _, id := range e.active {
		s, c := e.slab.hot(id), e.slab.cold(id)
		if s.minute != 0 {
			c.quota.timeline.add(e.minute/c.limit.slotNanos, s.minute)
			s.minute = 0
		}
	}
	e.active = e.active[:0]
	e.minute = now - now%minuteNanos
}
