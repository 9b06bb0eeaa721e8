package engine

// seen is what responses have shown of a key's quota: a cache line.
type seen struct {
	// admitUntil ends an observation that is held for admission.
	admitUntil int64
	// remaining is r_obs, usedThen the count (scope.used) when it was observed, uncertain v: the units whose flight overlapped.
	remaining, usedThen, uncertain int64
	// granted and answered bound the flight of the observed request.
	granted, answered int64
	// external are the units that others had used.
	external int64
	// flightsThen is the number of the first flight noted after the observation, which is not in v: 0 where all before it are
	// forgotten.
	flightsThen uint32
	// held: an observation holds.
	held bool
}

// flightList holds those that an observation must know of, by their grants. They have numbers, from 0 on after each time that there is
// none; numbers may run over, but those of one list are close together.
type flightList struct {
	list []flight
	head int
	// gone is the number of list[head].
	gone uint32
}

// flight is a request of one key, in flight or not long landed.
type flight struct {
	granted int64
	// settled is the instant of the response, never while in flight.
	settled int64
	// units are the reserved ones in flight, afterwards those that it really took.
	units int64
	// shown is what its own answer showed to remain, unknown where it showed nothing that counts.
	shown  int64
	record uint32
}

const unknown = -1

// most empty lists of flights that are kept for the next key that needs one.
const mostSpareFlights = 1024

// depart notes a request that was granted. A key has a list while requests are under way, and then another key gets it: keys are
// many, and few of them are in flight at once.
func (e *Engine) depart(q *quota, now, units int64, record uint32) {
	o := q.flights
	if o == nil {
		if n := len(e.spareFlights); n > 0 {
			o, e.spareFlights = e.spareFlights[n-1], e.spareFlights[:n-1]
		} else {
			o = new(flightList)
		}
		q.flights = o
	}
	if len(o.list) == cap(o.list) && o.head > len(o.list)/2 {
		o.list = append(o.list[:0], o.list[o.head:]...)
		o.head = 0
	}
	o.list = append(o.list, flight{granted: now, settled: never, units: units, shown: unknown, record: record})
}

// find is the flight of a record that is in flight or has just landed; nil where it was never noted. A record can stand several
// times at one instant, where flights took no time; the last is meant.
func (o *flightList) find(granted int64, record uint32) (f *flight, number uint32) {
	if o == nil {
		return nil, 0
	}
	list := o.list[o.head:]
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := (lo + hi) / 2; list[mid].granted <= granted {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0 && list[i].granted == granted; i-- {
		if list[i].record == record {
			return &list[i], o.gone + uint32(i)
		}
	}
	return nil, 0
}

// next is the number that the next flight gets.
func (o *flightList) next() uint32 { return o.gone + uint32(len(o.list)-o.head) }

// prune forgets the oldest flights that no request in flight overlaps: those that landed before the oldest of these left.
func (e *Engine) prune(q *quota) {
	o := q.flights
	if o == nil {
		return
	}
	oldest := int64(never)
	for i := o.head; i < len(o.list); i++ {
		if o.list[i].settled == never {
			oldest = o.list[i].granted
			break
		}
	}
	for o.head < len(o.list) && o.list[o.head].settled <= oldest && o.list[o.head].settled != never {
		o.head++
		o.gone++
	}
	if o.head < len(o.list) {
		return
	}
	q.flights = nil
	if q.seen != nil {
		q.seen.flightsThen = 0
	}
	if len(e.spareFlights) < mostSpareFlights && cap(o.list) <= mostSpareFlights {
		*o = flightList{list: o.list[:0]}
		e.spareFlights = append(e.spareFlights, o)
	}
}

// overlap is v for an observation by a flight that landed now: the units of the others that were granted before its answer and
// landed after its grant, if at all. Where leaveOut is set, those whose own answers show more than remaining are left out: the
// vendor had counted them before.
func (o *flightList) overlap(own *flight, now, remaining int64, leaveOut bool) int64 {
	v := int64(0)
	for i := o.head; i < len(o.list); i++ {
		f := &o.list[i]
		if f == own || f.settled <= own.granted || f.granted > now {
			continue
		}
		if leaveOut && f.shown > remaining {
			continue
		}
		v += f.units
	}
	return v
}

// show notes what a flight's own answer showed, and takes its units out of v where they are in it and the vendor turns out to
// have counted them. o is nil before the first observation.
func (o *seen) show(own *flight, number uint32, reserved, shown int64) {
	own.shown = shown
	if o == nil || !o.held || int32(number-o.flightsThen) >= 0 || own.settled < o.answered || own.settled <= o.granted || shown <= o.remaining {
		return
	}
	if own.settled == o.answered { // its answer had arrived when v was fixed, though it was not read yet
		o.uncertain -= own.units
		return
	}
	o.uncertain -= reserved
}

// replaces tells whether an observation replaces the one that is held: not where it was granted before and shows more, since
// answers overtake each other, and of several at one instant the smallest wins.
func (o *seen) replaces(granted, now, remaining int64) bool {
	if o == nil || !o.held || remaining <= o.remaining {
		return true
	}
	return granted > o.granted && now != o.answered
}
