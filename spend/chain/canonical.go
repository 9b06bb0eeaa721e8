package chain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical writes a JSON text in the one form that is hashed: the members of objects in the order of their names (by code
// point), no space between tokens, and everything outside the printable ASCII characters escaped as \uXXXX in lower case, with
// a surrogate pair beyond U+FFFF and the short forms \" \\ \b \f \n \r \t. "<", ">" and "&" stand as they are. It is what
// Python's json.dumps(value, sort_keys=True, separators=(",", ":")) writes, save that numbers keep the digits they came with:
// a number that is read as a binary float and written again need not be the same.
//
// Text that is not JSON (RFC 8259), an object with two members of one name and strings that are not Unicode are errors.
func Canonical(text []byte) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	out, err := appendValue(make([]byte, 0, len(text)), dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("json text: want one value, found more after it")
	}
	return out, nil
}

// appendValue writes the decoder's next value.
func appendValue(dst []byte, dec *jsontext.Decoder) ([]byte, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, fmt.Errorf("json text: %w", err)
	}
	switch token.Kind() {
	case '{':
		return appendMembers(dst, dec)
	case '[':
		return appendItems(dst, dec)
	case '"':
		return appendString(dst, token.String()), nil
	default: // numbers and literals: as they are written
		return append(dst, token.String()...), nil
	}
}

// member is one member of an object, its value in canonical form.
type member struct {
	name  string
	value []byte
}

func appendMembers(dst []byte, dec *jsontext.Decoder) ([]byte, error) {
	var members []member
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("json text: %w", err)
		}
		m := member{name: name.String()} // a token is valid only until the next read
		if m.value, err = appendValue(nil, dec); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("json text: %w", err)
	}
	// The order of UTF-8 bytes is that of code points.
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, m.name)
		dst = append(dst, ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}'), nil
}

func appendItems(dst []byte, dec *jsontext.Decoder) ([]byte, error) {
	dst = append(dst, '[')
	for first := true; dec.PeekKind() != ']'; first = false {
		if !first {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, dec); err != nil {
			return nil, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("json text: %w", err)
	}
	return append(dst, ']'), nil
}

const hexDigits = "0123456789abcdef"

// appendString writes a string that is known to be valid UTF-8.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of the run that is copied as it is
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
		} else {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = appendRune(dst, r)
			i += size
		}
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendASCII escapes a character below 128 that cannot stand for itself.
func appendASCII(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return appendUnit(dst, uint16(c))
}

// appendRune escapes a character above 127, as two units beyond the basic plane.
func appendRune(dst []byte, r rune) []byte {
	if r <= 0xffff {
		return appendUnit(dst, uint16(r))
	}
	r -= 0x10000
	dst = appendUnit(dst, uint16(0xd800+r>>10))
	return appendUnit(dst, uint16(0xdc00+r&0x3ff))
}

func appendUnit(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
