package schema

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	jsonschema "github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// printer writes the schema library's own messages, for keywords that have no words of ours.
var printer = message.NewPrinter(language.English)

// pathOf writes a location as a path.
func pathOf(location []string) string {
	out := ""
	for _, e := range location {
		if _, err := strconv.Atoi(e); err == nil {
			out += "[" + e + "]"
			continue
		}
		out = joinPath(out, e)
	}
	return out
}

// valueAt is the value of a tree at a location, nil where there is none.
func valueAt(tree any, location []string) any {
	for _, e := range location {
		switch t := tree.(type) {
		case map[string]any:
			tree = t[e]
		case []any:
			i, err := strconv.Atoi(e)
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			tree = t[i]
		default:
			return nil
		}
	}
	return tree
}

// prune takes the value at a location out of a tree. A list keeps its length, so that the positions after it stay right.
func prune(tree map[string]any, location []string) {
	if len(location) == 0 {
		return
	}
	last := location[len(location)-1]
	switch parent := valueAt(tree, location[:len(location)-1]).(type) {
	case map[string]any:
		delete(parent, last)
	case []any:
		if i, err := strconv.Atoi(last); err == nil && i >= 0 && i < len(parent) {
			parent[i] = nil
		}
	}
}

// quoted shows a value in a message.
func quoted(v any) string {
	switch t := v.(type) {
	case nil:
		return "empty"
	case string:
		return strconv.Quote(clip(t))
	case json.Number, bool:
		return clip(fmt.Sprint(t))
	case []any:
		return "a list"
	}
	return "a mapping"
}

// node is the part of the plain schema that an error is about.
func (s *shapeReport) node(e *jsonschema.ValidationError) map[string]any {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	at := s.plain
	for _, token := range strings.Split(strings.TrimPrefix(fragment, "/"), "/") {
		if token == "" {
			continue
		}
		token = strings.NewReplacer("~1", "/", "~0", "~", "%24", "$").Replace(token)
		at = valueAt(at, []string{token})
	}
	node, _ := at.(map[string]any)
	return node
}

func (s *shapeReport) title(e *jsonschema.ValidationError) string {
	title, _ := s.node(e)["title"].(string)
	return title
}

// properties are the field names that a schema knows, sorted.
func (s *shapeReport) properties(e *jsonschema.ValidationError) []string {
	props, _ := s.node(e)["properties"].(map[string]any)
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
