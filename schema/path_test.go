package schema

import (
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// node parses a text into the node at its top.
func node(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

// Columns count characters, not bytes and not columns of the screen; aliases and merge keys lead to where the value stands.
func TestPositions(t *testing.T) {
	doc := one(t, `x-base: &base { interval: 5m, priority: low }
x-list: &hosts ["*.example.com"]
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: "zürich", "ü": 1 }
spec:
  account: 日本
  <<: *base
  request:
    "endpoint": /x
    query: {"ä ö": ü, b: c}
  metrics:
  - name: a
    labels: { "x.y[0]": item.a }
  - &m
    name: b
  - *m
`)
	tests := []struct {
		path                  string
		line, column          int
		keyLine, keyColumn    int
		there                 bool
		within3Line, within3C int
	}{
		{"spec.account", 7, 12, 7, 3, true, 7, 14},
		{"spec.interval", 1, 27, 1, 17, true, 1, 29},
		{"spec.priority", 1, 41, 1, 31, true, 1, 43},
		{"spec.request", 9, 3, 9, 3, true, 9, 3},
		{"spec.request.endpoint", 10, 17, 10, 5, true, 10, 19},
		{`spec.request.query["ä ö"]`, 11, 20, 11, 13, true, 11, 22},
		{"spec.request.query.b", 11, 26, 11, 23, true, 11, 28},
		{`spec.metrics[0].labels["x.y[0]"]`, 14, 25, 14, 15, true, 14, 27},
		{"spec.metrics[1].name", 16, 11, 16, 5, true, 16, 13},
		{"spec.metrics[2].name", 16, 11, 16, 5, true, 16, 13},
		{"spec.metrics[3]", 12, 3, 12, 3, false, 0, 0},
		{"spec.deadline", 6, 1, 6, 1, false, 0, 0},
		{`metadata["ü"]`, 5, 34, 5, 29, true, 5, 36},
		{"nowhere.at.all", 1, 1, 1, 1, false, 0, 0},
		{"", 1, 1, 1, 1, true, 1, 1},
	}
	for _, tt := range tests {
		if p := doc.Position(tt.path); p.Line != tt.line || p.Column != tt.column || p.File != "test.yaml" {
			t.Errorf("%s stands at %d:%d, want %d:%d", tt.path, p.Line, p.Column, tt.line, tt.column)
		}
		if p := doc.KeyPosition(tt.path); p.Line != tt.keyLine || p.Column != tt.keyColumn {
			t.Errorf("the key of %s stands at %d:%d, want %d:%d", tt.path, p.Line, p.Column, tt.keyLine, tt.keyColumn)
		}
		if doc.Has(tt.path) != tt.there {
			t.Errorf("Has(%s) is %v", tt.path, doc.Has(tt.path))
		}
		if p := doc.PositionWithin(tt.path, 1, 3); tt.there && doc.Has(tt.path) && (p.Line != tt.within3Line || p.Column < tt.within3C) {
			t.Errorf("the third character of %s stands at %d:%d, want %d:%d", tt.path, p.Line, p.Column, tt.within3Line, tt.within3C)
		}
	}
}

func TestPositionWithinText(t *testing.T) {
	doc := one(t, "kind: Job\nx-a: plain\nx-b: 'it''s'\nx-c: \"a\\tb\"\nx-d: |\n  text\nx-e: 'abc'\nx-f: \"x'y\"\n")
	for path, want := range map[string]int{"x-a": 8, "x-b": 6, "x-c": 6, "x-d": 6, "x-e": 9, "x-f": 9} {
		if p := doc.PositionWithin(path, 1, 3); p.Column != want {
			t.Errorf("%s: column %d, want %d", path, p.Column, want)
		}
	}
	if p := doc.PositionWithin("x-a", 2, 3); p.Column != 6 {
		t.Errorf("a second line of a plain text: column %d", p.Column)
	}
}

func TestPathsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[A-Za-z_][-A-Za-z0-9_]{0,5}`), rapid.String(), rapid.StringMatching(`[][."\\ ]{1,4}`)), 1, 5).Draw(t, "elements")
		path := ""
		for _, e := range elements {
			path = JoinPath(path, e)
		}
		if got := splitPath(path); !slices.Equal(got, elements) {
			t.Fatalf("%q is written %s and read as %q", elements, path, got)
		}
	})
	if got := splitPath(`spec.limits[12].window["a b"].x`); !slices.Equal(got, []string{"spec", "limits", "12", "window", "a b", "x"}) {
		t.Errorf("%q", got)
	}
}

// A mapping with many keys is found through an index; the answers must be the same.
func TestWideMappings(t *testing.T) {
	text := "kind: Job\nx-wide:\n"
	for i := range 300 {
		text += "  k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": 1\n"
	}
	doc := one(t, text)
	if len(doc.wide) != 1 {
		t.Fatalf("%d wide mappings", len(doc.wide))
	}
	wide := doc.wide
	for _, path := range []string{"x-wide.kaa", "x-wide.kzk", "x-wide.none"} {
		doc.wide = wide
		with, has := doc.KeyPosition(path), doc.Has(path)
		doc.wide = nil
		if without := doc.KeyPosition(path); with != without || has != doc.Has(path) {
			t.Errorf("%s: %v with the index, %v without", path, with, without)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"rate", "quota", "concurrency", "limits", "appliesTo", "burst"}
	for name, want := range map[string]string{
		"qouta": "quota", "bust": "burst", "apliesTo": "appliesTo", "appliesto": "appliesTo", "limit": "limits", "concurency": "concurrency",
		"window": "", "x": "", "": "", "rate": "", "tare": "", "bursst": "burst",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
