package match

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

func TestCleanPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "/", "/": "/", "//": "/", "a": "/a", "/a": "/a", "/a/": "/a", "//a//b/": "/a/b", "a/b": "/a/b", "/a/./b": "/a/./b", "/a b": "/a b",
	} {
		if got := CleanPath(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestGlobs(t *testing.T) {
	tests := []struct {
		pattern, path string
		want          bool
	}{
		{"/organizations/**", "/organizations", true},
		{"/organizations/**", "/organizations/{organizationId}/networks", true},
		{"/organizations/**", "/organization", false},
		{"/organizations/*", "/organizations", false},
		{"/organizations/*", "/organizations/{organizationId}", true},
		{"/organizations/*", "/organizations/1/networks", false},
		{"/organizations/{id}", "/organizations/{organizationId}", true},
		{"/organizations/{id}", "/organizations/1", false},
		{"/organizations/1", "/organizations/{organizationId}", false},
		{"/**/status", "/status", true},
		{"/**/status", "/a/b/status", true},
		{"/**/status", "/a/b/status/c", false},
		{"/**", "/", true},
		{"/", "/", true},
		{"/", "/a", false},
		{"/*", "/", false},
		{"/dev*", "/devices", true},
		{"/*ices", "/devices", true},
		{"/d*v*s", "/devices", true},
		{"/d*x", "/devices", false},
		{"/Devices", "/devices", false},
		{"devices/", "//devices", true},
		{"/a/**/b/**/c", "/a/b/x/b/c", true},
		{"/a/**/b/**/c", "/a/c/b", false},
		{"/**/**", "/a", true},
		{"/{a}/{b}", "/{x}/{y}", true},
		{"/{a}{b}", "/{x}", false},
		{"/*", "/{x}", true},
		{"/v1/*", "/v1/a*b", true},
	}
	for _, tt := range tests {
		if got := CompileGlob(tt.pattern).Match(tt.path); got != tt.want {
			t.Errorf("%q against %q: %v", tt.pattern, tt.path, got)
		}
	}
}

// naiveSegments is the twin: the definition of ** by recursion, without a mark to return to.
func naiveSegments(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return naiveSegments(pattern[1:], path) || len(path) > 0 && naiveSegments(pattern, path[1:])
	case len(path) == 0:
		return false
	}
	return naiveSegment(pattern[0], path[0]) && naiveSegments(pattern[1:], path[1:])
}

func naiveSegment(pattern, text string) bool {
	if len(pattern) > 2 && strings.HasPrefix(pattern, "{") && strings.Index(pattern, "}") == len(pattern)-1 {
		return pattern == text || len(text) > 2 && strings.HasPrefix(text, "{") && strings.Index(text, "}") == len(text)-1
	}
	return naiveStars(pattern, text)
}

func naiveStars(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return naiveStars(pattern[1:], text) || text != "" && naiveStars(pattern, text[1:])
	}
	return text != "" && pattern[0] == text[0] && naiveStars(pattern[1:], text[1:])
}

func naiveMatch(pattern, path string) bool {
	split := func(s string) []string {
		var out []string
		for _, part := range strings.Split(s, "/") {
			if part != "" {
				out = append(out, part)
			}
		}
		return out
	}
	return naiveSegments(split(pattern), split(path))
}

func TestGlobsAgreeWithTheTwin(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "aab", "*", "**", "a*", "*b", "*a*", "{x}", "{yy}", "{", "{}", "a*b*", "", "***"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "aab", "aabb", "{x}", "{z}", "{", "{}", "*", "ba", ""})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(segment, 0, 6).Draw(t, "pattern"), "/")
		path := strings.Join(rapid.SliceOfN(name, 0, 6).Draw(t, "path"), "/")
		if got, want := CompileGlob(pattern).Match(path), naiveMatch(pattern, path); got != want {
			t.Fatalf("%q against %q: %v, the twin says %v", pattern, path, got, want)
		}
	})
}

// Where the syntaxes agree (no braces, ** alone in a segment), so must the results of the usual library.
func TestGlobsAgreeWithDoublestar(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "a*", "*b", "*a*"})
	name := rapid.SampledFrom([]string{"a", "b", "ab", "aab", "ba"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(segment, 1, 6).Draw(t, "pattern"), "/")
		path := strings.Join(rapid.SliceOfN(name, 1, 6).Draw(t, "path"), "/")
		want, err := doublestar.Match(pattern, path)
		if err != nil {
			t.Fatal(err)
		}
		if got := CompileGlob(pattern).Match(path); got != want {
			t.Fatalf("%q against %q: %v, doublestar says %v", pattern, path, got, want)
		}
	})
}

// Matching is at most as much work as the lengths multiplied: patterns that make a backtracking matcher explode answer at once.
func TestGlobsDoNotExplode(t *testing.T) {
	pattern := CompileGlob(strings.Repeat("**/a/", 40) + "b")
	if pattern.Match(strings.Repeat("a/", 200)) {
		t.Error("matched without a b")
	}
	stars := CompileGlob("/" + strings.Repeat("*a", 40) + "b")
	if stars.Match("/" + strings.Repeat("a", 2000)) {
		t.Error("matched without a b")
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"/a/**", "/a/b"}, {"*{x}*", "{y}"}, {"/**/a*b", "/x/ab"}, {"", "/"}, {"**", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		got := CompileGlob(pattern).Match(path)
		if strings.Count(pattern, "*") <= 6 && len(path) < 60 { // the twin is exponential
			if want := naiveMatch(pattern, path); got != want {
				t.Errorf("%q against %q: %v, the twin says %v", pattern, path, got, want)
			}
		}
		if clean := CleanPath(path); !strings.Contains(path, "*") && !CompileGlob(clean).Match(path) {
			t.Errorf("%q does not match itself", path)
		}
	})
}
