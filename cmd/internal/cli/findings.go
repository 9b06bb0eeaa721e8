package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
)

const (
	// findingIndent sets the source line off from the message.
	findingIndent = "    "
	// findingsPerFile is how many findings of one file are shown as text: a
	// generated file that is wrong once a line must not bury the others. The
	// other formats always hold all.
	findingsPerFile = 100
)

// findingsView shows findings as text: a line that editors and terminals make a
// link of, then the source line and a caret under the place.
type findingsView struct {
	// sources are the files' contents.
	sources map[string][]byte
	// columns is the width to fit source lines into; 0 is the default width.
	columns int
	// paint colours a text; nil leaves it as it is.
	paint func(style, string) string
}

// severityStyles are the colours of the word, which says the same.
var severityStyles = map[schema.Severity]style{
	schema.SeverityError: styleBad, schema.SeverityWarning: styleWarn, schema.SeverityNotice: styleFaint,
}

// write shows problems, which are sorted by file and line.
func (v *findingsView) write(w io.Writer, problems []schema.Problem) error {
	var lines lineReader
	var file *string
	shown, hidden := 0, 0
	for i, p := range problems {
		if file == nil || p.File != *file {
			lines = lineReader{rest: v.sources[p.File], next: 1}
			file, shown, hidden = &p.File, 0, 0
		}
		if shown >= findingsPerFile {
			hidden++
			if last := i == len(problems)-1 || problems[i+1].File != p.File; last {
				fmt.Fprintf(w, "%s: %s more in this file; --format json shows all\n", plaintext.Printable(p.File), counted(hidden, "finding"))
			}
			continue
		}
		shown++
		if _, err := io.WriteString(w, v.finding(&p, &lines)); err != nil {
			return err
		}
	}
	return nil
}

// finding is the text of one problem.
func (v *findingsView) finding(p *schema.Problem, lines *lineReader) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s: %s [%s]\n", plaintext.Printable(p.File), p.Line, p.Column,
		v.painted(severityStyles[p.Severity], string(p.Severity)), plaintext.Printable(p.Message), p.Rule)
	line, ok := lines.line(p.Line)
	if p.Concealed || !ok {
		return b.String()
	}
	columns := v.columns
	if columns == 0 {
		columns = defaultColumns
	}
	source, caret := underline(line, p.Column, columns-len(findingIndent))
	if strings.TrimSpace(source) == "" {
		return b.String()
	}
	b.WriteString(findingIndent + source + "\n")
	b.WriteString(findingIndent + strings.Repeat(" ", caret) + v.painted(styleGood, "^") + "\n")
	return b.String()
}

func (v *findingsView) painted(s style, text string) string {
	if v.paint == nil {
		return text
	}
	return v.paint(s, text)
}

// underline shows a source line in at most width columns, and says before how
// many of them the caret belongs. column counts characters from 1. Of a line
// that is too long the part around the column is shown.
func underline(line string, column, width int) (shown string, caret int) {
	before, after := line, ""
	for i := range line {
		if column--; column == 0 {
			before, after = line[:i], line[i:]
			break
		}
	}
	before, after = plaintext.Printable(before), strings.TrimRight(plaintext.Printable(after), " ")
	lead, rest := twwidth.Width(before), twwidth.Width(after)
	if lead+rest <= width {
		return before + after, lead
	}
	// Most of the room goes to what begins at the column, as far as it needs it.
	room := max(width/4, width-rest)
	if lead > room {
		before = ellipsis + lastColumns(before, room-1)
		lead = twwidth.Width(before)
	}
	if rest > width-lead {
		after = firstColumns(after, width-lead-1) + ellipsis
	}
	return before + after, lead
}

// firstColumns is the longest beginning of text that fits.
func firstColumns(text string, columns int) string {
	used := 0
	for i, r := range text {
		if used += twwidth.Width(string(r)); used > columns {
			return text[:i]
		}
	}
	return text
}

// lastColumns is the longest end of text that fits.
func lastColumns(text string, columns int) string {
	used := 0
	for i := len(text); i > 0; {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		if used += twwidth.Width(string(r)); used > columns {
			return text[i:]
		}
		i -= size
	}
	return text
}

// lineReader finds lines whose numbers never fall, in one pass over a file.
type lineReader struct {
	rest []byte
	// next is the number of the line that rest begins with.
	next int
}

// line returns the line of that number, without its end.
func (l *lineReader) line(number int) (string, bool) {
	for l.next < number {
		end, size := lineEnd(l.rest)
		if size == 0 {
			return "", false
		}
		l.rest = l.rest[end+size:]
		l.next++
	}
	if len(l.rest) == 0 || l.next != number {
		return "", false
	}
	end, _ := lineEnd(l.rest)
	return string(l.rest[:end]), true
}

// lineEnd is where the first line of text ends, and how long its break is, 0 for
// none. A break is what the YAML reader counts as one: LF, CR LF, CR, and the
// Unicode separators of YAML 1.1 (section 5.4 there).
func lineEnd(text []byte) (end, size int) {
	end = bytes.IndexAny(text, "\n\r\u0085\u2028\u2029")
	if end < 0 {
		return len(text), 0
	}
	if bytes.HasPrefix(text[end:], []byte("\r\n")) {
		return end, len("\r\n")
	}
	_, size = utf8.DecodeRune(text[end:])
	return end, size
}
