// Package golden reads, for tests, the data that several packages are held against: vectors from independent implementations
// (testdata/vectors) and cases that went wrong for people elsewhere (testdata/cases). Only tests import it.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Path of a file below testdata, from any package of the module.
func Path(t testing.TB, elements ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(append([]string{dir, "testdata"}, elements...)...)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("the test does not run within the module")
		}
		dir = parent
	}
}

// Vectors decodes testdata/vectors/NAME.json. A file that holds less than atLeast cases, in its list "cases", fails the test: one
// that is empty would pass everything.
func Vectors(t testing.TB, name string, atLeast int, into any) {
	t.Helper()
	data, err := os.ReadFile(Path(t, "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var count struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(data, &count); err != nil {
		t.Fatal(err)
	}
	if len(count.Cases) < atLeast {
		t.Fatalf("%s has %d cases, want %d at least", name, len(count.Cases), atLeast)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// Case decodes the input and the expectation of one case of testdata/cases/field.json.
func Case(t testing.TB, id string, input, expected any) {
	t.Helper()
	data, err := os.ReadFile(Path(t, "cases", "field.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID              string
			Input, Expected json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		if c.ID != id {
			continue
		}
		if err := json.Unmarshal(c.Input, input); err != nil {
			t.Fatalf("%s: input: %v", id, err)
		}
		if err := json.Unmarshal(c.Expected, expected); err != nil {
			t.Fatalf("%s: expected: %v", id, err)
		}
		return
	}
	t.Fatalf("there is no case %s", id)
}
