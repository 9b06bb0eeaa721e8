package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// CombinedJSONSchema is one JSON Schema (draft 2020-12) for documents of any kind. An editor can apply it to every file of a
// folder, and to files that hold several kinds.
func CombinedJSONSchema() []byte {
	defs := make(map[string]any)
	var kinds, branches []any
	for _, kind := range Kinds() {
		var document map[string]any
		d := json.NewDecoder(bytes.NewReader(JSONSchema(kind)))
		d.UseNumber()
		if err := d.Decode(&document); err != nil {
			panic(fmt.Sprintf("embedded schema of %s: %v", kind, err)) // a test decodes them all
		}
		own, _ := document["$defs"].(map[string]any)
		maps.Copy(defs, own) // types that kinds share are the same in each
		delete(document, "$defs")
		delete(document, "$schema")
		delete(document, "$id")
		name := kind + "Document"
		defs[name] = document
		kinds = append(kinds, kind)
		branches = append(branches, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"kind": map[string]any{"const": kind}}, "required": []any{"kind"}},
			"then": map[string]any{"$ref": "#/$defs/" + name},
		})
	}
	combined := map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"$id":         "https://github.com/tapyr/tapyr/schemas/v1alpha1/" + CombinedFileName,
		"title":       "tapyr document",
		"description": "A document of any kind: " + strings.Join(Kinds(), ", ") + ".",
		"type":        "object",
		"required":    []any{"apiVersion", "kind", "metadata", "spec"},
		"properties":  map[string]any{"kind": map[string]any{"enum": kinds, "description": "The kind of the document."}},
		"allOf":       branches,
		"$defs":       defs,
	}
	text, err := json.MarshalIndent(combined, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("combined schema: %v", err)) // it was just decoded
	}
	return append(text, '\n')
}

// CombinedFileName is the name that the combined schema is written under.
const CombinedFileName = "tapyr.schema.json"

// FileName is the name that the schema of a kind is written under.
func FileName(kind string) string { return schemaFile(kind) }
