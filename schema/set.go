package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Setting is a change of one value of the documents, such as job.devices.interval=10m.
type Setting struct {
	// Kind and Name say which document; Name is empty for the settings.
	Kind, Name string
	// Path leads to the value below spec. An element of a list is named by its name, or by its number from 0.
	Path []string
	// Value is YAML: a scalar, or a list or mapping in flow style.
	Value string

	text string
}

// settingKinds are the first words of a setting.
var settingKinds = map[string]string{
	"provider": KindProvider, "account": KindAccount, "job": KindJob, "settings": KindSettings, "policy": KindSpendPolicy,
}

const settingForm = "PATH=VALUE, such as provider.meraki.limits.daily.max=4000, job.devices.interval=10m, account.acme.budget.share=0.5 or settings.budget.retryReserve=0.2"

// ParseSetting reads PATH=VALUE.
func ParseSetting(text string) (Setting, error) {
	path, value, found := strings.Cut(text, "=")
	parts := strings.Split(path, ".")
	s := Setting{Kind: settingKinds[parts[0]], Value: value, text: text}
	if !found || s.Kind == "" || slices.Contains(parts, "") {
		return s, fmt.Errorf("%q: want %s", path, settingForm)
	}
	rest := parts[1:]
	if s.Kind != KindSettings && len(rest) > 0 {
		s.Name, rest = rest[0], rest[1:]
	}
	if len(rest) == 0 {
		return s, fmt.Errorf("%q names no value: want %s", path, settingForm)
	}
	s.Path = rest
	return s, nil
}

// Apply changes documents. The ones that change are copied, and checked again; what is then wrong with them is the error. A
// settings document is made where there is none.
func Apply(docs []*Document, settings []Setting) ([]*Document, error) {
	out := slices.Clone(docs)
	for _, s := range settings {
		i, err := s.find(out)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			out = append(out, emptySettings())
			i = len(out) - 1
		}
		changed, err := s.change(out[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.shown(), err)
		}
		out[i] = changed
	}
	return out, nil
}

func emptySettings() *Document {
	tree := map[string]any{"apiVersion": APIVersion, "kind": KindSettings, "metadata": map[string]any{"name": "default"}, "spec": map[string]any{}}
	return &Document{File: "--set", Kind: KindSettings, Name: "default", Spec: new(SettingsSpec), Tree: tree}
}

// shown is the setting for a message, without a value that may be a secret.
func (s Setting) shown() string {
	for _, name := range s.Path {
		if name == "credentials" || name == "token" || name == "dsn" {
			path, _, _ := strings.Cut(s.text, "=")
			return strconv.Quote(path + "=…")
		}
	}
	return strconv.Quote(s.text)
}

// find is the index of the document that the setting names; -1 for settings that are not there yet.
func (s Setting) find(docs []*Document) (int, error) {
	var names []string
	for i, d := range docs {
		if d.Kind != s.Kind {
			continue
		}
		if d.Name == s.Name || s.Kind == KindSettings {
			return i, nil
		}
		names = append(names, d.Name)
	}
	if s.Kind == KindSettings {
		return -1, nil
	}
	return 0, fmt.Errorf("%s: there is no %s %q%s", s.shown(), s.Kind, s.Name, DidYouMeanOneOf(s.Name, names))
}

// change copies a document with the value put in.
func (s Setting) change(d *Document) (*Document, error) {
	value, err := parseValue(s.Value)
	if err != nil {
		return nil, err
	}
	out := &Document{File: d.File, Kind: d.Kind, Name: d.Name, node: d.node, Tree: maps.Clone(d.Tree)}
	spec, err := put(d.Tree["spec"], s.Path, value)
	if err != nil {
		return nil, err
	}
	out.Tree["spec"] = spec
	out.check()
	for _, p := range out.Problems {
		if p.Severity == SeverityError {
			return nil, fmt.Errorf("%s [%s]", p.Message, p.Rule)
		}
	}
	out.fill()
	out.Problems = d.Problems
	return out, nil
}

// parseValue reads a value as a document's would be read.
func parseValue(text string) (any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil || node.Kind != yaml.DocumentNode || len(node.Content) == 0 {
		return nil, fmt.Errorf("%q is not a value; write a number, a text, or [a, list]", text)
	}
	doc := &Document{File: "--set"}
	w := walker{doc: doc}
	value := w.value(node.Content[0], nil)
	for _, p := range doc.Problems {
		if p.Severity == SeverityError {
			return nil, fmt.Errorf("%s [%s]", p.Message, p.Rule)
		}
	}
	return value, nil
}

// put copies a tree with the value at the path. Mappings on the way are made where they are missing.
func put(tree any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch t := tree.(type) {
	case nil:
		return putField(map[string]any{}, path, value)
	case map[string]any:
		return putField(t, path, value)
	case []any:
		return putElement(t, path, value)
	}
	return nil, fmt.Errorf("there is nothing below the value %s that could be set", quoted(tree))
}

func putField(t map[string]any, path []string, value any) (any, error) {
	inner, err := put(t[path[0]], path[1:], value)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(t)
	out[path[0]] = inner
	return out, nil
}

func putElement(t []any, path []string, value any) (any, error) {
	var names []string
	for i, element := range t {
		name := fmt.Sprint(i)
		if fields, ok := element.(map[string]any); ok {
			if n, ok := fields["name"].(string); ok {
				names = append(names, n)
				if n == path[0] {
					name = n
				}
			}
		}
		if name != path[0] {
			continue
		}
		inner, err := put(element, path[1:], value)
		if err != nil {
			return nil, err
		}
		out := slices.Clone(t)
		out[i] = inner
		return out, nil
	}
	return nil, fmt.Errorf("the list has no element %q%s", path[0], DidYouMeanOneOf(path[0], names))
}
