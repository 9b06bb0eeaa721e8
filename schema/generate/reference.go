package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// node is what the reference needs of a JSON Schema.
type node struct {
	Ref         string           `json:"$ref"`
	Type        string           `json:"type"`
	Description string           `json:"description"`
	Title       string           `json:"title"`
	Properties  properties       `json:"properties"`
	Items       *node            `json:"items"`
	Additional  json.RawMessage  `json:"additionalProperties"`
	Enum        []any            `json:"enum"`
	Default     any              `json:"default"`
	Examples    []any            `json:"examples"`
	Required    []string         `json:"required"`
	Defs        map[string]*node `json:"$defs"`
	OneOf       []*node          `json:"oneOf"`
}

// properties keep the order in which they are declared.
type properties struct {
	names []string
	nodes map[string]*node
}

// UnmarshalJSON reads an object in order.
func (p *properties) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &p.nodes); err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	depth := 0
	key := true
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
				key = t == '{'
				continue
			}
			depth--
			key = true
			continue
		case string:
			if depth == 1 && key && p.nodes[t] != nil {
				p.names = append(p.names, t)
				key = false
				continue
			}
		}
		key = true
	}
	return nil
}

// reference writes docs/reference.md: every field of every kind, from the JSON Schemas.
func reference() (string, error) {
	var b strings.Builder
	b.WriteString("# Documents\n\n<!-- Made by go generate ./schema from the document types. -->\n\n")
	b.WriteString("Every document has `apiVersion: " + schema.APIVersion + "`, a `kind`, a `metadata.name` and a `spec`. A file may hold several, separated by\n`---`. Top-level keys that begin with `x-` are ignored, a place for anchors. `tapyr schema KIND` prints the JSON Schema of a\nkind, for editors.\n")
	for _, kind := range schema.Kinds() {
		var root node
		if err := json.Unmarshal(schema.JSONSchema(kind), &root); err != nil {
			return "", err
		}
		spec := root.Properties.nodes["spec"]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", kind, oneLine(root.Description))
		w := referenceWriter{b: &b, defs: root.Defs, done: map[string]bool{}}
		w.table(spec)
		w.rest()
	}
	return b.String(), nil
}

// referenceWriter writes the tables of one kind: the spec's, then those of the types that it names, in order.
type referenceWriter struct {
	b     *strings.Builder
	defs  map[string]*node
	queue []string
	done  map[string]bool
}

func (w *referenceWriter) rest() {
	for len(w.queue) > 0 {
		name := w.queue[0]
		w.queue = w.queue[1:]
		fmt.Fprintf(w.b, "\n### %s\n\n%s\n", name, oneLine(w.defs[name].Description))
		w.table(w.defs[name])
	}
}

func (w *referenceWriter) table(n *node) {
	required := make(map[string]bool)
	for _, name := range n.Required {
		required[name] = true
	}
	w.b.WriteString("\n| field | value | meaning |\n| --- | --- | --- |\n")
	for _, name := range n.Properties.names {
		p := n.Properties.nodes[name]
		field := "`" + name + "`"
		if required[name] {
			field += " *"
		}
		fmt.Fprintf(w.b, "| %s | %s | %s |\n", field, w.value(p), cellText(meaning(p)))
	}
}

// meaning is the description, with default and example.
func meaning(n *node) string {
	text := oneLine(n.Description)
	if n.Default != nil {
		text += fmt.Sprintf(" Default: `%v`.", n.Default)
	}
	if len(n.Examples) > 0 {
		text += fmt.Sprintf(" Example: `%v`.", n.Examples[0])
	}
	return text
}

// value says what may stand in a field.
func (w *referenceWriter) value(n *node) string {
	switch {
	case n.Ref != "":
		name := strings.TrimPrefix(n.Ref, "#/$defs/")
		if !w.done[name] {
			w.done[name] = true
			w.queue = append(w.queue, name)
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case n.Title != "":
		return cellText(strings.SplitN(n.Title, ":", 2)[0])
	case len(n.Enum) > 0:
		var names []string
		for _, e := range n.Enum {
			names = append(names, fmt.Sprintf("`%v`", e))
		}
		return strings.Join(names, ", ")
	case n.Type == "array" && n.Items != nil:
		return "list of " + w.value(n.Items)
	case n.Type == "object":
		var values node
		if json.Unmarshal(n.Additional, &values) == nil && (values.Ref != "" || values.Type != "") {
			return "by name: " + w.value(&values)
		}
		return "mapping"
	}
	words := map[string]string{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "": "anything"}
	return words[n.Type]
}

func cellText(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
