package smartflow

import (
	"hash/maphash"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
)

// table is a map of strings that is read without a lock: every request looks two or
// three things up, while new ones are learned now and then. Entries are replaced but
// never removed, so a reader needs no more than the slots as of some moment. The zero
// value is not usable, see newTable.
type table[V any] struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]slot[V]]

	mu    sync.Mutex // held while anything is changed
	count int        // entries; at most half of the slots
}

// slot is a place for an entry; nil = free. Entries are found by linear probing.
type slot[V any] struct {
	entry atomic.Pointer[entry[V]]
}

type entry[V any] struct {
	hash  uint64
	key   string
	value atomic.Pointer[V] // never nil
}

// firstSlots is a power of two, as the number of slots always is.
const firstSlots = 64

func newTable[V any]() *table[V] {
	t := &table[V]{seed: maphash.MakeSeed()}
	slots := make([]slot[V], firstSlots)
	t.slots.Store(&slots)
	return t
}

// get returns the value of key, nil if there is none.
func (t *table[V]) get(key string) *V {
	hash := maphash.String(t.seed, key)
	if _, e := find(*t.slots.Load(), hash, key); e != nil {
		return e.value.Load()
	}
	return nil
}

// find returns the entry of key, or the slot for a new one.
func find[V any](slots []slot[V], hash uint64, key string) (*slot[V], *entry[V]) {
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := slots[i].entry.Load()
		if e == nil || (e.hash == hash && e.key == key) {
			return &slots[i], e
		}
	}
}

// getOrCreate returns the value of key, made by create if there is none yet.
func (t *table[V]) getOrCreate(key string, create func() *V) *V {
	if v := t.get(key); v != nil {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := maphash.String(t.seed, key)
	if _, e := find(*t.slots.Load(), hash, key); e != nil {
		return e.value.Load()
	}
	v := create()
	t.add(hash, key, v)
	return v
}

// swap sets a value and returns the one before, nil if there was none.
func (t *table[V]) swap(key string, v *V) (before *V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := maphash.String(t.seed, key)
	if _, e := find(*t.slots.Load(), hash, key); e != nil {
		return e.value.Swap(v)
	}
	t.add(hash, key, v)
	return nil
}

// add puts in what is not there yet. It requires mu.
func (t *table[V]) add(hash uint64, key string, v *V) {
	slots := *t.slots.Load()
	if t.count++; 2*t.count > len(slots) {
		larger := make([]slot[V], 2*len(slots))
		for i := range slots {
			if e := slots[i].entry.Load(); e != nil {
				to, _ := find(larger, e.hash, e.key)
				to.entry.Store(e)
			}
		}
		slots = larger
		t.slots.Store(&larger)
	}
	e := &entry[V]{hash: hash, key: key}
	e.value.Store(v)
	to, _ := find(slots, hash, key)
	to.entry.Store(e)
}

// all lists what is there. Entries that change meanwhile may be old or new, but none is
// missing.
func (t *table[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		slots := *t.slots.Load()
		for i := range slots {
			if e := slots[i].entry.Load(); e != nil && !yield(e.key, e.value.Load()) {
				return
			}
		}
	}
}

func (t *table[V]) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// orgEntry is an organization that has been heard of. There is one for each identifier, so
// that two mappings are equal if their pointers are.
type orgEntry struct {
	id     string
	bucket atomic.Pointer[bucket] // nil = it has none yet
}

// orgOf returns the organization with an identifier; a new one has no bucket.
func (l *Limiter) orgOf(id string) *orgEntry {
	if o := l.orgs.get(id); o != nil {
		return o
	}
	// A copy, because the identifier may be part of a URL that need not be kept.
	id = strings.Clone(id)
	return l.orgs.getOrCreate(id, func() *orgEntry { return &orgEntry{id: id} })
}

// bucketOf returns the bucket of an organization; a new one is full as of now.
func (l *Limiter) bucketOf(o *orgEntry, now int64) *bucket {
	if b := o.bucket.Load(); b != nil {
		return b
	}
	b := newBucket(l.orgRate, l.orgCapacity, now)
	if o.bucket.CompareAndSwap(nil, b) {
		return b
	}
	return o.bucket.Load()
}

// buckets lists the organizations that have a bucket.
func (l *Limiter) buckets() map[string]*bucket {
	out := make(map[string]*bucket)
	for id, o := range l.orgs.all() {
		if b := o.bucket.Load(); b != nil {
			out[id] = b
		}
	}
	return out
}

// pairsOf is a table of mappings as a map.
func pairsOf(t *table[orgEntry]) map[string]string {
	out := make(map[string]string)
	for id, o := range t.all() {
		out[id] = o.id
	}
	return out
}
