package smartflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func ownSequences(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "sequences.json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestOwnSequences are written by hand from the specification: what the recorded ones
// do not touch. They hold for the limiter as it is sold, too.
func TestOwnSequences(t *testing.T) {
	wantAll(t, Conform("own", ownSequences(t)), 12)
	sold := dialect{flushInline: true}
	wantAll(t, conform("own", ownSequences(t), sold, func() cacheFile { return newDiskFile(t) }), 12)
}

// TestEveryExpectationCounts changes each place of each expectation in turn, and takes
// each member away. The recorded sequences have some ten thousand, so of them it takes
// a part, where TAPYR_SOAK does not ask for all.
func TestEveryExpectationCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for name, share := range map[string]int{"own": 1, "recorded": 397} {
		data := ownSequences(t)
		if name == "recorded" {
			data = vectorFile(t, "smartflow-sequences.json")
		}
		if os.Getenv("TAPYR_SOAK") != "" {
			share = 1
		}
		var file map[string]any
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		changes := 0
		for _, s := range file["sequences"].([]any) {
			document := map[string]any{"version": 1, "sequences": []any{s}}
			inExpectation := func(path []any) bool {
				return len(path) > 3 && (path[2] == "init" || (path[2] == "ops" && len(path) > 4 && path[4] == "exp"))
			}
			for _, p := range leaves(document, nil, inExpectation) {
				if changes++; changes%share == 0 {
					before := set(document, p.path, mutated(p.v, rng))
					mustFail(t, document, fmt.Sprint(s.(map[string]any)["id"], p.path))
					set(document, p.path, before)
				}
			}
			for i, o := range s.(map[string]any)["ops"].([]any) {
				exp := o.(map[string]any)["exp"].(map[string]any)
				for _, member := range slices.Sorted(maps.Keys(exp)) {
					if changes++; changes%share == 0 {
						before := exp[member]
						delete(exp, member)
						mustFail(t, document, fmt.Sprint(s.(map[string]any)["id"], i, member, " deleted"))
						exp[member] = before
					}
				}
			}
		}
		t.Logf("%s: one of %d of %d changes", name, share, changes)
		if changes < 400 {
			t.Errorf("%s: only %d changes", name, changes)
		}
	}
}

// tableRow is a line of the table in the package documentation: tags, and what New does.
var tableRow = regexp.MustCompile(`(?m)^//\t([a-z][a-z0-9, ()-]*?) {2,}(matches|refuses)?`)

// TestTableOfDeviations reads the table of the package documentation, and holds it
// against what the limiter does: a tag that is said to match does, one that is said to
// be refused differs in some sequence, and every tag is there.
func TestTableOfDeviations(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	says, last := map[string]string{}, ""
	for _, m := range tableRow.FindAllStringSubmatch(string(doc), -1) {
		if m[2] != "" {
			last = m[2]
		}
		for tag := range strings.SplitSeq(strings.ReplaceAll(m[1], " (core)", ""), ",") {
			if tag = strings.TrimSpace(tag); tag != "" && tag != "tag" {
				says[tag] = last
			}
		}
	}
	data := vectorFile(t, "smartflow-sequences.json")
	differs := map[string]bool{}
	sold := dialect{flushInline: true} // or else flushes would be a matter of luck
	for _, f := range conform("s", data, sold, func() cacheFile { return &memoryFile{} }).Failures {
		differs[f.Case] = true
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
	matched, refused := map[string]bool{}, map[string]bool{}
	for _, s := range file.Sequences {
		for _, tag := range s.Tags {
			word := says[tag]
			switch {
			case s.Profile != "core" && word == "":
				t.Errorf("%s: the table does not have the tag %s", s.ID, tag)
			case word == "matches" && differs[s.ID]:
				t.Errorf("%s: the table says that New matches %s, and it does not", s.ID, tag)
			}
			refused[tag] = refused[tag] || differs[s.ID]
			matched[tag] = matched[tag] || s.Profile != "core"
		}
	}
	// Where flushes happen and whom they fail is not a matter of a sequence: the limiter
	// stores in the background.
	refused["failed-flush-raises"] = true
	for tag, word := range says {
		if word == "refuses" && !refused[tag] {
			t.Errorf("the table says that New refuses %s, and no sequence differs", tag)
		}
		if word == "matches" && !matched[tag] {
			t.Errorf("the table has the tag %s, which no sequence of conflict or quirk has", tag)
		}
	}
	if len(says) < 15 {
		t.Errorf("only %d tags were found in the table: %v", len(says), says)
	}
}

// TestMessagesOfConform: what cannot be run is named with its case, step and member, in
// the words of JSON, and ends at once.
func TestMessagesOfConform(t *testing.T) {
	acquire := func() map[string]any {
		return map[string]any{"op": "acquire", "t": 0.0, "url": "/networks/N", "exp": map[string]any{}}
	}
	for says, change := range map[string]func(s, o map[string]any){
		"member t0 is a string: it must be a number":                   func(s, _ map[string]any) { s["t0"] = "0" },
		"t0 is 1e+300: it must be a number of seconds between":         func(s, _ map[string]any) { s["t0"] = 1e300 },
		"wall0 is 1e+300: it must be a number of seconds":              func(s, _ map[string]any) { s["wall0"] = 1e300 },
		"member hydrator is a list: it must be an object":              func(s, _ map[string]any) { s["hydrator"] = []any{} },
		"member config.cache is a number: it must be true or false":    func(s, _ map[string]any) { s["config"] = map[string]any{"cache": 1} },
		"member burst is unknown":                                      func(s, _ map[string]any) { s["burst"] = 1 },
		"ops[0] (acquire): t is 1e+300":                                func(_, o map[string]any) { o["t"] = 1e300 },
		"ops[0] (acquire): member url is a number: it must be":         func(_, o map[string]any) { o["url"] = 7 },
		"ops[0] (acquire): member exp is a list: it must be an object": func(_, o map[string]any) { o["exp"] = []any{} },
		"ops[0] (acquire): member \"exp\" is missing":                  func(_, o map[string]any) { delete(o, "exp") },
		"ops[0] (fly): unknown op \"fly\": the ops are [acquire ":      func(_, o map[string]any) { o["op"] = "fly" },
		"ops[0]: member \"op\" is missing":                             func(_, o map[string]any) { delete(o, "op") },
		"ops[0] (wall): add is 1e+300":                                 func(_, o map[string]any) { delete(o, "url"); o["op"], o["add"] = "wall", 1e300 },
		"resolver: N[0]: charge_global is 1000000000000: it must be between 0 and 10000": func(s, _ map[string]any) {
			s["resolver"] = map[string]any{"network": map[string]any{"N": []any{map[string]any{"charge_global": 1e12}}}}
		},
		"hydrator: O: charge_global is -1": func(s, _ map[string]any) {
			s["hydrator"] = map[string]any{"O": map[string]any{"charge_global": -1}}
		},
		// A bucket that never pays its debt does not turn the clock over.
		"ops[0] (acquire): exp.charges: expected nothing": func(s, _ map[string]any) {
			s["sleep"], s["config"] = "advance", map[string]any{"global_rate": 1e-300}
		},
	} {
		s, o := smallestSequence(), acquire()
		s["ops"] = []any{o}
		change(s, o)
		if f := runOne(t, s); len(f) != 1 || f[0].Case != "a" || f[0].File != "f" || !strings.HasPrefix(f[0].Message, says) {
			t.Errorf("got %v, want %q", f, says)
		}
	}
	bucket := `{"version":1,"token_bucket":{"cases":[{"name":"b","rate":1,"capacity":1,"init_tokens":1,"init_last":%s,"steps":[{"now":%s,"tokens_after":0,"wait":0}]}]}}`
	for text, says := range map[string]string{
		"": "the file is empty", "[": "not a JSON object", "\x00": "not a JSON object",
		`{"version":1,"sequences":{}}`:                   "sequences: it is an object: it must be a list",
		`{"version":1,"sequences":[7]}`:                  "it is a number: it must be an object",
		`{"version":1,"aimd":{"cases":[]}}`:              "no cases: the list cases is missing or empty",
		`{"version":1,"aimd":{}}`:                        "no cases: the list cases is missing or empty",
		`{"version":1,"aimd":[]}`:                        "it is a list: it must be an object",
		fmt.Sprintf(bucket, "1e300", "1e300"):            "init_last is 1e+300",
		fmt.Sprintf(bucket, "0", "1e300"):                "steps[0].now is 1e+300",
		fmt.Sprintf(bucket, "5", "0"):                    "steps[0].now is 0: the clock already shows 5",
		fmt.Sprintf(bucket, "0", "NaN"):                  "not a JSON object",
		fmt.Sprintf(bucket, "0", "1e999"):                "member steps.0.now is 1e999: value out of range",
		strings.Repeat("[", 20000):                       "not a JSON object",
		"\ufeff" + string(ownSequences(t)):               "not a JSON object",
		string(ownSequences(t)[:len(ownSequences(t))/2]): "not a JSON object",
	} {
		if f := Conform("f", []byte(text)).Failures; len(f) == 0 || !strings.Contains(f[0].Message, says) {
			t.Errorf("%.40q: got %v, want %q", text, f, says)
		}
	}
}
