package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/tapyr/tapyr/schema"
)

// reference writes docs/reference.md: every field of every kind, from the JSON Schemas.
func reference() (string, error) {
	var b strings.Builder
	b.WriteString("# Documents\n\n<!-- Made by go generate ./schema from the document types. -->\n\n")
	b.WriteString("Every document has `apiVersion: " + schema.APIVersion + "`, a `kind`, a `metadata.name` and a `spec`. A file may hold several, separated by\n`---`. Top-level keys that begin with `x-` are ignored, a place for anchors. `tapyr schema KIND` prints the JSON Schema of a\nkind, for editors. What a duration, a rate, a scope or an expression is, [values](values.md) says.\n")
	for _, kind := range schema.Kinds() {
		var root jsonschema.Schema
		if err := json.Unmarshal(schema.JSONSchema(kind), &root); err != nil {
			return "", err
		}
		spec, _ := root.Properties.Get("spec")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", kind, oneLine(root.Description))
		w := referenceWriter{b: &b, defs: root.Definitions, done: map[string]bool{}}
		w.table(spec)
		w.rest()
	}
	return b.String(), nil
}

// referenceWriter writes the tables of one kind: the spec's, then those of the types that it names, in order.
type referenceWriter struct {
	b     *strings.Builder
	defs  jsonschema.Definitions
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

func (w *referenceWriter) table(n *jsonschema.Schema) {
	required := make(map[string]bool)
	for _, name := range n.Required {
		required[name] = true
	}
	w.b.WriteString("\n| field | value | meaning |\n| --- | --- | --- |\n")
	for pair := n.Properties.Oldest(); pair != nil; pair = pair.Next() {
		name, p := pair.Key, pair.Value
		field := "`" + name + "`"
		if required[name] {
			field += " *"
		}
		fmt.Fprintf(w.b, "| %s | %s | %s |\n", field, w.value(p), cellText(meaning(p)))
	}
}

// meaning is the description, with default and example.
func meaning(n *jsonschema.Schema) string {
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
func (w *referenceWriter) value(n *jsonschema.Schema) string {
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
		if values := n.AdditionalProperties; values != nil && (values.Ref != "" || values.Type != "") {
			return "by name: " + w.value(values)
		}
		return "mapping"
	}
	words := map[string]string{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "": "anything"}
	return words[n.Type]
}

func cellText(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
