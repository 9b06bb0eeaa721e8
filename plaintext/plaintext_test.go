package plaintext_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tapyr/tapyr/plaintext"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"plain Ünïcode 漢字 e\u0301": "plain Ünïcode 漢字 e\u0301",
		"a\tb":                     "a    b",
		"a\nb\r\nc\u2028d":         "a b  c d",
		"\x1b[31mred\x1b[0m":       "\ufffd[31mred\ufffd[0m",
		"nul\x00":                  "nul\ufffd",
		"evil\u202Egpj.exe":        "evil\ufffdgpj.exe",
		"zero\u200bwidth":          "zero\ufffdwidth",
		"isolate\u2066\u2069":      "isolate\ufffd\ufffd",
		"bytes \xff\xfe":           "bytes \ufffd\ufffd",
		"\u009b31m":                "\ufffd31m", // CSI in one character
		"bom\ufeff":                "bom\ufffd",
		"no-break\u00a0space":      "no-break space",
	} {
		if got := plaintext.Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"acme/organizationId=1":     "acme/organizationId=1",
		"<b>bold</b>":               "&lt;b&gt;bold&lt;/b&gt;",
		"a|b":                       `a\|b`,
		"`code` *em* [x](http://y)": "\\`code\\` \\*em\\* \\[x\\](http://y)",
		"@octocat":                  "&#64;octocat",
		"&lt;":                      "&amp;lt;",
		"one\ntwo":                  "one two",
		`\|`:                        `\\\|`,
	} {
		if got := plaintext.Markdown(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestSpreadsheet(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "-5": "-5", "-1.5e3": "-1.5e3", "+7": "+7",
		"=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+SUM(1)": "'+SUM(1)", "-2+3": "'-2+3", "@SUM": "'@SUM", "\t=1": "'\t=1", "a=b": "a=b",
	} {
		if got := plaintext.Spreadsheet(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestKey(t *testing.T) {
	for key, want := range map[string]string{
		"acme":                       "acme",
		"acme/organizationId=*":      "acme/organizationId=*",
		"acme/%2Forgs%2F{id}":        "acme /orgs/{id}",
		"acme/%2Forgs%2F{id}/GET":    "acme /orgs/{id} GET",
		"acme/name=50%25":            "acme/name=50%",
		"acme/name=%1B[31m%E2%80%AE": "acme/name=\ufffd[31m\ufffd",
		"acme/broken%zz":             "acme/broken%zz",
		"acme/a=1%2F2/b=3":           "acme a=1/2 b=3",
	} {
		if got := plaintext.Key(key); got != want {
			t.Errorf("key %q is shown as %q, want %q", key, got, want)
		}
	}
}

// Whatever comes in, what goes out can do nothing: it is one line of printable characters, and a second time changes nothing.
func FuzzPlaintext(f *testing.F) {
	for _, seed := range []string{"", "acme/%2Fa", "\x1b]0;title\a", "=1+1", "<script>", "\u202e", "%", "%25%0A"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, got := range map[string]string{"printable": plaintext.Printable(text), "key": plaintext.Key(text), "markdown": plaintext.Markdown(text)} {
			for _, r := range got {
				if !unicode.IsPrint(r) {
					t.Errorf("%s of %q has %U", name, text, r)
				}
			}
			if !utf8.ValidString(got) || plaintext.Printable(got) != plaintext.Printable(plaintext.Printable(got)) {
				t.Errorf("%s of %q is %q", name, text, got)
			}
		}
		if got := plaintext.Markdown(text); strings.ContainsAny(got, "<>@") {
			t.Errorf("markdown of %q is %q", text, got)
		}
	})
}
