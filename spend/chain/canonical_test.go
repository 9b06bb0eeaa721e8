package chain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// canonicalTwin writes canonical JSON by the book: decode to a tree, sort, and escape unit by unit of UTF-16.
func canonicalTwin(text []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return "", err
	}
	return twinValue(tree), nil
}

func twinValue(tree any) string {
	switch v := tree.(type) {
	case map[string]any:
		var names, parts []string
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare([]rune(a), []rune(b)) })
		for _, name := range names {
			parts = append(parts, twinString(name)+":"+twinValue(v[name]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, twinValue(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		return twinString(v)
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	return "null"
}

func twinString(s string) string {
	short := map[uint16]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}
	out := `"`
	for _, u := range utf16.Encode([]rune(s)) {
		switch escaped, ok := short[u]; {
		case ok:
			out += escaped
		case u < 0x20 || u > 0x7e:
			out += fmt.Sprintf(`\u%04x`, u)
		default:
			out += string(rune(u))
		}
	}
	return out + `"`
}

// Each expectation was written with Python 3: json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).
func TestCanonicalAsPython(t *testing.T) {
	for text, want := range map[string]string{
		`{"b":1,"a":[1,2.50,-0,1e5,true,null]}`:             `{"a":[1,2.50,-0,1e5,true,null],"b":1}`, // numbers keep their digits
		`"é\u2028🚚<>&/"`:                                    `"\u00e9\u2028\ud83d\ude9a<>&/"`,
		`"\u007f\u0000\u001f\b\f\n\r\t\"\\ ~"`:              `"\u007f\u0000\u001f\b\f\n\r\t\"\\ ~"`,
		` { "z" : { } , "é" : [ ] , "y" : "\/" , "ａ":"" } `: `{"y":"/","z":{},"\u00e9":[],"\uff41":""}`,
		// By code point: U+FF41 comes before U+1F69A, whose first unit, d83d, is smaller.
		`{"🚚":1,"ａ":2}`: `{"\uff41":2,"\ud83d\ude9a":1}`,
	} {
		got, err := Canonical([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
		again, err := Canonical(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: the canonical form is not its own: %s, %v", text, again, err)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{"a":1,"a":2}`, `1 2`, `{"a":01}`, "\"\xff\"", `"\ud800"`, `{a:1}`, `[1,]`, `{"a":1}x`, `nul`, "\"\n\"",
	} {
		if got, err := Canonical([]byte(text)); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":[1,2.50]}`, `"é\u2028🚚"`, `{"a":{"b":{}}}`, `[]`, `{"a":1,"a":2}`, `"\ud83d\ude9a"`, `{"":""}`, "\"\x7f\"", `-0.0e1`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Canonical(text)
		if err != nil {
			return
		}
		if !utf8.Valid(got) || bytes.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q: %q is not printable ASCII", text, got)
		}
		want, err := canonicalTwin(text)
		if err != nil || want != string(got) {
			t.Fatalf("%q: got %q, the twin says %q, %v", text, got, want, err)
		}
		if again, err := Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("%q: not stable: %q, %v", text, again, err)
		}
	})
}

// Fuzzed lines never make the reader panic, and a line that reads as an entry writes itself again.
func FuzzRead(f *testing.F) {
	e, err := Seal(Head{}, false, Field{Name: "event_id", Text: "é"}, Field{Name: "x", Literal: "[1,{}]"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.AppendJSON(nil))
	e.Body = nil
	f.Add(e.AppendJSON(nil))
	f.Add([]byte("{\"entry_hash\":\"a\",\"previous_hash\":\"b\",\"seq\":1}\n\n{}\n[]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var again []byte
		for e, err := range Read(bytes.NewReader(text)) {
			if err == nil {
				again = append(e.AppendJSON(again), '\n')
			}
		}
		var third []byte
		for e, err := range Read(bytes.NewReader(again)) {
			if err != nil {
				t.Fatalf("%q: what was written cannot be read: %v", again, err)
			}
			third = append(e.AppendJSON(third), '\n')
		}
		if !bytes.Equal(again, third) {
			t.Fatalf("%q became %q", again, third)
		}
	})
}
