package expr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodeJSON reads one JSON value as expressions see it: whole numbers that fit are int64, so that an id of 19 digits stays
// itself; other numbers are float64. Of two members of one name the last counts. Anything after the value is an error.
func DecodeJSON(data []byte) (any, error) {
	d := decoder{from: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	v, err := d.value()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := d.from.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}

// decoder builds values from tokens.
type decoder struct {
	from *jsontext.Decoder
	// names are those of members so far: the items of a list have the same, and one copy of each is enough.
	names map[string]string
}

// name reads a member's name.
func (d *decoder) name() (string, error) {
	quoted, err := d.from.ReadValue()
	if err != nil {
		return "", err
	}
	if known, ok := d.names[string(quoted)]; ok {
		return known, nil
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil && !utf8.Valid(quoted) {
		err = nil // AppendUnquote has put the replacement character where it is not UTF-8
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	d.names[string(quoted)] = string(text)
	return string(text), err
}

func (d *decoder) value() (any, error) {
	token, err := d.from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return number(token.String())
	case '[':
		return d.list()
	}
	return d.object()
}

func (d *decoder) list() (any, error) {
	list := []any{}
	for d.from.PeekKind() != ']' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.from.ReadToken()
	return list, err
}

func (d *decoder) object() (any, error) {
	object := make(map[string]any)
	for d.from.PeekKind() != '}' {
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		object[name] = v
	}
	_, err := d.from.ReadToken()
	return object, err
}

// number is an int64 where the text is a whole number that fits.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("number %s is out of range", clip(text))
	}
	return f, nil
}
