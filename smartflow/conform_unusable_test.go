package smartflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Conform must not pass what it does not understand: every test here takes something
// that passes and damages it.

// smallestSequence passes; its parts are damaged one by one.
func smallestSequence() map[string]any {
	return map[string]any{
		"id": "a", "profile": "core", "tags": []any{}, "config": map[string]any{}, "sleep": "frozen", "t0": 0.0, "wall0": 0.0,
		"resolver": nil, "hydrator": nil,
		"init": map[string]any{"fresh": false, "networks": []any{}, "devices": []any{}},
		"ops":  []any{map[string]any{"op": "resolve", "t": 0.0, "url": "/organizations/1", "exp": map[string]any{"org": "1", "scoped": false}}},
	}
}

func runOne(t *testing.T, sequence map[string]any) []Failure {
	t.Helper()
	data, err := json.Marshal(map[string]any{"version": 1, "sequences": []any{sequence}})
	if err != nil {
		t.Fatal(err)
	}
	return Conform("f", data).Failures
}

func TestDamagedSequencesFail(t *testing.T) {
	if f := runOne(t, smallestSequence()); len(f) > 0 {
		t.Fatalf("the smallest sequence fails: %v", f)
	}
	damage := map[string]func(s map[string]any){
		"no id":            func(s map[string]any) { delete(s, "id") },
		"no t0":            func(s map[string]any) { delete(s, "t0") },
		"no wall0":         func(s map[string]any) { delete(s, "wall0") },
		"no init":          func(s map[string]any) { delete(s, "init") },
		"no sleep":         func(s map[string]any) { delete(s, "sleep") },
		"other sleep":      func(s map[string]any) { s["sleep"] = "deep" },
		"no profile":       func(s map[string]any) { delete(s, "profile") },
		"other profile":    func(s map[string]any) { s["profile"] = "corn" },
		"no ops":           func(s map[string]any) { s["ops"] = []any{} },
		"unknown member":   func(s map[string]any) { s["extra"] = 1 },
		"unknown config":   func(s map[string]any) { s["config"] = map[string]any{"burst": 1} },
		"config of a type": func(s map[string]any) { s["config"] = map[string]any{"rate": "10"} },
		"unknown answer": func(s map[string]any) {
			s["resolver"] = map[string]any{"network": map[string]any{"N": []any{map[string]any{"organization": "1"}}}}
		},
		"unknown hydration": func(s map[string]any) { s["hydrator"] = map[string]any{"O": map[string]any{"orgs": []any{}}} },
		"ttl of a type":     func(s map[string]any) { s["config"] = map[string]any{"cache_ttl": "7d"} },
		"unknown kind":      func(s map[string]any) { s["resolver"] = map[string]any{"sensor": map[string]any{}} },
		"init with more":    func(s map[string]any) { s["init"].(map[string]any)["orgs"] = []any{} },
		"init with less":    func(s map[string]any) { delete(s["init"].(map[string]any), "devices") },
		"cache is damaged":  func(s map[string]any) { s["config"] = map[string]any{"cache": true}; s["cache_file"] = "true" },
	}
	for name, d := range damage {
		s := smallestSequence()
		d(s)
		if len(runOne(t, s)) != 1 {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// Every operation refuses to be run without its inputs, or with those of others.
func TestOperationsNeedTheirInputs(t *testing.T) {
	all := map[string]any{
		"url": "/organizations/1", "org": "1", "id": "N_1", "value": 1.0, "body": map[string]any{}, "add": 1.0,
		"raw": "text", "on": false, "cache_ttl": 1.0,
	}
	for op, inputs := range opInputs {
		try := func(names []string) string {
			o := map[string]any{"op": op, "t": 0.0, "exp": map[string]any{}}
			for _, name := range names {
				o[name] = all[name]
			}
			s := smallestSequence()
			s["ops"] = []any{o}
			f := runOne(t, s)
			if len(f) == 0 {
				return ""
			}
			return f[0].Message
		}
		if says := try(inputs); strings.Contains(says, "inputs") {
			t.Errorf("%s with its inputs %v: %s", op, inputs, says)
		}
		for i, name := range inputs {
			if op == "reopen" {
				continue // its input may be left out
			}
			less := slices.Delete(slices.Clone(inputs), i, i+1)
			if says := try(less); !strings.Contains(says, "inputs") {
				t.Errorf("%s without %s: %q", op, name, says)
			}
		}
		for name := range all {
			if !slices.Contains(inputs, name) {
				if says := try(append(slices.Clone(inputs), name)); !strings.Contains(says, "inputs") {
					t.Errorf("%s with %s: %q", op, name, says)
				}
			}
		}
	}
}

// A case of the published form from which any member but its notes is taken, or that
// has one of the wrong type, or one more, fails.
func TestDamagedVectorsFail(t *testing.T) {
	var document map[string]any
	if err := json.Unmarshal(vectorFile(t, "smartflow-vectors.json"), &document); err != nil {
		t.Fatal(err)
	}
	// What may be missing: it has a default, or there is nothing to say.
	optional := []string{"name", "notes", "url", "configured_rate", "org_resolvable", "preexisting_network_to_org"}
	for name, s := range document {
		section, ok := s.(map[string]any)
		if !ok {
			continue
		}
		one := func(c map[string]any) map[string]any {
			copied := maps.Clone(section)
			copied["cases"] = []any{c}
			return map[string]any{"version": 1, name: copied}
		}
		for _, v := range section["cases"].([]any) {
			c := v.(map[string]any)
			more := maps.Clone(c)
			more["extra"] = 1
			mustFail(t, one(more), fmt.Sprint(name, c["name"], " with a member more"))
			for member := range c {
				if member != "body" && member != "value" { // those may be anything
					wrong := maps.Clone(c)
					wrong[member] = []any{map[string]any{"x": 1}}
					mustFail(t, one(wrong), fmt.Sprint(name, c["name"], member, " of a wrong type"))
				}
				// A url may be missing only where a target says enough.
				if slices.Contains(optional, member) && !(member == "url" && name != "aimd") {
					continue
				}
				less := maps.Clone(c)
				delete(less, member)
				mustFail(t, one(less), fmt.Sprint(name, c["name"], " without ", member))
			}
		}
	}
	section := document["aimd"].(map[string]any)
	section["network_to_org"] = map[string]any{}
	mustFail(t, document, "a section with the maps of another")
}

// Times must be equal, all other numbers to the ninth digit.
func TestDifference(t *testing.T) {
	for _, c := range []struct {
		path      string
		want, got any
		same      bool
	}{
		{"exp.rate", 1.0, 1.0 + 0.9e-9, true},
		{"exp.rate", 1.0, 1.0 + 1.1e-9, false},
		{"exp.t_end", 1.0, 1.0 + 0.9e-9, false},
		{"exp.global", []any{1.0, 2.0, 3.0}, []any{1.0 + 0.9e-9, 2.0 - 0.9e-9, 3.0}, true},
		{"exp.global", []any{1.0, 2.0, 3.0}, []any{1.0, 2.0, 3.0 + 0.9e-9}, false},
		{"exp.orgs", []any{[]any{"O", 1.0, 2.0, 3.0}}, []any{[]any{"O", 1.0, 2.0, 3.0 + 0.9e-9}}, false},
		{"x", nil, false, false},
		{"x", "1", 1.0, false},
		{"x", []any{}, map[string]any{}, false},
		{"x", []any{1.0}, []any{1.0, 2.0}, false},
		{"x", map[string]any{"a": nil}, map[string]any{}, false},
		{"x", map[string]any{}, map[string]any{"a": nil}, false},
		{"x", map[string]any{"a": true}, map[string]any{"a": true}, true},
	} {
		d := difference(c.path, c.want, c.got)
		if (d == "") != c.same {
			t.Errorf("%s: %v and %v: %q", c.path, c.want, c.got, d)
		}
	}
	if d := difference("x", strings.Repeat("a", 500), "b"); len(d) > 300 || !strings.Contains(d, `...`) {
		t.Errorf("a long value is not shortened: %s", d)
	}
}

// The order of a set does not matter, that of charges does.
func TestSetsHaveNoOrder(t *testing.T) {
	s := smallestSequence()
	s["ops"] = []any{
		map[string]any{"op": "learn", "t": 0.0, "url": "/organizations/1/networks/N_1", "body": map[string]any{"networkId": "N_2"}, "exp": map[string]any{
			"networks": []any{[]any{"N_2", "1"}, []any{"N_1", "1"}}, "new_buckets": []any{"1"}, "dirty": 2.0,
		}},
		map[string]any{"op": "acquire", "t": 0.0, "url": "/organizations/1", "exp": map[string]any{
			"org": "1", "dirty": 2.0, "charges": []any{[]any{"global", nil, 0.0, 99.0}, []any{"org", "1", 0.0, 9.0}},
		}},
	}
	if f := runOne(t, s); len(f) > 0 {
		t.Errorf("%v", f)
	}
	charges := s["ops"].([]any)[1].(map[string]any)["exp"].(map[string]any)["charges"].([]any)
	slices.Reverse(charges)
	if len(runOne(t, s)) == 0 {
		t.Error("exchanged charges were not noticed")
	}
}

func TestSteppedClock(t *testing.T) {
	for d, ticks := range map[time.Duration]int64{
		0: 0, 1: 0, time.Microsecond: 1, time.Second / 512: 1, time.Second/512 + 1: 1, time.Second/512 + time.Microsecond: 2, time.Second: 512, -time.Second: 0,
	} {
		c := &steppedClock{advance: true}
		if err := c.Sleep(t.Context(), d); err != nil || c.now != ticks*tick {
			t.Errorf("a sleep of %v lasts %v ticks (%v), want %d", d, float64(c.now)/float64(tick), err, ticks)
		}
	}
}

// Identifiers of the reference dialect survive being written as JSON and read back.
func TestForeignIdentifiers(t *testing.T) {
	for _, c := range []struct {
		v        any
		text     string
		usable   bool
		hashable bool
	}{
		{"N_1", `"N_1"`, true, true},
		{"", `""`, false, true},
		{nil, `null`, false, true},
		{7.0, `7`, true, true},
		{0.0, `0`, false, true},
		{12345678901.0, `12345678901`, true, true},
		{true, `true`, true, true},
		{false, `false`, false, true},
		{[]any{}, `[]`, false, false},
		{[]any{"a"}, `["a"]`, true, false},
		{map[string]any{"a": 1.0}, `{"a":1}`, true, false},
	} {
		id := reference.value(c.v)
		got := plain([]byte(reference.jsonOf(id)))
		if d := difference("id", c.v, got); d != "" {
			t.Errorf("%s (written %s)", d, reference.jsonOf(id))
		}
		if reference.usable(id) != c.usable || reference.hashable(id) != c.hashable {
			t.Errorf("%s: usable %v, hashable %v", c.text, reference.usable(id), reference.hashable(id))
		}
		_, ok, err := (&dialect{}).id(c.v)
		if err != nil || ok != (c.text == `"N_1"`) {
			t.Errorf("%s: as sold, identifier %v (%v)", c.text, ok, err)
		}
		if _, _, err := reference.id(c.v); (err != nil) == c.hashable {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestCacheErrorsSayWhatHappensNext(t *testing.T) {
	cause := errors.New("no space left on device")
	for op, says := range map[string]string{"store": "tries again", "load": "starting without", "read": "damaged"} {
		err := &CacheError{Op: op, Err: cause}
		if text := err.Error(); !strings.Contains(text, says) || !strings.Contains(text, cause.Error()) || !errors.Is(err, cause) {
			t.Errorf("%s: %q", op, text)
		}
	}
}

// A store that fails leaves the old file and no litter.
func TestFileCacheStoreFails(t *testing.T) {
	folder := t.TempDir()
	plainFile := filepath.Join(folder, "plain")
	if err := os.WriteFile(plainFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (FileCache{filepath.Join(plainFile, "cache.json")}).Store([]byte("x")); err == nil {
		t.Error("stored below a plain file")
	}
	// The target is a folder that is not empty, so the rename fails.
	target := filepath.Join(folder, "cache.json")
	if err := os.MkdirAll(filepath.Join(target, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (FileCache{target}).Store([]byte("x")); err == nil {
		t.Error("stored over a folder")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("a temporary file is left: %s", e.Name())
		}
	}
	if os.Getuid() == 0 {
		return // root may write everywhere
	}
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := (FileCache{filepath.Join(folder, "new.json")}).Store([]byte("x")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("in a folder that must not be written to: %v", err)
	}
}
