package validate

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
)

// The golden vectors hold hundreds of sets of documents that are valid by agreement: not one may be an error.
func TestVectorsAreValid(t *testing.T) {
	for _, name := range []string{"plan", "replay", "enforce", "engine"} {
		text, err := os.ReadFile("../testdata/vectors/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Cases []struct {
				Name      string            `json:"name"`
				Documents []json.RawMessage `json:"documents"`
			} `json:"cases"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		rules := map[string]int{}
		for _, c := range file.Cases {
			if len(c.Documents) == 0 {
				t.Errorf("%s %s has no documents", name, c.Name)
			}
			var documents strings.Builder
			for _, d := range c.Documents {
				documents.WriteString("---\n" + string(d) + "\n")
			}
			config, problems := checkText(t, documents.String())
			for _, p := range problems {
				rules[p.Rule]++
			}
			if config == nil {
				t.Errorf("%s %s:\n%s", name, c.Name, dump(errorsOf(problems)))
			}
		}
		if len(file.Cases) == 0 {
			t.Errorf("%s: no cases found", name)
		}
		t.Logf("%s: %d sets of documents, remarks %v", name, len(file.Cases), rules)
	}
}

func errorsOf(problems []schema.Problem) []schema.Problem {
	var out []schema.Problem
	for _, p := range problems {
		if p.Severity == schema.SeverityError {
			out = append(out, p)
		}
	}
	return out
}
