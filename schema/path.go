package schema

import (
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// Position is where the value at path stands, such as spec.limits[2].name; the nearest ancestor that the document has, where
// there is no such value. For a mapping's value it is the place of its key where the value is a mapping or a list, else of the
// value itself.
func (d *Document) Position(path string) Position {
	if d.node == nil {
		return Position{File: d.File, Line: 1, Column: 1}
	}
	return nodePosition(d.File, d.locate(splitPath(path), false))
}

// KeyPosition is where the key of the value at path stands.
func (d *Document) KeyPosition(path string) Position {
	if d.node == nil {
		return Position{File: d.File, Line: 1, Column: 1}
	}
	return nodePosition(d.File, d.locate(splitPath(path), true))
}

// PositionWithin is a place within the text at path: a line and a column of that text, from 1, columns in characters. Where the
// text is not written as it is, in one line, it is the position of the whole.
func (d *Document) PositionWithin(path string, line, column int) Position {
	at := d.Position(path)
	if d.node == nil || line != 1 {
		return at
	}
	n := d.locate(splitPath(path), false)
	const block = yaml.LiteralStyle | yaml.FoldedStyle
	switch quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0; {
	case n.Kind != yaml.ScalarNode || n.Style&block != 0:
		return at
	case strings.Contains(n.Value, "\n"),
		n.Style&yaml.SingleQuotedStyle != 0 && strings.Contains(n.Value, "'"),
		n.Style&yaml.DoubleQuotedStyle != 0 && strings.ContainsFunc(n.Value, func(r rune) bool { return r == '"' || r == '\\' || !unicode.IsPrint(r) }):
		return at // breaks and escapes have shifted what follows
	case quoted:
		column++
	}
	at.Column += column - 1
	return at
}

// Has tells whether the document has a value at the path, a broken one included.
func (d *Document) Has(path string) bool {
	if d.node == nil {
		return false
	}
	n := d.node
	for _, e := range splitPath(path) {
		if _, n = d.child(n, e); n == nil {
			return false
		}
	}
	return true
}

// child is the value under a key or an index, and the key; nil where there is none.
func (d *Document) child(n *yaml.Node, element string) (key, value *yaml.Node) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.field(n, element, 0)
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(element); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
	}
	return nil, nil
}

// locate walks along the keys and indexes. wantKey prefers the last mapping key to its value.
func (d *Document) locate(elements []string, wantKey bool) *yaml.Node {
	n, best := d.node, d.node
	for _, e := range elements {
		key, next := d.child(n, e)
		if next == nil {
			return best
		}
		n, best = next, next
		if key != nil && (wantKey || next.Kind != yaml.ScalarNode) {
			best = key
		}
	}
	return best
}

// field finds a key in a mapping, then in what is merged into it.
func (d *Document) field(n *yaml.Node, name string, depth int) (key, value *yaml.Node) {
	if index, wide := d.wide[n]; wide {
		if i, there := index[name]; there {
			return n.Content[i], n.Content[i+1]
		}
	} else {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	for i := 0; i+1 < len(n.Content) && depth < maxDepth; i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		for _, m := range mergedMappings(n.Content[i+1]) {
			if key, value := d.field(m, name, depth+1); value != nil {
				return key, value
			}
		}
	}
	return nil, nil
}

func mergedMappings(n *yaml.Node) []*yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.MappingNode {
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind == yaml.MappingNode {
			out = append(out, item)
		}
	}
	return out
}

// splitPath takes a path apart: spec.limits[2]["a b"] is spec, limits, 2, a b.
func splitPath(path string) []string {
	var out []string
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
		case '[':
			var element string
			if quotedKey, err := strconv.QuotedPrefix(path[1:]); err == nil {
				element, _ = strconv.Unquote(quotedKey)
				path = strings.TrimPrefix(path[1+len(quotedKey):], "]")
			} else {
				element, path, _ = strings.Cut(path[1:], "]")
			}
			out = append(out, element)
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out = append(out, path[:end])
			path = path[end:]
		}
	}
	return out
}
