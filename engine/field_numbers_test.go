package engine

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestNumbersChangeNothing: a response whose digits the caller has read already means what it means without them.
func TestNumbersChangeNothing(t *testing.T) {
	one := 1
	readers := []*reader{
		compileReader("X-Left", nil, "", ""), compileReader("x-left", &one, "", ""), compileReader("X-Left", nil, `(\d)`, ""), nil,
	}
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{1,20}`),
			rapid.SampledFrom([]string{"", "0", "007", " 7", "7 ", "-7", "7.5", "1, 2", "7;w=1", "x", "999999999999999999", "9223372036854775807"}),
		)
		var r Response
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			name := rapid.SampledFrom([]string{"X-Left", "x-LEFT", "X-Like"}).Draw(t, "name")
			value := text.Draw(t, "value")
			number := int64(-1)
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && len(value) <= 18 && allDigits(value) {
				number = n
			}
			r.Fields, r.Numbers = append(r.Fields, Field{name, value}), append(r.Numbers, number)
		}
		plain := Response{Fields: r.Fields}
		for i, reader := range readers {
			d, found, ok := reader.number(&r, smallest)
			want, wantFound, wantOK := reader.number(&plain, smallest)
			if d != want || found != wantFound || ok != wantOK {
				t.Fatalf("reader %d of %+v: %v %t %t, without numbers %v %t %t", i, r, d, found, ok, want, wantFound, wantOK)
			}
			if reader != nil {
				if _, short := reader.known(&r); short {
					known++
				}
			}
		}
	})
	if known == 0 {
		t.Error("no number was taken as it was")
	}
}
