package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
)

// The golden journals through the command line, as other programs call it.

// goldenJournal is a case of replay.json, enforce.json or engine.json.
type goldenJournal struct {
	Name      string
	Documents []json.RawMessage
	Journal   []string
	Expect    struct {
		Rows   float64
		At     string
		Scopes []struct {
			Limit, Key string
			Windows    []map[string]any
		}
		Jobs []map[string]any
	}
	Decisions []map[string]any
}

func goldenJournals(t *testing.T, name string, atLeast int) []goldenJournal {
	t.Helper()
	var file struct{ Cases []goldenJournal }
	golden.Vectors(t, name, atLeast, &file)
	return file.Cases
}

func (c *goldenJournal) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(c.Journal, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed is the part of a report that the golden file knows.
type replayed struct {
	Rows   float64
	At     string
	Scopes []struct {
		Limit, Key string
		Windows    []map[string]any
	}
	Jobs []map[string]any
}

// difference tells how a report differs from the golden one.
func (c *goldenJournal) difference(got *replayed) string {
	if got.Rows != c.Expect.Rows || !sameInstant(got.At, c.Expect.At) || len(got.Scopes) != len(c.Expect.Scopes) {
		return fmt.Sprintf("%v rows at %s with %d scopes, want %v at %s with %d", got.Rows, got.At, len(got.Scopes), c.Expect.Rows, c.Expect.At, len(c.Expect.Scopes))
	}
	for i, want := range c.Expect.Scopes {
		g := got.Scopes[i]
		if g.Limit != want.Limit || g.Key != want.Key || len(g.Windows) != len(want.Windows) {
			return fmt.Sprintf("scope %d is %s %s with %d windows, want %s %s with %d", i, g.Limit, g.Key, len(g.Windows), want.Limit, want.Key, len(want.Windows))
		}
		for j := range want.Windows {
			if d := windowDifference(g.Windows[j], want.Windows[j]); d != "" {
				return fmt.Sprintf("%s %s window %d: %s", want.Limit, want.Key, j, d)
			}
		}
	}
	if len(got.Jobs) != len(c.Expect.Jobs) {
		return fmt.Sprintf("%d jobs, want %d", len(got.Jobs), len(c.Expect.Jobs))
	}
	for i, want := range c.Expect.Jobs {
		for key, value := range want {
			if !sameValue(got.Jobs[i][key], value) {
				return fmt.Sprintf("job %d: %s is %v, want %v", i, key, got.Jobs[i][key], value)
			}
		}
	}
	return ""
}

func windowDifference(got, want map[string]any) string {
	for key, value := range want {
		switch key {
		case "start", "end":
			if !sameInstant(got[key], value) {
				return fmt.Sprintf("%s is %v, want %v", key, got[key], value)
			}
		case "exhaustsAtEpoch":
			at, _ := got["exhaustsAt"].(string)
			epoch, wanted := value.(float64)
			if (at != "") != wanted {
				return fmt.Sprintf("exhaustsAt is %q, want %v", at, value)
			}
			if wanted && math.Abs(epochOf(at)-epoch) > 1 {
				return fmt.Sprintf("exhaustsAt is %q, want %v", at, value)
			}
		default:
			if !sameValue(got[key], value) {
				return fmt.Sprintf("%s is %v, want %v", key, got[key], value)
			}
		}
	}
	return ""
}

func sameInstant(a, b any) bool {
	x, xOK := a.(string)
	y, yOK := b.(string)
	return xOK && yOK && epochOf(x) == epochOf(y)
}

// epochOf is the instant in seconds; NaN for what is none.
func epochOf(text string) float64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return math.NaN()
	}
	return float64(at.UnixNano()) / 1e9
}

func TestReplayVectors(t *testing.T) {
	for _, c := range goldenJournals(t, "replay", 20) {
		var got replayed
		if status := runJSON(t, &got, "-c", writeDocuments(t, c.Documents), "replay", c.file(t), "--format", "json"); status != ExitOK {
			t.Errorf("%s: status %d", c.Name, status)
		}
		if d := c.difference(&got); d != "" {
			t.Errorf("%s: %s", c.Name, d)
		}
		// A changed expectation must fail.
		c.Expect.Scopes[0].Windows[0]["projectedEnd"] = -1.0
		if c.difference(&got) == "" {
			t.Errorf("%s: a wrong figure goes unnoticed", c.Name)
		}
	}
}

// decide runs a case with --enforce and returns the lines of --decisions.
func (c *goldenJournal) decide(t *testing.T) []map[string]any {
	t.Helper()
	out := filepath.Join(t.TempDir(), "decisions.jsonl")
	w := newWorld()
	words := []string{"-c", writeDocuments(t, c.Documents), "replay", c.file(t), "--enforce", "--decisions", out}
	if status := Run(context.Background(), &w.Env, words); status != ExitOK {
		t.Fatalf("%s: status %d: %s", c.Name, status, w.stderr.String())
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var d map[string]any
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// epoch of atSeconds.
const vectorEpoch = 1795996800.0 // 2026-11-30T00:00:00Z

func decisionDifference(got, want map[string]any) string {
	if got["granted"] != want["granted"] {
		return fmt.Sprintf("granted is %v, want %v", got["granted"], want["granted"])
	}
	compare := func(gotKey, wantKey string) string {
		text, isText := got[gotKey].(string)
		seconds, isNumber := want[wantKey].(float64)
		if isText != isNumber || isText && math.Abs(epochOf(text)-vectorEpoch-seconds) > 1e-3 {
			return fmt.Sprintf("%s is %v, want %v", gotKey, got[gotKey], want[wantKey])
		}
		return ""
	}
	if want["granted"] == true {
		return compare("at", "atSeconds")
	}
	for _, key := range []string{"reason", "limit", "key"} {
		if value, told := want[key]; told && got[key] != value {
			return fmt.Sprintf("%s is %v, want %v", key, got[key], value)
		}
	}
	if _, told := want["retryAtSeconds"]; told {
		return compare("retryAt", "retryAtSeconds")
	}
	return ""
}

func TestDecisionVectors(t *testing.T) {
	for _, file := range []string{"engine", "enforce"} {
		for i, c := range goldenJournals(t, file, 30) {
			if testing.Short() && i%10 > 0 {
				continue
			}
			got := c.decide(t)
			if len(got) != len(c.Decisions) {
				t.Errorf("%s: %d decisions, want %d", c.Name, len(got), len(c.Decisions))
				continue
			}
			for j := range got {
				if got[j]["row"] != float64(j+1) {
					t.Errorf("%s: decision %d is of row %v", c.Name, j, got[j]["row"])
				}
				if d := decisionDifference(got[j], c.Decisions[j]); d != "" {
					t.Errorf("%s row %d: %s", c.Name, j+1, d)
				}
			}
			c.Decisions[0]["granted"] = c.Decisions[0]["granted"] != true
			if decisionDifference(got[0], c.Decisions[0]) == "" {
				t.Errorf("%s: a wrong decision goes unnoticed", c.Name)
			}
		}
	}
}
