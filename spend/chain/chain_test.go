package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// build makes a chain of n entries, bare or not.
func build(t testing.TB, n int, bare bool) []Entry {
	t.Helper()
	var entries []Entry
	var head Head
	for i := range n {
		e, err := Seal(head, bare, Field{Name: "amount", Text: strconv.Itoa(i)}, Field{Name: "event_id", Text: fmt.Sprintf("é%d", i+1)})
		if err != nil {
			t.Fatal(err)
		}
		entries, head = append(entries, e), e.Head()
	}
	return entries
}

// export writes entries as a file.
func export(entries []Entry) []byte {
	var text []byte
	for _, e := range entries {
		text = append(e.AppendJSON(text), '\n')
	}
	return text
}

func all(entries []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// reseal gives an entry with changed content the hash of that content.
func reseal(t testing.TB, e Entry, old, changed string) Entry {
	t.Helper()
	body := bytes.Replace(e.Body, []byte(old), []byte(changed), 1)
	if bytes.Equal(body, e.Body) {
		t.Fatalf("%s has no %s", e.Body, old)
	}
	e.Body, e.Hash = body, hashOf(body)
	return e
}

// verifyBoth checks a chain as a store gives it and as a file.
func verifyBoth(t *testing.T, entries []Entry, anchors ...Anchor) Result {
	t.Helper()
	direct, err := Verify(all(entries), anchors...)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Verify(Read(bytes.NewReader(export(entries))), anchors...)
	if err != nil {
		t.Fatal(err)
	}
	fromFile, fromStore := *orNone(read.Break), *orNone(direct.Break)
	if len(entries) > 0 && !entries[0].numbered() { // a bare file has no numbers, a store always does
		fromFile.Seq = fromStore.Seq
	}
	if fromFile != fromStore {
		t.Errorf("file: %+v, store: %+v", fromFile, fromStore)
	}
	return direct
}

func orNone(b *Break) *Break {
	if b == nil {
		return &Break{}
	}
	return b
}

func TestVerifyNamesTheFirstBreak(t *testing.T) {
	for _, bare := range []bool{false, true} {
		for name, c := range map[string]struct {
			tamper   func([]Entry) []Entry
			fault    Fault
			position int64
			event    string
		}{
			"nothing": {tamper: func(e []Entry) []Entry { return e }},
			"content": {func(e []Entry) []Entry {
				e[2].Body = bytes.Replace(e[2].Body, []byte(`"amount":"2"`), []byte(`"amount":"3"`), 1)
				return e
			}, Altered, 3, "é3"},
			"hash":          {func(e []Entry) []Entry { e[2].Hash = strings.Repeat("0", 64); return e }, Altered, 3, "é3"},
			"missing first": {func(e []Entry) []Entry { return e[1:] }, Missing, 1, "é2"},
			"missing":       {func(e []Entry) []Entry { return slices.Delete(e, 2, 3) }, Missing, 3, "é4"},
			"missing two":   {func(e []Entry) []Entry { return slices.Delete(e, 1, 3) }, Missing, 2, "é4"},
			"swapped":       {func(e []Entry) []Entry { e[1], e[2] = e[2], e[1]; return e }, Reordered, 2, "é3"},
			"swapped ends":  {func(e []Entry) []Entry { e[0], e[4] = e[4], e[0]; return e }, Reordered, 1, "é5"},
			"moved back":    {func(e []Entry) []Entry { x := e[1]; return append(slices.Delete(e, 1, 2), x) }, Reordered, 2, "é3"},
			"repeated":      {func(e []Entry) []Entry { return slices.Insert(e, 3, e[2]) }, Inserted, 4, "é3"},
			"copied back":   {func(e []Entry) []Entry { return append(e, e[1]) }, Inserted, 6, "é2"},
			"forged": {func(e []Entry) []Entry {
				forged, err := Seal(Head{2, e[1].Hash}, bare, Field{Name: "event_id", Text: "forged"})
				if err != nil {
					t.Fatal(err)
				}
				return slices.Insert(e, 2, forged)
			}, Inserted, 3, "forged"},
			"forged first": {func(e []Entry) []Entry {
				forged, err := Seal(Head{}, bare, Field{Name: "event_id", Text: "forged"})
				if err != nil {
					t.Fatal(err)
				}
				return slices.Insert(e, 0, forged)
			}, Inserted, 1, "forged"},
			"stranger": {func(e []Entry) []Entry {
				forged, err := Seal(Head{2, strings.Repeat("a", 64)}, bare, Field{Name: "event_id", Text: "forged"})
				if err != nil {
					t.Fatal(err)
				}
				return slices.Insert(e, 2, forged)
			}, Inserted, 3, "forged"},
		} {
			t.Run(fmt.Sprintf("%s bare=%v", name, bare), func(t *testing.T) {
				r := verifyBoth(t, c.tamper(build(t, 5, bare)))
				b := orNone(r.Break)
				if b.Fault != c.fault || b.Position != c.position || b.Event != c.event {
					t.Errorf("got %+v, want %s at %d (%s)", *b, c.fault, c.position, c.event)
				}
				if r.Valid() != (c.fault == "") || r.Anchored {
					t.Errorf("valid %v, anchored %v", r.Valid(), r.Anchored)
				}
			})
		}
	}
}

// An entry that was changed and given a hash that fits shows at the next one. With numbers it is known that nothing is missing;
// without, it could be.
func TestVerifyResealed(t *testing.T) {
	for bare, want := range map[bool]string{false: "altered 3", true: "missing 4"} {
		entries := build(t, 5, bare)
		entries[2] = reseal(t, entries[2], `"amount":"2"`, `"amount":"9"`)
		b := orNone(verifyBoth(t, entries).Break)
		if got := fmt.Sprintf("%s %d", b.Fault, b.Position); got != want {
			t.Errorf("bare %v: got %s (%s), want %s", bare, got, b.Reason, want)
		}
	}
}

// What stands beside the content in a store must agree with it.
func TestVerifyStoreColumns(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"seq":      func(e *Entry) { e.Seq = 4 },
		"previous": func(e *Entry) { e.Previous = Genesis },
		"body":     func(e *Entry) { e.Body = []byte("{") },
	} {
		entries := build(t, 3, false)
		change(&entries[1])
		r, err := Verify(all(entries))
		if err != nil || r.Valid() || r.Break.Fault != Altered || r.Break.Position != 2 {
			t.Errorf("%s: %+v, %v, want altered at 2", name, r.Break, err)
		}
	}
}

func TestVerifyAnchors(t *testing.T) {
	entries := build(t, 5, false)
	anchor := func(i int) Anchor { return entries[i].Head() }
	for name, c := range map[string]struct {
		entries  []Entry
		anchors  []Anchor
		fault    Fault
		anchored bool
	}{
		"head":           {entries, []Anchor{anchor(4)}, "", true},
		"earlier":        {entries, []Anchor{anchor(1)}, "", true},
		"two":            {entries, []Anchor{anchor(1), anchor(3)}, "", true},
		"hash alone":     {entries, []Anchor{{0, entries[2].Hash}}, "", true},
		"none":           {entries, nil, "", false},
		"cut":            {entries[:3], []Anchor{anchor(4)}, CutOff, false},
		"one of two cut": {entries[:3], []Anchor{anchor(0), anchor(4)}, CutOff, false},
		"empty":          {nil, []Anchor{anchor(4)}, CutOff, false},
		"other count":    {entries, []Anchor{{3, entries[4].Hash}}, CutOff, false},
		"foreign":        {entries, []Anchor{{0, "abc"}}, CutOff, false},
	} {
		r := verifyBoth(t, c.entries, c.anchors...)
		if orNone(r.Break).Fault != c.fault || r.Anchored != c.anchored {
			t.Errorf("%s: %+v, anchored %v; want %q, %v", name, r.Break, r.Anchored, c.fault, c.anchored)
		}
	}
}

// A pruned entry holds its place; it must be vouched for by a later entry.
func TestVerifyPruned(t *testing.T) {
	entries := build(t, 5, false)
	entries[1].Body, entries[2].Body = nil, nil
	if r := verifyBoth(t, entries); r.Valid() || r.Break.Fault != Altered || r.Break.Position != 2 {
		t.Errorf("nobody vouches: %+v", r.Break)
	}
	vouch, err := Seal(entries[4].Head(), false, Prune([]int64{2})...)
	if err != nil {
		t.Fatal(err)
	}
	if r := verifyBoth(t, append(slices.Clone(entries), vouch)); r.Valid() || r.Break.Position != 3 {
		t.Errorf("one of two is vouched for: %+v", r.Break)
	}
	if vouch, err = Seal(entries[4].Head(), false, Prune([]int64{2, 3})...); err != nil {
		t.Fatal(err)
	}
	whole := append(slices.Clone(entries), vouch)
	if r := verifyBoth(t, whole); !r.Valid() || r.Pruned != 2 || r.Entries != 6 {
		t.Errorf("pruned chain: %+v, %+v", r, r.Break)
	}
	// Its hashes still hold.
	whole[1].Hash = strings.Repeat("0", 64)
	if r := verifyBoth(t, whole); r.Valid() {
		t.Error("the hash of a pruned entry was changed, and nothing showed")
	}
	whole = append(slices.Clone(entries), vouch)
	if r := verifyBoth(t, slices.Delete(whole, 1, 2)); r.Valid() || r.Break.Fault != Missing {
		t.Errorf("a pruned entry was taken out: %+v", r.Break)
	}
}

// Any single change of an exported file that is not one of form shows.
func TestAnyChangedByteShows(t *testing.T) {
	entries := build(t, 3, false)
	text := export(entries)
	head := entries[2].Head()
	for i := range text {
		for _, c := range []byte{'0', 'z', '"'} {
			if text[i] == c {
				continue
			}
			changed := bytes.Clone(text)
			changed[i] = c
			r, err := Verify(Read(bytes.NewReader(changed)), head)
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid() {
				t.Fatalf("byte %d became %q in %s, and nothing showed", i, c, changed)
			}
		}
	}
}

// Random cuts, moves and copies of whole entries show, with an anchor for the head.
func TestAnyEditShows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := build(t, rapid.IntRange(1, 12).Draw(rt, "n"), rapid.Bool().Draw(rt, "bare"))
		head := entries[len(entries)-1].Head()
		edited := slices.Clone(entries)
		for range rapid.IntRange(1, 3).Draw(rt, "edits") {
			if len(edited) == 0 {
				break
			}
			i := rapid.IntRange(0, len(edited)-1).Draw(rt, "from")
			e := edited[i]
			if rapid.Bool().Draw(rt, "cut") {
				edited = slices.Delete(edited, i, i+1)
			}
			if rapid.Bool().Draw(rt, "paste") {
				edited = slices.Insert(edited, rapid.IntRange(0, len(edited)).Draw(rt, "to"), e)
			}
		}
		same := slices.EqualFunc(entries, edited, func(a, b Entry) bool { return a.Hash == b.Hash })
		r, err := Verify(all(edited), head)
		if err != nil {
			rt.Fatal(err)
		}
		if r.Valid() != same {
			rt.Fatalf("edited %v, valid %v (%+v)", !same, r.Valid(), r.Break)
		}
	})
}

func TestReadTakesFormAsItComes(t *testing.T) {
	entries := build(t, 3, false)
	var text bytes.Buffer
	text.WriteString("\ufeff\r\n")
	for _, e := range entries {
		var tree map[string]any
		if err := json.Unmarshal(e.AppendJSON(nil), &tree); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "  %s \r\n\n", bytes.ReplaceAll(line, []byte(`,"`), []byte(`, "`)))
	}
	r, err := Verify(Read(&text))
	if err != nil || !r.Valid() || r.Entries != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestReadNamesBadLines(t *testing.T) {
	good := string(export(build(t, 1, false)))
	for line, want := range map[string]string{
		`{`:                                   "json text",
		`[]`:                                  "no JSON object",
		`{"previous_hash":"a"}`:               "no entry_hash",
		`{"entry_hash":"a"}`:                  "no previous_hash",
		`{"entry_hash":1,"previous_hash":""}`: "entry_hash is no string",
		`{"entry_hash":"a","previous_hash":"b","seq":"1"}`: "seq is",
		`{"entry_hash":"a","previous_hash":"b","seq":0}`:   "seq is",
	} {
		var bad *LineError
		n := 0
		for _, err := range Read(strings.NewReader(good + line + "\n" + good)) {
			n++
			if err != nil && !errors.As(err, &bad) {
				t.Fatal(err)
			}
		}
		if n != 3 || bad == nil || bad.Line != 2 || !strings.Contains(bad.Error(), want) {
			t.Errorf("%s: %d entries, %v, want line 2 with %q", line, n, bad, want)
		}
		r, err := Verify(Read(strings.NewReader(good + line + "\n" + good)))
		if err != nil || r.Valid() || r.Break.Position != 2 || r.Break.Fault != Altered {
			t.Errorf("%s: %+v, %v, want altered at 2", line, r.Break, err)
		}
	}
	failing := func(yield func(Entry, error) bool) { yield(Entry{}, errors.New("disk")) }
	if _, err := Verify(failing); err == nil || err.Error() != "disk" {
		t.Errorf("the reader's error became %v", err)
	}
}

func TestWrite(t *testing.T) {
	entries := build(t, 3, false)
	var text bytes.Buffer
	head, err := Write(&text, all(entries))
	if err != nil || head != entries[2].Head() || !bytes.Equal(text.Bytes(), export(entries)) {
		t.Errorf("head %+v, %v, text %s", head, err, text.Bytes())
	}
	if line, err := json.Marshal(head); err != nil || string(line) != `{"count":3,"head":"`+head.Hash+`"}` {
		t.Errorf("an anchor is written as %s, %v", line, err)
	}
	failing := func(yield func(Entry, error) bool) { yield(Entry{}, errors.New("disk")) }
	if _, err := Write(&text, failing); err == nil {
		t.Error("the reader's error was lost")
	}
}

func TestSealRefuses(t *testing.T) {
	for _, fields := range [][]Field{
		{{Name: "a", Text: "1"}, {Name: "a", Text: "2"}},
		{{Name: "seq", Text: "1"}},
		{{Name: "a", Text: "\xff"}},
		{{Name: "\xff", Text: "a"}},
	} {
		if e, err := Seal(Head{}, false, fields...); err == nil {
			t.Errorf("%+v: got %s, want an error", fields, e.Body)
		}
	}
}

func TestEntryMembers(t *testing.T) {
	e, err := Seal(Head{}, false, Field{Name: "a", Text: `x"y`}, Int("n", 7), Field{Name: "f", Text: "entry_hash\":\"no"})
	if err != nil {
		t.Fatal(err)
	}
	if e.Text("a") != `x"y` || e.Number("n") != 7 || e.Text("none") != "" || e.Number("a") != 0 || e.Text("n") != "" {
		t.Errorf("members of %s", e.Body)
	}
	canonical, err := Canonical(e.AppendJSON(nil))
	if err != nil || string(canonical) != string(e.AppendJSON(nil)) {
		t.Errorf("a line is not canonical: %s, %v", e.AppendJSON(nil), err)
	}
}

func TestBareLeavesEverythingElseOut(t *testing.T) {
	var head Head
	var entries []Entry
	for i := range 4 {
		fields := []Field{
			{Name: "event_id", Text: strconv.Itoa(i)},
			{Name: "capability", Text: "c"},
			{Name: "disposition", Text: "minimal"},
			{Name: "route", Literal: "null"},
			{Name: "reserved_units", Text: "0"},
			{Name: "policy_version", Text: "v"},
			{Name: "kind", Text: []string{"admission", "settlement"}[i%2]},
			{Name: "class", Text: "x"},
		}
		e, err := Seal(head, false, fields...)
		if err != nil {
			t.Fatal(err)
		}
		entries, head = append(entries, e), e.Head()
	}
	var bare []Entry
	for e, err := range Bare(all(entries)) {
		if err != nil {
			t.Fatal(err)
		}
		bare = append(bare, e)
	}
	want := `{"capability":"c","disposition":"minimal","event_id":"2","policy_version":"v","previous_hash":"` + bare[0].Hash +
		`","reserved_units":"0","route":null}`
	if len(bare) != 2 || string(bare[1].Body) != want {
		t.Errorf("bare chain %d: %s, want %s", len(bare), bare[1].Body, want)
	}
	if r := verifyBoth(t, bare); !r.Valid() {
		t.Errorf("bare chain: %+v", r.Break)
	}
}

// The set of ranges agrees with a map.
func TestRanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) (*ranges, map[int64]bool) {
			r, m := new(ranges), make(map[int64]bool)
			for range rapid.IntRange(0, 8).Draw(rt, name) {
				first := rapid.Int64Range(1, 20).Draw(rt, "first")
				last := first + rapid.Int64Range(0, 4).Draw(rt, "length")
				r.add(first, last)
				for i := first; i <= last; i++ {
					m[i] = true
				}
			}
			return r, m
		}
		a, inA := draw("a")
		b, inB := draw("b")
		again := new(ranges)
		again.parse(b.String())
		if b.String() != again.String() {
			rt.Fatalf("%s was read as %s", b, again)
		}
		want, found := int64(0), false
		for i := int64(1); i < 30 && !found; i++ {
			if inA[i] && !inB[i] {
				want, found = i, true
			}
		}
		if got, ok := a.firstOutside(b); got != want || ok != found {
			rt.Fatalf("first of %s outside %s: %d, %v, want %d, %v", a, b, got, ok, want, found)
		}
	})
	r := new(ranges)
	r.parse("x,5-3,1-9999999999999999999,-,2")
	if r.String() != "2" {
		t.Errorf("what cannot be read vouched for %s", r)
	}
}
