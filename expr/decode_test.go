package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"testing"
)

// decodePlainly is DecodeJSON by way of encoding/json: its twin. It reads one JSON value as expressions see it: whole numbers that fit are int64, so that an id of 19 digits stays
// itself; other numbers are float64. Anything after the value is an error.
func decodePlainly(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON value")
	}
	return numbers(v)
}

// numbers replaces the numbers of a tree in place.
func numbers(v any) (any, error) {
	var err error
	switch t := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(t.String(), 64)
		if err != nil {
			return nil, fmt.Errorf("number %s is out of range", clip(t.String()))
		}
		return f, nil
	case []any:
		for i := range t {
			if t[i], err = numbers(t[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range t {
			if t[k], err = numbers(t[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// The reader agrees with encoding/json about what is JSON, and what it holds.
func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5,-0,1e3,9223372036854775808,true,null,"\u00e9\ud800"],"a":2,"":{}}`, `[`, `{"a"}`, `1 2`, ` "x" `, `1e999`, "\"\xff\"", `[[],{}]`, ``, `nul`, `-`, `01`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := DecodeJSON(data)
		want, wantErr := decodePlainly(data)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, %v; encoding/json says %#v, %v", data, got, err, want, wantErr)
		}
	})
}

var benchBody = func() []byte {
	var items []any
	for i := range 10 {
		items = append(items, map[string]any{"id": fmt.Sprintf("Q2XX-%04d", i), "name": "device", "up": true, "clients": i, "load": 0.5})
	}
	text, _ := json.Marshal(map[string]any{"list": items, "next": nil})
	return text
}()

func BenchmarkDecodeJSON(b *testing.B) {
	b.Run("tokens", func(b *testing.B) {
		for b.Loop() {
			_, _ = DecodeJSON(benchBody)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			_, _ = decodePlainly(benchBody)
		}
	})
}
