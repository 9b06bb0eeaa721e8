package simulate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// found are the items that a run of an instance lists: as many as the job's fan-out says, spread over its instances, else as many as
// was estimated for each. They are the same in every run.
func (s *instanceState) found(w *world, i *schedule.Instance) []map[string]string {
	if s.items != nil {
		return s.items
	}
	n := itemsOf(i.Job)
	if total, given := w.Fanout[i.Job.Name]; given {
		list := w.schedule.Instances(i.Job.Name)
		at, of := int64(slices.Index(list, i)), int64(len(list))
		n = total*(at+1)/of - total*at/of
	}
	s.items = make([]map[string]string, n)
	for k := range s.items {
		item := make(map[string]string)
		for name := range i.Job.Spec.Inventory.Vars {
			// Names are unique over all instances, as a vendor's ids are.
			item[name] = fmt.Sprintf("%s-%d", parentName(i), k+1)
		}
		s.items[k] = item
	}
	return s.items
}

// parentName tells the items of one instance from those of another.
func parentName(i *schedule.Instance) string {
	name := i.Target
	for _, variable := range slices.Sorted(maps.Keys(i.Vars)) {
		if value := i.Vars[variable]; len(value) >= len(name) { // of nested inventories the names grow with the depth
			name = value
		}
	}
	if name == "" {
		return i.Job.Name
	}
	return name
}

// itemsOf is the number of items that a run of one instance of a job is estimated to list.
func itemsOf(j *validate.Job) int64 {
	if e := j.Spec.Estimate; e != nil && e.Items != nil {
		return *e.Items
	}
	return 1
}

// externalClient is somebody else who uses the same credentials: requests at random instants, of random jobs, that care for no limit.
type externalClient struct {
	w   *world
	rng *rand.Rand
	// requests and refused count what it sent.
	requests, refused int64
}

func newExternalClient(w *world) *externalClient {
	x := &externalClient{w: w, rng: rand.New(rand.NewPCG(w.Seed, forExternal))}
	w.later(w.now+x.pause(), x.arrive)
	return x
}

// pause is the time to the next request: those of many users come independently of each other.
func (x *externalClient) pause() int64 {
	return max(1, int64(x.rng.ExpFloat64()/x.w.Faults.External*1e9))
}

// arrive sends one request like one of our own instances, and says when the next one comes.
func (x *externalClient) arrive(now int64) {
	if now >= x.w.end {
		return
	}
	x.w.later(now+x.pause(), x.arrive)
	j := x.w.Config.Jobs[x.rng.IntN(len(x.w.Config.Jobs))]
	list := x.w.schedule.Instances(j.Name)
	if len(list) == 0 {
		return
	}
	state := x.w.states[list[x.rng.IntN(len(list))]]
	if state == nil {
		return // it knows no more of the inventory than we do
	}
	x.requests++
	a := x.w.vendor.arrive(now, state.visitor, false, nil)
	if a.limited {
		x.refused++
	}
	x.w.later(now+int64(a.latency), func(now int64) { x.w.vendor.finish(now, &a) })
}
