package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/schema"
)

// show draws a line with its caret as the view does.
func show(line string, column, width int) string {
	shown, caret := underline(line, column, width)
	return shown + "\n" + strings.Repeat(" ", caret) + "^"
}

func TestUnderline(t *testing.T) {
	tests := []struct {
		name, line    string
		column, width int
		want          string
	}{
		{"plain", "  interval: 5m", 13, 40, "  interval: 5m\n            ^"},
		{"tabs", "\t\tx: 1", 3, 40, "        x: 1\n        ^"},
		{"a tab before a value", "a:\tb", 4, 40, "a:    b\n      ^"},
		{"wide characters", "日本: x", 5, 40, "日本: x\n      ^"},
		{"combining characters", "cafe\u0301: x", 8, 40, "cafe\u0301: x\n      ^"},
		{"behind the end", "a:", 9, 40, "a:\n  ^"},
		{"at the end", "a: ", 4, 40, "a: \n   ^"},
		{"column 0", "a", 0, 40, "a\n ^"},
		{"control characters", "a\x1b[31mb\x00\u202ec", 9, 40, "a\uFFFD[31mb\uFFFD\uFFFDc\n        ^"},
		{"long before", strings.Repeat("x", 100) + "HERE", 101, 20, "…xxxxxxxxxxxxxxxHERE\n                ^"},
		{"long after", "HERE" + strings.Repeat("x", 100), 1, 20, "HERExxxxxxxxxxxxxxx…\n^"},
		{"long on both sides", strings.Repeat("x", 100) + "HERE" + strings.Repeat("y", 100), 101, 20, "…xxxxHEREyyyyyyyyyy…\n     ^"},
		{"wide characters cut", strings.Repeat("日", 50) + "H" + strings.Repeat("本", 50), 51, 20, "…日日H本本本本本本…\n     ^"},
	}
	for _, tt := range tests {
		if got := show(tt.line, tt.column, tt.width); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
}

// However long the line and whatever it holds, it fits, and the caret stands under the character of the column.
func TestUnderlineFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SliceOfN(rapid.SampledFrom([]rune("ab :\t日é\x07")), 0, 120).Draw(t, "line")
		column := rapid.IntRange(1, len(runes)+2).Draw(t, "column")
		if column <= len(runes) {
			runes[column-1] = '#'
		}
		width := rapid.IntRange(12, 60).Draw(t, "width")
		shown, caret := underline(string(runes), column, width)
		if w := twwidth.Width(shown); w > width {
			t.Fatalf("%q is %d wide, want at most %d", shown, w, width)
		}
		if strings.ContainsAny(shown, "\t\n\x07") {
			t.Fatalf("%q holds control characters", shown)
		}
		before, _, found := strings.Cut(shown, "#")
		if column <= len(runes) && (!found || twwidth.Width(before) != caret) {
			t.Fatalf("caret %d under %q", caret, shown)
		}
	})
}

func problemAt(file string, line, column int, message string) schema.Problem {
	return schema.Problem{Position: schema.Position{File: file, Line: line, Column: column}, Severity: schema.SeverityError, Rule: "shape", Message: message}
}

func TestFindingsShowTheirLines(t *testing.T) {
	view := findingsView{sources: map[string][]byte{
		"a.yaml": []byte("one: 1\r\ntwo: 2\rthree: 3\n\nfive: 5"), "b.yaml": []byte("secret: abc\n"),
	}}
	concealed := problemAt("b.yaml", 1, 9, "not shown")
	concealed.Concealed = true
	var out bytes.Buffer
	err := view.write(&out, []schema.Problem{
		problemAt("a.yaml", 1, 6, "first"), problemAt("a.yaml", 1, 6, "first again"), problemAt("a.yaml", 2, 1, "second"), problemAt("a.yaml", 3, 8, "third"),
		problemAt("a.yaml", 4, 1, "an empty line"), problemAt("a.yaml", 5, 1, "the last"), problemAt("a.yaml", 9, 1, "behind the end"), concealed,
		problemAt("c\x1b.yaml", 1, 1, "no source, \x1b[31m"),
	})
	want := `a.yaml:1:6: error: first [shape]
    one: 1
         ^
a.yaml:1:6: error: first again [shape]
    one: 1
         ^
a.yaml:2:1: error: second [shape]
    two: 2
    ^
a.yaml:3:8: error: third [shape]
    three: 3
           ^
a.yaml:4:1: error: an empty line [shape]
a.yaml:5:1: error: the last [shape]
    five: 5
    ^
a.yaml:9:1: error: behind the end [shape]
b.yaml:1:9: error: not shown [shape]
` + "c\uFFFD.yaml:1:1: error: no source, \uFFFD[31m [shape]\n"
	if got := out.String(); err != nil || got != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, got, want)
	}
}

// A file that is wrong once a line does not bury the others, and says how much it hides.
func TestFindingsOfOneFileAreBounded(t *testing.T) {
	var problems []schema.Problem
	for i := range findingsPerFile + 7 {
		problems = append(problems, problemAt("a.yaml", i+1, 1, "wrong"))
	}
	problems = append(problems, problemAt("b.yaml", 1, 1, "wrong, too"))
	var out bytes.Buffer
	if err := (&findingsView{}).write(&out, problems); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != findingsPerFile+2 || lines[findingsPerFile] != "a.yaml: 7 findings more in this file; --format json shows all" || !strings.HasPrefix(lines[findingsPerFile+1], "b.yaml") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-2:])
	}
}

func TestLineEnds(t *testing.T) {
	text := "a\nb\r\nc\rd\u0085e\u2028f\u2029g"
	l := lineReader{rest: []byte(text), next: 1}
	for i, want := range strings.Split("a b c d e f g", " ") {
		if got, ok := l.line(i + 1); !ok || got != want {
			t.Errorf("line %d: %q, %v; want %q", i+1, got, ok, want)
		}
	}
	if got, ok := l.line(8); ok {
		t.Errorf("line 8: %q", got)
	}
}

// The carets of real documents stand where Decode says.
func TestCaretsPointAtDocuments(t *testing.T) {
	text := "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: \"a\", \"ü日\": 1 }\nspec: { provider: p, vars: { \"日本\": 7 } }\n"
	docs, _ := schema.Decode("x", []byte(text))
	view := findingsView{sources: map[string][]byte{"x": []byte(text)}}
	var out bytes.Buffer
	if err := view.write(&out, docs[0].Problems); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i := 2; i < len(lines); i += 3 {
		caret := strings.Index(lines[i], "^")
		under := ""
		for _, r := range lines[i-1] {
			if caret <= 0 {
				under += string(r)
			}
			caret -= twwidth.Width(string(r))
		}
		if !strings.HasPrefix(under, `"ü日"`) && !strings.HasPrefix(under, "7") {
			t.Errorf("the caret stands under %q:\n%s", under, out.String())
		}
	}
	if len(lines) != 7 {
		t.Error(fmt.Sprint(len(lines)), out.String())
	}
}
