package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	jsonschema "github.com/santhosh-tekuri/jsonschema/v6"
)

// The embedded schemas are what the Go types and their comments give: run "go generate ./schema" after changing one.
func TestSchemasAreFresh(t *testing.T) {
	t.Chdir("..")
	fresh, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh) != len(Kinds()) {
		t.Errorf("%d schemas for %d kinds", len(fresh), len(Kinds()))
	}
	for _, kind := range Kinds() {
		if !bytes.Equal(fresh[FileName(kind)], JSONSchema(kind)) {
			t.Errorf("the schema of %s is not fresh; run go generate ./schema", kind)
		}
	}
	files, err := os.ReadDir("schema/schemas")
	if err != nil || len(files) != len(Kinds()) {
		t.Errorf("%d files, %v", len(files), err)
	}
	if JSONSchema("Nothing") != nil {
		t.Error("there is a schema of a kind that does not exist")
	}
}

// eachSchema walks over all schemas within one.
func eachSchema(value any, path string, visit func(path string, node map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		visit(path, v)
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			eachSchema(v[key], path+"/"+key, visit)
		}
	case []any:
		for i, item := range v {
			eachSchema(item, path+"/"+strconv.Itoa(i), visit)
		}
	}
}

func decodeSchema(t *testing.T, text []byte) map[string]any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

// An editor shows descriptions: every field has one, and none is a comment's leftover.
func TestEveryFieldIsDescribed(t *testing.T) {
	fields := 0
	for _, kind := range Kinds() {
		eachSchema(decodeSchema(t, JSONSchema(kind)), kind, func(path string, node map[string]any) {
			properties, _ := node["properties"].(map[string]any)
			for name, property := range properties {
				fields++
				p, _ := property.(map[string]any)
				description, _ := p["description"].(string)
				_, reference := p["$ref"]
				if description == "" && !reference && name != "spec" {
					t.Errorf("%s/%s has no description", path, name)
				}
				if strings.Contains(description, "json:") || strings.HasPrefix(description, " ") {
					t.Errorf("%s/%s: description %q", path, name, description)
				}
			}
		})
	}
	if fields < 150 {
		t.Errorf("only %d fields found: the test sees nothing", fields)
	}
}

// compileSchema compiles a schema as any validator would, with the formats of the units where they are wanted.
func compileSchema(t *testing.T, text []byte, assert bool) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if assert {
		c.AssertFormat()
		for _, f := range formats {
			c.RegisterFormat(f)
		}
	}
	root := decodeSchema(t, text)
	id, _ := root["$id"].(string)
	if err := c.AddResource(id, root); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// Examples and defaults in the schemas are values that the schemas allow.
func TestExamplesAndDefaultsAreValid(t *testing.T) {
	examples, defaults := 0, 0
	for _, kind := range Kinds() {
		root := decodeSchema(t, JSONSchema(kind))
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		for _, f := range formats {
			c.RegisterFormat(f)
		}
		id, _ := root["$id"].(string)
		if err := c.AddResource(id, root); err != nil {
			t.Fatal(err)
		}
		eachSchema(root, "#", func(path string, node map[string]any) {
			var values []any
			if list, ok := node["examples"].([]any); ok {
				values = append(values, list...)
				examples += len(list)
			}
			if preset, ok := node["default"]; ok && node["properties"] == nil {
				values = append(values, preset)
				defaults++
			}
			for _, value := range values {
				compiled, err := c.Compile(id + path)
				if err != nil {
					t.Fatal(err)
				}
				if err := compiled.Validate(value); err != nil {
					t.Errorf("%s %s: %v is not valid: %v", kind, path, value, err)
				}
			}
		})
	}
	if examples < 20 || defaults < 20 {
		t.Errorf("only %d examples and %d defaults found: the test sees nothing", examples, defaults)
	}
}

// minimal is a document of each kind that is as short as it can be.
var minimal = map[string]string{
	KindProvider:    `{"apiVersion":"tapyr/v1alpha1","kind":"Provider","metadata":{"name":"a"},"spec":{}}`,
	KindAccount:     `{"apiVersion":"tapyr/v1alpha1","kind":"Account","metadata":{"name":"a"},"spec":{"provider":"a"}}`,
	KindJob:         `{"apiVersion":"tapyr/v1alpha1","kind":"Job","metadata":{"name":"a"},"spec":{"account":"a"}}`,
	KindSettings:    `{"apiVersion":"tapyr/v1alpha1","kind":"Settings","metadata":{"name":"a"},"spec":{}}`,
	KindSpendPolicy: `{"apiVersion":"tapyr/v1alpha1","kind":"SpendPolicy","metadata":{"name":"a"},"spec":{"version":"1","unit":"EUR","account":{"limit":"1"},"routes":{},"capabilities":{}}}`,
}

// comma separates a first field of a minimal spec from the others, where there are any.
func comma(kind string) string {
	if strings.Contains(minimal[kind], `"spec":{}`) {
		return ""
	}
	return ","
}

// The combined schema says of a document what the schema of its kind says.
func TestCombinedSchema(t *testing.T) {
	for _, assert := range []bool{false, true} {
		combined := compileSchema(t, CombinedJSONSchema(), assert)
		for _, kind := range Kinds() {
			single := compileSchema(t, JSONSchema(kind), assert)
			for _, change := range []struct{ old, new string }{
				{"", ""},
				{`"name":"a"`, `"name":"A"`},
				{`"spec":{`, `"spec":{"nothing":1` + comma(kind)},
				{`"metadata":{"name":"a"},`, ""},
				{`"kind"`, `"x-note":[1],"kind"`},
				{`"tapyr/v1alpha1"`, `"tapyr/v2"`},
			} {
				text := strings.Replace(minimal[kind], change.old, change.new, 1)
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				one, all := single.Validate(value), combined.Validate(value)
				if (one == nil) != (all == nil) {
					t.Errorf("%s: alone %v, combined %v", text, one, all)
				}
				if want := change.old == "" || strings.Contains(change.new, "x-note"); want != (one == nil) {
					t.Errorf("%s: %v", text, one)
				}
			}
		}
		for _, text := range []string{`{}`, `{"kind":"Nothing","apiVersion":"tapyr/v1alpha1","metadata":{"name":"a"},"spec":{}}`, `[]`} {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if combined.Validate(value) == nil {
				t.Errorf("%s is valid", text)
			}
		}
	}
	if !json.Valid(CombinedJSONSchema()) || !bytes.Equal(CombinedJSONSchema(), CombinedJSONSchema()) {
		t.Error("the combined schema is not JSON, or differs from call to call")
	}
}

// What the schema of a kind refuses, Decode reports, and the other way round, for documents without YAML's own traps.
func TestDecodeAgreesWithTheSchema(t *testing.T) {
	for kind, text := range minimal {
		doc := one(t, text)
		if doc.Kind != kind || len(doc.Problems) > 0 || doc.Spec == nil {
			t.Errorf("%s:\n%s", text, describe(doc.Problems))
		}
		bad := one(t, strings.Replace(text, `"spec":{`, `"spec":{"nothing":1`+comma(kind), 1))
		if len(bad.Problems) != 1 || bad.Problems[0].Rule != RuleUnknownField {
			t.Errorf("%s:\n%s", text, describe(bad.Problems))
		}
	}
}
