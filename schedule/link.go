package schedule

import (
	"fmt"
	"strings"
)

// LinkError says that a Link header announces a next page, but not where: the rest of the data would be lost in silence.
type LinkError struct {
	// Value is the part of the header that cannot be read.
	Value string
}

// Error quotes the part.
func (e *LinkError) Error() string {
	return fmt.Sprintf("the Link header announces a next page in %q, but names no URL in angle brackets", e.Value)
}

// nextLink is the target of the first link whose relation is next in a Link header (RFC 8288, section 3), "" where there is none. The
// error is a *LinkError. Common readers split at commas and expect rel first, and lose pages; here commas in URLs and in quoted
// texts are what they are, and names of parameters and relations are read in any case.
func nextLink(header string) (string, error) {
	for rest := header; rest != ""; {
		var target string
		bracketed := false
		rest = strings.TrimLeft(rest, " \t,")
		value := rest
		if strings.HasPrefix(rest, "<") {
			if end := strings.IndexByte(rest, '>'); end >= 0 {
				target, rest, bracketed = rest[1:end], rest[end+1:], true
			}
		}
		params, after := cutUnquoted(rest, ',')
		if !bracketed {
			_, params = cutUnquoted(params, ';')
		}
		if announcesNext(params) {
			if !bracketed {
				return "", &LinkError{value[:min(len(value), 200)]}
			}
			return target, nil
		}
		rest = after
	}
	return "", nil
}

// announcesNext looks for rel=next among the parameters of a link; one rel may name several relations, and only the first rel
// counts. A link with an anchor is about another resource.
func announcesNext(params string) bool {
	next, decided := false, false
	for params != "" {
		var param string
		param, params = cutUnquoted(params, ';')
		name, value, _ := strings.Cut(param, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch name = strings.TrimSpace(name); {
		case strings.EqualFold(name, "anchor") && value != "":
			return false
		case strings.EqualFold(name, "rel") && !decided:
			decided = true
			for _, relation := range strings.Fields(value) {
				next = next || strings.EqualFold(relation, "next")
			}
		}
	}
	return next
}

// cutUnquoted cuts at the first separator outside double quotes.
func cutUnquoted(text string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}
