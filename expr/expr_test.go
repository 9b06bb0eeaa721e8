package expr

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// places are all of them: a place that is not here is not tested.
var places = []*Place{
	RateLimited, InventoryItems, InventoryVar, MetricItems, MetricLabel, MetricValue, OutputItems, PageItems, PageCursor, PageNext,
	SessionToken, SpendActual,
}

func compile(t *testing.T, p *Place, text string) *Program {
	t.Helper()
	program, err := p.Compile(text)
	if err != nil {
		t.Fatalf("%s %q: %v", p.Name(), text, err)
	}
	return program
}

func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryPlaceBuildsAndKnowsItsNames(t *testing.T) {
	for _, p := range places {
		for name := range varTypes {
			_, err := p.Compile("type(" + name + ") == type(" + name + ") ? dyn(" + name + ") : dyn(" + name + ")")
			known := strings.Contains(","+strings.Join(p.Vars(), ",")+",", ","+name+",")
			if known != (err == nil) {
				t.Errorf("%s: name %s: known %v, error %v", p.Name(), name, known, err)
			}
		}
	}
}

func TestEvalGivesPlainValues(t *testing.T) {
	data := `{"id": 9007199254740993, "load": 0.5, "big": 18446744073709551615, "name": "Zürich", "up": true, "none": null,
		"list": [1, "a", null], "map": {"k": [1]}, "seen": "2026-11-30T00:00:00Z"}`
	tests := []struct {
		text string
		want any
	}{
		{"response.id", int64(9007199254740993)},
		{"response.load", 0.5},
		{"response.big", float64(18446744073709551615)},
		{"response.name", "Zürich"},
		{"response.up", true},
		{"response.none", nil},
		{"response.list", []any{int64(1), "a", nil}},
		{"response.map", map[string]any{"k": []any{int64(1)}}},
		{"response.?missing", nil},
		{"response.?name", "Zürich"},
		{"response.list.map(x, x == 1)", nil}, // replaced below: a comparison of a text with a number is false, not an error
		{"[response.id, 2]", []any{int64(9007199254740993), int64(2)}},
		{"{'a': response.none, 'b': [response.load]}", map[string]any{"a": nil, "b": []any{0.5}}},
		{"{1: 'x'}", map[string]any{"1": "x"}},
		{"timestamp(response.seen)", time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		{"duration('90s')", 90 * time.Second},
		{"2u", uint64(2)},
		{"size(response.list)", int64(3)},
	}
	everything := newPlace("test", result{"anything", nil}, "response")
	for _, tt := range tests {
		if strings.Contains(tt.text, "x == 1") {
			tt.want = []any{true, false, false}
		}
		program, err := everything.Compile("dyn(" + tt.text + ")")
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		got, err := program.Eval(t.Context(), map[string]any{"response": decode(t, data)})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.text, diff)
		}
	}
}

func TestListsOfDataAreNotCopied(t *testing.T) {
	response := decode(t, `{"data": [1, 2]}`)
	got, err := compile(t, PageItems, "response.data").EvalList(t.Context(), map[string]any{"response": response})
	if err != nil {
		t.Fatal(err)
	}
	own := response.(map[string]any)["data"].([]any)
	if &own[0] != &got[0] {
		t.Error("a list of the response was copied")
	}
}

func TestTypedEvaluations(t *testing.T) {
	headers := map[string]string{"x-ratelimit-remaining": "0"}
	limited := compile(t, RateLimited, "status == 403 && headers['x-ratelimit-remaining'] == '0' || body.contains('slow down')")
	for _, tt := range []struct {
		status int
		body   string
		want   bool
	}{{403, "", true}, {404, "", false}, {200, "please slow down", true}} {
		got, err := limited.EvalBool(t.Context(), map[string]any{"status": tt.status, "headers": headers, "body": tt.body})
		if err != nil || got != tt.want {
			t.Errorf("%d %q: %v, %v", tt.status, tt.body, got, err)
		}
	}

	item := map[string]any{"item": decode(t, `{"id": 12, "f": 1.5, "whole": 3.0, "s": "x", "n": null, "l": [], "num": " 7.25 "}`)}
	for text, want := range map[string]string{
		"item.id": "12", "item.f": "1.5", "item.whole": "3", "item.s": "x", "item.n": "", "item.f > 1.0": "true", "duration('60s')": "1m0s",
	} {
		got, err := compile(t, InventoryVar, "dyn("+text+")").EvalText(t.Context(), item)
		if err != nil || got != want {
			t.Errorf("EvalText %s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"item.id": 12, "item.f": 1.5, "item.num": 7.25, "item.id == 12": 1, "item.id == 13": 0, "3u": 3} {
		vars := map[string]any{"item": item["item"], "response": nil, "vars": map[string]string{}, "headers": headers, "status": 200}
		got, ok, err := compile(t, MetricValue, text).EvalNumber(t.Context(), vars)
		if err != nil || !ok || got != want {
			t.Errorf("EvalNumber %s: %v, %v, %v", text, got, ok, err)
		}
	}
}

func TestWrongKindsAreErrors(t *testing.T) {
	vars := map[string]any{"response": decode(t, `{"l": [1], "s": "x", "n": null}`), "item": decode(t, `{"l": [1], "s": "x"}`)}
	if _, err := compile(t, PageItems, "response.s").EvalList(t.Context(), vars); err == nil || !strings.Contains(err.Error(), `it gives "x", want a list`) {
		t.Errorf("list: %v", err)
	}
	if list, err := compile(t, PageItems, "response.n").EvalList(t.Context(), vars); err != nil || list != nil {
		t.Errorf("null list: %v, %v", list, err)
	}
	if _, err := compile(t, InventoryVar, "item.l").EvalText(t.Context(), vars); err == nil || !strings.Contains(err.Error(), "it gives a list") {
		t.Errorf("text: %v", err)
	}
	if _, _, err := compile(t, MetricValue, "item.s").EvalNumber(t.Context(), vars); err == nil {
		t.Error("a text that is no number was taken")
	}
	var failed *EvalError
	_, err := compile(t, InventoryVar, "item.nowhere").EvalText(t.Context(), vars)
	if !errors.As(err, &failed) || failed.Text != "item.nowhere" || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("missing field: %v", err)
	}
}

func TestCompileErrorsHaveAPlaceAndAWayOut(t *testing.T) {
	tests := []struct {
		place        *Place
		text         string
		line, column int
		message      string
	}{
		{InventoryItems, "respons.data", 1, 1, `unknown name "respons", this expression knows response; did you mean "response"?`},
		{InventoryItems, "response.x +\n  bdy", 2, 3, `unknown name "bdy", this expression knows response`},
		{RateLimited, "status = 403", 1, 8, "= compares nothing; write =="},
		{RateLimited, "status == 403 & true", 1, 15, "write && for and, || for or"},
		{RateLimited, "status == '403'", 1, 8, `"==" cannot be applied to (int, string); convert one with string(), int() or double()`},
		{RateLimited, "headers['a'", 1, 12, `missing "]"`},
		{RateLimited, "body == 'a", 1, 9, "a text begins here and does not end; close its quote"},
		{RateLimited, "status ==", 1, 10, "the expression ends too early"},
		{RateLimited, "status", 1, 1, "the expression gives a whole number, want true or false"},
		{RateLimited, "ä == status", 1, 1, `"ä" has no meaning here`},
		{InventoryItems, "'text'", 1, 1, "the expression gives a text, want a list"},
		{InventoryVar, "item.nme.siz()", 1, 13, `unknown name "siz", this expression knows item; did you mean "size"?`},
		{InventoryVar, " \t", 1, 1, "the expression is empty"},
		{SpendActual, "[1]", 1, 1, "the expression gives a list, want an amount: a number or a text"},
		{PageNext, "1", 1, 1, "the expression gives a whole number, want a URL or a map of query parameters"},
		{PageCursor, strings.Repeat("x", maxTextLength+1), 1, 1, "the expression is longer than 10000 characters"},
	}
	for _, tt := range tests {
		_, err := tt.place.Compile(tt.text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v is not an *Error", clip(tt.text), err)
			continue
		}
		if e.Line != tt.line || e.Column != tt.column || e.Message != tt.message {
			t.Errorf("%q: %d:%d %s\nwant %d:%d %s", clip(tt.text), e.Line, e.Column, e.Message, tt.line, tt.column, tt.message)
		}
	}
}

// With a hundredth of the real bound, so that the test is fast under the race detector, too: the real one is a few seconds.
func TestEvaluationIsBounded(t *testing.T) {
	const cost = maxCost / 100
	items := make([]any, 3000)
	for i := range items {
		items[i] = strings.Repeat("x", 100)
	}
	vars := map[string]any{"response": items}
	bombs := []string{
		"response.filter(a, response.exists(b, response.exists(c, a + b + c == '')))",
		"lists.range(100000).map(a, lists.range(100000))",
		"lists.range(1000000000)",
		"[response.map(a, response.map(b, a + b))]",
	}
	for _, bomb := range bombs {
		program, err := PageItems.compile(bomb, cost)
		if err != nil {
			t.Fatal(err)
		}
		var failed *EvalError
		if _, err := program.Eval(t.Context(), vars); !errors.As(err, &failed) {
			t.Errorf("%s ran to its end: %v", bomb, err)
		}
	}
	// What documents really do stays far below it.
	if list, err := compile(t, PageItems, "response.filter(x, x != 'a')").EvalList(t.Context(), vars); err != nil || len(list) != len(items) {
		t.Errorf("a filter: %d items, %v", len(list), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compile(t, PageItems, bombs[0]).Eval(ctx, vars); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended gives %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := compile(t, PageItems, bombs[0]).Eval(ctx, vars); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ends gives %v", err)
	}
}

func TestDecodeJSONRefusesWhatIsNotOneValue(t *testing.T) {
	for _, bad := range []string{"", "{", "[1] 2", "1e999", "nul"} {
		if v, err := DecodeJSON([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, v)
		}
	}
	got, err := DecodeJSON([]byte(`[-9223372036854775808, 9223372036854775808, 1e3]`))
	if diff := cmp.Diff([]any{int64(-9223372036854775808), float64(9223372036854775808), float64(1000)}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"response.a[0].?b.orValue(1)", "status == 403", "response.map(x, x.id)", "((((", "'\\u", "a.b(c, d)[e]?f:g", "{'a': 1}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range []*Place{RateLimited, MetricValue, PageNext} {
			program, err := p.Compile(text)
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Message == "") {
				t.Fatalf("%q: %#v", text, err)
			}
			if err != nil {
				continue
			}
			vars := map[string]any{"status": 200, "headers": map[string]string{}, "body": "", "response": nil, "item": nil, "vars": map[string]string{}, "page": 1}
			_, _ = program.Eval(t.Context(), vars)
		}
	})
}
