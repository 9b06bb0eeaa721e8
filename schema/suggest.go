package schema

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"
)

// Nearest is the candidate that a mistyped name probably meant, or "" where none is near.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", 1+max(1, len(name)/3)
	if len(name) > 100 {
		return ""
	}
	for _, c := range candidates {
		if c == name || len(c) > 100 {
			continue
		}
		distance := smetrics.WagnerFischer(strings.ToLower(name), strings.ToLower(c), 1, 1, 1)
		if distance < bestDistance {
			best, bestDistance = c, distance
		}
	}
	return best
}

// DidYouMean is the ending of a message about a mistyped name: `; did you mean "limits"?`, or nothing.
func DidYouMean(name string, candidates []string) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
