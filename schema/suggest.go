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
		distance := editDistance(strings.ToLower(name), strings.ToLower(c))
		if distance < bestDistance {
			best, bestDistance = c, distance
		}
	}
	return best
}

// editDistance counts single characters put in, left out or replaced. Two neighbours that changed places, the most frequent slip
// of fast fingers, are one mistake, not two.
func editDistance(a, b string) int {
	if len(a) == len(b) {
		for i := 0; i+1 < len(a); i++ {
			if a[i] != b[i] {
				if a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:] {
					return 1
				}
				break
			}
		}
	}
	return smetrics.WagnerFischer(a, b, 1, 1, 1)
}

// DidYouMean is the ending of a message about a mistyped name: `; did you mean "limits"?`, or nothing.
func DidYouMean(name string, candidates []string) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// mostListed is how many names a message lists; more are for a command to show.
const mostListed = 12

// DidYouMeanOneOf is the ending of a message about a name that does not exist: the near one, or else those that there are.
func DidYouMeanOneOf(name string, candidates []string) string {
	if near := DidYouMean(name, candidates); near != "" {
		return near
	}
	switch n := len(candidates); {
	case n == 0:
		return "; there is none"
	case n == 1:
		return "; there is only " + candidates[0]
	case n > mostListed:
		return fmt.Sprintf("; there are %s and %d more", strings.Join(candidates[:mostListed], ", "), n-mostListed)
	default:
		return "; there are " + strings.Join(candidates[:n-1], ", ") + " and " + candidates[n-1]
	}
}
