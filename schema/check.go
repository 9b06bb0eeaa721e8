package schema

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	jsonschema "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:generate go run ./generate

//go:embed schemas/*.json
var schemaFiles embed.FS

// JSONSchema is the JSON Schema (draft 2020-12) of a kind, as editors and other validators read it; nil where there is no such
// kind.
func JSONSchema(kindName string) []byte {
	text, err := schemaFiles.ReadFile(path.Join("schemas", schemaFile(kindName)))
	if err != nil {
		return nil
	}
	return text
}

// checker holds a kind's schema, compiled and as plain values.
type checker struct {
	compiled *jsonschema.Schema
	plain    any
}

var checkers = sync.OnceValue(func() map[string]checker {
	out := make(map[string]checker)
	for _, k := range Kinds() {
		plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema(k)))
		if err != nil {
			panic(fmt.Sprintf("embedded schema of %s: %v", k, err)) // a test compiles them all
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		for _, f := range formats {
			c.RegisterFormat(f)
		}
		url := "https://tapyr.invalid/" + schemaFile(k)
		delete(plain.(map[string]any), "$id")
		if err := c.AddResource(url, plain); err != nil {
			panic(fmt.Sprintf("embedded schema of %s: %v", k, err))
		}
		out[k] = checker{c.MustCompile(url), plain}
	}
	return out
})

// formats check the units, and say what is wrong with them.
var formats = []*jsonschema.Format{
	{Name: formatDuration, Validate: onText(func(s string) error { _, err := ParseDuration(s); return err })},
	{Name: formatRate, Validate: onText(func(s string) error { _, err := ParseRate(s); return err })},
	{Name: formatAmount, Validate: onText(func(s string) error { _, err := ParseAmount(s); return err })},
	{Name: formatDecimal, Validate: onNumber(func(s string) error { _, err := ParseDecimal(s); return err })},
	{Name: formatCount, Validate: onNumber(func(s string) error {
		if _, err := strconv.ParseInt(s, 10, 64); err != nil {
			return fmt.Errorf("%s is not a whole number in plain digits", s)
		}
		return nil
	})},
}

func onText(check func(string) error) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); ok {
			return check(s)
		}
		return nil // the type is another keyword's business
	}
}

func onNumber(check func(string) error) func(any) error {
	return func(v any) error {
		if n, ok := v.(json.Number); ok {
			return check(n.String())
		}
		return nil
	}
}

// check holds the tree against the kind's schema, reports what is wrong, and takes it out of the tree. It is false where that is
// too much to go on with.
func (d *Document) check() bool {
	c := checkers()[d.Kind]
	err := c.compiled.Validate(d.Tree)
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return true
	}
	s := shapeReport{doc: d, plain: c.plain, seen: map[string]bool{}}
	for _, p := range d.Problems {
		if p.Severity == SeverityError {
			s.seen[p.Path] = true
		}
	}
	s.add(ve)
	d.Problems = slices.DeleteFunc(d.Problems, func(p Problem) bool { return p.Severity == SeverityWarning && s.seen[p.Path] })
	sort.SliceStable(s.bad, func(i, j int) bool { return len(s.bad[i]) > len(s.bad[j]) })
	for _, location := range s.bad {
		prune(d.Tree, location)
	}
	slices.SortStableFunc(d.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if d.full() {
		d.Tree = nil
	}
	return d.Tree != nil
}

// shapeReport turns the errors of the schema library into problems.
type shapeReport struct {
	doc   *Document
	plain any
	seen  map[string]bool // paths that were reported: one mistake, one problem
	bad   [][]string
}

// add reports the leaves of an error. Of a choice between forms the one that the value's type fits is explained.
func (s *shapeReport) add(e *jsonschema.ValidationError) {
	if s.doc.full() {
		return
	}
	if _, choice := e.ErrorKind.(*kind.OneOf); choice {
		if fit := fitting(e); fit != nil && !isEnum(fit) {
			s.add(fit)
			return
		}
		s.problem(e, e.InstanceLocation, RuleShape, s.expected(e))
		return
	}
	if len(e.Causes) == 0 {
		s.leaf(e)
		return
	}
	causes := slices.Clone(e.Causes)
	slices.SortStableFunc(causes, compareCauses)
	for _, cause := range causes {
		s.add(cause)
	}
}

// compareCauses makes the order of problems, and which of several about one value is told, independent of the order of maps. A
// format says more than a pattern.
func compareCauses(a, b *jsonschema.ValidationError) int {
	switch {
	case isFormat(a) != isFormat(b):
		if isFormat(a) {
			return -1
		}
		return 1
	case !slices.Equal(a.InstanceLocation, b.InstanceLocation):
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	}
	return slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath())
}

func isFormat(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.Format)
	return ok
}

// isEnum tells that a form takes one of a few words only: the title of the choice says more than those words.
func isEnum(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*kind.Enum); ok {
		return true
	}
	return len(e.Causes) == 1 && isEnum(e.Causes[0])
}

// fitting is the only form whose type is that of the value, or nil.
func fitting(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	forms := slices.DeleteFunc(slices.Clone(e.Causes), func(form *jsonschema.ValidationError) bool {
		return wrongType(form, len(e.InstanceLocation))
	})
	if len(forms) != 1 {
		return nil
	}
	return forms[0]
}

func wrongType(e *jsonschema.ValidationError, depth int) bool {
	if _, ok := e.ErrorKind.(*kind.Type); ok && len(e.InstanceLocation) == depth {
		return true
	}
	for _, cause := range e.Causes {
		if wrongType(cause, depth) {
			return true
		}
	}
	return false
}

func (s *shapeReport) leaf(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known := s.properties(e)
		slices.Sort(k.Properties)
		for _, name := range k.Properties {
			if s.doc.full() {
				return
			}
			location := append(append([]string(nil), e.InstanceLocation...), name)
			s.problemAtKey(location, fmt.Sprintf("unknown field %q%s", name, unknownHint(name, known)))
		}
	case *kind.Required:
		for _, name := range k.Missing {
			if !s.misspelt(e, name) {
				s.missing(e.InstanceLocation, name)
			}
		}
	default:
		s.problem(e, e.InstanceLocation, ruleOf(e), s.expected(e))
	}
}

// misspelt tells whether the field is probably there under an unknown name, which is reported: one mistake, one problem.
func (s *shapeReport) misspelt(e *jsonschema.ValidationError, name string) bool {
	there, _ := valueAt(s.doc.Tree, e.InstanceLocation).(map[string]any)
	known := s.properties(e)
	const most = 100 // of keys; a mapping with more is not one that somebody mistyped
	if len(there) > most {
		return false
	}
	for key := range there {
		if !slices.Contains(known, key) && Nearest(key, known) == name {
			return true
		}
	}
	return false
}

func unknownHint(name string, known []string) string {
	if hint := DidYouMean(name, known); hint != "" {
		return hint
	}
	if len(known) == 0 || len(known) > 14 {
		return ""
	}
	return ", want one of " + strings.Join(known, ", ")
}

func ruleOf(e *jsonschema.ValidationError) string {
	if f, ok := e.ErrorKind.(*kind.Format); ok && strings.HasPrefix(f.Want, "tapyr-") && f.Want != formatCount {
		return RuleUnit
	}
	return RuleShape
}

func (s *shapeReport) missing(location []string, name string) {
	at := pathOf(location)
	where := "the document"
	if at != "" {
		where = at
	}
	p := s.doc.Problem(SeverityError, RuleMissingField, joinPath(at, name), fmt.Sprintf("missing field %q in %s", name, where))
	p.Position = s.doc.KeyPosition(at)
	s.doc.Problems = append(s.doc.Problems, p)
}

func (s *shapeReport) problemAtKey(location []string, message string) {
	at := pathOf(location)
	p := s.doc.Problem(SeverityError, RuleUnknownField, at, message)
	p.Position = s.doc.KeyPosition(at)
	s.doc.Problems = append(s.doc.Problems, p)
	s.bad = append(s.bad, location)
}

// problem reports the value at a location, once.
func (s *shapeReport) problem(e *jsonschema.ValidationError, location []string, rule, want string) {
	at := pathOf(location)
	if s.seen[at] {
		return
	}
	s.seen[at] = true
	s.bad = append(s.bad, location)
	value := valueAt(s.doc.Tree, location)
	name := at
	if i := strings.LastIndexByte(at, '.'); i >= 0 {
		name = at[i+1:]
	}
	var message string
	switch {
	case concealed(at):
		message = fmt.Sprintf("%s must not hold a value itself; say where it is found: env: NAME or file: PATH", name)
	case rule == RuleUnit:
		message = e.ErrorKind.(*kind.Format).Err.Error()
		if !strings.HasPrefix(message, name+" ") {
			message = name + ": " + message
		}
	case value == nil:
		message = fmt.Sprintf("%s is empty, want %s", name, want)
	default:
		message = fmt.Sprintf("%s is %s, want %s%s", name, quoted(value), want, numberHint(value, want))
	}
	p := s.doc.Problem(SeverityError, rule, at, message)
	if value == nil {
		p.Position = s.doc.KeyPosition(at) // an empty value is nowhere
	}
	s.doc.Problems = append(s.doc.Problems, p)
}

// expected says what a schema wants of a value.
func (s *shapeReport) expected(e *jsonschema.ValidationError) string {
	if title := s.title(e); title != "" {
		return title
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return typeNames(k.Want) + quoteHint(k)
	case *kind.Enum:
		var names []string
		for _, w := range k.Want {
			names = append(names, fmt.Sprint(w))
		}
		got, _ := k.Got.(string)
		if len(names) == 1 {
			return names[0] + DidYouMean(got, names)
		}
		return "one of " + strings.Join(names, ", ") + DidYouMean(got, names)
	case *kind.Minimum:
		return "at least " + ratText(k.Want)
	case *kind.Maximum:
		return "at most " + ratText(k.Want)
	case *kind.ExclusiveMinimum:
		return "more than " + ratText(k.Want)
	case *kind.ExclusiveMaximum:
		return "less than " + ratText(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("at least %d in the list", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("at least %d entry", k.Want)
	case *kind.MinLength:
		return "a text that is not empty"
	case *kind.MaxLength:
		return fmt.Sprintf("at most %d characters", k.Want)
	case *kind.Pattern:
		if words, ok := patternNames[k.Want]; ok {
			return words
		}
		return "a text of the form " + k.Want
	case *kind.Format:
		return formatNames[k.Want]
	}
	return strings.TrimSpace(e.ErrorKind.LocalizedString(printer))
}

var formatNames = map[string]string{
	"uri":         "an absolute URL such as https://api.example.com/v1",
	"date-time":   "an instant such as 2026-11-30T00:00:00Z",
	formatCount:   "a whole number in plain digits",
	formatDecimal: "a decimal number of at most 30 digits",
}

// patternNames say in words what the patterns in the fields' tags want.
var patternNames = map[string]string{
	`^(instance|provider|account|target|credential|endpoint|method|var:[A-Za-z_][A-Za-z0-9_]*)$`: "one of instance, provider, account, target, credential, endpoint, method or var:NAME",
	`^[A-Z]+$`:                        "an HTTP method in capitals, such as GET",
	`^/`:                              "a path that begins with /",
	`^([01][0-9]|2[0-3]):[0-5][0-9]$`: "a time of day from 00:00 to 23:59",
	`^[A-Za-z_][A-Za-z0-9_]*$`:        "a variable's name: letters, digits and _, no digit first",
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`:    "a day such as 2026-11-30",
	`^[^/]+/[^/]+$`:                   "PROVIDER/LIMIT, such as meraki/daily",
	`^[a-zA-Z_:][a-zA-Z0-9_:]*$`:      "a metric's name: letters, digits, _ and :, no digit first",
	namePattern:                       "a name: lower-case letters, digits and hyphens, a letter or digit first and last",
}

func typeNames(want []string) string {
	names := map[string]string{
		"object": "a mapping", "array": "a list", "string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "nothing",
	}
	var out []string
	for _, w := range want {
		out = append(out, names[w])
	}
	return strings.Join(out, " or ")
}

// quoteHint helps with a number or a truth value where a text is due.
func quoteHint(k *kind.Type) string {
	if len(k.Want) == 1 && k.Want[0] == "string" && (k.Got == "number" || k.Got == "integer" || k.Got == "boolean") {
		return "; write it in quotes"
	}
	return ""
}

// numberHint helps with a number in quotes where a number is due.
func numberHint(value any, want string) string {
	text, ok := value.(string)
	if ok && jsonNumber.MatchString(text) && strings.Contains(want, "number") {
		return "; write it without quotes"
	}
	return ""
}

func ratText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
