package plan

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"sort"
	"time"
)

// Phases spreads instances over their intervals, so that they do not all start at once: those with one interval are put evenly
// over it, in the order of a hash of their names. The same names give the same phases, in every process and after every
// restart; an instance starts at phase + n*interval since the Unix epoch.
func Phases(intervals map[string]time.Duration) map[string]time.Duration {
	byInterval := make(map[time.Duration][]string)
	for name, interval := range intervals {
		byInterval[interval] = append(byInterval[interval], name)
	}
	phases := make(map[string]time.Duration, len(intervals))
	for interval, names := range byInterval {
		sort.Slice(names, func(i, j int) bool {
			a, b := hash(names[i]), hash(names[j])
			return a < b || a == b && names[i] < names[j]
		})
		slot := float64(interval) / float64(len(names))
		// Groups with other intervals begin elsewhere in their first slot.
		offset := slot * float64(hash(interval.String())>>11) / (1 << 53)
		for i, name := range names {
			phases[name] = time.Duration(slot*float64(i) + offset)
		}
	}
	return phases
}

// hash is FNV-1a with a finaliser (that of MurmurHash3), without which names that differ in the last letter stay neighbours.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// Start is the beginning of one run of one instance.
type Start struct {
	At       time.Time
	Job      string
	Instance string
}

// instanceName is what the n-th instance of a job is called where its item is not known.
func instanceName(job string, n int64) string { return fmt.Sprintf("%s#%d", job, n+1) }

// Starts lists the runs of a plan that begin in [from, to), in order of time. At most limit are listed; more tells that there
// would be others.
func (p *Plan) Starts(from, to time.Time, limit int) (starts []Start, more bool) {
	intervals := make(map[string]time.Duration)
	jobs := make(map[string]string)
	for _, j := range p.Jobs {
		for n := range j.Instances {
			name := instanceName(j.Job, n)
			intervals[name] = seconds(j.EffectiveSeconds)
			jobs[name] = j.Job
		}
	}
	var next startHeap
	for name, phase := range Phases(intervals) {
		at := from.Add(-remainder(time.Duration(from.UnixNano())-phase, intervals[name]))
		if at.Before(from) {
			at = at.Add(intervals[name])
		}
		next = append(next, Start{At: at, Job: jobs[name], Instance: name})
	}
	heap.Init(&next)
	for len(next) > 0 && next[0].At.Before(to) {
		if len(starts) == limit {
			return starts, true
		}
		starts = append(starts, next[0])
		next[0].At = next[0].At.Add(intervals[next[0].Instance])
		heap.Fix(&next, 0)
	}
	return starts, false
}

// startHeap has the earliest start first; of equals the one with the smaller name.
type startHeap []Start

func (h startHeap) Len() int      { return len(h) }
func (h startHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h startHeap) Less(i, j int) bool {
	return h[i].At.Before(h[j].At) || h[i].At.Equal(h[j].At) && h[i].Instance < h[j].Instance
}
func (h *startHeap) Push(x any) { *h = append(*h, x.(Start)) }
func (h *startHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// remainder of a by b, never negative.
func remainder(a, b time.Duration) time.Duration { return ((a % b) + b) % b }
