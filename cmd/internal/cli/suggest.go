package cli

import (
	"strings"

	"github.com/xrash/smetrics"
)

// nearest returns the candidate most like word, or "" where none is like it:
// a wild guess helps less than none.
func nearest(word string, candidates []string) string {
	// The Jaro-Winkler similarity favours a common beginning, as typing errors
	// do. Two words of which most letters differ still get 0.6 to 0.7.
	const (
		likeEnough     = 0.8
		boostThreshold = 0.7
		prefixSize     = 4
	)
	best, bestScore := "", likeEnough
	for _, candidate := range candidates {
		// All flags begin with dashes, so dashes make none more alike.
		score := smetrics.JaroWinkler(strings.TrimLeft(word, "-"), strings.TrimLeft(candidate, "-"), boostThreshold, prefixSize)
		if score > bestScore {
			best, bestScore = candidate, score
		}
	}
	return best
}
