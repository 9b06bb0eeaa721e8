package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/golden"
)

// The golden files through the command line, as other programs call it.

// runJSON runs a command and decodes its result.
func runJSON(t *testing.T, into any, words ...string) (status int) {
	t.Helper()
	w := newWorld()
	status = Run(context.Background(), &w.Env, words)
	if status == ExitCannotAnswer {
		t.Fatalf("tapyr %s: %s", strings.Join(words, " "), w.stderr.String())
	}
	if err := json.Unmarshal(w.stdout.Bytes(), into); err != nil {
		t.Fatalf("tapyr %s: %v in %s", strings.Join(words, " "), err, w.stdout.String())
	}
	return status
}

// writeDocuments puts documents, each JSON, into one file.
func writeDocuments(t *testing.T, documents []json.RawMessage) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "documents.yaml")
	var text strings.Builder
	for _, d := range documents {
		text.WriteString("---\n")
		text.Write(d)
		text.WriteString("\n")
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWindowVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Window         json.RawMessage
			At, Start, End string
		}
	}
	golden.Vectors(t, "windows", 500, &file)
	for i, c := range file.Cases {
		if testing.Short() && i%25 > 0 {
			continue
		}
		provider := fmt.Sprintf(`{"apiVersion":"tapyr/v1alpha1","kind":"Provider","metadata":{"name":"vendor"},
			"spec":{"limits":[{"name":"q","kind":"quota","max":1000,"window":%s}]}}`, c.Window)
		path := writeDocuments(t, []json.RawMessage{json.RawMessage(provider)})
		var got struct{ Windows []struct{ Start, End string } }
		runJSON(t, &got, "inspect", "windows", path, "--provider", "vendor", "--limit", "q", "--at", c.At, "-n", "1", "--format", "json")
		if len(got.Windows) != 1 || got.Windows[0].Start != c.Start || got.Windows[0].End != c.End {
			t.Errorf("window %s at %s is %v, want [%s, %s)", c.Window, c.At, got.Windows, c.Start, c.End)
		}
	}
}

func TestPlanVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Name      string
			At        string
			Fanout    map[string]int64
			Documents []json.RawMessage
			Counters  *string
			Expect    struct {
				Feasible  bool
				Scopes    []map[string]any
				Jobs      []map[string]any
				Reclaimed map[string]float64
			}
		}
	}
	golden.Vectors(t, "plan", 150, &file)
	for _, c := range file.Cases {
		words := []string{"plan", "--format", "json", "--at", c.At, writeDocuments(t, c.Documents)}
		for name, n := range c.Fanout {
			words = append(words, "--fanout", fmt.Sprintf("%s=%d", name, n))
		}
		if c.Counters != nil {
			path := filepath.Join(t.TempDir(), "counters.csv")
			if err := os.WriteFile(path, []byte(*c.Counters), 0o600); err != nil {
				t.Fatal(err)
			}
			words = append(words, "--ledger", path)
		}
		var got struct {
			Feasible     bool
			Jobs, Scopes []map[string]any
		}
		status := runJSON(t, &got, append(words, "--no-reclaim")...)
		if want := map[bool]int{true: ExitOK, false: ExitBadNews}[c.Expect.Feasible]; status != want || got.Feasible != c.Expect.Feasible {
			t.Errorf("%s: feasible is %v and the status %d, want %v and %d", c.Name, got.Feasible, status, c.Expect.Feasible, want)
		}
		compareRows(t, c.Name+" job", got.Jobs, c.Expect.Jobs)
		compareRows(t, c.Name+" scope", got.Scopes, c.Expect.Scopes)
		runJSON(t, &got, words...)
		for _, j := range got.Jobs {
			if want := c.Expect.Reclaimed[j["job"].(string)]; j["effectiveSeconds"] != want {
				t.Errorf("%s: reclaimed job %v every %v s, want %v", c.Name, j["job"], j["effectiveSeconds"], want)
			}
		}
	}
}

// compareRows holds rows against those wanted; keys that are not wanted do not matter.
func compareRows(t *testing.T, name string, got, want []map[string]any) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
		return
	}
	for i := range want {
		for key, value := range want[i] {
			if key == "exhaustsAtEpoch" {
				continue // the planner's own test compares it
			}
			if !sameValue(got[i][key], value) {
				t.Errorf("%s %d: %s is %v, want %v", name, i, key, got[i][key], value)
			}
		}
	}
}

func sameValue(got, want any) bool {
	a, aIsNumber := got.(float64)
	b, bIsNumber := want.(float64)
	if aIsNumber && bIsNumber {
		return math.Abs(a-b) <= 1e-9 || math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))
	}
	return got == want
}
