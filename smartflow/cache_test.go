package smartflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// savedNow is the timestamp of the clocks in these tests.
const savedNow = "2026-07-08T12:00:00Z"

func clockAt(t testing.TB, saved string) *steppedClock {
	t.Helper()
	at, err := time.Parse(time.RFC3339, saved)
	if err != nil {
		t.Fatal(err)
	}
	return &steppedClock{wall: at}
}

// withCache is a limiter on a text, and the warnings it gave.
func withCache(t testing.TB, text string, ttl time.Duration) (*Limiter, []error) {
	t.Helper()
	var warnings []error
	l, err := New(Config{
		Cache: &memoryFile{text: []byte(text), exists: true}, CacheTTL: ttl, Clock: clockAt(t, savedNow),
		Warn: func(err error) { warnings = append(warnings, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l, warnings
}

const goodEntry = `{"id":"N_1","organization":{"id":"O_1"}}`

func TestCacheFreshness(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		ttl   time.Duration
		fresh bool
		known int64
	}{
		"fresh":               {`{"saved_at":"2026-07-08T11:00:00Z","networks":[` + goodEntry + `],"devices":[]}`, 0, true, 1},
		"at the boundary":     {`{"saved_at":"2026-07-01T12:00:00Z","networks":[` + goodEntry + `]}`, 0, true, 1},
		"past it":             {`{"saved_at":"2026-07-01T11:59:59Z","networks":[` + goodEntry + `]}`, 0, false, 0},
		"own ttl":             {`{"saved_at":"2026-07-08T11:59:57Z","networks":[` + goodEntry + `]}`, 2 * time.Second, false, 0},
		"for ever":            {`{"saved_at":"1999-01-01T00:00:00Z","networks":[` + goodEntry + `]}`, -1, true, 1},
		"for ever, undated":   {`{"networks":[` + goodEntry + `]}`, -1, true, 1},
		"undated":             {`{"networks":[` + goodEntry + `]}`, 0, false, 0},
		"from the future":     {`{"saved_at":"2026-07-08T12:00:01Z","networks":[` + goodEntry + `]}`, 0, false, 0},
		"without devices":     {`{"saved_at":"` + savedNow + `","networks":[` + goodEntry + `]}`, 0, true, 1},
		"without anything":    {`{"saved_at":"` + savedNow + `"}`, 0, true, 0},
		"with more":           {`{"saved_at":"` + savedNow + `","version":2,"networks":[{"id":"N_1","name":"x","organization":{"id":"O_1","name":"y"}}]}`, 0, true, 1},
		"an id twice":         {`{"saved_at":"` + savedNow + `","networks":[` + goodEntry + `,` + goodEntry + `]}`, 0, true, 1},
		"with an offset":      {`{"saved_at":"2026-07-08T12:00:00+00:00","networks":[` + goodEntry + `]}`, 0, false, 0},
		"with a fraction":     {`{"saved_at":"2026-07-08T11:00:00.5Z","networks":[` + goodEntry + `]}`, 0, false, 0},
		"without a zero":      {`{"saved_at":"2026-7-08T11:00:00Z","networks":[` + goodEntry + `]}`, 0, false, 0},
		"a day too much":      {`{"saved_at":"2026-06-31T11:00:00Z","networks":[` + goodEntry + `]}`, 0, false, 0},
		"a number for a date": {`{"saved_at":1783512000,"networks":[` + goodEntry + `]}`, 0, false, 0},
	} {
		l, warnings := withCache(t, c.text, c.ttl)
		if s := l.Snapshot(); s.Fresh != c.fresh || s.Networks != c.known {
			t.Errorf("%s: fresh %v with %d networks, want %v with %d", name, s.Fresh, s.Networks, c.fresh, c.known)
		}
		if len(warnings) > 0 {
			t.Errorf("%s: %v", name, warnings)
		}
	}
}

// A damaged file of any kind starts empty, with a warning.
func TestDamagedCacheStartsEmpty(t *testing.T) {
	fresh := func(rest string) string { return `{"saved_at":"` + savedNow + `",` + rest + `}` }
	for name, text := range map[string]string{
		"empty":                  "",
		"cut off":                fresh(`"networks":[` + goodEntry + `]`)[:60],
		"garbage":                "{nope",
		"no object":              "true",
		"a list":                 "[]",
		"null":                   "null",
		"two documents":          fresh(`"networks":[]`) + "{}",
		"zeros":                  strings.Repeat("\x00", 4096),
		"not UTF-8":              "{\"saved_at\": \"\xff\xfe\"}",
		"networks null":          fresh(`"networks":null`),
		"networks a text":        fresh(`"networks":"abc"`),
		"networks an object":     fresh(`"networks":{"N_1":"O_1"}`),
		"an empty text":          fresh(`"networks":""`),
		"devices a number":       fresh(`"networks":[` + goodEntry + `],"devices":7`),
		"entry no object":        fresh(`"networks":[` + goodEntry + `,"N_1"]`),
		"entry without id":       fresh(`"networks":[` + goodEntry + `,{"organization":{"id":"O_1"}}]`),
		"entry without org":      fresh(`"networks":[` + goodEntry + `,{"id":"N_2"}]`),
		"org without id":         fresh(`"networks":[` + goodEntry + `,{"id":"N_2","organization":{}}]`),
		"org a text":             fresh(`"networks":[` + goodEntry + `,{"id":"N_2","organization":"O_1"}]`),
		"id a number":            fresh(`"networks":[` + goodEntry + `,{"id":7,"organization":{"id":"O_1"}}]`),
		"id empty":               fresh(`"networks":[` + goodEntry + `,{"id":"","organization":{"id":"O_1"}}]`),
		"id a list":              fresh(`"networks":[` + goodEntry + `,{"id":["N_2"],"organization":{"id":"O_1"}}]`),
		"org id null":            fresh(`"networks":[` + goodEntry + `,{"id":"N_2","organization":{"id":null}}]`),
		"device without serial":  fresh(`"networks":[` + goodEntry + `],"devices":[{"id":"Q","organization":{"id":"O_1"}}]`),
		"nested beyond measure":  strings.Repeat("[", 100000),
		"device with empty orga": fresh(`"networks":[` + goodEntry + `],"devices":[{"serial":"Q","organization":{"id":""}}]`),
	} {
		l, warnings := withCache(t, text, 0)
		if s := l.Snapshot(); s.Fresh || s.Networks != 0 || s.Devices != 0 {
			t.Errorf("%s: did not start empty: %+v", name, s)
		}
		var ce *CacheError
		if len(warnings) != 1 || !errors.As(warnings[0], &ce) || ce.Op != "read" {
			t.Errorf("%s: warnings %v, want one about reading", name, warnings)
		}
	}
}

func TestUnreadableCacheStartsEmpty(t *testing.T) {
	var warnings []error
	l, err := New(Config{Cache: FileCache{t.TempDir()}, Warn: func(err error) { warnings = append(warnings, err) }})
	if err != nil {
		t.Fatal(err)
	}
	var ce *CacheError
	if len(warnings) != 1 || !errors.As(warnings[0], &ce) || ce.Op != "load" {
		t.Errorf("warnings %v, want one about loading", warnings)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// What is written is read back, whatever the identifiers.
func TestCacheRoundTrip(t *testing.T) {
	id := rapid.StringOfN(rapid.Rune(), 1, 12, -1).Filter(func(s string) bool { return !strings.HasPrefix(s, foreign) })
	rapid.Check(t, func(t *rapid.T) {
		want := mappings{
			networks: rapid.MapOf(id, id).Draw(t, "networks"),
			devices:  rapid.MapOf(id, id).Draw(t, "devices"),
		}
		d, now := &dialect{}, time.Date(2026, 7, 8, 12, 0, 0, 5e8, time.UTC)
		text := d.encodeCache(want, now)
		got, fresh, err := d.decodeCache(text, now, ttl{length: defaultTTL})
		if err != nil || !fresh || !maps.Equal(got.networks, want.networks) || !maps.Equal(got.devices, want.devices) {
			t.Fatalf("read %v, fresh %v, %v back from %s", got, fresh, err, text)
		}
		if !json.Valid(text) || !strings.Contains(string(text), `"saved_at": "2026-07-08T12:00:00Z"`) {
			t.Fatalf("not the published form: %s", text)
		}
	})
}

// FuzzCache: no text makes the reader panic, none that is damaged leaves anything
// behind, and what is read can be written and read again.
func FuzzCache(f *testing.F) {
	f.Add(`{"saved_at":"2026-07-08T12:00:00Z","networks":[{"id":"N_1","organization":{"id":"O_1"}}],"devices":[{"serial":"Q","organization":{"id":"O_1"}}]}`)
	f.Add(`{"saved_at":null,"networks":{}}`)
	f.Add(`{"networks":"","devices":[[]]}`)
	now := time.Date(2026, 7, 8, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		for _, limit := range []ttl{{length: defaultTTL}, {never: true}} {
			d := &dialect{}
			m, fresh, err := d.decodeCache([]byte(text), now, limit)
			if !fresh && len(m.networks)+len(m.devices) > 0 {
				t.Fatalf("%q: not fresh (%v), but %v was read", text, err, m)
			}
			for id, org := range m.networks {
				if id == "" || org == "" {
					t.Fatalf("%q: empty identifiers were read", text)
				}
			}
			if fresh {
				again, fresh, err := d.decodeCache(d.encodeCache(m, now), now, limit)
				if !fresh || err != nil || !maps.Equal(again.networks, m.networks) || !maps.Equal(again.devices, m.devices) {
					t.Fatalf("%q: read %v, written and read again %v (%v)", text, m, again, err)
				}
			}
			// The reference dialect must not panic either.
			reference.decodeCache([]byte(text), now, limit)
		}
	})
}

func TestFileCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "cache.json")
	c := FileCache{path}
	if _, err := c.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("loading nothing: %v, want fs.ErrNotExist", err)
	}
	for _, text := range []string{"one", "a longer one", "two"} {
		if err := c.Store([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Load(); err != nil || string(got) != text {
			t.Errorf("loaded %q, %v; want %q", got, err, text)
		}
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("temporary files are left: %v, %v", entries, err)
	}
	huge := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxCacheBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := (FileCache{huge}).Load(); err == nil {
		t.Error("a file beyond all bounds was loaded")
	}
	t.Chdir(t.TempDir())
	if err := (FileCache{"here.json"}).Store([]byte("x")); err != nil {
		t.Errorf("a path without a folder: %v", err)
	}
}

// A crash while the cache is written leaves the temporary file of that moment beside
// the old cache, which is read as before.
func TestCrashWhileStoring(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "cache.json")
	old := `{"saved_at":"` + savedNow + `","networks":[` + goodEntry + `]}`
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(old); cut += 7 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf(".cache.json.%d.tmp", cut)), []byte(old[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := mustNew(t, Config{Cache: FileCache{path}, Clock: clockAt(t, savedNow), Warn: func(err error) { t.Error(err) }})
	if s := l.Snapshot(); !s.Fresh || s.Networks != 1 {
		t.Errorf("got %+v", s)
	}
}

// While one writes and another reads, the reader sees the old file or the new one,
// never a part.
func TestReadersSeeWholeFiles(t *testing.T) {
	c := FileCache{filepath.Join(t.TempDir(), "cache.json")}
	texts := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<15)}
	if err := c.Store([]byte(texts[0])); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 60 {
			if err := c.Store([]byte(texts[i%2])); err != nil {
				t.Error(err)
			}
		}
	})
	for {
		got, err := c.Load()
		if err != nil || (string(got) != texts[0] && string(got) != texts[1]) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		select {
		case <-done:
			wg.Wait()
			return
		default:
		}
	}
}

// learnMany teaches n mappings.
func learnMany(l *Limiter, from, n int) {
	for i := from; i < from+n; i++ {
		l.Learn(fmt.Sprintf("/organizations/O_1/networks/N_%d", i), nil)
	}
}

// countingFile counts what is stored. Its methods are called by the flusher.
type countingFile struct {
	mu     sync.Mutex // guards what follows
	stores int
	fail   error
	memoryFile
	hang chan struct{} // Store waits until it is closed; nil = it does not wait
}

func (f *countingFile) Store(text []byte) error {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stores++
	if f.fail != nil {
		return f.fail
	}
	return f.memoryFile.Store(text)
}

func (f *countingFile) set(err error) {
	f.mu.Lock()
	f.fail = err
	f.mu.Unlock()
}

func TestFlushInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &countingFile{}
		var warnings []error
		l := mustNew(t, Config{Cache: file, Warn: func(err error) { warnings = append(warnings, err) }})
		expect := func(stores int, dirty int64, when string) {
			t.Helper()
			synctest.Wait()
			if file.stores != stores || l.Snapshot().Dirty != dirty {
				t.Errorf("%s: %d stores, dirty %d; want %d, %d", when, file.stores, l.Snapshot().Dirty, stores, dirty)
			}
		}
		learnMany(l, 0, 49)
		expect(0, 49, "before the threshold")
		learnMany(l, 49, 1)
		expect(1, 0, "at the threshold")
		file.set(errors.New("disk full"))
		learnMany(l, 100, 50)
		expect(2, 50, "after a failure nothing is taken off")
		learnMany(l, 200, 49)
		expect(2, 99, "a failure is not repeated at once")
		file.set(nil)
		learnMany(l, 300, 1)
		expect(3, 0, "but after as many again")
		learnMany(l, 400, 50)
		expect(4, 0, "and then as before")
		if len(warnings) != 1 {
			t.Errorf("warnings %v, want one", warnings)
		}
	})
}

func TestCloseSavesAndIsIdempotent(t *testing.T) {
	file := &countingFile{}
	c := Config{Cache: file, Clock: clockAt(t, savedNow)}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l.RegisterDevice("Q2AA", "O_1") // which does not make a flush due
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil || file.stores != 1 {
		t.Errorf("%v, %d stores; want one", err, file.stores)
	}
	// A closed limiter still limits and learns, and does not hang.
	learnMany(l, 0, 200)
	if err := l.Acquire(context.Background(), "/networks/N_7"); err != nil {
		t.Error(err)
	}
	// A limiter that changes nothing does not make the file look younger.
	c.Clock = clockAt(t, "2026-07-09T12:00:00Z")
	l, err = New(c)
	if err != nil {
		t.Fatal(err)
	}
	if org, _ := l.Resolve("/devices/Q2AA"); org != "O_1" {
		t.Errorf("the device is of %q after a restart, want O_1", org)
	}
	if err := l.Close(); err != nil || file.stores != 1 {
		t.Errorf("%v, %d stores; want still one", err, file.stores)
	}
	if err := mustNew(t, Config{}).Close(); err != nil {
		t.Errorf("closing without a cache: %v", err)
	}
}

func TestCloseReportsFailures(t *testing.T) {
	full := errors.New("disk full")
	l, err := New(Config{Cache: &countingFile{fail: full}})
	if err != nil {
		t.Fatal(err)
	}
	learnMany(l, 0, 1)
	var ce *CacheError
	for range 2 {
		if err := l.Close(); !errors.As(err, &ce) || ce.Op != "store" || !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
	}
	if err := l.Save(); !errors.Is(err, full) {
		t.Errorf("Save: %v", err)
	}
}

// A disk that hangs does not hang Close for ever.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &countingFile{hang: make(chan struct{})}
		l, err := New(Config{Cache: file})
		if err != nil {
			t.Fatal(err)
		}
		learnMany(l, 0, 1)
		start := time.Now()
		if err := l.Close(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := time.Since(start); got != closeBound {
			t.Errorf("took %v, want %v", got, closeBound)
		}
		close(file.hang)
		if err := l.Close(); err != nil {
			t.Errorf("once the disk is back: %v", err)
		}
	})
}

// New starts one goroutine for a cache, none without, and Close ends it. Outside a
// synctest bubble, which would complain by itself.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		l, err := New(Config{Cache: &countingFile{}})
		if err != nil {
			t.Fatal(err)
		}
		learnMany(l, 0, 60)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestDefaultCachePath(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	if path, err := DefaultCachePath(); err != nil || (runtime.GOOS == "linux" && path != "/home/u/.meraki/.cache/rate_limit_cache.json") {
		t.Errorf("got %q, %v", path, err)
	}
	if runtime.GOOS == "linux" {
		t.Setenv("HOME", "")
		if _, err := DefaultCachePath(); err == nil {
			t.Error("a path without a home")
		}
	}
}
