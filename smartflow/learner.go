package smartflow

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LearnSpec says how the variable that scopes a limit is found in the traffic of an
// API: directly in a URL, or through identifiers that stand for it once a response
// has named it. It holds what a provider document writes under learn.
type LearnSpec struct {
	// Var is the name of the scope variable, for example organizationId.
	Var string
	// From are regular expressions that find the variable in a URL. Each has exactly
	// one group; they are searched in the path, in order.
	From []string
	// Keys are the kinds of identifiers that stand for the variable, in the order in
	// which a response is searched for them.
	Keys []KeySpec
	// Body are the places where a response names the variable: member names joined
	// by dots. The first that is present decides, even when it is null or empty.
	Body []string
	// Numbers tells that identifiers in a response may be whole numbers; the digits
	// are then the identifier. Without it only strings are, as for the Meraki API.
	Numbers bool
}

// KeySpec says where one kind of identifier is found.
type KeySpec struct {
	Kind string   // its name, not empty and used once
	URL  string   // a regular expression with exactly one group; empty = in no URL
	Body []string // places in a response, as in LearnSpec.Body
}

// Lesson is what one response taught: all keys stand for Value.
type Lesson struct {
	Value string
	Keys  []Key
}

// Learner finds scope variables by a LearnSpec. It holds no state and is safe for
// concurrent use; who uses it keeps the mappings.
type Learner struct {
	name  string
	from  []*regexp.Regexp
	body  [][]string
	kinds []learnKind

	numbers bool
}

type learnKind struct {
	kind string
	url  *regexp.Regexp // nil = in no URL
	body [][]string
}

// merakiSpec is sections 3 and 6 of the specification as a LearnSpec.
func merakiSpec() LearnSpec {
	return LearnSpec{
		Var:  "organizationId",
		From: []string{`/organizations/([^/]+)`},
		Keys: []KeySpec{
			{Kind: Network, URL: `/networks/([^/]+)`, Body: []string{"networkId", "network.id"}},
			{Kind: Device, URL: `/devices/([^/]+)`, Body: []string{"serial"}},
		},
		Body: []string{"organizationId", "organization.id"},
	}
}

// NewLearner compiles a specification. The error is a *ConfigError.
func NewLearner(spec LearnSpec) (*Learner, error) {
	if spec.Var == "" {
		return nil, &ConfigError{Field: "Var", Value: "", Reason: "must name the scope variable"}
	}
	l := &Learner{name: spec.Var, numbers: spec.Numbers}
	for i, text := range spec.From {
		re, err := onePattern(fmt.Sprintf("From[%d]", i), text)
		if err != nil {
			return nil, err
		}
		l.from = append(l.from, re)
	}
	var err error
	if l.body, err = bodyPaths("Body", spec.Body); err != nil {
		return nil, err
	}
	for i, key := range spec.Keys {
		k := learnKind{kind: key.Kind}
		field := fmt.Sprintf("Keys[%d]", i)
		if key.Kind == "" || slices.ContainsFunc(l.kinds, func(k learnKind) bool { return k.kind == key.Kind }) {
			return nil, &ConfigError{Field: field + ".Kind", Value: key.Kind, Reason: "must be a name that no other key has"}
		}
		if key.URL != "" {
			if k.url, err = onePattern(field+".URL", key.URL); err != nil {
				return nil, err
			}
		}
		if k.body, err = bodyPaths(field+".Body", key.Body); err != nil {
			return nil, err
		}
		l.kinds = append(l.kinds, k)
	}
	return l, nil
}

func onePattern(field, text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, &ConfigError{Field: field, Value: text, Reason: err.Error()}
	}
	if re.NumSubexp() != 1 {
		return nil, &ConfigError{Field: field, Value: text, Reason: "must have exactly one group, which captures the identifier"}
	}
	return re, nil
}

func bodyPaths(field string, texts []string) ([][]string, error) {
	var paths [][]string
	for i, text := range texts {
		path := strings.Split(text, ".")
		if slices.Contains(path, "") {
			return nil, &ConfigError{Field: fmt.Sprintf("%s[%d]", field, i), Value: text, Reason: "must be member names joined by single dots"}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Var is the name of the variable that is learned.
func (l *Learner) Var() string { return l.name }

// Kinds are the kinds of identifiers, in the order of LearnSpec.Keys.
func (l *Learner) Kinds() []string {
	kinds := make([]string, len(l.kinds))
	for i := range l.kinds {
		kinds[i] = l.kinds[i].kind
	}
	return kinds
}

// pathOf cuts the query and the fragment off. The host of a URL contains no slash, so
// it does no harm.
func pathOf(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		return url[:i]
	}
	return url
}

// Value finds the variable in a URL itself. ok is false when the URL does not name it.
func (l *Learner) Value(url string) (value string, ok bool) {
	path := pathOf(url)
	for _, re := range l.from {
		if m := re.FindStringSubmatch(path); m != nil && m[1] != "" {
			return m[1], true
		}
	}
	return "", false
}

// Keys returns the identifiers in a URL that may stand for the variable, in the
// order of LearnSpec.Keys.
func (l *Learner) Keys(url string) []Key {
	path := pathOf(url)
	var keys []Key
	for _, k := range l.kinds {
		if k.url == nil {
			continue
		}
		if m := k.url.FindStringSubmatch(path); m != nil && m[1] != "" {
			keys = append(keys, Key{k.kind, m[1]})
		}
	}
	return keys
}

// Lesson returns what the response to a request teaches. body is what encoding/json
// decodes into an any; nil stands for no body. The variable of the URL beats that of
// the body; only strings that are not empty teach anything, and only objects do. ok
// is false when neither names the variable.
func (l *Learner) Lesson(url string, body any) (lesson Lesson, ok bool) {
	value, ok := l.Value(url)
	if !ok {
		value, ok = l.id(l.bodyValue(body))
	}
	if !ok {
		return Lesson{}, false
	}
	lesson = Lesson{Value: value, Keys: l.Keys(url)}
	_, named := l.Named(body)
	lesson.Keys = append(lesson.Keys, named...)
	return lesson, true
}

// Named returns what a response, or one item of a list in it, says by itself: the
// variable, empty where it does not name it, and the identifiers that it names.
func (l *Learner) Named(body any) (value string, keys []Key) {
	value, _ = l.id(l.bodyValue(body))
	for _, found := range l.bodyKeys(body) {
		if id, ok := l.id(found.value); ok {
			keys = append(keys, Key{found.kind, id})
		}
	}
	return value, keys
}

// id returns v if it is an identifier: a string that is not empty, or a whole number
// where these are wanted.
func (l *Learner) id(v any) (string, bool) {
	if l.numbers {
		const exact = 1 << 53 // from here on, a float64 is not one whole number
		switch v := v.(type) {
		case int64:
			return strconv.FormatInt(v, 10), true
		case float64:
			if v != math.Trunc(v) || math.Abs(v) >= exact {
				return "", false
			}
			return strconv.FormatInt(int64(v), 10), true
		}
	}
	return text(v)
}

// text returns v if it is a string that is not empty.
func text(v any) (string, bool) {
	s, ok := v.(string)
	return s, ok && s != ""
}

// bodyValue returns what the first present place holds, whatever it is; nil if none
// is present.
func (l *Learner) bodyValue(body any) any {
	for _, path := range l.body {
		if v, ok := member(body, path); ok {
			return v
		}
	}
	return nil
}

// bodyKey is a candidate for an identifier, of any JSON type.
type bodyKey struct {
	kind  string
	value any
}

// bodyKeys returns what is present: the first places of all kinds, then the second
// ones, and so on, which for the Meraki API is the order of section 6.
func (l *Learner) bodyKeys(body any) []bodyKey {
	if _, isObject := body.(map[string]any); !isObject {
		return nil
	}
	var found []bodyKey
	for rank, more := 0, true; more; rank++ {
		more = false
		for _, k := range l.kinds {
			if rank >= len(k.body) {
				continue
			}
			more = true
			if v, ok := member(body, k.body[rank]); ok {
				found = append(found, bodyKey{k.kind, v})
			}
		}
	}
	return found
}

// member walks down objects. ok is false where a name is missing or something else
// than an object is in the way.
func member(v any, path []string) (any, bool) {
	for _, name := range path {
		object, isObject := v.(map[string]any)
		if !isObject {
			return nil, false
		}
		if v, isObject = object[name]; !isObject {
			return nil, false
		}
	}
	return v, true
}
