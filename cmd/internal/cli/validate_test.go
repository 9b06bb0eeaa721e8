package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// runOn runs a command with a text as standard input.
func runOn(text string, words ...string) (w *world, status int) {
	w = newWorld()
	w.Stdin = strings.NewReader(text)
	return w, Run(context.Background(), &w.Env, words)
}

// withBase puts the documents of the rules' base beside an example, as far as it does not declare them.
func withBase(example string) string {
	for _, base := range strings.Split(validate.ExampleBase, "---\n") {
		lines := strings.Split(base, "\n")
		if !strings.Contains(example, lines[1]+"\n"+lines[2]) {
			example += "\n---\n" + base
		}
	}
	return example
}

// The pages of all rules, those that need a plan included, hold through the command: the wrong example triggers its rule and no
// other, the right one nothing.
func TestRulesThroughTheCommand(t *testing.T) {
	planned := map[string]bool{}
	for _, rule := range validate.Rules() {
		planned[rule.Name] = rule.Planned
	}
	for _, rule := range validate.Rules() {
		wrong := rule.Wrong
		if rule.Name != schema.RuleEmptyFile {
			wrong = withBase(wrong)
		}
		for _, tt := range []struct {
			text  string
			rules bool
		}{{wrong, true}, {withBase(rule.Right), false}} {
			w, status := runOn(tt.text, "validate", "-", "--format", "json")
			var answer reportJSON
			if err := json.Unmarshal(w.stdout.Bytes(), &answer); err != nil {
				t.Fatalf("%s: %v\n%s%s", rule.Name, err, w.stdout.String(), w.stderr.String())
			}
			found := map[string]bool{}
			for _, finding := range answer.Findings {
				// The limits of other rules' examples are small, to be read at a glance, and the plan says so.
				if rule.Planned || !planned[finding.Rule] {
					found[finding.Rule] = true
				}
			}
			if tt.rules != found[rule.Name] || len(found) > 1 || !tt.rules && len(found) > 0 {
				t.Errorf("%s: %+v", rule.Name, answer.Findings)
			}
			if wantStatus := map[bool]int{true: ExitBadNews, false: ExitOK}[answer.Errors > 0]; status != wantStatus {
				t.Errorf("%s: status %d with %d errors", rule.Name, status, answer.Errors)
			}
		}
	}
}

// docs/rules.md is what the command prints: run "go run ./cmd/tapyr validate --rules all -o docs/rules.md".
func TestRulesBookIsFresh(t *testing.T) {
	w, status := runOn("", "validate", "--rules", "all")
	book, err := os.ReadFile("../../../docs/rules.md")
	if err != nil || status != ExitOK || !bytes.Equal(book, w.stdout.Bytes()) {
		t.Errorf("docs/rules.md is not fresh (%v, status %d); run go run ./cmd/tapyr validate --rules all -o docs/rules.md", err, status)
	}
}

// badDocuments have findings of each severity, in a file whose name needs escaping.
const badDocuments = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: example }
spec:
  baseURL: https://api.example.com
  limits:
    - { name: rate, kind: rate, rate: 10/s, cost: 20 }
    - { name: daily, kind: quota, max: 0, window: { period: day, resetAt: 08:30 } }
`

// The log is held against the published JSON Schema of SARIF 2.1.0, which the library brings along.
func TestSARIF(t *testing.T) {
	tree(t, map[string]string{"my docs/100%.yaml": badDocuments})
	w := newWorld()
	if status := Run(context.Background(), &w.Env, []string{"validate", "my docs", "--format", "sarif"}); status != ExitBadNews {
		t.Fatalf("status %d\n%s", status, w.stderr.String())
	}
	log, err := sarif.FromBytes(w.stdout.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Validate(); err != nil {
		t.Error(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || *log.Runs[0].ColumnKind != "unicodeCodePoints" {
		t.Fatalf("version %s, %d runs", log.Version, len(log.Runs))
	}
	run := log.Runs[0]
	driver := run.Tool.Driver
	if *driver.Name != "tapyr" || len(driver.Rules) != len(validate.Rules()) {
		t.Errorf("driver %q with %d rules", *driver.Name, len(driver.Rules))
	}
	for _, rule := range driver.Rules {
		if *rule.ID == "" || *rule.ShortDescription.Text == "" || *rule.FullDescription.Text == "" || *rule.Help.Text == "" || *rule.Help.Markdown == "" {
			t.Errorf("rule %+v lacks a text", rule)
		}
	}
	levels := map[string]int{}
	for _, result := range run.Results {
		levels[result.Level]++
		place := result.Locations[0].PhysicalLocation
		if *result.Message.Text == "" || *driver.Rules[result.RuleIndex].ID != *result.RuleID || *place.Region.StartLine < 1 || *place.Region.StartColumn < 1 {
			t.Errorf("result %+v", result)
		}
		if uri := *place.ArtifactLocation.URI; uri != "my%20docs/100%25.yaml" {
			t.Errorf("URI %q", uri)
		}
	}
	if levels["error"] != 1 || levels["warning"] != 2 || levels["note"] != 1 {
		t.Errorf("levels %v", levels)
	}
}

func TestFileURI(t *testing.T) {
	for file, want := range map[string]string{
		"a/b.yaml": "a/b.yaml", "a b.yaml": "a%20b.yaml", "ü.yaml": "%C3%BC.yaml", "/a/b c.yaml": "file:///a/b%20c.yaml", "-": "-", "a#b?.yaml": "a%23b%3F.yaml",
		"a:b.yaml": "./a:b.yaml",
	} {
		if got := fileURI(file); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

func TestGitHubEscaping(t *testing.T) {
	r := findings{problems: []schema.Problem{{
		Position: schema.Position{File: "a,b:c%.yaml", Line: 3, Column: 7}, Severity: schema.SeverityWarning, Rule: "shape", Message: "100% of\r\n\"a\": b, c",
	}}}
	w := newWorld()
	if err := w.Env.withStdout(r.writeGitHub); err != nil {
		t.Fatal(err)
	}
	want := "::warning file=a%2Cb%3Ac%25.yaml,line=3,col=7,title=shape::100%25 of  \"a\": b, c\n"
	if got := w.stdout.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
