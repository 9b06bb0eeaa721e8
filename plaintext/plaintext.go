// Package plaintext makes texts of unknown origin fit to be shown. Names, keys and messages come from documents, vendors and
// journals, and where they go each has characters with a power of its own: on a terminal, in Markdown, in a spreadsheet. What is
// shown passes through here; machine formats (JSON, exports) keep what there is, in their own quoting.
package plaintext

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tabColumns is what a tab is shown as: a source line and a caret below it agree whatever the terminal's stops are.
const tabColumns = 4

// Printable replaces what would move the cursor, colour the terminal, turn the direction of reading or hide: control characters,
// format characters such as U+202E and zero-width ones, and bytes that are no UTF-8 become U+FFFD. Any white space becomes blanks, so
// that one text is one line.
func Printable(text string) string {
	clean := true
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabColumns))
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// markdownEscaper keeps a text from being anything but text in GitHub's Markdown: no HTML, no table cell, no emphasis, no link, no
// code, no mention that would wake somebody.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `[`, `\[`, `]`, `\]`, `|`, `\|`, `~`, `\~`, `<`, `&lt;`, `>`, `&gt;`, `&`, `&amp;`, `@`, `&#64;`,
)

// Markdown is a text as GitHub's Markdown, on one line. Its reader sees what Printable gives.
func Markdown(text string) string { return markdownEscaper.Replace(Printable(text)) }

// Spreadsheet is a text as a cell of CSV that no spreadsheet takes for a formula: where it begins like one and is no number, an
// apostrophe stands before it (https://owasp.org/www-community/attacks/CSV_Injection).
func Spreadsheet(text string) string {
	if text == "" || !strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return text
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	return "'" + text
}

// Key is a scope key for people: its values decoded, which in a key stand joined by "/" and percent-encoded. Where a value itself has
// a "/", as an endpoint has, blanks part the values.
func Key(key string) string {
	if !strings.Contains(key, "%") {
		return Printable(key)
	}
	values := strings.Split(key, "/")
	joint := "/"
	for i, value := range values {
		decoded, err := url.PathUnescape(value)
		if err != nil {
			continue // no key of ours; shown as it is
		}
		if values[i] = decoded; strings.Contains(decoded, "/") {
			joint = " "
		}
	}
	return Printable(strings.Join(values, joint))
}
