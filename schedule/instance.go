package schedule

import (
	"maps"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/validate"
)

// Instance is one of the things that a job runs for: the job itself, a target of its account, or an item of its parent's inventory.
type Instance struct {
	// Name is unique and the same after every restart: the job, then target and variables in order.
	Name string
	// Job is the job.
	Job *validate.Job
	// Target is the host, empty for an account without targets.
	Target string
	// Vars are the item's variables and its ancestors'; nil for a job without forEach.
	Vars map[string]string

	// nextNanos is when it starts next, and lastNanos when it started last by the schedule; never, before the first.
	nextNanos, lastNanos int64
	running              bool
	// resumeNanos is the start after one that makes up for what was missed, by the phase, and missed how many that one makes up for
	// beside its own; 0 where there is none to make up for.
	resumeNanos, missed int64
	// gone: its item has left the inventory. It is forgotten when its run ends.
	gone bool
	// place in the heap of those that wait for their start; -1 where it is not there.
	place int
	// items are what its last run found, for the job's children.
	items []map[string]string
	// complete are the items with this instance's own variables, which the children share.
	complete []map[string]string
	// listed: it has told its items, none perhaps.
	listed   bool
	parent   *Instance
	children []*Instance
	backoff  *Backoff
}

// nameOf is the name of an instance.
func nameOf(job, target string, vars map[string]string) string {
	parts := []string{job}
	if target != "" {
		parts = append(parts, "target="+target)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		parts = append(parts, name+"="+vars[name])
	}
	return strings.Join(parts, " ")
}

// Running tells whether a run of the instance has started and not ended.
func (i *Instance) Running() bool { return i.running }

// NextNanos is when the instance starts next.
func (i *Instance) NextNanos() int64 { return i.nextNanos }

// waiting is a heap of instances: the earliest start first, of equals the one with the smaller name.
type waiting []*Instance

func (w waiting) Len() int { return len(w) }
func (w waiting) Less(i, j int) bool {
	return w[i].nextNanos < w[j].nextNanos || w[i].nextNanos == w[j].nextNanos && w[i].Name < w[j].Name
}

func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

// Push implements heap.Interface.
func (w *waiting) Push(x any) {
	one := x.(*Instance)
	one.place = len(*w)
	*w = append(*w, one)
}

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	last.place = -1
	*w = (*w)[:len(*w)-1]
	return last
}
