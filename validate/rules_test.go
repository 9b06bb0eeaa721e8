package validate

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
)

// checkText decodes and checks documents, the file's own problems included.
func checkText(t *testing.T, text string) (*Config, []schema.Problem) {
	t.Helper()
	docs, problems := schema.Decode("test.yaml", []byte(text))
	config, found := Check(docs)
	return config, Sort(append(found, problems...))
}

// withBase puts the documents of ExampleBase before an example, those that the example does not declare itself.
func withBase(example string) string {
	out := example
	for _, base := range strings.Split(ExampleBase, "---\n") {
		if !declares(example, base) {
			out += "\n---\n" + base
		}
	}
	return out
}

var header = regexp.MustCompile(`(?m)^kind: (\w+)\nmetadata: \{ name: ([-\w]+) \}`)

func declares(example, base string) bool {
	return strings.Contains(example, header.FindString(base))
}

// Every rule's page has a wrong example that triggers that rule and no other, and a right one that triggers nothing.
func TestExamplesOfRules(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Planned {
			continue // the command's tests run these, and all others once more
		}
		t.Run(rule.Name, func(t *testing.T) {
			wrong := rule.Wrong
			if rule.Name != schema.RuleEmptyFile {
				wrong = withBase(rule.Wrong)
			}
			_, problems := checkText(t, wrong)
			if len(problems) == 0 {
				t.Error("the wrong example triggers nothing")
			}
			for _, p := range problems {
				if p.Rule != rule.Name {
					t.Errorf("the wrong example triggers %s: %d:%d %s", p.Rule, p.Line, p.Column, p.Message)
				}
			}
			if len(problems) > 0 && problems[0].Severity != rule.Severity {
				t.Errorf("the wrong example gives a %s, want the rule's own %s", problems[0].Severity, rule.Severity)
			}
			config, problems := checkText(t, withBase(rule.Right))
			for _, p := range problems {
				t.Errorf("the right example triggers %s: %d:%d %s", p.Rule, p.Line, p.Column, p.Message)
			}
			if config == nil {
				t.Error("the right example gives no Config")
			}
		})
	}
}

func TestEveryRuleIsDescribedInItsFile(t *testing.T) {
	files, err := filepath.Glob("rule_*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, rule := range Rules() {
		names = append(names, "rule_"+strings.ReplaceAll(rule.Name, "-", "_")+".go")
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(rule.Name) {
			t.Errorf("name %q is not in kebab case", rule.Name)
		}
		if !slices.Contains([]schema.Severity{schema.SeverityError, schema.SeverityWarning, schema.SeverityNotice}, rule.Severity) {
			t.Errorf("%s: severity %q", rule.Name, rule.Severity)
		}
		if rule.Summary == "" || strings.HasSuffix(rule.Summary, ".") || strings.Contains(rule.Summary, "\n") {
			t.Errorf("%s: summary %q should be one line without a full stop", rule.Name, rule.Summary)
		}
		if !strings.HasSuffix(rule.Why, ".") && !strings.HasSuffix(rule.Why, "~.") {
			t.Errorf("%s: why %q should be sentences", rule.Name, rule.Why)
		}
	}
	slices.Sort(names)
	slices.Sort(files)
	if !slices.Equal(names, files) {
		t.Errorf("files and rules differ:\n%v\n%v", files, names)
	}
}

// Every rule name in a problem is one that --rules lists.
func TestSchemaRulesAreListed(t *testing.T) {
	for _, name := range []string{
		schema.RuleSyntax, schema.RuleShape, schema.RuleUnknownField, schema.RuleMissingField, schema.RuleDuplicateKey, schema.RuleUnit,
		schema.RuleAmbiguous, schema.RuleTooLarge, schema.RuleEmptyFile,
	} {
		if !slices.ContainsFunc(Rules(), func(r *Rule) bool { return r.Name == name && r.check == nil }) {
			t.Errorf("rule %s is not listed", name)
		}
	}
}

func dump(problems []schema.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%s:%d:%d: %s: %s [%s] (%s)\n", p.File, p.Line, p.Column, p.Severity, p.Message, p.Rule, p.Path)
	}
	return b.String()
}
