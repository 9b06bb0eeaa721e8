package validate

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleRegularExpression = &Rule{
	Name:     "regular-expression",
	Severity: schema.SeverityError,
	Summary:  "a pattern must be a regular expression (RE2) with exactly one group",
	Why: "The group captures what is read: a number of units, a wait, an identifier. With none nothing is captured, with several it " +
		"is not clear which one counts; write (?:...) for a group that captures nothing. RE2 has no look-around and no back-references.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: { name: X-Quota, pattern: 'remaining=\d+' } }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: { name: X-Quota, pattern: 'remaining=(\d+)' } }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			for _, h := range syncHeaders(l.Spec.Sync) {
				f.pattern(p.Doc, path+".sync."+h.field+".pattern", h.header.Pattern)
			}
			if l.Spec.CostFrom != nil {
				f.pattern(p.Doc, path+".costFrom.pattern", l.Spec.CostFrom.Pattern)
			}
		})
		for _, p := range f.config.Providers {
			if limited := p.Spec.Errors.RateLimited; limited != nil && limited.RetryAfter != nil {
				f.pattern(p.Doc, "spec.errors.rateLimited.retryAfter.pattern", limited.RetryAfter.Pattern)
			}
			for i := range p.Spec.Learn {
				path := index("spec.learn", i)
				for n, pattern := range p.Spec.Learn[i].From {
					f.pattern(p.Doc, index(path+".from", n), pattern)
				}
				for _, name := range sortedKeys(p.Spec.Learn[i].Keys) {
					f.pattern(p.Doc, schema.JoinPath(path+".keys", name)+".url", p.Spec.Learn[i].Keys[name].URL)
				}
			}
		}
	},
}

var repetition = regexp.MustCompile(`\{(\d{1,4})`)

// patternWeight bounds how large a compiled pattern gets: a pattern of few characters with repetitions in it becomes a program of
// millions of instructions.
func patternWeight(pattern string) int {
	repeats := 1
	for _, m := range repetition.FindAllStringSubmatch(pattern, -1) {
		n, _ := strconv.Atoi(m[1]) // digits only
		repeats += n
	}
	return len(pattern) * repeats
}

func (f *finder) pattern(doc *schema.Document, path, pattern string) {
	const heaviest = 20_000
	if pattern == "" {
		return
	}
	if patternWeight(pattern) > heaviest {
		f.at(doc, path, "the pattern is too long, or repeats too much, to be compiled: keep its length times its {n} repetitions below %d", heaviest)
		return
	}
	re, err := regexp.Compile(pattern)
	switch {
	case err != nil:
		f.at(doc, path, "pattern %q is no regular expression of RE2: %s", pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	case re.NumSubexp() == 0:
		f.at(doc, path, "pattern %q has no group; put the part to read in parentheses", pattern)
	case re.NumSubexp() > 1:
		f.at(doc, path, "pattern %q has %d groups, want one; write (?:...) for the others", pattern, re.NumSubexp())
	}
}
