package schema

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// repeat fills n bytes with copies of a text, and puts others around them.
func repeat(before, text, after string, n int) string {
	return before + strings.Repeat(text, max(0, n-len(before)-len(after))/len(text)) + after
}

// numbered fills n bytes with lines made from their number.
func numbered(before, line, after string, n int) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; b.Len() < n-len(after)-100; i++ {
		fmt.Fprintf(&b, line, i)
	}
	return b.String() + after
}

const settingsHead = "apiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: a }\nspec:\n"

// hostile are inputs that some YAML reader or some naive walk over one takes minutes or all memory for.
func hostile(n int) map[string]string {
	laughs, merges := "x-a0: &a0 [x,x,x,x,x,x,x,x,x]\n", "x-m0: &m0 { k: 1 }\n"
	for i := 1; i < 12; i++ {
		one, merge := fmt.Sprintf("*a%d,", i-1), fmt.Sprintf("*m%d,", i-1)
		laughs += fmt.Sprintf("x-a%d: &a%d [%s]\n", i, i, strings.Repeat(one, 9))
		merges += fmt.Sprintf("x-m%d: &m%d { <<: [%s] }\n", i, i, strings.TrimSuffix(strings.Repeat(merge, 9), ","))
	}
	return map[string]string{
		"alias bomb":            settingsHead + "  {}\n" + laughs,
		"merge bomb":            settingsHead + "  {}\n" + merges,
		"alias to itself":       "a: &a [*a]\n",
		"merge of itself":       "a: &a { <<: *a }\n",
		"open brackets":         repeat("", "[", "", n),
		"brackets":              strings.Repeat("[", n/2) + strings.Repeat("]", n/2),
		"braces with keys":      repeat("", "{a: ", "", n),
		"brackets by line":      repeat("", "[\n", "", n),
		"dashes":                repeat("", "- ", "", n),
		"question marks":        repeat("", "? ", "", n),
		"colons":                repeat("", "a: ", "", n),
		"anchors":               repeat("", "&a ", "", n),
		"tags":                  repeat("", "!a ", "", n),
		"many anchors":          numbered("", "k%d: &a%[1]d 1\n", "", n),
		"many aliases":          numbered("a: &a 1\n", "k%d: *a\n", "", n),
		"unknown fields":        numbered(settingsHead, "  k%d: 1\n", "", n),
		"one key over and over": repeat(settingsHead, "  a: 1\n", "", n),
		"old line ends":         repeat("", "a: 1\r", "", n),
		"documents":             repeat("", "---\na: 1\n", "", n),
		"empty documents":       repeat("", "---\n", "", n),
		"directives":            numbered("", "%%TAG !a%d! tag:a\n", "", n),
		"comments":              repeat("", "a: b # c\n", "", n),
		"one comment":           "#" + strings.Repeat("x", n-1),
		"spaces":                strings.Repeat(" ", n),
		"tabs":                  strings.Repeat("\t", n),
		"open quote":            repeat(`a: "`, "x", "", n),
		"quotes":                repeat("a: '", "''", "", n),
		"escapes":               repeat(`a: "`, `\u0041`, `"`, n),
		"long scalar":           repeat(settingsHead+`  budget: "`, "x", "\"\n", n),
		"long key":              strings.Repeat("a", n-10) + ": 1\n",
		"long plain text":       repeat("a: ", "x ", "", n),
		"folded":                repeat("a: >\n", "  y\n   z\n", "", n),
		"flow list":             repeat(settingsHead+"  x: [", "1,", "]\n", n),
		"flow map of keys only": repeat("{", "a,", "}", n),
		"merge keys":            repeat("a: &a {x: 1}\nb:\n", "  <<: *a\n", "", n),
		"wrong items":           repeat(providerHead+"  limits:\n", "  - { name: A, kind: x }\n", "", n),
		"wide merges":           numbered("x-a: &a {"+strings.Repeat("b: 1,", 1)+"}\n", "x-%d: {<<: *a}\n", "", n),
	}
}

// Every input is answered in a time that grows with its length, and with few enough problems to read. The bound is for a busy
// machine under the race detector; alone, each takes milliseconds.
func TestHostileInputs(t *testing.T) {
	for name, text := range hostile(32 << 10) {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			docs, problems := Decode("x", []byte(text))
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			for _, d := range docs {
				if len(d.Problems) > maxProblems+2 {
					t.Errorf("%d problems in one document", len(d.Problems))
				}
			}
			if len(docs) == 0 && len(problems) == 0 {
				t.Error("neither documents nor problems")
			}
		})
	}
}

// The longest inputs take seconds each; TAPYR_LONG_TESTS=1 asks for them.
func TestLongestHostileInputs(t *testing.T) {
	if os.Getenv("TAPYR_LONG_TESTS") == "" {
		t.Skip("takes a minute; set TAPYR_LONG_TESTS=1")
	}
	for name, text := range hostile(MaxFileBytes) {
		begin := time.Now()
		Decode("x", []byte(text))
		took := time.Since(begin)
		t.Logf("%-22s %v", name, took.Round(time.Millisecond))
		if took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func TestBounds(t *testing.T) {
	tests := map[string]struct {
		text string
		rule string
		line int
		want string
	}{
		"too long":         {strings.Repeat("#", MaxFileBytes+1), RuleTooLarge, 1, "longer than 4194304 bytes"},
		"too many":         {strings.Repeat("---\na: 1\n", maxDocuments+5), RuleTooLarge, 2*maxDocuments + 1, "more than 20000 documents"},
		"directives":       {strings.Repeat("\n%YAML 1.2", maxDirectives+1), RuleTooLarge, 1, "more than 100 lines"},
		"NUL":              {"a: 1\nb: \x00", RuleSyntax, 2, "NUL byte"},
		"not UTF-8":        {"a: 1\n\nb: \xff", RuleSyntax, 3, "not UTF-8"},
		"UTF-16":           {"\xff\xfea\x00:\x00", RuleSyntax, 1, "not UTF-8"},
		"UTF-32 surrogate": {"a: \xed\xa0\x80", RuleSyntax, 1, "not UTF-8"},
		"tab":              {"a:\n\tb: 1\n", RuleSyntax, 2, "never with tabs"},
		"colon in text":    {"a: b: c\n", RuleSyntax, 1, "not allowed"},
		"undefined alias":  {"a: *b\n", RuleSyntax, 1, "b"},
		"binary":           {"\x7fELF\x02\x01\x01\x00", RuleSyntax, 1, "NUL byte"},
	}
	for name, tt := range tests {
		_, problems := Decode("x", []byte(tt.text))
		if len(problems) != 1 || problems[0].Rule != tt.rule || problems[0].Line != tt.line || !strings.Contains(problems[0].Message, tt.want) {
			t.Errorf("%s: %s, want %s in line %d with %q", name, describe(problems), tt.rule, tt.line, tt.want)
		}
	}
	for name, text := range map[string]string{
		"deep":      "a: " + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
		"deep flow": "a: " + strings.Repeat("{a: ", maxDepth+1) + strings.Repeat("}", maxDepth+1),
	} {
		doc := one(t, text)
		if len(doc.Problems) != 1 || doc.Problems[0].Rule != RuleTooLarge || doc.Spec != nil {
			t.Errorf("%s:\n%s", name, describe(doc.Problems))
		}
	}
	doc := one(t, numbered(settingsHead, "  k%d: 1\n", "", 64<<10))
	if first := doc.Problems[0]; len(doc.Problems) != maxProblems+1 || first.Rule != RuleTooLarge || doc.Spec != nil {
		t.Errorf("%d problems, the first %+v", len(doc.Problems), first)
	}
}

func FuzzDecode(f *testing.F) {
	for name, text := range hostile(2 << 10) {
		if len(name) > 0 {
			f.Add([]byte(text))
		}
	}
	for _, text := range minimal {
		f.Add([]byte(text))
	}
	f.Add([]byte(quotaHead + "        resetAt: 00:00\n  auth: { type: bearer }\n---\nkind: Job\n"))
	f.Add([]byte("\xef\xbb\xbfkind: Job\r\nspec: !!map {? [a] : b}\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		begin := time.Now()
		docs, problems := Decode("x", data)
		if took := time.Since(begin); took > 10*time.Second {
			t.Fatalf("%d bytes took %v", len(data), took)
		}
		lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 3*bytes.Count(data, []byte("\xe2\x80")) + bytes.Count(data, []byte("\xc2\x85")) + 2
		for _, d := range docs {
			problems = append(problems, d.Problems...)
			if d.Spec == nil && len(d.Problems) == 0 {
				t.Errorf("a document without a spec and without a problem: %q", data)
			}
			for _, p := range d.Problems {
				d.KeyPosition(p.Path)
				d.Has(p.Path)
			}
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Line > lines || p.Message == "" || p.Rule == "" || p.File != "x" {
				t.Errorf("%q: %+v", data, p)
			}
		}
	})
}
