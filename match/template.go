package match

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// Template is an endpoint as a job declares it: a path whose {name} parts are variables, and perhaps a query after a "?".
type Template struct {
	// Path is the clean templated path, without the query.
	Path string
	// Vars are the names of the path's variables, in order, each once.
	Vars []string
	// Query are the parameters of the endpoint's "?" part; their values may hold variables too.
	Query map[string]string

	segments []templateSegment
	literals int
}

// templateSegment is a literal, a variable, or a mixture.
type templateSegment struct {
	literal string
	name    string         // of the only variable
	mixed   *regexp.Regexp // with one group a variable
	names   []string       // of the mixture's variables
}

var variable = regexp.MustCompile(`\{([^{}]*)\}`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseTemplate reads an endpoint such as /organizations/{organizationId}/networks?perPage=100. Braces that do not close, names
// that are not variable names, and a query that cannot be read are errors.
func ParseTemplate(endpoint string) (*Template, error) {
	path, query, _ := strings.Cut(endpoint, "?")
	t := &Template{Path: CleanPath(path), Query: map[string]string{}}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: the query cannot be read: %w", endpoint, err)
	}
	for k, v := range values {
		t.Query[k] = v[0]
	}
	for _, s := range segments(t.Path) {
		seg, err := parseSegment(s)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		t.add(seg)
	}
	return t, nil
}

func (t *Template) add(seg templateSegment) {
	t.segments = append(t.segments, seg)
	names := seg.names
	if seg.name != "" {
		names = []string{seg.name}
	}
	if len(names) == 0 {
		t.literals++
	}
	for _, n := range names {
		if !slices.Contains(t.Vars, n) {
			t.Vars = append(t.Vars, n)
		}
	}
}

func parseSegment(s string) (templateSegment, error) {
	if !strings.ContainsAny(s, "{}") {
		return templateSegment{literal: s}, nil
	}
	names := VariablesIn(s)
	for _, n := range names {
		if !variableName.MatchString(n) {
			return templateSegment{}, fmt.Errorf("{%s} is not a variable; want {name} with letters, digits and _", n)
		}
	}
	if strings.ContainsAny(variable.ReplaceAllString(s, ""), "{}") {
		return templateSegment{}, fmt.Errorf("segment %q has a brace without its partner", s)
	}
	if len(names) == 1 && s == "{"+names[0]+"}" {
		return templateSegment{name: names[0]}, nil
	}
	var pattern strings.Builder
	rest := s
	for _, at := range variable.FindAllStringIndex(s, -1) {
		done := len(s) - len(rest)
		pattern.WriteString(regexp.QuoteMeta(s[done:at[0]]) + "(.+)")
		rest = s[at[1]:]
	}
	pattern.WriteString(regexp.QuoteMeta(rest))
	re, err := regexp.Compile("^(?s:" + pattern.String() + ")$")
	if err != nil {
		return templateSegment{}, err
	}
	return templateSegment{mixed: re, names: names}, nil
}

// VariablesIn lists the {name} parts of a text in order, repetitions included.
func VariablesIn(text string) []string {
	var names []string
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Match reads the variables out of a concrete path, percent-decoded; ok is false where the path does not fit. The templated
// path itself fits, too, and gives no variables.
func (t *Template) Match(path string) (vars map[string]string, ok bool) {
	path = CleanPath(path)
	if path == t.Path {
		return nil, true
	}
	parts := segments(path)
	if len(parts) != len(t.segments) {
		return nil, false
	}
	vars = make(map[string]string, len(t.Vars))
	for i, seg := range t.segments {
		if !seg.match(parts[i], vars) {
			return nil, false
		}
	}
	return vars, true
}

func (s templateSegment) match(part string, vars map[string]string) bool {
	text, err := url.PathUnescape(part)
	if err != nil {
		text = part
	}
	switch {
	case s.mixed != nil:
		groups := s.mixed.FindStringSubmatch(text)
		if groups == nil {
			return false
		}
		for i, name := range s.names {
			if !assign(vars, name, groups[i+1]) {
				return false
			}
		}
		return true
	case s.name != "":
		return assign(vars, s.name, text)
	}
	return part == s.literal || text == s.literal
}

// assign sets a variable; one that stands twice must have one value.
func assign(vars map[string]string, name, value string) bool {
	if old, there := vars[name]; there {
		return old == value
	}
	vars[name] = value
	return true
}

// Expand puts the variables' values, percent-encoded, into the path. missing names the first variable that has none, or an empty
// one: without that segment the path would be another endpoint's.
func (t *Template) Expand(vars map[string]string) (path, missing string) {
	for _, name := range t.Vars {
		if vars[name] == "" {
			return "", name
		}
	}
	return variable.ReplaceAllStringFunc(t.Path, func(m string) string {
		return url.PathEscape(vars[m[1:len(m)-1]])
	}), ""
}

// Best finds the template that a concrete path belongs to: of those that fit, the one with the most literal segments; of equals
// the first. The result is an index into templates, -1 where none fits.
func Best(templates []*Template, path string) (index int, vars map[string]string) {
	order := make([]int, len(templates))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return templates[order[a]].literals > templates[order[b]].literals })
	for _, i := range order {
		if vars, ok := templates[i].Match(path); ok {
			return i, vars
		}
	}
	return -1, nil
}
