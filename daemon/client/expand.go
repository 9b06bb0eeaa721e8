package client

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tapyr/tapyr/match"
)

// Expand puts variables' values in place of {name}; a name without a value stays.
func Expand(text string, vars map[string]string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	var pairs []string
	for _, name := range match.VariablesIn(text) {
		if value, ok := vars[name]; ok {
			pairs = append(pairs, "{"+name+"}", value)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ExpandBody is a declared body as it is sent: a text as it is, anything else as JSON; {name} is expanded in every text of it, so
// that a value with quotes in it stays one value.
func ExpandBody(body any, vars map[string]string) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(Expand(b, vars)), nil
	}
	return json.Marshal(expandTree(body, vars))
}

func expandTree(tree any, vars map[string]string) any {
	switch t := tree.(type) {
	case string:
		return Expand(t, vars)
	case []any:
		out := make([]any, len(t))
		for i, one := range t {
			out[i] = expandTree(one, vars)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for name, one := range t {
			out[name] = expandTree(one, vars)
		}
		return out
	}
	return tree
}

// Headers are an answer's as expressions see them: lower-case names, several values joined by ", ".
func Headers(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return out
}
