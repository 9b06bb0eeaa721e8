package smartflow

import "sync"

// shardCount is a power of two that keeps the chance low that two organizations in
// use share a lock.
const shardCount = 64

// sharded is a map of strings under many locks: one busy organization does not hold
// up the others. The zero value is not usable, see newSharded.
type sharded[V any] struct {
	shards [shardCount]shard[V]
}

// shard is one lock and its part of the map, on a cache line of its own.
type shard[V any] struct {
	mu sync.RWMutex // guards m
	m  map[string]V
	_  [32]byte
}

func newSharded[V any]() *sharded[V] {
	s := &sharded[V]{}
	for i := range s.shards {
		s.shards[i].m = make(map[string]V)
	}
	return s
}

// shard picks by the last characters, in which identifiers of one kind differ most.
// The map behind hashes the whole key again, so a bad choice costs only contention.
func (s *sharded[V]) shard(key string) *shard[V] {
	h := uint32(len(key))
	for i := max(0, len(key)-4); i < len(key); i++ {
		h = h*31 + uint32(key[i])
	}
	return &s.shards[h%shardCount]
}

func (s *sharded[V]) get(key string) (V, bool) {
	sh := s.shard(key)
	sh.mu.RLock()
	v, ok := sh.m[key]
	sh.mu.RUnlock()
	return v, ok
}

// getOrCreate returns the value of key, made by create if there is none yet.
func (s *sharded[V]) getOrCreate(key string, create func() V) V {
	if v, ok := s.get(key); ok {
		return v
	}
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v, ok := sh.m[key]; ok {
		return v
	}
	v := create()
	sh.m[key] = v
	return v
}

// swap sets a value and returns the one before.
func (s *sharded[V]) swap(key string, v V) (before V, existed bool) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	before, existed = sh.m[key]
	sh.m[key] = v
	return before, existed
}

// all copies the map, shard by shard: entries that change meanwhile may be old or
// new, but none is missing.
func (s *sharded[V]) all() map[string]V {
	out := make(map[string]V)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		for k, v := range sh.m {
			out[k] = v
		}
		sh.mu.RUnlock()
	}
	return out
}

func (s *sharded[V]) len() int {
	n := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		n += len(sh.m)
		sh.mu.RUnlock()
	}
	return n
}
