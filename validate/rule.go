package validate

import (
	"fmt"
	"sort"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// Rule is one thing that Check looks at, with its page of documentation. Each stands in a file of its own.
type Rule struct {
	// Name is stable, in kebab case; findings carry it.
	Name string
	// Severity is that of its findings; some rules report lesser cases with a lesser one.
	Severity schema.Severity
	// Summary says in one line what the rule demands.
	Summary string
	// Why says what goes wrong otherwise, and what to do.
	Why string
	// Wrong and Right are documents that the rule complains about, and does not. They stand beside the documents of
	// ExampleBase, as far as they do not declare one of the same kind and name themselves. Tests run both.
	Wrong, Right string

	// Planned rules need a plan, which is made after validation: the command applies them, not Check. Their findings leave
	// the Config valid.
	Planned bool

	// check is nil for rules that package schema applies while it decodes, and for planned ones.
	check func(*finder)
}

// ExampleBase are the documents that the examples of the rules stand beside.
const ExampleBase = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: example }
spec: { baseURL: "https://api.example.com/v1" }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: main }
spec: { provider: example }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: devices }
spec: { account: main, interval: 5m, request: { endpoint: /devices } }
`

// Rules lists all rules, sorted by name.
func Rules() []*Rule {
	all := append([]*Rule(nil), rules...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// finder collects what one rule finds.
type finder struct {
	config   *Config
	rule     *Rule
	problems []schema.Problem
	// broken holds, by document, the paths that package schema has reported as errors: their values are gone.
	broken map[*schema.Document][]string
}

// at reports the value that a path leads to, with the severity of the rule.
func (f *finder) at(doc *schema.Document, path, format string, args ...any) {
	f.add(f.rule.Severity, doc, path, fmt.Sprintf(format, args...))
}

// warn reports a value as a warning, whatever the rule's severity.
func (f *finder) warn(doc *schema.Document, path, format string, args ...any) {
	f.add(schema.SeverityWarning, doc, path, fmt.Sprintf(format, args...))
}

// key reports the key of the value that a path leads to.
func (f *finder) key(doc *schema.Document, path, format string, args ...any) {
	if f.add(f.rule.Severity, doc, path, fmt.Sprintf(format, args...)) {
		f.problems[len(f.problems)-1].Position = doc.KeyPosition(path)
	}
}

// add reports a problem, unless the value, one within it or one around it is known to be broken: what a rule says about it then
// follows from that.
func (f *finder) add(severity schema.Severity, doc *schema.Document, path, message string) bool {
	for _, b := range f.broken[doc] {
		if within(b, path) || within(path, b) {
			return false
		}
	}
	f.problems = append(f.problems, doc.Problem(severity, f.rule.Name, path, message))
	return true
}

// within tells whether a path is another one or leads further from there.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// index appends a list's index to a path.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// list writes names for a message: "a, b and c".
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
