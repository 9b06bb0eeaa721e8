package journal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// scanOne reads a line as the scanner does, whichever way it takes.
func scanOne(t interface{ Fatalf(string, ...any) }, s *scanner, line []byte) (Row, instant, error) {
	s.batch = &Batch{}
	if err := s.line(line, 1, 1); err != nil {
		return Row{}, instant{}, err
	}
	b := s.finish()
	if len(b.Records) != 1 {
		t.Fatalf("%q made %d records", line, len(b.Records))
	}
	row := b.Row(&b.Records[0])
	in := instant{nanos: b.Records[0].AtNanos, naive: len(b.naive) == 1}
	return row, in, nil
}

// agree compares the scanner with decodeLine on one line.
func agree(t interface{ Fatalf(string, ...any) }, s *scanner, line []byte) {
	if len(line) == 0 || onlySpace(line) || bytes.IndexByte(line, '\n') >= 0 {
		return
	}
	want, wantIn, wantErr := decodeLine(line)
	got, gotIn, gotErr := scanOne(t, s, line)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%q: scanner says %v, decoder %v", line, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	want.At = time.Unix(0, wantIn.nanos).UTC()
	if gotIn != wantIn || !got.Equal(&want) {
		t.Fatalf("%q:\n%s", line, cmp.Diff(want, got))
	}
}

// oddLines are lines near the border of what is a row.
var oddLines = []string{
	`{"id":"01JD","ts":"2026-11-01T00:00:07.250Z","provider":"meraki","account":"acme","target":"","credential":"6f1c","method":"GET","endpoint":"/o/{id}","vars":{"id":"5"},"job":"devices","priority":"normal","retry":false,"auth":false,"status":200,"headers":{"X-Limit":"5000","X-Left":"4321"},"latencyMs":182}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"meraki","account":"acme","status":429,"headers":{"Retry-After":"Fri, 31 Dec 1999 23:59:59 GMT"},"latencyMs":1.5,"body":"slow down"}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"meraki","account":"acme","refused":"quota_exhausted","headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z",,"status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","provider":"b","status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"status":201,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","headers":{"a":"1"},"status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","ts":"2026-11-01T00:00:07.250Z","status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","vars":{"a":"1","status":"2"},"status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","vars":{"a":"1","a":"2"},"status":200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{"A":"1","A":"2"},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":0200,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":1000,"headers":{},"latencyMs":0}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":2e2,"headers":{},"latencyMs":1e3}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":-1}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":01}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1.}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":2592000000.000001}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1,"body":"\u00e9\ud83d\ude00"}`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1} x`,
	`{"ts":"2026-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}` + " \r",
	`{"ts":"2026-13-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}`,
	`{"ts":"2026-02-29T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}`,
	`{"ts":"2026-11-01T24:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}`,
	`{"ts":"2026-11-01T00:00:60.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}`,
	`{"ts":"1600-11-01T00:00:07.250Z","provider":"a","status":200,"headers":{},"latencyMs":1}`,
	`{"ts":"2026-11-01 00:00:07","provider":"a"}`,
	`{"ts":1793491207.25,"provider":"a","status":200}`,
	`{"ts":1793491207250,"provider":"a","status":200}`,
	`{"ts":null}`, `{}`, `{"ts":true}`, `[]`, `null`, `{"ts":"2026-11-01T00:00:07Z"`, `{"ts":"2026-11-01T00:00:07Z",}`,
	`{"TS":"2026-11-01T00:00:07Z"}`, `{"ts":"2026-11-01T00:00:07Z","Status":"x"}`, `{"ts":"2026-11-01T00:00:07Z","status":"200"}`,
	`{"ts":"2026-11-01T00:00:07Z","retry":1}`, `{"ts":"2026-11-01T00:00:07Z","retry":null,"vars":null,"status":null,"headers":null,"latencyMs":null}`,
	`{"ts":"2026-11-01T00:00:07Z","x":1,"x":2}`, `{"ts":"2026-11-01T00:00:07Z","x":{"y":[1,{"z":1,"z":2}]}}`, `{"ts":"2026-11-01T00:00:07Z","x":01}`,
	`{"ts":"2026-11-01T00:00:07Z","x":nul}`, `{"ts":"2026-11-01T00:00:07Z","x":-}`, `{"ts":"2026-11-01T00:00:07Z","x":"` + "\xff" + `"}`,
	`{"ts":"2026-11-01T00:00:07Z","id":"` + "\x01" + `"}`, `{"ts":"2026-11-01T00:00:07Z","headers":{"a` + "\\u0000" + `b":"1","a":"2"}}`,
	`{ "ts" : "2026-11-01T00:00:07+02:00" , "provider" : "a" , "vars" : { "k" : "v" } , "retry" : true , "latencyMs" : 0.000001 }`,
}

func TestScannerAgreesOnOddLines(t *testing.T) {
	for _, line := range oddLines {
		for _, misses := range []int{0, maxMisses} { // with the canonical way, and without
			s := &scanner{builder: builder{symbols: newSymbols()}, misses: misses}
			agree(t, s, []byte(line))
			agree(t, s, []byte(oddLines[0])) // what was remembered must not matter
			agree(t, s, []byte(line))
		}
	}
}

// TestScannerWays makes sure that the quick ways are taken where they can be: agreement alone would hold without them.
func TestScannerWays(t *testing.T) {
	s := &scanner{builder: builder{symbols: newSymbols(), batch: &Batch{}}}
	for i, line := range oddLines[:3] {
		if !s.canonical([]byte(line), &Record{}) {
			t.Errorf("line %d is not read as canonical", i)
		}
	}
	spaced := strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(oddLines[0])
	if s.canonical([]byte(spaced), &Record{}) || !s.general([]byte(spaced), &Record{}) {
		t.Errorf("a spaced line is not read in the general way")
	}
}

func FuzzScanner(f *testing.F) {
	for _, line := range oddLines {
		f.Add([]byte(line), false)
		f.Add([]byte(line), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, general bool) {
		s := &scanner{builder: builder{symbols: newSymbols()}}
		if general {
			s.misses = maxMisses
		}
		agree(t, s, line)
		agree(t, s, line)
	})
}

// drawRow makes any row; text leans towards what is special in JSON and CSV.
func drawRow(t *rapid.T) Row {
	text := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9/{}_.-]{0,12}`),
		rapid.SampledFrom([]string{"", `"`, `\`, ",", "\n", "\r\n", "é", "😀", "\u0000", "status", `,"status":`, "\u2028", " x ", "a;b|c\td"}),
		rapid.String(),
	)
	texts := rapid.MapOfN(text, text, 0, 4)
	return Row{
		ID: text.Draw(t, "id"),
		At: time.Unix(0, rapid.Int64Range(minNanos, maxNanos-1).Draw(t, "at")/rapid.SampledFrom([]int64{1, 1e3, 1e6}).Draw(t, "unit")*1).UTC(),
		Request: Request{
			Provider: text.Draw(t, "provider"), Account: text.Draw(t, "account"), Target: text.Draw(t, "target"), Job: text.Draw(t, "job"),
			Credential: text.Draw(t, "credential"), Method: text.Draw(t, "method"), Endpoint: text.Draw(t, "endpoint"),
			Vars: texts.Draw(t, "vars"), Priority: text.Draw(t, "priority"), Retry: rapid.Bool().Draw(t, "retry"), Auth: rapid.Bool().Draw(t, "auth"),
		},
		Status: rapid.IntRange(0, 999).Draw(t, "status"), Headers: texts.Draw(t, "headers"),
		Latency: time.Duration(rapid.Int64Range(0, int64(maxLatency)).Draw(t, "latency")), Refused: text.Draw(t, "refused"),
		Body: rapid.OneOf(text, rapid.Map(text, func(s string) string { return strings.Repeat(s+"ä", 3000) })).Draw(t, "body"),
	}
}

// TestRoundTrip: what a row writes, all ways of reading read, and what they read writes the same.
func TestRoundTrip(t *testing.T) {
	s := &scanner{builder: builder{symbols: newSymbols()}}
	rapid.Check(t, func(t *rapid.T) {
		row := drawRow(t)
		line := row.AppendJSON(nil)
		agree(t, s, line)
		s.misses = 0
		got, _, err := scanOne(t, s, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		row.Body = clipBody(row.Body)
		if again := got.AppendJSON(nil); !got.Equal(&row) || !bytes.Equal(line, again) {
			t.Fatalf("%q came back as %q", line, again)
		}
	})
}

func TestClipBody(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"short", "abc", "abc"},
		{"exact", strings.Repeat("x", 4096), strings.Repeat("x", 4096)},
		{"long", strings.Repeat("x", 5000), strings.Repeat("x", 4096)},
		{"half a character", strings.Repeat("x", 4095) + "é", strings.Repeat("x", 4095)},
		{"half of four bytes", strings.Repeat("x", 4093) + "😀", strings.Repeat("x", 4093)},
	} {
		if got := clipBody(c.in); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, len(got), len(c.want))
		}
	}
}

// TestSymbolsBound: a journal in which every request differs is read all the same, with the tables full.
func TestSymbolsBound(t *testing.T) {
	syms := newSymbols()
	syms.bytes = maxSymbolBytes
	s := &scanner{builder: builder{symbols: syms, batch: &Batch{}}}
	for i := range 10 {
		row := Row{At: time.Unix(int64(i), 0), Request: Request{Endpoint: fmt.Sprintf("/%d", i)}}
		if err := s.line(row.AppendJSON(nil), 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	b := s.finish()
	for i := range b.Records {
		if got := b.Request(&b.Records[i]).Endpoint; got != fmt.Sprintf("/%d", i) || b.Records[i].Request >= 0 {
			t.Errorf("request %d is %q, numbered %d", i, got, b.Records[i].Request)
		}
	}
	if len(syms.requests) != 0 {
		t.Errorf("%d requests in full tables", len(syms.requests))
	}
}
