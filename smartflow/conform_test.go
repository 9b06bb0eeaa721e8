package smartflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func vectorFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantAll(t *testing.T, r Report, cases int64) {
	t.Helper()
	if r.Cases != cases {
		t.Errorf("ran %d cases, want %d", r.Cases, cases)
	}
	for _, f := range r.Failures {
		t.Errorf("%s: %s: %s", f.File, f.Case, f.Message)
	}
}

func TestPublishedVectors(t *testing.T) {
	wantAll(t, Conform("v", vectorFile(t, "smartflow-vectors.json")), 47)
}

func TestRecordedSequences(t *testing.T) {
	wantAll(t, Conform("s", vectorFile(t, "smartflow-sequences.json")), 154)
}

// The published vectors must hold for the limiter as it is sold, too, not only for
// the one with the peculiarities of the reference.
func TestPublishedVectorsWithoutPeculiarities(t *testing.T) {
	r := conform("v", vectorFile(t, "smartflow-vectors.json"), dialect{}, func() cacheFile { return &memoryFile{} })
	wantAll(t, r, 47)
}

// diskFile plays the file of a sequence with FileCache on a real disk, in the way the
// recording was made.
type diskFile struct {
	FileCache
	aside string // where the folder is while a fault is on
}

func newDiskFile(t *testing.T) *diskFile {
	folder := filepath.Join(t.TempDir(), "c")
	return &diskFile{FileCache{filepath.Join(folder, "cache.json")}, folder + ".aside"}
}

func (f *diskFile) write(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.Path, text, 0o600)
}

func (f *diskFile) remove() error { return os.RemoveAll(f.Path) }

func (f *diskFile) setFault(on bool) error {
	folder := filepath.Dir(f.Path)
	if on {
		if err := os.Rename(folder, f.aside); err != nil && !os.IsNotExist(err) {
			return err
		}
		return os.WriteFile(folder, nil, 0o600)
	}
	if err := os.Remove(folder); err != nil {
		return err
	}
	if err := os.Rename(f.aside, folder); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func TestRecordedSequencesOnDisk(t *testing.T) {
	r := conform("s", vectorFile(t, "smartflow-sequences.json"), reference, func() cacheFile { return newDiskFile(t) })
	wantAll(t, r, 154)
}

// deviations are the tags under which the limiter as it is sold does something else
// than the reference, each with the deviation that the package documentation lists.
var deviations = map[string]string{
	"url-edges":            "query",
	"freshness":            "future",
	"ctor-below-floor":     "floor",
	"zero-rate":            "floor",
	"load-crash":           "damaged",
	"partial-load":         "damaged",
	"strptime-lenient":     "timestamp",
	"empty-id":             "identifiers",
	"null-id":              "identifiers",
	"numeric-id":           "identifiers",
	"unhashable-id":        "identifiers",
	"pending-ignores-type": "look-up",
	"reentrant-resolver":   "look-up",
}

// What is sold differs from the reference under the tags above, and nowhere else.
func TestDeviationsAreThoseListed(t *testing.T) {
	data := vectorFile(t, "smartflow-sequences.json")
	sold := dialect{flushInline: true} // or else the order of flushes would be a matter of luck
	differing := map[string]bool{}
	for _, f := range conform("s", data, sold, func() cacheFile { return &memoryFile{} }).Failures {
		differing[f.Case] = true
		t.Logf("%s: %s", f.Case, f.Message)
	}
	var file struct {
		Sequences []struct {
			ID, Profile string
			Tags        []string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range file.Sequences {
		listed := false
		for _, tag := range s.Tags {
			listed = listed || deviations[tag] != ""
			seen[tag] = seen[tag] || differing[s.ID]
			if s.Profile != "core" && !strings.Contains(string(doc), tag) {
				t.Errorf("%s: the package documentation does not mention the tag %s", s.ID, tag)
			}
		}
		if differing[s.ID] && !listed {
			t.Errorf("%s differs, and none of its tags %v is listed", s.ID, s.Tags)
		}
	}
	for tag := range deviations {
		if !seen[tag] {
			t.Errorf("the tag %s is listed, but no sequence of it differs", tag)
		}
	}
}

// leaf is a place in a JSON document that holds no object and no list.
type leaf struct {
	path []any // strings and ints
	v    any
}

func leaves(v any, path []any, expectation func(path []any) bool) []leaf {
	var found []leaf
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			found = append(found, leaves(m, append(slices.Clone(path), name), expectation)...)
		}
	case []any:
		for i, m := range v {
			found = append(found, leaves(m, append(slices.Clone(path), i), expectation)...)
		}
	default:
		if expectation(path) {
			found = append(found, leaf{path, v})
		}
	}
	return found
}

// set changes a place and returns what was there.
func set(root any, path []any, v any) (before any) {
	at := root
	for _, step := range path[:len(path)-1] {
		switch step := step.(type) {
		case string:
			at = at.(map[string]any)[step]
		case int:
			at = at.([]any)[step]
		}
	}
	switch last := path[len(path)-1].(type) {
	case string:
		m := at.(map[string]any)
		before = m[last]
		m[last] = v
	case int:
		l := at.([]any)
		before = l[last]
		l[last] = v
	}
	return before
}

// mutated is another value of the same kind.
func mutated(v any, rng *rand.Rand) any {
	switch v := v.(type) {
	case float64:
		if rng.IntN(2) == 0 {
			return v + 2e-9*max(1, float64(rng.IntN(1000000)))
		}
		return v + 1
	case string:
		return v + "x"
	case bool:
		return !v
	}
	return "null no more"
}

// mustFail runs a changed document.
func mustFail(t *testing.T, document any, what string) {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if len(Conform("m", data).Failures) == 0 {
		t.Errorf("%s: Conform did not notice", what)
	}
}

// Every single expectation of the published vectors counts.
func TestChangedVectorsFail(t *testing.T) {
	data := vectorFile(t, "smartflow-vectors.json")
	var document any
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	places := leaves(document, nil, func(path []any) bool {
		name, ok := path[len(path)-1].(string)
		inMap := len(path) > 1 && (path[len(path)-2] == "expected_network_to_org" || path[len(path)-2] == "expected_serial_to_org")
		return ok && (inMap || strings.HasPrefix(name, "expected") || strings.HasPrefix(name, "changed") || name == "tokens_after" || name == "wait")
	})
	if len(places) < 80 {
		t.Fatalf("only %d expectations found", len(places))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, p := range places {
		before := set(document, p.path, mutated(p.v, rng))
		mustFail(t, document, fmt.Sprint(p.path))
		set(document, p.path, before)
	}
}

// Changes at random places of the expectations of sequences, or their loss.
func TestChangedSequencesFail(t *testing.T) {
	var file map[string]any
	if err := json.Unmarshal(vectorFile(t, "smartflow-sequences.json"), &file); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := file["sequences"].([]any)
	runs := 400
	if testing.Short() {
		runs = 100
	}
	for range runs {
		s := all[rng.IntN(len(all))].(map[string]any)
		document := map[string]any{"version": 1, "sequences": []any{s}}
		places := leaves(document, nil, func(path []any) bool {
			return len(path) > 3 && (path[2] == "init" || (path[2] == "ops" && len(path) > 4 && path[4] == "exp"))
		})
		p := places[rng.IntN(len(places))]
		before := set(document, p.path, mutated(p.v, rng))
		mustFail(t, document, fmt.Sprint(s["id"], p.path))
		set(document, p.path, before)

		ops := s["ops"].([]any)
		i := rng.IntN(len(ops))
		exp := ops[i].(map[string]any)["exp"].(map[string]any)
		for name, v := range exp {
			delete(exp, name)
			mustFail(t, document, fmt.Sprint(s["id"], i, name, " deleted"))
			exp[name] = v
			break
		}
	}
}

func TestUnusableFilesFail(t *testing.T) {
	sequence := func(change string) string {
		return `{"version":1,"sequences":[{"id":"a","profile":"core","tags":[],"config":{},"sleep":"frozen","t0":0,"wall0":0,
			"resolver":null,"hydrator":null,"init":{"fresh":false,"networks":[],"devices":[]},"ops":[` + change + `]}]}`
	}
	if r := Conform("f", []byte(sequence(`{"op":"delete_file","t":0,"exp":{}}`))); r.Cases != 1 || len(r.Failures) != 0 {
		t.Fatalf("the smallest sequence fails: %v", r)
	}
	for name, c := range map[string]struct{ text, says string }{
		"no JSON":           {`{`, "not a JSON object"},
		"a list":            {`[]`, "not a JSON object"},
		"nothing":           {`{"version":1}`, "no cases"},
		"other version":     {`{"version":2,"sequences":[]}`, "version is 2"},
		"no version":        {`{"sequences":[]}`, "version is missing"},
		"empty":             {`{"version":1,"sequences":[]}`, "no cases"},
		"unknown section":   {`{"version":1,"tokens":{"cases":[]}}`, "unknown section"},
		"beside sequences":  {`{"version":1,"sequences":[],"aimd":{}}`, "unknown member"},
		"unknown member":    {`{"version":1,"rate_setter_floor":{"cases":[{"name":"a","set_rate":1,"expected_rate":1,"min":2}]}}`, "min"},
		"no expectation":    {`{"version":1,"rate_setter_floor":{"cases":[{"name":"a","set_rate":1}]}}`, "is missing"},
		"member twice":      {`{"version":1,"rate_setter_floor":{"cases":[{"name":"a","set_rate":1,"expected_rate":1,"expected_rate":2}]}}`, "expected_rate"},
		"no steps":          {`{"version":1,"token_bucket":{"cases":[{"name":"a","rate":1,"capacity":1,"init_tokens":1,"init_last":0,"steps":[]}]}}`, "is missing"},
		"unknown target":    {`{"version":1,"aimd":{"cases":[{"name":"a","op":"on_success","target":"x","start_rate":1,"expected_rate":1}]}}`, "target"},
		"unknown aimd op":   {`{"version":1,"aimd":{"cases":[{"name":"a","op":"x","target":"org","start_rate":1,"expected_rate":1}]}}`, "op is"},
		"unknown op":        {sequence(`{"op":"jump","t":0,"exp":{}}`), "unknown op"},
		"input missing":     {sequence(`{"op":"acquire","t":0,"exp":{}}`), "inputs"},
		"input too many":    {sequence(`{"op":"save","t":0,"url":"/x","exp":{}}`), "inputs"},
		"no exp":            {sequence(`{"op":"save","t":0}`), `"exp" is missing`},
		"no t":              {sequence(`{"op":"save","exp":{}}`), `"t" is missing`},
		"backwards":         {sequence(`{"op":"wall","add":1,"t":-1,"exp":{}}`), "already"},
		"unknown op member": {sequence(`{"op":"save","t":0,"exp":{},"x":1}`), "x"},
		"bad raw":           {sequence(`{"op":"write_file","raw":7,"t":0,"exp":{}}`), "raw is"},
		"bad hex":           {sequence(`{"op":"write_file","raw":{"hex":"zz"},"t":0,"exp":{}}`), "invalid byte"},
		"no ops":            {sequence(``), `"ops" is missing`},
		"too little":        {sequence(`{"op":"delete_file","t":0,"exp":{"save":"ok"}}`), "got nothing"},
		"too much":          {sequence(`{"op":"save","t":0,"exp":{"dirty":0}}`), "expected nothing"},
	} {
		r := Conform("f", []byte(c.text))
		if len(r.Failures) == 0 || !strings.Contains(r.Failures[0].Message, c.says) {
			t.Errorf("%s: got %v, want a failure that says %q", name, r.Failures, c.says)
		}
	}
}

func TestReportIsJSON(t *testing.T) {
	data, err := json.Marshal(Conform("v", vectorFile(t, "smartflow-vectors.json")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(data), `{"cases":47,"failures":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
