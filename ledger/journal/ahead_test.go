package journal

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// mixedLine draws a line of a journal in which rows of a few requests, of new ones and of other layouts stand between each other.
func mixedLine(t *rapid.T) string {
	const layout = `{"id":"%d","ts":"2026-11-01T00:00:07.250Z","provider":"meraki","account":"%s","status":%d,"headers":{"X-Left":"%d"},"latencyMs":%d}`
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		return rapid.SampledFrom(oddLines).Draw(t, "line")
	}
	account := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "c"}), // soon known
		rapid.StringMatching(`[a-z]{1,2}`),         // as long, and known or not
		rapid.SampledFrom([]string{"\xff", `","account":"`, `","status":2,"job":"`, `"`}),
	).Draw(t, "account")
	return fmt.Sprintf(layout, rapid.IntRange(1, 99).Draw(t, "id"), account, rapid.IntRange(0, 1000).Draw(t, "status"),
		rapid.IntRange(0, 9999).Draw(t, "left"), rapid.IntRange(0, 100).Draw(t, "latency"))
}

// TestAheadAgrees: rows that are read before their requests are looked up are the same rows, in the same order, with the same bad
// ones among them, as those that are decoded one by one.
func TestAheadAgrees(t *testing.T) {
	ahead := 0
	rapid.Check(t, func(t *rapid.T) {
		s := &scanner{builder: builder{symbols: newSymbols()}, ahead: true}
		for range rapid.IntRange(1, 3).Draw(t, "chunks") { // what one chunk has taught must not matter to the next
			var text []byte
			for range rapid.IntRange(1, 60).Draw(t, "lines") {
				text = append(append(text, mixedLine(t)...), '\n')
			}
			s.streak = sureAfter // as if many had been known
			agreeAll(t, s, text, &ahead)
		}
	})
	if ahead == 0 {
		t.Error("no row was read ahead")
	}
}

// FuzzAhead does the same with any text.
func FuzzAhead(f *testing.F) {
	for i, line := range oddLines {
		f.Add([]byte(oddLines[0] + "\n" + line + "\n" + oddLines[(i+1)%len(oddLines)]))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &scanner{builder: builder{symbols: newSymbols()}, ahead: true}
		for range 2 {
			s.streak = sureAfter
			agreeAll(t, s, text, new(int))
		}
	})
}

// agreeAll compares a chunk with decodeLine, line by line.
func agreeAll(t interface{ Fatalf(string, ...any) }, s *scanner, text []byte, ahead *int) {
	counted := &countedLines{scanner: s, ahead: ahead}
	b := parseLines(counted, &Batch{}, &lineJob{text: text})
	records, bad, number := b.Records, b.bad, int64(0)
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(line) == 0 || onlySpace(line) {
			continue
		}
		number++
		want, in, err := decodeLine(line)
		if err != nil {
			if len(bad) > 0 && (bad[0].Line != int64(i+1) || bad[0].Record != number) {
				t.Fatalf("line %d is bad: %v; the next bad row is %+v", i+1, err, bad[0])
			}
			bad = bad[min(1, len(bad)):] // the first ten only are kept
			continue
		}
		if len(records) == 0 {
			t.Fatalf("line %d is missing: %q", i+1, line)
		}
		want.At = time.Unix(0, in.nanos).UTC()
		if got := b.Row(&records[0]); !got.Equal(&want) || records[0].Line != int64(i+1) || records[0].Number != number {
			t.Fatalf("line %d, record %d, is read as line %d, record %d:\n%s", i+1, number, records[0].Line, records[0].Number, cmp.Diff(want, got))
		}
		records = records[1:]
	}
	if len(records) > 0 || len(bad) > 0 || b.badCount+int64(len(b.Records)) != number {
		t.Fatalf("%d lines made %d records and %d bad rows", number, len(b.Records), b.badCount)
	}
}

// countedLines counts the rows that are read ahead.
type countedLines struct {
	*scanner

	ahead *int
}

func (c *countedLines) line(b []byte, line, number int64) error {
	before := len(c.guesses)
	err := c.scanner.line(b, line, number)
	if len(c.guesses) != before {
		*c.ahead++
	}
	return err
}
