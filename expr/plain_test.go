package expr

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cel.dev/cel-go/cel"
)

func TestWhichExpressionsArePlain(t *testing.T) {
	for text, want := range map[string]bool{
		`item.id`: true, `item`: true, `response.data[0].name`: true, `double(size(response.list))`: true, `item.?a.?b.orValue("x")`: true,
		`item.up ? 1.0 : 0.0`: true, `has(item.a) && item.a != null`: true, `string(item.n)`: true, `double(item.a) / 1e6 - 3.0`: true,
		// What copies or multiplies its data, or loops, is watched.
		`item.a + item.b`: false, `response.list.filter(x, x.up)`: false, `size(response.list.map(x, x * 2))`: false,
		`item.name.matches("a+")`: false, `item.name.split(",")`: false, `"x" in item.tags`: false, `[item.a, item.a]`: false,
		`{"a": item.a}`: false, `lists.range(3)`: false, `item.a.startsWith("x")`: false,
		strings.Repeat(`size(item.a) == 1 && `, 20) + `true`: false,
	} {
		tree, issues := MetricValue.env().Compile(text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", text, issues.Err())
		}
		if plain(tree) != want {
			t.Errorf("%s: plain is %v, want %v", text, !want, want)
		}
	}
}

// A plain expression gives what the watched one gives: value or failure.
func TestPlainIsAsWatched(t *testing.T) {
	texts := []string{
		`item`, `item.a`, `item.a.b`, `response[0]`, `response.a[1].b`, `double(size(item))`, `double(item.a)`, `int(item.a)`, `string(item.a.b)`,
		`item.?a.orValue("none")`, `item.?a.?b.hasValue()`, `has(item.a) ? item.a : 7`, `item.a == response.a`, `item.a < 3`, `!item.a`,
		`item.a && item.b`, `item.a || item.b`, `-item.a * 2 - 1`, `item.a / item.b`, `item.a % 2`, `uint(item.a)`, `bool(item.a)`, `item[?0]`,
	}
	watched := make(map[string]*Program)
	for _, text := range texts {
		tree, issues := MetricValue.env().Compile(text)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", text, issues.Err())
		}
		program, err := MetricValue.env().Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery))
		if err != nil {
			t.Fatal(err)
		}
		watched[text] = &Program{place: MetricValue, text: text, program: program}
	}
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64Range(-3, 3).AsAny(), rapid.Float64Range(-2, 2).AsAny(),
			rapid.SampledFrom([]string{"", "x", "12", "true"}).AsAny(),
		}
		if depth > 0 {
			leaf = append(leaf, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(),
				rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), value(depth-1), 0, 2).AsAny())
		}
		return rapid.OneOf(leaf...)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(texts).Draw(t, "text")
		vars := map[string]any{"item": value(3).Draw(t, "item"), "response": value(3).Draw(t, "response")}
		short, err := MetricValue.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if !short.plain {
			t.Fatalf("%s is not plain", text)
		}
		got, err := short.Eval(t.Context(), vars)
		want, wantErr := watched[text].Eval(t.Context(), vars)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%s over %v: %v, %v; watched %v, %v", text, vars, got, err, want, wantErr)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	body, err := DecodeJSON(benchBody)
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{`response.list`, `double(size(response.list))`, `size(response.list.filter(x, x.up))`} {
		program, err := MetricValue.env().Compile(text)
		if err.Err() != nil {
			b.Fatal(err.Err())
		}
		_ = program
		compiled, cerr := MetricItems.Compile(text)
		if cerr != nil {
			compiled, cerr = MetricValue.Compile(text)
		}
		if cerr != nil {
			b.Fatal(cerr)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			vars := map[string]any{"response": body}
			for b.Loop() {
				if _, err := compiled.Eval(b.Context(), vars); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
