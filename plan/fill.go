package plan

import "container/heap"

// The second pass is progressive filling: for one class after the other, a common level rises from 0 to 1; each job follows it
// from its lo to its hi; when a key is full (at once, if it is so from the start), its jobs of the class stop, and the others go
// on. The result is max-min fair in the
// class (Bertsekas and Gallager, Data Networks, section 6.5). The level is not raised in steps but from event to event.

// filling is the state of the second pass.
type filling struct {
	index  map[*keyLoad]int
	keys   []fillKey
	events eventHeap
}

// fillKey is a key while a class is filled. Its sum at level t is sum + slope*(t-at).
type fillKey struct {
	load  *keyLoad
	sum   float64
	slope float64
	at    float64
	stamp int // of the saturation that is in the heap; older ones are void
	full  bool
}

// event is something that happens at a level: a job starts or ends to follow it, or a key is full.
type event struct {
	level float64
	job   *fillJob // nil for a key's saturation
	start bool
	key   int
	stamp int
}

// fillJob is a job of the class that is being filled.
type fillJob struct {
	load   *jobLoad
	active bool
	frozen bool
}

type eventHeap []event

func (h eventHeap) Len() int           { return len(h) }
func (h eventHeap) Less(i, j int) bool { return h[i].level < h[j].level }
func (h eventHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)        { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// flat is the part of a budget below which a slope is what adding up in binary numbers left of none.
const flat = 1e-12

func (p *problem) secondPass() {
	f := &filling{index: make(map[*keyLoad]int, len(p.keys))}
	for _, k := range p.keys {
		if k.stretches() {
			f.index[k] = len(f.keys)
			f.keys = append(f.keys, fillKey{load: k})
		}
	}
	byClass := make([][]*fillJob, len(classes))
	for _, j := range p.jobs {
		byClass[j.class] = append(byClass[j.class], &fillJob{load: j})
	}
	for c := 1; c < len(classes); c++ {
		f.class(byClass[c], class(c))
	}
}

// class fills one class, all other jobs fixed.
func (f *filling) class(jobs []*fillJob, c class) {
	members := f.reset(c)
	byLoad := make(map[*jobLoad]*fillJob, len(jobs))
	for _, j := range jobs {
		byLoad[j.load] = j
		if j.load.lo < j.load.hi {
			f.events = append(f.events, event{level: j.load.lo, job: j, start: true})
		}
	}
	heap.Init(&f.events)
	for len(f.events) > 0 {
		e := heap.Pop(&f.events).(event)
		switch {
		case e.job == nil:
			if k := &f.keys[e.key]; !k.full && k.stamp == e.stamp {
				f.saturate(e.key, members, byLoad, e.level)
			}
		case e.start && !e.job.frozen:
			e.job.active = true
			f.tilt(e.job.load, 1, e.level)
			heap.Push(&f.events, event{level: e.job.load.hi, job: e.job})
		case !e.start && e.job.active:
			f.stop(e.job, e.job.load.hi, e.level)
			e.job.load.limitedBy = e.job.load.floor
		}
	}
}

// reset sums up every key at the present levels, and lists its jobs of the class.
func (f *filling) reset(c class) [][]*jobLoad {
	f.events = f.events[:0]
	members := make([][]*jobLoad, len(f.keys))
	for i := range f.keys {
		k := &f.keys[i]
		*k = fillKey{load: k.load}
		for _, m := range k.load.members {
			k.sum += m.demand * m.job.x
			if m.job.class == c {
				members[i] = append(members[i], m.job)
			}
		}
	}
	return members
}

// tilt adds a job's demand to the slope of its keys (sign 1), or takes it away (sign -1), from a level on.
func (f *filling) tilt(j *jobLoad, sign, level float64) {
	for _, u := range j.uses {
		i, ok := f.index[u.key]
		if !ok || u.perRun == 0 {
			continue
		}
		k := &f.keys[i]
		k.sum += k.slope * (level - k.at)
		k.at = level
		k.slope += sign * u.demand
		k.stamp++
		if room := k.load.figures.units - k.sum; k.slope > k.load.figures.units*flat && !k.full {
			heap.Push(&f.events, event{level: level + max(0, room)/k.slope, key: i, stamp: k.stamp})
		}
	}
}

// stop ends a job's rise at its final level x.
func (f *filling) stop(j *fillJob, x, level float64) {
	j.load.x = min(max(x, j.load.lo), j.load.hi)
	if j.active {
		j.active = false
		f.tilt(j.load, -1, level)
	}
	j.frozen = true
}

// saturate stops the class's jobs on a full key.
func (f *filling) saturate(i int, members [][]*jobLoad, byLoad map[*jobLoad]*fillJob, level float64) {
	f.keys[i].full = true
	for _, load := range members[i] {
		j := byLoad[load]
		if j.frozen {
			continue
		}
		x := load.lo
		if j.active {
			x = level
		}
		f.stop(j, x, level)
		if load.x < load.hi {
			load.limitedBy = f.keys[i].load
		}
	}
}
