// Package match decides which limits a request meets: endpoint templates, filters, costs and scope keys. Every other package
// asks here, so that a plan, a reservation and a simulated server cannot differ about it.
package match

import "strings"

// CleanPath normalises a path as all comparisons see it: one slash first, no double or trailing slashes.
func CleanPath(path string) string {
	if clean(path) {
		return path
	}
	var b strings.Builder
	for _, s := range strings.Split(path, "/") {
		if s != "" {
			b.WriteByte('/')
			b.WriteString(s)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func clean(path string) bool {
	if path == "/" {
		return true
	}
	return len(path) > 1 && path[0] == '/' && path[len(path)-1] != '/' && !strings.Contains(path, "//")
}

// segments splits a clean path.
func segments(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// Glob is a pattern over paths, segment by segment and case-sensitive: ** is zero or more segments, * within a segment any run
// of characters of it (alone: exactly one segment), {name} alone any variable segment of a templated path, whatever its name.
type Glob struct{ segments []string }

// CompileGlob reads a pattern; every text is one.
func CompileGlob(pattern string) Glob {
	return Glob{segments(CleanPath(pattern))}
}

// Match tells whether a path, templated or concrete, fits the pattern.
func (g Glob) Match(path string) bool {
	return matchSegments(g.segments, segments(CleanPath(path)))
}

// matchSegments walks both lists once; at a mismatch it lets the last ** take one more segment, as in the classic wildcard
// matcher, so the work is at most the product of the lengths.
func matchSegments(pattern, path []string) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, s
			p++
		case p < len(pattern) && matchSegment(pattern[p], path[s]):
			p, s = p+1, s+1
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchSegment(pattern, segment string) bool {
	if pattern == "*" || pattern == segment {
		return true
	}
	if isVariable(pattern) {
		return isVariable(segment)
	}
	return strings.Contains(pattern, "*") && matchStars(pattern, segment)
}

// matchStars matches * against runs of characters, in the same way as matchSegments.
func matchStars(pattern, text string) bool {
	p, s, star, mark := 0, 0, -1, 0
	for s < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, s
			p++
		case p < len(pattern) && pattern[p] == text[s]:
			p, s = p+1, s+1
		case star >= 0:
			mark++
			p, s = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// isVariable tells whether a segment is one variable and nothing else.
func isVariable(segment string) bool {
	return len(segment) > 2 && segment[0] == '{' && strings.IndexByte(segment, '}') == len(segment)-1
}
