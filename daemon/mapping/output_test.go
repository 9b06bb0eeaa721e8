package mapping

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever a killed process has left at the end of a file, what is appended begins on a line of its own, whole lines stay, and half
// ones go.
func TestAppendAfterAKill(t *testing.T) {
	for before, want := range map[string]string{
		"":                              "",
		"{\"a\":1}\n":                   "{\"a\":1}\n",
		"{\"a\":1}\n{\"b\":":            "{\"a\":1}\n",
		"{\"a\":1}\n{\"b\":2}":          "{\"a\":1}\n{\"b\":2}\n", // whole, but for its end: somebody else's
		"{\"b\":":                       "",
		"1\n12":                         "1\n", // perhaps 123
		"\"x\"\n\"y\"":                  "\"x\"\n\"y\"\n",
		"\n" + strings.Repeat("[", 1e6): "\n",
	} {
		name := filepath.Join(t.TempDir(), "out.jsonl")
		if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := appendTo(name, strings.NewReader("{\"new\":true}\n")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want+"{\"new\":true}\n" {
			t.Errorf("after %.40q: %.80q, want %q and the new line", before, got, want)
		}
	}
}

// A file cut at any byte loses the line that was cut, and no other.
func TestAppendAfterAnyCut(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var text bytes.Buffer
		for i := range rapid.IntRange(1, 5).Draw(t, "lines") {
			fmt.Fprintf(&text, "{\"i\":%d,\"text\":%q}\n", i, rapid.StringMatching(`[a-z{}"\\]{0,12}`).Draw(t, "text"))
		}
		cut := text.Bytes()[:rapid.IntRange(0, text.Len()).Draw(t, "cut")]
		name := filepath.Join(dir, "out.jsonl")
		if err := os.WriteFile(name, cut, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := appendTo(name, strings.NewReader("{}\n")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		whole := cut[:bytes.LastIndexByte(cut, '\n')+1]
		if len(cut) < text.Len() && text.Bytes()[len(cut)] == '\n' { // only its end was cut
			whole = text.Bytes()[:len(cut)+1]
		}
		if string(got) != string(whole)+"{}\n" {
			t.Errorf("%q: got %q, want %q and {}", cut, got, whole)
		}
	})
}

// A run with many lines keeps few of them in memory, writes them all, in order, and leaves no file beside its output.
func TestManyLinesAreStagedInAFile(t *testing.T) {
	dir := t.TempDir()
	j := &Job{name: "j", outputs: []output{{path: filepath.Join(dir, "%Y", "out.jsonl")}}}
	h := j.Begin()
	const pages, each = 30, 1000
	row := strings.Repeat("x", 100)
	for page := range pages {
		items := make([]any, each)
		for i := range items {
			items[i] = map[string]any{"n": int64(page*each + i), "text": row}
		}
		if err := h.Add(t.Context(), &Page{Items: items}); err != nil {
			t.Fatal(err)
		}
		if n := h.lines[0].text.Len(); n > stagedBytes+1000 {
			t.Fatalf("%d bytes wait in memory, want at most %d", n, stagedBytes)
		}
	}
	if h.lines[0].file == nil {
		t.Fatal("all lines wait in memory")
	}
	var f Files
	if n, err := f.Publish(h, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); n != pages*each || err != nil {
		t.Fatalf("%d lines, %v", n, err)
	}
	h.Drop()
	text, err := os.ReadFile(filepath.Join(dir, "2026", "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(list) != pages*each {
		t.Fatalf("%d lines in the file", len(list))
	}
	for i, line := range list {
		if line != fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, row) {
			t.Fatalf("line %d is %.60s", i, line)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tapyr-staged-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// What is dropped without having been published leaves nothing, published or not.
func TestDroppedLinesLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	j := &Job{name: "j", outputs: []output{{path: filepath.Join(dir, "out.jsonl")}}}
	h := j.Begin()
	if err := h.Add(t.Context(), &Page{Items: []any{strings.Repeat("x", stagedBytes)}}); err != nil {
		t.Fatal(err)
	}
	h.Drop()
	h.Drop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
