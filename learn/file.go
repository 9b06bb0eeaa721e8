package learn

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/smartflow"
)

// The file is JSON, an identifier a line, for a person may have to look something up in it:
//
//	{"format": "tapyr-learned-1", "shelves": [
//	{"provider": "meraki", "var": "organizationId", "account": "acme", "key": "network", "identifiers": {
//	"N_1": {"value": "549236", "confirmed": "2026-11-30T12:00:00Z"}}}
//	]}
//
// It holds identifiers only: no secret, no count.

// format names the form of the file, and tells it from files of others.
const format = "tapyr-learned-1"

type fileJSON struct {
	Format  string      `json:"format"`
	Shelves []shelfJSON `json:"shelves"`
}

type shelfJSON struct {
	Provider    string               `json:"provider"`
	Var         string               `json:"var"`
	Account     string               `json:"account"`
	Target      string               `json:"target,omitempty"`
	Key         string               `json:"key"`
	Identifiers map[string]entryJSON `json:"identifiers"`
}

type entryJSON struct {
	Value     string    `json:"value"`
	Confirmed time.Time `json:"confirmed"`
}

// FileError says that what was learned could not be read or written. Everything goes on in memory, and is learned again.
type FileError struct {
	Path string
	// Op is "load", "read" (the text is damaged), "foreign" (it is a file of another program, which is left alone) or "store".
	Op  string
	Err error
}

func (e *FileError) Error() string {
	switch e.Op {
	case "load":
		return fmt.Sprintf("%s: what was learned before cannot be read, and is learned again: %v", e.Path, e.Err)
	case "foreign":
		return fmt.Sprintf("%s: the file is not one of learned identifiers, so it is left alone and nothing is kept; name another in learn.cache.path", e.Path)
	case "store":
		return fmt.Sprintf("%s: what was learned cannot be kept, and is learned again after a restart: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s: the file is damaged, so what was learned before is learned again, and the next write replaces it: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// errForeign: valid JSON, but not ours.
var errForeign = errors.New("the format is not " + format)

// decode reads a file's text; nothing of a damaged one.
func decode(text []byte) (map[shelf]map[string]entry, error) {
	var kind struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(text, &kind, json.RejectUnknownMembers(false)); err != nil {
		if v := jsontext.Value(text); v.IsValid() {
			return nil, errForeign
		}
		return nil, err
	}
	if kind.Format != format {
		return nil, errForeign
	}
	var file fileJSON
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	out := make(map[shelf]map[string]entry)
	for _, from := range file.Shelves {
		name := shelf{from.Provider, from.Var, from.Key, Place{from.Account, from.Target}}
		if out[name] == nil {
			out[name] = make(map[string]entry)
		}
		for id, e := range from.Identifiers {
			if id == "" || e.Value == "" || len(id) > longestIdentifier || len(e.Value) > longestIdentifier {
				return nil, fmt.Errorf("%q stands for %q: both must be identifiers of 1 to %d bytes", id, e.Value, longestIdentifier)
			}
			if year := e.Confirmed.Year(); year < earliest || year > latest {
				return nil, fmt.Errorf("%q was confirmed in the year %d", id, year)
			}
			out[name][id] = entry{e.Value, e.Confirmed.UnixNano()}
		}
	}
	return out, nil
}

// earliest and latest are years whose instants are nanoseconds in an int64.
const earliest, latest = 1970, 2249

// encode writes the text of a file, sorted.
func encode(shelves map[shelf]map[string]entry) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"format\": %s, \"shelves\": [", quoted(format))
	names := slices.SortedFunc(maps.Keys(shelves), func(x, y shelf) int {
		return cmp.Or(cmp.Compare(x.provider, y.provider), cmp.Compare(x.variable, y.variable), cmp.Compare(x.place.Account, y.place.Account),
			cmp.Compare(x.place.Target, y.place.Target), cmp.Compare(x.kind, y.kind))
	})
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n{\"provider\": %s, \"var\": %s, \"account\": %s, ", quoted(name.provider), quoted(name.variable), quoted(name.place.Account))
		if name.place.Target != "" {
			fmt.Fprintf(&b, "\"target\": %s, ", quoted(name.place.Target))
		}
		fmt.Fprintf(&b, "\"key\": %s, \"identifiers\": {", quoted(name.kind))
		for k, id := range slices.Sorted(maps.Keys(shelves[name])) {
			if k > 0 {
				b.WriteByte(',')
			}
			e := shelves[name][id]
			at := time.Unix(0, e.atNanos).UTC().Format(time.RFC3339)
			fmt.Fprintf(&b, "\n%s: {\"value\": %s, \"confirmed\": %s}", quoted(id), quoted(e.value), quoted(at))
		}
		b.WriteString("}}")
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
}

func quoted(text string) []byte {
	out, _ := jsontext.AppendQuote(nil, text) // what is no UTF-8 is never learned
	return out
}

// paths are the files of all rules, sorted.
func (l *Library) paths() []string {
	all := make(map[string]bool)
	for _, b := range l.books {
		for _, r := range b.rules {
			if r.path != "" {
				all[r.path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Load reads the files of all books, once each in the life of a memory. What cannot be used is named in the error, joined of
// *FileError, and everything else is known then.
func (l *Library) Load(now int64) error {
	var problems []error
	for _, path := range l.paths() {
		if err := l.load(path, now); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (l *Library) load(path string, now int64) error {
	m := l.memory
	m.mu.Lock()
	loaded := m.loaded[path]
	m.loaded[path] = true
	m.mu.Unlock()
	if loaded {
		return nil
	}
	text, err := smartflow.FileCache{Path: path}.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &FileError{path, "load", err}
	}
	shelves, err := decode(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, errForeign):
		m.foreign[path] = true
		return &FileError{path, "foreign", err}
	case err != nil:
		return &FileError{path, "read", err}
	}
	for name, entries := range shelves {
		m.from[source{name.provider, name.variable}] = path
		for id, e := range entries {
			// What was confirmed in the future was so by a clock that is wrong, then or now; what this process has learned is newer.
			if _, known := m.shelves[name][id]; !known && e.atNanos <= now {
				m.put(name, id, e)
			}
		}
	}
	m.version.Add(1)
	return nil
}

// due is how long news wait for others before a file is written that is not due by their number, and for how long a file is left
// alone that could not be written.
const due = time.Minute

// Flush writes the files that are due, all with news where all is set, and forgets what is no longer believed. The error is joined of
// *FileError.
func (l *Library) Flush(now int64, all bool) error {
	var problems []error
	for _, path := range l.paths() {
		if !l.isDue(path, now, all) {
			continue
		}
		if err := l.store(path, now); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (l *Library) isDue(path string, now int64, all bool) bool {
	flushEvery := int64(1) << 62
	for _, b := range l.books {
		for _, r := range b.rules {
			if r.path == path {
				flushEvery = min(flushEvery, r.flushEvery)
			}
		}
	}
	m := l.memory
	m.mu.RLock()
	defer m.mu.RUnlock()
	p := m.pending[path]
	switch {
	case p == nil || !p.changed || m.foreign[path]:
		return false
	case all:
		return true
	}
	return now >= p.again && (p.news >= flushEvery || now-p.since >= int64(due))
}

// store writes a file. What is learned meanwhile is not in it, and stays due.
func (l *Library) store(path string, now int64) error {
	m := l.memory
	m.mu.Lock()
	taken := *m.pending[path]
	*m.pending[path] = unsaved{}
	content := make(map[shelf]map[string]entry)
	for name, entries := range m.shelves {
		r := l.ruleOf(name)
		if r == nil && m.from[source{name.provider, name.variable}] != path || r != nil && r.path != path {
			continue
		}
		for id, e := range entries {
			if r != nil && !r.believes(e, now) {
				delete(entries, id)
				m.size--
			}
		}
		if len(entries) > 0 {
			content[name] = maps.Clone(entries)
		}
	}
	m.mu.Unlock()
	err := smartflow.FileCache{Path: path}.Store(encode(content))
	if err == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pending[path]
	p.news, p.changed, p.since, p.again = p.news+taken.news, true, taken.since, now+int64(due)
	return &FileError{path, "store", err}
}

// ruleOf a shelf; nil where the documents in force have none: what a file says of others is kept in it.
func (l *Library) ruleOf(name shelf) *rule {
	b := l.books[name.provider]
	if b == nil {
		return nil
	}
	for _, r := range b.rules {
		if r.Var() == name.variable {
			return r
		}
	}
	return nil
}
