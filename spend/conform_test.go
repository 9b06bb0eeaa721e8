package spend

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const vectorPath = "../testdata/vectors/spend.json"

func readVectors(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(vectorPath)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The vectors hold exactly, hashes included.
func TestVectors(t *testing.T) {
	result, err := Conform(readVectors(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Failures {
		t.Errorf("%+v", f)
	}
	if result.Cases != 40 || result.Steps != 828 {
		t.Errorf("ran %d cases and %d steps, want all 40 and 828", result.Cases, result.Steps)
	}
}

// Each expectation counts: whichever one of a file is changed, the run fails and names it.
func TestChangedExpectationFails(t *testing.T) {
	var file struct {
		Comment string           `json:"comment"`
		Cases   []map[string]any `json:"cases"`
	}
	if err := json.Unmarshal(readVectors(t), &file); err != nil {
		t.Fatal(err)
	}
	file.Cases = file.Cases[:3]
	mutations := 0
	for _, c := range file.Cases {
		for _, step := range c["steps"].([]any) {
			step := step.(map[string]any)
			decision := step["decision"].(map[string]any)
			reserved := step["capability_reserved"].(map[string]any)
			for _, object := range []map[string]any{step, decision, reserved} {
				for name, value := range object {
					changed := mutated(value)
					if changed == nil || name == "event_id" && object["decision"] != nil || name == "capability" && object["decision"] != nil {
						continue // objects are changed inside; the arguments are no expectations
					}
					object[name] = changed
					text, err := json.Marshal(file)
					if err != nil {
						t.Fatal(err)
					}
					result, err := Conform(text)
					if err != nil {
						t.Fatal(err)
					}
					if len(result.Failures) != 1 || !strings.Contains(result.Failures[0].Field, name) {
						t.Fatalf("%s changed from %v to %v: failures %+v, want one about it", name, value, changed, result.Failures)
					}
					object[name] = value
					mutations++
				}
			}
		}
	}
	if mutations < 400 {
		t.Errorf("only %d expectations were changed", mutations)
	}
}

func mutated(value any) any {
	switch v := value.(type) {
	case string:
		return v + "0"
	case float64:
		return v + 1
	case nil:
		return "route"
	}
	return nil
}

// A file that leaves an expectation out, or has one that nobody checks, is not taken for a passed one.
func TestConformRefusesWhatItCannotCheck(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":      `{`,
		"no cases":     `{"comment":"x","cases":[]}`,
		"unknown name": `{"cases":[{"name":"a","policy":{},"steps":[],"more":1}]}`,
		"not a file":   `{"sequences":[]}`,
	} {
		if _, err := Conform([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	policy := `"policy":{"account_limit":"1","capability_limits":{"a":"1"},"preferences":{"a":[]},"fallbacks":{"a":"%"},"policy_version":"v"}`
	for name, c := range map[string]struct{ fallback, step, want string }{
		"no decision":      {"defer", `{"event_id":"e","capability":"a"}`, "want decision"},
		"unknown fallback": {"drop", ``, `fallback "drop"`},
	} {
		text := `{"cases":[{"name":"a",` + strings.Replace(policy, "%", c.fallback, 1) + `,"steps":[` + c.step + `]}]}`
		result, err := Conform([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Failures) != 1 || !strings.Contains(result.Failures[0].Got, c.want) {
			t.Errorf("%s: failures %+v, want one with %q", name, result.Failures, c.want)
		}
	}
}
