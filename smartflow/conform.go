package smartflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Report is the result of Conform.
type Report struct {
	// Cases is how many cases were run.
	Cases int64 `json:"cases"`
	// Failures lists what differed, at most one for a case, in the order of the file;
	// empty, not nil, when all is well.
	Failures []Failure `json:"failures"`
}

// Failure is one case in which the limiter did something else than a file expects.
type Failure struct {
	File string `json:"file"` // the name given to Conform
	// Case is the section and the name of a case of the published form, or the id of
	// a sequence; empty when the file as a whole cannot be used.
	Case    string `json:"case"`
	Message string `json:"message"`
}

// Conform runs a file of conformance vectors and tells in what the limiter differs.
// It knows the form published with the specification (smartflow-vectors.json) and the
// form of recorded sequences, and finds out which one it has. name is for the report.
//
// Nothing is skipped: a section, a member or an operation that Conform does not know
// is a failure, and so is an expectation that is missing. The limiter runs with the
// peculiarities of the published implementation, which are listed in the package
// documentation; it touches neither the file system nor the clock of the machine.
func Conform(name string, data []byte) Report {
	return conform(name, data, reference, func() cacheFile { return &memoryFile{} })
}

// conform is Conform with its surroundings: tests also run the limiter as it is sold
// and on a real file.
func conform(name string, data []byte, d dialect, newFile func() cacheFile) Report {
	r := &reporter{file: name, dialect: d, newFile: newFile, report: Report{Failures: []Failure{}}}
	var top map[string]jsontext.Value
	if len(bytes.TrimSpace(data)) == 0 {
		r.fail("", "the file is empty: expected a JSON object")
		return r.report
	}
	if err := jsonv2.Unmarshal(data, &top); err != nil {
		r.fail("", "not a JSON object: %v", readable(err))
		return r.report
	}
	form, run := "recorded sequences", (*reporter).sequences
	if _, ok := top["sequences"]; !ok {
		form, run = "the published vectors", (*reporter).vectors
	}
	if version := string(top["version"]); version != "1" {
		r.fail("", "version is %s: only version 1 of %s is known", orNothing(version), form)
		return r.report
	}
	run(r, top)
	if r.report.Cases == 0 && len(r.report.Failures) == 0 {
		r.fail("", "no cases: expected a member sequences, or one of the sections %s", strings.Join(sectionNames(), ", "))
	}
	return r.report
}

func orNothing(text string) string {
	if text == "" {
		return "missing"
	}
	return text
}

// reporter collects the result for one file.
type reporter struct {
	file    string
	dialect dialect
	newFile func() cacheFile
	report  Report
}

func (r *reporter) fail(name, format string, args ...any) {
	r.report.Failures = append(r.report.Failures, Failure{r.file, name, fmt.Sprintf(format, args...)})
}

// run counts a case and reports its error.
func (r *reporter) run(name string, err error) {
	r.report.Cases++
	if err != nil {
		r.fail(name, "%v", err)
	}
}

// strictly decodes a value and refuses members it has no field for.
func strictly(text jsontext.Value, into any) error {
	return readable(jsonv2.Unmarshal(text, into, jsonv2.RejectUnknownMembers(true)))
}

// kinds are the types of JSON, as a person calls them.
var kinds = map[jsontext.Kind]string{
	'n': "null", 'f': "false", 't': "true", '"': "a string", '0': "a number", '{': "an object", '[': "a list",
}

// readable says in words of JSON what a decoder says in those of Go.
func readable(err error) error {
	var semantic *jsonv2.SemanticError
	if !errors.As(err, &semantic) {
		return err
	}
	at := "it"
	if semantic.JSONPointer != "" {
		at = "member " + strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
	}
	got := kinds[semantic.JSONKind]
	if len(semantic.JSONValue) > 0 {
		got = show(semantic.JSONValue)
	}
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		return fmt.Errorf("%s is unknown", at)
	case semantic.Err != nil:
		return fmt.Errorf("%s is %s: %w", at, got, semantic.Err)
	}
	wanted := "something else"
	if t := semantic.GoType; t != nil {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.String:
			wanted = "a string"
		case reflect.Float64, reflect.Int64:
			wanted = "a number"
		case reflect.Bool:
			wanted = "true or false"
		case reflect.Slice:
			wanted = "a list"
		case reflect.Map, reflect.Struct:
			wanted = "an object"
		}
	}
	return fmt.Errorf("%s is %s: it must be %s", at, got, wanted)
}

// tolerance is how far two numbers may be apart, by both forms.
const tolerance = 1e-9

// exact are the places whose numbers must be equal to the last bit: times.
var exact = regexp.MustCompile(`^exp\.(t_end|global\[2\]|orgs\[\d+\]\[3\])$`)

// difference compares what is expected with what happened, both as a JSON decoder
// returns them, and describes the first difference; empty if there is none. A member
// that is present on one side only is a difference.
func difference(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return memberDifference(path, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return listDifference(path, want, got)
		}
	case float64:
		if got, ok := got.(float64); ok && near(path, want, got) {
			return ""
		}
	case string, bool, nil:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s: expected %s, got %s", path, show(want), show(got))
}

func near(path string, want, got float64) bool {
	return want == got || (math.Abs(want-got) <= tolerance && !exact.MatchString(path))
}

func memberDifference(path string, want, got map[string]any) string {
	names := maps.Clone(want)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w, expected := want[name]
		g, happened := got[name]
		at := path + "." + name
		switch {
		case !happened:
			return fmt.Sprintf("%s: expected %s, got nothing", at, show(w))
		case !expected:
			return fmt.Sprintf("%s: expected nothing, got %s", at, show(g))
		}
		if d := difference(at, w, g); d != "" {
			return d
		}
	}
	return ""
}

func listDifference(path string, want, got []any) string {
	for i := range min(len(want), len(got)) {
		if d := difference(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); d != "" {
			return d
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%s: expected %d entries, got %d: %s", path, len(want), len(got), show(got))
	}
	return ""
}

// show is v as JSON, shortened.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // infinities and the like
	}
	const longest = 200
	if len(text) > longest {
		return string(text[:longest]) + "..."
	}
	return string(text)
}
