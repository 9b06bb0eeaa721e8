package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// walker turns YAML nodes into plain values and reports what a reader of another YAML version would see differently.
type walker struct {
	doc        *Document
	visited    int // values so far, those of expanded aliases included
	repeated   int // of these, the ones within aliases
	depth      int
	overflowed bool // too much was found: the document is given up
	open       []*yaml.Node
	warned     map[*yaml.Node]bool
}

// step is a path's last element; the path is the chain to the top.
type step struct {
	up    *step
	key   string
	index int // of a list's element, when key is empty
}

func (s *step) String() string {
	if s == nil {
		return ""
	}
	if s.key == "" {
		return s.up.String() + "[" + strconv.Itoa(s.index) + "]"
	}
	return joinPath(s.up.String(), s.key)
}

// JoinPath adds a mapping's key to a path; a key that is not a plain word stands in brackets and quotes.
func JoinPath(path, key string) string { return joinPath(path, key) }

func joinPath(path, key string) string {
	if plainKey.MatchString(key) {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	return path + "[" + strconv.Quote(key) + "]"
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]*$`)

func (w *walker) fail(n *yaml.Node, rule string, at *step, message string) {
	if w.doc.full() {
		w.overflowed = true
		return
	}
	w.doc.report(n, rule, at.String(), message)
}

// value is the plain value of a node; nil after a report, too.
func (w *walker) value(n *yaml.Node, at *step) any {
	w.visited++
	if w.overflowed {
		return nil
	}
	if len(w.open) > 0 {
		w.repeated++
	}
	why := ""
	switch {
	case w.repeated > maxRepeated:
		why = fmt.Sprintf("aliases repeat more than %d values", maxRepeated)
	case w.visited > maxValues:
		why = fmt.Sprintf("the document holds more than %d values", maxValues)
	case w.depth >= maxDepth:
		why = fmt.Sprintf("values are nested more than %d deep", maxDepth)
	}
	if why != "" {
		w.overflowed = true
		w.fail(n, RuleTooLarge, at, why)
		return nil
	}
	w.depth++
	defer func() { w.depth-- }()
	switch n.Kind {
	case yaml.AliasNode:
		return w.alias(n, at)
	case yaml.MappingNode:
		return w.mapping(n, at)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			if list[i] = w.value(item, &step{up: at, index: i}); w.overflowed {
				return nil
			}
		}
		return list
	case yaml.ScalarNode:
		return w.scalar(n, at)
	}
	return nil
}

func (w *walker) alias(n *yaml.Node, at *step) any {
	for _, open := range w.open {
		if open == n.Alias {
			w.fail(n, RuleSyntax, at, fmt.Sprintf("alias *%s stands within its own anchor", n.Value))
			return nil
		}
	}
	w.open = append(w.open, n.Alias)
	v := w.value(n.Alias, at)
	w.open = w.open[:len(w.open)-1]
	return v
}

func (w *walker) mapping(n *yaml.Node, at *step) any {
	own := make(map[string]any, len(n.Content)/2)
	lines := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, val)
			continue
		}
		name, ok := w.key(key, at)
		if !ok {
			continue
		}
		here := &step{up: at, key: name}
		if line, twice := lines[name]; twice {
			w.fail(key, RuleDuplicateKey, here, fmt.Sprintf("key %q stands twice, first in line %d; remove one of them", name, line))
			continue
		}
		lines[name] = key.Line
		own[name] = w.value(val, here)
		if w.overflowed {
			return own
		}
	}
	w.remember(n)
	for _, m := range merges {
		w.merge(own, m, at)
	}
	return own
}

// remember indexes the keys of a wide mapping, in which looking for the positions of a thousand problems would take minutes.
func (w *walker) remember(n *yaml.Node) {
	const wide = 64
	if len(n.Content) < 2*wide {
		return
	}
	index := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if _, there := index[n.Content[i].Value]; !there {
			index[n.Content[i].Value] = i
		}
	}
	if w.doc.wide == nil {
		w.doc.wide = make(map[*yaml.Node]map[string]int)
	}
	w.doc.wide[n] = index
}

// merge adds the keys of a merge key's mapping, or list of mappings, that are not there yet: a mapping's own keys win, then the
// earlier of a list.
func (w *walker) merge(own map[string]any, n *yaml.Node, at *step) {
	list := n
	if n.Kind == yaml.AliasNode {
		list = n.Alias
	}
	if list.Kind == yaml.SequenceNode {
		for _, item := range list.Content {
			if !w.overflowed && item.Kind != yaml.SequenceNode {
				w.merge(own, item, at)
			}
		}
		return
	}
	fields, ok := w.value(n, at).(map[string]any)
	switch {
	case w.overflowed:
		return
	case !ok:
		w.fail(n, RuleShape, at, "a merge key << takes a mapping, or a list of mappings")
		return
	}
	for k, v := range fields {
		if _, there := own[k]; !there {
			own[k] = v
		}
	}
}

// key is the text of a mapping's key.
func (w *walker) key(n *yaml.Node, at *step) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		w.fail(n, RuleShape, at, "a key must be a text")
		return "", false
	}
	if plain(n) && ambiguousBool.MatchString(n.Value) {
		w.warn(n, &step{up: at, key: n.Value}, fmt.Sprintf("key %s is read as a text, but is true or false to YAML 1.1 readers; write it in quotes", n.Value))
	}
	return n.Value, true
}

// plain tells whether a scalar was written without quotes.
func plain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

var (
	ambiguousBool = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$`)
	sexagesimal   = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	leadingZero   = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	jsonNumber    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$`)
)

func (w *walker) warn(n *yaml.Node, at *step, message string) {
	if w.doc.full() {
		w.overflowed = true
		return
	}
	if w.warned[n] {
		return // a node that aliases repeat is one place to look at
	}
	if w.warned == nil {
		w.warned = make(map[*yaml.Node]bool)
	}
	w.warned[n] = true
	path := at.String()
	w.doc.Problems = append(w.doc.Problems, Problem{
		Position: nodePosition(w.doc.File, n), Severity: SeverityWarning, Rule: RuleAmbiguous, Message: message, Path: path, Concealed: concealed(path),
	})
}

func (w *walker) scalar(n *yaml.Node, at *step) any {
	text := n.Value
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(text, "true")
	case "!!int", "!!float":
		return w.number(n, at)
	case "!!str", "!!timestamp", "!!merge":
		switch {
		case !plain(n):
		case sexagesimal.MatchString(text):
			w.warn(n, at, fmt.Sprintf("%s is read as a text, as a time of day must be, but is a number to YAML 1.1 readers; write it in quotes", shown(text, at)))
		case ambiguousBool.MatchString(text):
			w.warn(n, at, fmt.Sprintf("%s is read as a text, but is true or false to YAML 1.1 readers; write it in quotes", shown(text, at)))
		}
		return text
	default:
		w.fail(n, RuleShape, at, fmt.Sprintf("tag %s is not supported; write a plain text, number, true or false", tag))
		return nil
	}
}

// number keeps the digits as they were written, so that 0.29 stays 0.29.
func (w *walker) number(n *yaml.Node, at *step) any {
	text := n.Value
	switch {
	case leadingZero.MatchString(text):
		w.fail(n, RuleAmbiguous, at, fmt.Sprintf("%s begins with a zero: some YAML readers take it for an octal number; leave the zero out, or write quotes if it is a name", shown(text, at)))
	case len(text) > 40 || !jsonNumber.MatchString(text):
		w.fail(n, RuleShape, at, fmt.Sprintf("%s is not a number in plain decimal digits, such as 15, 0.5 or 1e6", shown(text, at)))
	default:
		return json.Number(text)
	}
	return nil
}

// shown is a value as a message may show it: not where a secret may stand by mistake.
func shown(text string, at *step) string {
	if concealed(at.String()) {
		return "the value"
	}
	return clip(text)
}

// clip shortens a value for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
