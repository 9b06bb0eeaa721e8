package learn

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/validate/validatetest"
)

const cached = "      cache: { path: kept.json, ttl: 2d, flushEvery: 3 }\n"

func learnNetwork(l *Library, now int64, network, org string) {
	l.Book("vendor").Learn(now, &Seen{Place: acme, Path: "/organizations/" + org + "/networks/" + network})
}

func flush(t *testing.T, l *Library, now int64, all bool) {
	t.Helper()
	if err := l.Flush(now, all); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// A file is written when enough is new, after a minute, or at the end; never for nothing. It is the owner's alone.
func TestWhenAFileIsWritten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "kept.json")
	l := library(t, cached, Options{Folder: folder})
	flush(t, l, start, true)
	if exists(t, path) {
		t.Fatal("nothing was learned, and a file is there")
	}
	learnNetwork(l, start, "N_1", "1")
	learnNetwork(l, start, "N_2", "1")
	flush(t, l, start+minute-1, false)
	if exists(t, path) {
		t.Fatal("two identifiers do not make a file due")
	}
	learnNetwork(l, start+1, "N_3", "1")
	flush(t, l, start+1, false)
	if !exists(t, path) {
		t.Fatal("three identifiers make a file due")
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	learnNetwork(l, start+day/8, "N_1", "1") // no news, and no confirmation worth a line
	flush(t, l, start+2*minute, true)
	if exists(t, path) {
		t.Fatal("a file was written for nothing")
	}
	learnNetwork(l, start+day/2, "N_1", "1")
	flush(t, l, start+day/2, false)
	if exists(t, path) {
		t.Fatal("a confirmation makes a file due at once")
	}
	flush(t, l, start+day/2+minute, false)
	if !exists(t, path) {
		t.Fatal("a confirmation is lost")
	}
}

// What was learned is known after a restart, until it is no longer believed, and is then forgotten.
func TestRestart(t *testing.T) {
	folder := t.TempDir()
	first := library(t, cached, Options{Folder: folder})
	learnNetwork(first, start, "N_1", "1")
	learnNetwork(first, start+day, "N_2", "o\"\n\\ü\x7f")
	first.Book("vendor").Learn(start+day, &Seen{Place: Place{"acme", "t"}, Path: "/organizations/5/devices/Q1"})
	flush(t, first, start+day, true)

	second := library(t, cached, Options{Folder: folder})
	if err := second.Load(start + day); err != nil {
		t.Fatal(err)
	}
	b := second.Book("vendor")
	for at, want := range map[int64]string{start + day: "1", start + 2*day: "1", start + 2*day + 1: "?"} {
		if got := resolve(b, at, acme, "/networks/N_1"); got != want {
			t.Errorf("after %s: %q, want %q", time.Duration(at-start), got, want)
		}
	}
	if got := resolve(b, start+day, acme, "/networks/N_2"); got != "o\"\n\\ü\x7f" {
		t.Errorf("got %q", got)
	}
	if got := resolve(b, start+day, Place{"acme", "t"}, "/devices/Q1"); got != "5" {
		t.Errorf("got %q", got)
	}
	if got := resolve(b, start+day, acme, "/devices/Q1"); got != "?" {
		t.Errorf("a target's identifier is believed of the account: %q", got)
	}
	learnNetwork(second, start+3*day, "N_3", "1")
	flush(t, second, start+3*day, true)
	text, err := os.ReadFile(filepath.Join(folder, "kept.json"))
	if err != nil || strings.Contains(string(text), "N_1") || !strings.Contains(string(text), "N_3") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A file that cannot be used starts empty with a warning. A damaged one is replaced; one of another program is left alone.
func TestUnusableFiles(t *testing.T) {
	good := string(encode(map[shelf]map[string]entry{{"vendor", "organizationId", "network", acme}: {"N_1": {"1", start}}}))
	foreign, err := os.ReadFile("../examples/meraki/smartflow-cache.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, op string }{
		"empty":            {"", "read"},
		"cut":              {good[:len(good)/2], "read"},
		"more after it":    {good + "x", "read"},
		"twice":            {strings.Replace(good, `"N_1":`, `"N_1": {"value": "2", "confirmed": "2026-11-30T12:00:00Z"}, "N_1":`, 1), "read"},
		"no value":         {strings.Replace(good, `"value": "1"`, `"value": ""`, 1), "read"},
		"a number":         {strings.Replace(good, `"value": "1"`, `"value": 1`, 1), "read"},
		"no time":          {strings.Replace(good, "2026-", "", 1), "read"},
		"a distant time":   {strings.Replace(good, "2026-", "9026-", 1), "read"},
		"an unknown field": {strings.Replace(good, `"value"`, `"valve"`, 1), "read"},
		"another format":   {strings.Replace(good, "learned-1", "learned-2", 1), "foreign"},
		"another program":  {string(foreign), "foreign"},
		"a list":           {"[]", "foreign"},
		"null":             {"null", "foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.text == good {
				t.Fatal("the text is not damaged")
			}
			folder := t.TempDir()
			path := filepath.Join(folder, "kept.json")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := library(t, cached, Options{Folder: folder})
			var problem *FileError
			if err := l.Load(start); !errors.As(err, &problem) || problem.Op != c.op || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v, want %s", err, c.op)
			}
			if got := resolve(l.Book("vendor"), start, acme, "/networks/N_1"); got != "?" {
				t.Errorf("half a file is used: %q", got)
			}
			learnNetwork(l, start, "N_9", "9")
			flush(t, l, start, true)
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if kept := string(after) == c.text; kept != (c.op == "foreign") {
				t.Errorf("the file is now\n%s", after)
			}
		})
	}
}

// A folder that cannot be written costs nothing but the file, is tried again after a minute, and loses nothing.
func TestUnwritable(t *testing.T) {
	folder := t.TempDir()
	blocked := filepath.Join(folder, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := library(t, "      cache: { path: blocked/kept.json, flushEvery: 1 }\n", Options{Folder: folder})
	learnNetwork(l, start, "N_1", "1")
	var problem *FileError
	if err := l.Flush(start, false); !errors.As(err, &problem) || problem.Op != "store" {
		t.Fatalf("got %v", err)
	}
	flush(t, l, start+minute-1, false) // not yet
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	flush(t, l, start+minute, false)
	again := library(t, "      cache: { path: blocked/kept.json }\n", Options{Folder: folder})
	if err := again.Load(start + minute); err != nil {
		t.Fatal(err)
	}
	if got := resolve(again.Book("vendor"), start+minute, acme, "/networks/N_1"); got != "1" {
		t.Errorf("got %q", got)
	}
}

// What is confirmed in the future was confirmed by a wrong clock. What the documents do not know at the moment stays in the file.
func TestFutureAndOthers(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "kept.json")
	stranger := shelf{"elsewhere", "tenant", "site", Place{Account: "x"}}
	text := encode(map[shelf]map[string]entry{
		{"vendor", "organizationId", "network", acme}: {"N_1": {"1", start + day}, "N_2": {"2", start}},
		stranger: {"S": {"t", start}},
	})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l := library(t, cached, Options{Folder: folder})
	if err := l.Load(start); err != nil {
		t.Fatal(err)
	}
	if a, b := resolve(l.Book("vendor"), start, acme, "/networks/N_1"), resolve(l.Book("vendor"), start, acme, "/networks/N_2"); a != "?" || b != "2" {
		t.Errorf("%q, %q", a, b)
	}
	learnNetwork(l, start, "N_3", "3")
	flush(t, l, start, true)
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	shelves, err := decode(after)
	if err != nil || shelves[stranger]["S"].value != "t" {
		t.Errorf("%v\n%s", err, after)
	}
}

// No secret is learned, so none is written.
func TestSecrets(t *testing.T) {
	folder := t.TempDir()
	l := library(t, cached, Options{Folder: folder, Secret: func(text string) bool { return strings.Contains(text, "s3cret") }})
	learnNetwork(l, start, "N_s3cret", "1")
	learnNetwork(l, start, "N_1", "o-s3cret")
	learnNetwork(l, start, "N_2", "1")
	flush(t, l, start, true)
	text, err := os.ReadFile(filepath.Join(folder, "kept.json"))
	if err != nil || strings.Contains(string(text), "s3cret") || !strings.Contains(string(text), "N_2") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Paths are relative to the folder; providers may share a file.
func TestPaths(t *testing.T) {
	absolute := filepath.Join(t.TempDir(), "a.json")
	for cache, want := range map[string][]string{
		"":                                    nil,
		"      cache: {}\n":                   {filepath.Join("state", defaultPath)},
		"      cache: { path: sub/x.json }\n": {filepath.Join("state", "sub", "x.json")},
		"      cache: { path: \"" + absolute + "\" }\n": {absolute},
	} {
		got := library(t, cache, Options{Folder: "state"}).paths()
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q, want %q", cache, got, want)
		}
	}
	folder := t.TempDir()
	provider, _, _ := strings.Cut(documents(cached), "---\n")
	l := New(validatetest.Config(t, provider+"---\n"+strings.Replace(provider, "name: vendor", "name: other", 1)), Options{Folder: folder})
	l.Book("vendor").Learn(start, &Seen{Place: acme, Path: "/organizations/1/networks/N_1"})
	l.Book("other").Learn(start, &Seen{Place: acme, Path: "/organizations/2/networks/N_1"})
	flush(t, l, start, true)
	again := New(validatetest.Config(t, documents(cached)), Options{Folder: folder})
	if err := again.Load(start); err != nil || resolve(again.Book("vendor"), start, acme, "/networks/N_1") != "1" {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "kept.json"))
	if err != nil || strings.Count(string(text), "N_1") != 2 {
		t.Errorf("%v\n%s", err, text)
	}
}

// No text makes the reader fail in another way than by an error, and what it reads is written and read again as it was.
func FuzzFile(f *testing.F) {
	f.Add(encode(map[shelf]map[string]entry{{"vendor", "organizationId", "network", Place{"a", "t"}}: {"N_1": {"1", start}}}))
	f.Add([]byte(`{"format": "tapyr-learned-1", "shelves": []}`))
	f.Add([]byte(`{"saved_at": "2026-07-08T12:00:00Z", "networks": [], "devices": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		shelves, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(encode(shelves))
		if err != nil {
			t.Fatalf("%v\n%s", err, encode(shelves))
		}
		for name, entries := range shelves {
			for id, e := range entries {
				got := again[name][id]
				if got.value != e.value || got.atNanos/int64(time.Second) != e.atNanos/int64(time.Second) {
					t.Fatalf("%v %q: %v, want %v", name, id, got, e)
				}
			}
		}
	})
}
