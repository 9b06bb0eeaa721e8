package engine

import (
	"maps"
	"strings"

	"github.com/tapyr/tapyr/match"
)

// restoredVariant is the variant that a restored key has until its next request: that of the account which the key names, else of
// the provider's first, with the variables that stand in the key. Without it a quota that nobody has asked for since the restart
// would be shown, and planned with, as one of no units.
func (e *Engine) restoredVariant(l *limit, key string) uint32 {
	words, by := strings.Split(key, "/"), l.matcher.By()
	named, vars := "", make(map[string]string)
	for i, dimension := range by {
		if i >= len(words) {
			break
		}
		if dimension == match.DimensionAccount {
			named = unescape(words[i])
		}
		if name, isVar := cutVariable(dimension); isVar {
			vars[name] = unescape(strings.TrimPrefix(words[i], name+"="))
		}
	}
	for _, source := range l.provider.source.Accounts {
		if a := e.accounts[source.Name]; a != nil && (named == "" || named == source.Name) {
			maps.Copy(vars, a.vars)
			return l.variantOf(a, vars)
		}
	}
	return noVariant
}
