package learn

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tapyr/tapyr/smartflow"
)

// shelf is where the identifiers of one kind and place stand that lead to one variable.
type shelf struct {
	provider, variable, kind string
	place                    Place
}

// entry is what an identifier stands for, and when that was last confirmed.
type entry struct {
	value   string
	atNanos int64
}

// unsaved is what a file does not hold yet.
type unsaved struct {
	news    int64 // identifiers
	changed bool  // anything at all
	since   int64 // when the first of it came; meaningless without changed
	// again is when to try again after a failure.
	again int64
}

// memory is what is known, of all providers.
type memory struct {
	// version counts what was learned anew.
	version atomic.Uint64

	mu      sync.RWMutex // guards what follows
	shelves map[shelf]map[string]entry
	// size is the number of entries; full tells that one was not taken for want of room.
	size int
	full bool
	// pending is by file.
	pending map[string]*unsaved
	// loaded are the files that were read, foreign those among them that are not ours, and from tells where else a variable's
	// identifiers came from.
	loaded, foreign map[string]bool
	from            map[source]string
}

// source is whose identifiers a file has.
type source struct{ provider, variable string }

const (
	// mostIdentifiers bounds the memory against a provider that names ever new ones.
	mostIdentifiers = 500_000
	// longestIdentifier in bytes; what is longer is none.
	longestIdentifier = 256
	// confirmParts: a confirmation is written down when that part of the time has passed for which the last is believed. Writing
	// down each would write the file for nothing.
	confirmParts = 8
)

func newMemory() *memory {
	return &memory{
		shelves: make(map[shelf]map[string]entry), pending: make(map[string]*unsaved),
		loaded: make(map[string]bool), foreign: make(map[string]bool), from: make(map[source]string),
	}
}

// find is the value that the keys stand for. Where they disagree, the last confirmed is right: a device was moved.
func (m *memory) find(r *rule, at Place, keys []smartflow.Key, now int64) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var best entry
	for _, key := range keys {
		if e, ok := m.shelves[shelf{r.book.provider, r.Var(), key.Kind, at}][key.ID]; ok && r.believes(e, now) && (best.value == "" || e.atNanos > best.atNanos) {
			best = e
		}
	}
	return best.value
}

// believes tells whether an entry has been confirmed lately enough.
func (r *rule) believes(e entry, now int64) bool {
	return r.book.library.options.Forever || now-e.atNanos <= r.ttlNanos
}

// learn takes lessons in.
func (m *memory) learn(r *rule, at Place, now int64, lessons []lesson) (news int) {
	if len(lessons) == 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range lessons {
		for _, key := range one.keys {
			name := shelf{r.book.provider, r.Var(), key.Kind, at}
			before, known := m.shelves[name][key.ID]
			changed := before.value != one.value
			switch {
			case !changed && now-before.atNanos <= r.ttlNanos/confirmParts, known && now < before.atNanos: // older news are none
				continue
			case changed && !r.usable(key.ID, one.value):
				continue
			}
			if !m.put(name, key.ID, entry{one.value, now}) {
				continue
			}
			if changed || known && !r.believes(before, now) {
				news++
			}
			m.note(r.path, now, changed)
		}
	}
	if news > 0 {
		m.version.Add(1)
	}
	return news
}

// put is false where there is no room. It requires mu.
func (m *memory) put(name shelf, id string, e entry) bool {
	entries := m.shelves[name]
	if _, known := entries[id]; !known {
		if m.size >= mostIdentifiers {
			m.full = true
			return false
		}
		m.size++
	}
	if entries == nil {
		entries = make(map[string]entry)
		m.shelves[name] = entries
	}
	entries[id] = e
	return true
}

// note requires mu.
func (m *memory) note(path string, now int64, changed bool) {
	if path == "" {
		return
	}
	p := m.pending[path]
	if p == nil {
		p = new(unsaved)
		m.pending[path] = p
	}
	if !p.changed {
		p.changed, p.since = true, now
	}
	if changed {
		p.news++
	}
}

// usable tells whether both texts can be identifiers, and hold no secret.
func (r *rule) usable(texts ...string) bool {
	for _, text := range texts {
		if text == "" || len(text) > longestIdentifier || !utf8.ValidString(text) {
			return false
		}
		if secret := r.book.library.options.Secret; secret != nil && secret(text) {
			return false
		}
	}
	return true
}
