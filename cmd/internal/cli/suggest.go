package cli

import "github.com/xrash/smetrics"

// nearest returns the candidate most like word, or "" where none is like it:
// a wild guess helps less than none.
func nearest(word string, candidates []string) string {
	// The Jaro-Winkler similarity favours a common beginning, as typing errors
	// do. Below 0.8 suggestions read as noise: "--zone" is 0.78 to "--quiet".
	const (
		likeEnough     = 0.8
		boostThreshold = 0.7
		prefixSize     = 4
	)
	best, bestScore := "", likeEnough
	for _, candidate := range candidates {
		score := smetrics.JaroWinkler(word, candidate, boostThreshold, prefixSize)
		if score > bestScore {
			best, bestScore = candidate, score
		}
	}
	return best
}
