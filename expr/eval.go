package expr

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Eval evaluates the expression. vars holds the place's names; values are those of DecodeJSON, map[string]string for headers
// and vars, and int for status and page. The result is nil, bool, int64, uint64, float64, string, []byte, time.Time,
// time.Duration, []any or map[string]any; an optional without a value is nil. The error is an *EvalError.
func (p *Program) Eval(ctx context.Context, vars map[string]any) (any, error) {
	var out ref.Val
	var err error
	if p.plain { // too short for a context to end it
		out, _, err = p.program.Eval(vars)
	} else {
		out, _, err = p.program.ContextEval(ctx, vars)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, p.fail(err)
	}
	v, err := native(out)
	if err != nil {
		return nil, p.fail(err)
	}
	return v, nil
}

func (p *Program) fail(err error) error { return &EvalError{Place: p.place, Text: p.text, Err: err} }

func (p *Program) wrongKind(got any) error {
	return p.fail(fmt.Errorf("it gives %s, want %s", kindWords(got), p.place.gives.words))
}

// EvalBool evaluates an expression that gives true or false.
func (p *Program) EvalBool(ctx context.Context, vars map[string]any) (bool, error) {
	v, err := p.Eval(ctx, vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, p.wrongKind(v)
	}
	return b, nil
}

// EvalList evaluates an expression that gives a list; null is an empty one.
func (p *Program) EvalList(ctx context.Context, vars map[string]any) ([]any, error) {
	v, err := p.Eval(ctx, vars)
	if err != nil || v == nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, p.wrongKind(v)
	}
	return list, nil
}

// EvalText evaluates an expression that gives a text. Whole numbers are written in plain digits, other numbers as short as
// exact, times in RFC 3339; null is the empty text, and lists and maps are errors.
func (p *Program) EvalText(ctx context.Context, vars map[string]any) (string, error) {
	v, err := p.Eval(ctx, vars)
	if err != nil {
		return "", err
	}
	text, ok := textOf(v)
	if !ok {
		return "", p.wrongKind(v)
	}
	return text, nil
}

// EvalNumber evaluates an expression that gives a number; true is 1, false 0, and a text must hold a number. ok is false for
// null: there is no value.
func (p *Program) EvalNumber(ctx context.Context, vars map[string]any) (number float64, ok bool, err error) {
	v, err := p.Eval(ctx, vars)
	if err != nil || v == nil {
		return 0, false, err
	}
	switch t := v.(type) {
	case bool:
		if t {
			return 1, true, nil
		}
		return 0, true, nil
	case int64:
		return float64(t), true, nil
	case uint64:
		return float64(t), true, nil
	case float64:
		return t, true, nil
	case string:
		if f, err := strconv.ParseFloat(strings.TrimSpace(t), 64); err == nil {
			return f, true, nil
		}
	}
	return 0, false, p.wrongKind(v)
}

func textOf(v any) (string, bool) {
	switch t := v.(type) {
	case nil:
		return "", true
	case string:
		return t, true
	case bool:
		return strconv.FormatBool(t), true
	case int64:
		return strconv.FormatInt(t, 10), true
	case uint64:
		return strconv.FormatUint(t, 10), true
	case float64:
		if t == math.Trunc(t) && math.Abs(t) < 1e21 {
			return strconv.FormatFloat(t, 'f', 0, 64), true
		}
		return strconv.FormatFloat(t, 'g', -1, 64), true
	case time.Time:
		return t.UTC().Format(time.RFC3339Nano), true
	case time.Duration:
		return t.String(), true
	}
	return "", false
}

func kindWords(v any) string {
	switch t := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(clip(t))
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprint(v)
}

// native turns a value of the CEL library into one of Go.
func native(v ref.Val) (any, error) {
	switch t := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Uint, types.Double, types.String, types.Bytes, types.Timestamp, types.Duration:
		return v.Value(), nil
	case *types.Optional:
		if !t.HasValue() {
			return nil, nil
		}
		return native(t.GetValue())
	case traits.Lister:
		if list, ok := v.Value().([]any); ok && plainList(list) {
			return list, nil // the data's own list: copying it would double a large response
		}
		return nativeList(t)
	case traits.Mapper:
		if m, ok := v.Value().(map[string]any); ok {
			return m, nil
		}
		return nativeMap(t)
	}
	return nil, fmt.Errorf("a value of type %s cannot be used", v.Type().TypeName())
}

// plainList tells whether a list came from data; one that an expression made holds values of the library.
func plainList(list []any) bool {
	for _, e := range list {
		if _, made := e.(ref.Val); made {
			return false
		}
	}
	return true
}

func nativeList(l traits.Lister) ([]any, error) {
	var out []any
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := native(it.Next())
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func nativeMap(m traits.Mapper) (map[string]any, error) {
	out := make(map[string]any)
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, err := native(k)
		if err != nil {
			return nil, err
		}
		text, ok := textOf(key)
		if !ok {
			return nil, fmt.Errorf("a map's key must be a text, not %s", kindWords(key))
		}
		v, err := native(m.Get(k))
		if err != nil {
			return nil, err
		}
		out[text] = v
	}
	return out, nil
}
