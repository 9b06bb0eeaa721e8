package engine

// seen is what responses have shown of a key's quota, and the flights that an observation must know of.
type seen struct {
	// held: an observation holds. For admission it does so before admitUntil.
	held       bool
	admitUntil int64
	// remaining is r_obs, usedThen the count (scope.used) when it was observed, uncertain v: the units whose flight overlapped.
	remaining, usedThen, uncertain int64
	// granted and answered bound the flight of the observed request.
	granted, answered int64
	// flightsThen is the number of flights noted before the observation: later ones are not in v.
	flightsThen uint64
	// external are the units that others had used.
	external int64

	flights []flight
	head    int
	// gone is the number of flights that were noted before flights[head].
	gone uint64
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

// depart notes a request that was granted.
func (o *seen) depart(now, units int64, record uint32) {
	if len(o.flights) == cap(o.flights) && o.head > len(o.flights)/2 {
		o.flights = append(o.flights[:0], o.flights[o.head:]...)
		o.head = 0
	}
	o.flights = append(o.flights, flight{granted: now, settled: never, units: units, shown: unknown, record: record})
}

// find is the flight of a record that is in flight or has just landed; nil where it was never noted. A record can stand several
// times at one instant, where flights took no time; the last is meant.
func (o *seen) find(granted int64, record uint32) (f *flight, number uint64) {
	list := o.flights[o.head:]
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
			return &list[i], o.gone + uint64(i)
		}
	}
	return nil, 0
}

// prune forgets the oldest flights that no request in flight overlaps: those that landed before the oldest of these left.
func (o *seen) prune() {
	oldest := int64(never)
	for i := o.head; i < len(o.flights); i++ {
		if o.flights[i].settled == never {
			oldest = o.flights[i].granted
			break
		}
	}
	for o.head < len(o.flights) && o.flights[o.head].settled <= oldest && o.flights[o.head].settled != never {
		o.head++
		o.gone++
	}
	if o.head == len(o.flights) {
		o.flights, o.head = o.flights[:0], 0
	}
}

// overlap is v for an observation by a flight that landed now: the units of the others that were granted before its answer and
// landed after its grant, if at all. Where leaveOut is set, those whose own answers show more than remaining are left out: the
// vendor had counted them before.
func (o *seen) overlap(own *flight, now, remaining int64, leaveOut bool) int64 {
	v := int64(0)
	for i := o.head; i < len(o.flights); i++ {
		f := &o.flights[i]
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
// have counted them.
func (o *seen) show(own *flight, number uint64, reserved, shown int64) {
	own.shown = shown
	if !o.held || number >= o.flightsThen || own.settled < o.answered || own.settled <= o.granted || shown <= o.remaining {
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
	if !o.held || remaining <= o.remaining {
		return true
	}
	return granted > o.granted && now != o.answered
}
