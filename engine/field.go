package engine

import (
	"regexp"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/tapyr/tapyr/schema"
)

// Field is one field of a response's header.
type Field struct {
	// Name is in any case.
	Name string
	// Value is as sent.
	Value string
}

// findField is the value of a field, fields of one name joined by ", " as RFC 9110, section 5.3, says. A field that is missing
// and one that is empty are the same.
func findField(fields []Field, name string) string {
	value := ""
	for i := range fields {
		f := &fields[i]
		if !sameName(f.Name, name) {
			continue
		}
		if v := trimField(f.Value); value == "" {
			value = v
		} else if v != "" {
			value += ", " + v
		}
	}
	return value
}

// sameName tells whether two names are one field's: case does not count.
func sameName(a, b string) bool { return len(a) == len(b) && (a == b || strings.EqualFold(a, b)) }

// trimField takes the blanks off a value, of which there are hardly ever any.
func trimField(value string) string {
	if n := len(value); n > 0 && value[0] > ' ' && value[n-1] > ' ' {
		return value
	}
	return strings.Trim(value, " \t")
}

// reader finds one number or one text in a header.
type reader struct {
	name    string
	index   int // -1 where the whole list counts
	pattern *regexp.Regexp
	format  string
}

func newReader(h *schema.Header) *reader {
	if h == nil || h.Name == "" {
		return nil
	}
	return compileReader(h.Name, h.Index, h.Pattern, h.Format)
}

func compileReader(name string, index *int, pattern, format string) *reader {
	r := &reader{name: name, index: -1, format: format}
	if index != nil {
		r.index = *index
	}
	if pattern != "" {
		r.pattern, _ = regexp.Compile(pattern) // a Config's patterns compile
	}
	return r
}

// text is what the reader is after: the field, or a part of it. found is false where the field is missing; a field without the
// part gives "".
func (r *reader) text(fields []Field) (text string, found bool) {
	if r == nil {
		return "", false
	}
	value := findField(fields, r.name)
	if value == "" {
		return "", false
	}
	if r.index >= 0 {
		parts := splitList(value)
		if r.index >= len(parts) {
			return "", true
		}
		value = parts[r.index]
	}
	if r.pattern != nil {
		match := r.pattern.FindStringSubmatch(value)
		if len(match) < 2 {
			return "", true
		}
		value = match[1]
	}
	return value, true
}

// number reads one number. found is false where the field is missing, ok where it holds no number. careful says which of two
// different numbers in one field is the cautious one.
func (r *reader) number(from *Response, careful func(a, b decimal) decimal) (d decimal, found, ok bool) {
	if r == nil {
		return decimal{}, false, false
	}
	if n, known := r.known(from); known {
		return decimal{mantissa: n}, true, true
	}
	text, found := r.text(from.Fields)
	if !found {
		return decimal{}, false, false
	}
	d, ok = listNumber(text, careful)
	return d, true, ok
}

// known is the number in a field that the caller has read already: the only one of its name, and all of it.
func (r *reader) known(from *Response) (n int64, ok bool) {
	if len(from.Numbers) != len(from.Fields) || r.index >= 0 || r.pattern != nil {
		return 0, false
	}
	place := -1
	for i := range from.Fields {
		if !sameName(from.Fields[i].Name, r.name) {
			continue
		}
		if place >= 0 {
			return 0, false
		}
		place = i
	}
	if place < 0 || from.Numbers[place] < 0 {
		return 0, false
	}
	return from.Numbers[place], true
}

func smallest(a, b decimal) decimal {
	if b.negative() || !a.negative() && b.less(a) {
		return b
	}
	return a
}

func largest(a, b decimal) decimal {
	if a.negative() || !b.negative() && a.less(b) {
		return b
	}
	return a
}

// listNumber reads a number, or a list of them as proxies and drafts of the RateLimit fields make it: members that are equal are
// one; bare numbers win over policies such as 100;w=60; of different ones the careful one wins. One member that is no number
// spoils the list.
func listNumber(text string, careful func(a, b decimal) decimal) (decimal, bool) {
	if d, ok := parseDecimal(text); ok {
		return d, true
	}
	var bare, policy decimal
	var isBare, isPolicy bool
	for _, member := range splitList(text) {
		value, params, _ := strings.Cut(member, ";")
		d, ok := parseDecimal(strings.Trim(value, " \t"))
		switch {
		case !ok:
			return decimal{}, false
		case params != "" && isPolicy:
			policy = careful(policy, d)
		case params != "":
			policy, isPolicy = d, true
		case isBare:
			bare = careful(bare, d)
		default:
			bare, isBare = d, true
		}
	}
	if isBare {
		return bare, true
	}
	return policy, isPolicy
}

// splitList cuts at commas outside double quotes, and trims.
func splitList(text string) []string {
	var parts []string
	quoted, start := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			parts = append(parts, strings.Trim(text[start:i], " \t"))
			start = i + 1
		}
	}
	return append(parts, strings.Trim(text[start:], " \t"))
}

// policyItem reads one parameter of the item of a name in the IETF fields RateLimit and RateLimit-Policy (draft-ietf-httpapi-
// ratelimit-headers), which are structured-field lists (RFC 9651). found is false where there is no such field, item or
// parameter; ok is false where the field cannot be read or the parameter is not a whole number that is at least 0. Of two items
// of one name the smaller parameter wins.
func policyItem(fields []Field, field, item, param string) (value int64, found, ok bool) {
	text := findField(fields, field)
	if text == "" {
		return 0, false, false
	}
	list, err := httpsfv.UnmarshalList([]string{text})
	if err != nil {
		return 0, true, false
	}
	for _, member := range list {
		m, isItem := member.(httpsfv.Item)
		if !isItem || !itemNamed(m, item) || m.Params == nil {
			continue
		}
		raw, there := m.Params.Get(param)
		if !there {
			continue
		}
		n, whole := raw.(int64)
		if !whole || n < 0 {
			return 0, true, false
		}
		if !found || n < value {
			value, found, ok = n, true, true
		}
	}
	return value, found, ok
}

// itemNamed tells whether an item is this string or token.
func itemNamed(item httpsfv.Item, name string) bool {
	switch v := item.Value.(type) {
	case string:
		return v == name
	case httpsfv.Token:
		return string(v) == name
	}
	return false
}
