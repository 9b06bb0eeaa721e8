package book

import (
	"cmp"
	"slices"
)

// place is where an event stands in an order: by a time or 0, then by its admission.
type place struct {
	nanos int64
	seq   int64
	event Key
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.nanos, b.nanos), cmp.Compare(a.seq, b.seq))
}

// ordered is a sorted set of places for sets that grow at the end and shrink at the front, which is how events wait. Both are
// quick then; elsewhere a removal leaves a mark, and the marks are swept once they are the greater part.
type ordered struct {
	// places[head:] is sorted; those in dead are not members.
	places []place
	head   int
	dead   map[place]bool
}

func (o *ordered) add(p place) {
	if o.dead[p] {
		delete(o.dead, p)
		return
	}
	if n := len(o.places); n == o.head || comparePlaces(o.places[n-1], p) < 0 {
		o.places = append(o.places, p)
		return
	}
	i, found := slices.BinarySearchFunc(o.places[o.head:], p, comparePlaces)
	if !found {
		o.places = slices.Insert(o.places, o.head+i, p)
	}
}

func (o *ordered) remove(p place) {
	i, found := slices.BinarySearchFunc(o.places[o.head:], p, comparePlaces)
	if !found || o.dead[p] {
		return
	}
	if o.dead == nil {
		o.dead = make(map[place]bool)
	}
	if i > 0 {
		o.dead[p] = true
	} else {
		o.head++
	}
	for o.head < len(o.places) && o.dead[o.places[o.head]] {
		delete(o.dead, o.places[o.head])
		o.head++
	}
	if o.head+len(o.dead) > len(o.places)/2 {
		o.sweep()
	}
}

func (o *ordered) sweep() {
	kept := make([]place, 0, len(o.places)-o.head-len(o.dead))
	for _, p := range o.places[o.head:] {
		if !o.dead[p] {
			kept = append(kept, p)
		}
	}
	o.places, o.head, o.dead = kept, 0, nil
}

// after yields the members behind p, also while members are added and removed.
func (o *ordered) after(p place, yield func(place) bool) bool {
	for {
		i, found := slices.BinarySearchFunc(o.places[o.head:], p, comparePlaces)
		if found {
			i++
		}
		i += o.head
		for i < len(o.places) && o.dead[o.places[i]] {
			i++
		}
		if i == len(o.places) {
			return true
		}
		p = o.places[i]
		if !yield(p) {
			return false
		}
	}
}
