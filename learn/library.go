package learn

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Options of New.
type Options struct {
	// Folder is where cache files with relative paths are.
	Folder string
	// Secret tells whether a text holds a secret; what does is not learned. nil: none does.
	Secret func(text string) bool
	// Forever believes what was learned without end, for rows of the past, which confirm nothing.
	Forever bool
}

const (
	// defaultPath is the file of a cache that names none.
	defaultPath = "rate_limit_cache.json"
	// defaultTTL is how long what was learned is believed, defaultFlushEvery how many news make a file due.
	defaultTTL        = 7 * 24 * time.Hour
	defaultFlushEvery = 50
)

// place is where the cache of a declaration is; empty for none.
func (o *Options) place(of *schema.Learn) string {
	if of.Cache == nil {
		return ""
	}
	path := cmp.Or(of.Cache.Path, defaultPath)
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Folder, path)
	}
	return filepath.Clean(path)
}

// Library is the Books of a configuration.
type Library struct {
	options Options
	books   map[string]*Book
	memory  *memory
}

// New makes the books of a configuration, empty.
func New(config *validate.Config, o Options) *Library {
	l := &Library{options: o, memory: newMemory()}
	l.open(config)
	return l
}

func (l *Library) open(config *validate.Config) {
	l.books = make(map[string]*Book)
	for _, p := range config.Providers {
		if b := newBook(l, p); b != nil {
			l.books[p.Name] = b
		}
	}
}

// For is the library for other documents. Both know, and learn, the same.
func (l *Library) For(config *validate.Config) *Library {
	next := &Library{options: l.options, memory: l.memory}
	next.open(config)
	return next
}

// Book of a provider; nil where it has nothing to learn.
func (l *Library) Book(provider string) *Book {
	if l == nil {
		return nil
	}
	return l.books[provider]
}

// Count is how many identifiers of a kind are known.
type Count struct {
	Provider string `json:"provider"`
	// Var is what they lead to, and Key their kind.
	Var         string `json:"var"`
	Key         string `json:"key"`
	Identifiers int    `json:"identifiers"`
}

// Counts are those of all books, sorted, kinds without any among them.
func (l *Library) Counts() []Count {
	var out []Count
	index := make(map[Count]int)
	for _, b := range l.books {
		for _, r := range b.rules {
			for _, kind := range r.Kinds() {
				one := Count{Provider: b.provider, Var: r.Var(), Key: kind}
				index[one] = len(out)
				out = append(out, one)
			}
		}
	}
	l.memory.mu.RLock()
	for name, entries := range l.memory.shelves {
		if at, wanted := index[Count{Provider: name.provider, Var: name.variable, Key: name.kind}]; wanted {
			out[at].Identifiers += len(entries)
		}
	}
	l.memory.mu.RUnlock()
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Var, b.Var), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// Version is that of all Books: it changes with every identifier that is learned anew.
func (l *Library) Version() uint64 { return l.memory.version.Load() }

// Full tells that there were more identifiers than are kept.
func (l *Library) Full() bool {
	l.memory.mu.RLock()
	defer l.memory.mu.RUnlock()
	return l.memory.full
}
