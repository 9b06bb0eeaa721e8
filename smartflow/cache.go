package smartflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Cache keeps the learned mappings between runs, as the JSON text of section 7 of
// the specification. Store must replace all or nothing.
type Cache interface {
	// Load returns the stored text. Where nothing was stored yet, the error is
	// fs.ErrNotExist.
	Load() ([]byte, error)
	Store(text []byte) error
}

// CacheError says that the mappings could not be read or written. The limiter works
// on without them: they are learned again.
type CacheError struct {
	Op  string // "load", "read" (the text is damaged) or "store"
	Err error
}

func (e *CacheError) Error() string {
	switch e.Op {
	case "store":
		return fmt.Sprintf("cannot store the rate limit cache: %v; the mappings stay in memory and the next flush tries again", e.Err)
	case "load":
		return fmt.Sprintf("cannot load the rate limit cache: %v; starting without it", e.Err)
	}
	return fmt.Sprintf("the rate limit cache is damaged: %v; starting without it, and the next flush replaces it", e.Err)
}

func (e *CacheError) Unwrap() error { return e.Err }

// defaultTTL is how long a cache file is fresh.
const defaultTTL = 604800 * time.Second

// savedAtLayout is the timestamp of section 7: UTC, whole seconds, a literal Z.
const savedAtLayout = "2006-01-02T15:04:05Z"

// mappings are the contents of a cache file.
type mappings struct {
	networks map[string]string // network id to organization id
	devices  map[string]string // serial to organization id
}

// encodeCache writes the cache file, sorted, with a line to an entry: a person may
// have to look something up in it.
func (d *dialect) encodeCache(m mappings, now time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"saved_at\": %q,\n\"networks\": [", now.UTC().Format(savedAtLayout))
	d.encodeEntries(&b, "id", m.networks)
	b.WriteString("],\n\"devices\": [")
	d.encodeEntries(&b, "serial", m.devices)
	b.WriteString("]}\n")
	return b.Bytes()
}

func (d *dialect) encodeEntries(b *bytes.Buffer, member string, entries map[string]string) {
	for i, id := range slices.Sorted(maps.Keys(entries)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "\n{%q: %s, \"organization\": {\"id\": %s}}", member, d.jsonOf(id), d.jsonOf(entries[id]))
	}
}

// ttl is how long a cache file stays fresh.
type ttl struct {
	length time.Duration
	never  bool // it never expires, and its timestamp does not matter
}

// fresh decides about a file that was saved at the given time; ok tells whether it
// has a valid timestamp. The boundary belongs to the fresh side.
func (d *dialect) fresh(savedAt time.Time, ok bool, now time.Time, t ttl) bool {
	switch {
	case t.never:
		return true
	case !ok:
		return false
	case savedAt.After(now) && !d.looseCache:
		return false
	}
	return now.Sub(savedAt) <= t.length
}

// The reasons why a cache file is damaged. The reference treats them differently.
var (
	errNoObject = errors.New("the top level is no object")
	errMissing  = errors.New("a member is missing")
	errShape    = errors.New("a member has the wrong type")
	errEncoding = errors.New("the text is not valid UTF-8")
)

// decodeCache reads a cache file. A file that is not fresh yields nothing and no
// error. A damaged one yields an error and, in the reference dialect only, possibly
// the mappings before the damage.
func (d *dialect) decodeCache(text []byte, now time.Time, t ttl) (m mappings, fresh bool, err error) {
	if !utf8.Valid(text) {
		return mappings{}, false, errEncoding
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return mappings{}, false, err
	}
	top, isObject := document.(map[string]any)
	if !isObject {
		return mappings{}, false, errNoObject
	}
	savedAt, ok := d.savedAt(top["saved_at"])
	if !d.fresh(savedAt, ok, now, t) {
		return mappings{}, false, nil
	}
	m = mappings{networks: map[string]string{}, devices: map[string]string{}}
	if err = d.decodeEntries(top, "networks", "id", m.networks); err == nil {
		err = d.decodeEntries(top, "devices", "serial", m.devices)
	}
	if err != nil && !d.looseCache {
		return mappings{}, false, err
	}
	return m, err == nil, err
}

// decodeEntries reads one list. A list that is missing is empty.
func (d *dialect) decodeEntries(top map[string]any, list, member string, into map[string]string) error {
	v, ok := top[list]
	if !ok {
		return nil
	}
	entries, isList := v.([]any)
	if !isList && !(d.looseCache && iteratesNothing(v)) {
		return fmt.Errorf("%q: %w: it must be a list", list, errShape)
	}
	for i, v := range entries {
		id, org, err := d.decodeEntry(v, member)
		if err != nil {
			return fmt.Errorf("%q, entry %d: %w", list, i+1, err)
		}
		into[id] = org
	}
	return nil
}

// iteratesNothing tells whether a loop of the reference over v ends at once.
func iteratesNothing(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// decodeEntry reads one mapping. The organization is looked at first, as in the
// reference, because that decides which of two faults counts.
func (d *dialect) decodeEntry(v any, member string) (id, org string, err error) {
	orgObject, err := memberOf(v, "organization")
	if err != nil {
		return "", "", err
	}
	orgValue, err := memberOf(orgObject, "id")
	if err != nil {
		return "", "", fmt.Errorf("organization: %w", err)
	}
	idValue, err := memberOf(v, member)
	if err != nil {
		return "", "", err
	}
	id, ok, err := d.id(idValue)
	if err != nil || !ok {
		return "", "", fmt.Errorf("%q: %w: it must be a string that is not empty", member, errShape)
	}
	if _, ok = text(orgValue); !ok && !d.looseCache {
		return "", "", fmt.Errorf("organization: \"id\": %w: it must be a string that is not empty", errShape)
	}
	return id, d.value(orgValue), nil
}

func memberOf(v any, name string) (any, error) {
	object, isObject := v.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("%w: it must be an object with a member %q", errShape, name)
	}
	m, ok := object[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", errMissing, name)
	}
	return m, nil
}

// savedAt reads the timestamp of a cache file.
func (d *dialect) savedAt(v any) (time.Time, bool) {
	s, isString := v.(string)
	if !isString {
		return time.Time{}, false
	}
	if d.looseCache {
		return looseSavedAt(s)
	}
	at, err := time.Parse(savedAtLayout, s)
	// time.Parse also takes fractions of a second; formatting gives them away.
	if err != nil || at.Format(savedAtLayout) != s {
		return time.Time{}, false
	}
	return at, true
}

// strptime is what Python's function of that name accepts for the layout.
var strptime = regexp.MustCompile(`(?i)^(\d{4})-(1[0-2]|0[1-9]|[1-9])-(3[01]|[12]\d|0[1-9]|[1-9]| [1-9])T(2[0-3]|[01]\d|\d):([0-5]\d|\d):(6[01]|[0-5]\d|\d)Z\z`)

// looseSavedAt reads a timestamp as the reference does: leading zeros are optional.
func looseSavedAt(s string) (time.Time, bool) {
	m := strptime.FindStringSubmatch(s)
	if m == nil {
		return time.Time{}, false
	}
	var part [6]int
	for i := range part {
		// The expression admits nothing but digits and one space.
		part[i], _ = strconv.Atoi(string(bytes.TrimLeft([]byte(m[i+1]), " ")))
	}
	at := time.Date(part[0], time.Month(part[1]), part[2], part[3], part[4], part[5], 0, time.UTC)
	// Days and seconds that do not exist roll over in Go and are refused in Python.
	if part[0] < 1 || at.Day() != part[2] || at.Second() != part[5] {
		return time.Time{}, false
	}
	return at, true
}

// readCache loads and decodes. warning is what the user should hear about; fatal is
// what the constructor of the reference would not survive.
func (l *Limiter) readCache() (warning, fatal error) {
	if l.cache == nil {
		return nil, nil
	}
	text, err := l.cache.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return &CacheError{Op: "load", Err: err}, nil
	}
	m, fresh, err := l.dialect.decodeCache(text, l.clock.Wall(), l.ttl)
	if err != nil {
		warning = &CacheError{Op: "read", Err: err}
		if l.dialect.looseCache && (errors.Is(err, errNoObject) || errors.Is(err, errShape) || errors.Is(err, errEncoding)) {
			return warning, err
		}
	}
	for id, org := range m.networks {
		l.networks.swap(id, l.orgOf(org))
	}
	for id, org := range m.devices {
		l.devices.swap(id, l.orgOf(org))
	}
	l.fresh = fresh
	return warning, nil
}
