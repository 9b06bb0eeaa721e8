package simulate

import (
	"regexp"
	"testing"
)

// TestSampleOf: for the patterns that documents hold, a vendor's text is found that they read the number from.
func TestSampleOf(t *testing.T) {
	for _, pattern := range []string{
		`remaining=(\d+)`, `retry in ([0-9.]+)`, `(\d+)`, `^limit: (\d+)/min$`, `(?i)quota\s+of\s+(\d+)`, `"rem":(\d+),`, `(?:burst|rate)=(\d+);`,
		`[A-Z]{2,4}-(\d+)x?`, `a.b (\d+)`, `used (?:about )?(\d+)`,
	} {
		s := sampleOf(pattern)
		match := regexp.MustCompile(pattern).FindStringSubmatch(s.before + "4711" + s.after)
		if !s.ok || match == nil || match[1] != "4711" {
			t.Errorf("%s: %+v gives %v", pattern, s, match)
		}
	}
	for _, pattern := range []string{`no group`, `(a)(\d+)`, `([a-z]+)`, `\bx(\d+)\Bq`, `(`} {
		if s := sampleOf(pattern); s.ok {
			re := regexp.MustCompile(pattern)
			if match := re.FindStringSubmatch(s.before + "4711" + s.after); match == nil || match[1] != "4711" {
				t.Errorf("%s: %+v claims to be a sample", pattern, s)
			}
		}
	}
}

// FuzzSampleOf: a sample that claims to be one is one.
func FuzzSampleOf(f *testing.F) {
	f.Add(`remaining=(\d+)`)
	f.Add(`(?:a|b)+(\d*)c{3}`)
	f.Fuzz(func(t *testing.T, pattern string) {
		s := sampleOf(pattern)
		if !s.ok {
			return
		}
		match := regexp.MustCompile(pattern).FindStringSubmatch(s.before + "1234" + s.after)
		if len(match) < 2 || match[1] != "1234" {
			t.Fatalf("%q: %+v gives %v", pattern, s, match)
		}
	})
}
