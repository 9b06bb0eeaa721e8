package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// The JSON Schemas of the values that have a form of their own. Each title says in a message what is expected.

const (
	formatDuration = "tapyr-duration"
	formatRate     = "tapyr-rate"
	formatAmount   = "tapyr-amount"
	formatDecimal  = "tapyr-decimal"
	formatCount    = "tapyr-count" // a whole number in plain digits that fits 64 bits

	durationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w|y))+$`
	ratePattern     = `^[0-9]+(\.[0-9]+)?/([0-9].*|ms|s|m|h|d|w)$`
	amountPattern   = `^[0-9]+(\.[0-9]+)?$`
)

func durationSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: durationPattern, Format: formatDuration, Title: "a duration: " + durationForm}
}

func rateSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: ratePattern, Format: formatRate, Title: "a rate: " + rateForm}
}

func decimalSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "number", Format: formatDecimal}
}

func amountSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: amountPattern, Format: formatAmount, MaxLength: ptr(uint64(60)),
		Title: `an amount: digits with or without decimals, in quotes, such as "12.50"`,
	}
}

// maxSchema describes the three forms of a maximum.
func maxSchema() *jsonschema.Schema {
	count := func() *jsonschema.Schema {
		return &jsonschema.Schema{Type: "integer", Format: formatCount, Minimum: "0", Maximum: "1000000000000000"}
	}
	props := jsonschema.NewProperties()
	props.Set("byVar", &jsonschema.Schema{Type: "string", MinLength: ptr(uint64(1)), Description: "The variable of the account that decides."})
	props.Set("values", &jsonschema.Schema{
		Type: "object", AdditionalProperties: count(), MinProperties: ptr(uint64(1)), Description: "The maxima by the variable's value.",
	})
	return &jsonschema.Schema{
		Title: "a whole number, auto, or byVar with values",
		OneOf: []*jsonschema.Schema{
			count(),
			{Type: "string", Enum: []any{"auto"}},
			{Type: "object", Properties: props, Required: []string{"byVar", "values"}, AdditionalProperties: jsonschema.FalseSchema},
		},
	}
}

// headerSchema describes a header's name and its long form.
func headerSchema() *jsonschema.Schema {
	props := jsonschema.NewProperties()
	props.Set("name", &jsonschema.Schema{Type: "string", MinLength: ptr(uint64(1)), Description: "The header's name, in any case."})
	props.Set("index", &jsonschema.Schema{
		Type: "integer", Format: formatCount, Minimum: "0", Maximum: "1000", Description: "Which of several values that are separated by commas, from 0.",
	})
	props.Set("pattern", &jsonschema.Schema{Type: "string", Description: "A regular expression (RE2) with one group that captures the value."})
	props.Set("format", &jsonschema.Schema{
		Type:        "string",
		Enum:        []any{"auto", "epoch", "epochMs", "delta", "goDuration", "rfc3339", "httpDate", "minutes"},
		Default:     "auto",
		Description: "How a reset is written: epoch seconds or milliseconds, a delay in seconds or minutes, a Go duration, or a date.",
	})
	return &jsonschema.Schema{
		Title: "a header's name, or name with index, pattern or format",
		OneOf: []*jsonschema.Schema{
			{Type: "string"},
			{Type: "object", Properties: props, Required: []string{"name"}, AdditionalProperties: jsonschema.FalseSchema},
		},
	}
}

// documentSchema wraps the schema of a spec; keys that begin with x- are ignored.
func documentSchema(kind string, spec *jsonschema.Schema) *jsonschema.Schema {
	meta := jsonschema.NewProperties()
	meta.Set("name", &jsonschema.Schema{
		Type: "string", Pattern: namePattern, MaxLength: ptr(uint64(63)),
		Title: "a name: lower-case letters, digits and hyphens, a letter or digit first and last", Description: "Unique among the documents of this kind.",
	})
	props := jsonschema.NewProperties()
	props.Set("apiVersion", &jsonschema.Schema{Type: "string", Enum: []any{APIVersion}, Description: "The version of the document format."})
	props.Set("kind", &jsonschema.Schema{Type: "string", Enum: []any{kind}, Description: "The kind of the document."})
	props.Set("metadata", &jsonschema.Schema{
		Type: "object", Properties: meta, Required: []string{"name"}, AdditionalProperties: jsonschema.FalseSchema, Description: "How other documents refer to this one.",
	})
	props.Set("spec", spec)
	return &jsonschema.Schema{
		Version:              jsonschema.Version,
		ID:                   jsonschema.ID("https://github.com/tapyr/tapyr/schemas/v1alpha1/" + schemaFile(kind)),
		Title:                kind,
		Type:                 "object",
		Properties:           props,
		PatternProperties:    map[string]*jsonschema.Schema{"^x-": {}},
		Required:             []string{"apiVersion", "kind", "metadata", "spec"},
		AdditionalProperties: jsonschema.FalseSchema,
	}
}

// mapped gives the schema of a type that has a form of its own, inline, so that a field's own bounds can be added to it.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Duration]():
		return durationSchema()
	case reflect.TypeFor[Rate]():
		return rateSchema()
	case reflect.TypeFor[Decimal]():
		return decimalSchema()
	case reflect.TypeFor[Amount]():
		return amountSchema()
	case reflect.TypeFor[Max]():
		return maxSchema()
	case reflect.TypeFor[Header]():
		return headerSchema()
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return &jsonschema.Schema{Type: "integer", Format: formatCount}
	}
	return nil
}

// Generate reflects the JSON Schema (draft 2020-12) of every document kind from the Go types. Descriptions come from the doc
// comments of the sources, so the working directory must be the module's root. The result maps a file's name to its content.
func Generate() (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, kind := range Kinds() {
		r := &jsonschema.Reflector{RequiredFromJSONSchemaTags: true, Anonymous: true, ExpandedStruct: true, Mapper: mapped}
		if err := r.AddGoComments("github.com/tapyr/tapyr", "./schema"); err != nil {
			return nil, err
		}
		spec := r.Reflect(newSpec(kind))
		defs := spec.Definitions
		spec.Version, spec.Definitions = "", nil
		spellFields(spec)
		for _, def := range defs {
			spellFields(def)
		}
		doc := documentSchema(kind, spec)
		doc.Description = spec.Description
		doc.Definitions = defs
		text, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return nil, err
		}
		files[schemaFile(kind)] = append(text, '\n')
	}
	return files, nil
}

// spellFields makes descriptions begin with the field's name as documents spell it, where the Go comment has Go's.
func spellFields(s *jsonschema.Schema) {
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		first, rest, found := strings.Cut(pair.Value.Description, " ")
		if found && strings.EqualFold(first, pair.Key) {
			pair.Value.Description = pair.Key + " " + rest
		}
	}
}

func ptr[T any](v T) *T { return &v }
