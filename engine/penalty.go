package engine

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
)

// Response is what the engine needs to know of an answer.
type Response struct {
	// Status is the HTTP status, 0 where no answer came: that counts as a transient failure.
	Status int
	// Fields are the header's, at least those that the provider's documents name, Retry-After, Date, Age and the RateLimit
	// fields.
	Fields []Field
	// Numbers hold, where they are not nil, the value of each field that is 1 to 18 digits and nothing else, and -1 for the
	// others: what a caller who has read the digits already can spare the engine. They change nothing.
	Numbers []int64
	// Body is its text, or the beginning of it; needed only where errors.rateLimited reads it.
	Body string
}

// errorRules say how to read a response that is no success.
type errorRules struct {
	limited, transient []int
	match              *expr.Program
	defaultNanos       int64
	maxNanos           int64
	all                bool
	limitHeader        string
	limitOf            map[string]string
	bodyWait           *regexp.Regexp
}

// The defaults of errors.
const (
	defaultPenalty = 2 * time.Second
	defaultMost    = 24 * time.Hour
	// longestGrowth bounds what consecutive refusals make of a penalty, unless its base is longer.
	longestGrowth = 10 * time.Minute
)

func compileErrors(spec *schema.ProviderSpec) errorRules {
	rules := errorRules{
		limited: []int{429}, transient: []int{408, 500, 502, 503, 504},
		defaultNanos: int64(defaultPenalty), maxNanos: int64(defaultMost),
	}
	if t := spec.Errors.Transient; t != nil && t.Status != nil {
		rules.transient = t.Status
	}
	r := spec.Errors.RateLimited
	if r == nil {
		return rules
	}
	if r.Status != nil {
		rules.limited = r.Status
	}
	rules.defaultNanos = int64(r.DefaultPenalty.Or(defaultPenalty))
	rules.maxNanos = int64(r.MaxPenalty.Or(defaultMost))
	rules.all = r.Penalize == "all"
	if r.Match != "" {
		rules.match, _ = expr.RateLimited.Compile(r.Match) // a Config's expressions compile
	}
	if f := r.LimitFrom; f != nil {
		rules.limitHeader, rules.limitOf = f.Header, f.Values
	}
	if b := r.RetryAfter; b != nil {
		rules.bodyWait, _ = regexp.Compile(b.Pattern)
	}
	return rules
}

// outcomeOf says what a response means.
func (rules *errorRules) outcomeOf(r *Response) outcome {
	switch {
	case slices.Contains(rules.limited, r.Status) || rules.matches(r):
		return outcomeLimited
	case r.Status == 0 || slices.Contains(rules.transient, r.Status):
		return outcomeTransient
	}
	return outcomeSuccess
}

// matches evaluates the provider's own expression. One that cannot be evaluated, such as for want of a header, does not match.
func (rules *errorRules) matches(r *Response) bool {
	if rules.match == nil {
		return false
	}
	headers := make(map[string]string, len(r.Fields))
	for i := range r.Fields {
		name := strings.ToLower(r.Fields[i].Name)
		if _, there := headers[name]; !there {
			headers[name] = findField(r.Fields, name)
		}
	}
	limited, err := rules.match.EvalBool(context.Background(), map[string]any{
		"status": int64(r.Status), "headers": headers, "body": r.Body,
	})
	return err == nil && limited
}

// wait is what a rate-limited response asks for: from its header, else from its body; ok is false where neither says anything
// that makes sense. parked is the header's text where it asked for more than is believed.
func (rules *errorRules) wait(r *Response, now int64) (nanos int64, parked string, ok bool) {
	text := findField(r.Fields, "Retry-After")
	nanos, ok = parseWait(text, findField(r.Fields, "Date"), now, rules.maxNanos)
	if !ok && rules.bodyWait != nil {
		if m := rules.bodyWait.FindStringSubmatch(r.Body); len(m) > 1 {
			text = m[1]
			nanos, ok = parseWait(text, "", now, rules.maxNanos)
		}
	}
	if ok && nanos > rules.maxNanos {
		return rules.maxNanos, text, true
	}
	return nanos, "", ok
}

// named is the limit that the response says it is about, "" where it says nothing that helps.
func (rules *errorRules) named(r *Response) string {
	if rules.limitHeader == "" {
		return ""
	}
	return rules.limitOf[findField(r.Fields, rules.limitHeader)]
}

// penalty is how long a key is left alone after a refusal.
type penalty struct {
	// end of the penalty, and the instant at which one was last set.
	end, set int64
	// row is the number of refusals in a row.
	row int
}

// penalties below this many nanoseconds may be doubled once more without overflow.
const doubleable = int64(1) << 61

// grown is a base multiplied by 2^(row-1), capped at ten minutes or the base, whichever is longer.
func grown(base int64, row int) int64 {
	longest := max(int64(longestGrowth), base)
	wait := base
	for i := 1; i < row && wait < longest && wait < doubleable; i++ {
		wait *= 2
	}
	return min(wait, longest)
}

// penalize sets a key's penalty anew. Requests that were granted before the last one was set are part of the same event.
func (en *entry) penalize(now, granted, base, most int64) {
	p := en.cold.penalty
	if p == nil {
		p = &penalty{end: -never, set: -never}
		en.cold.penalty = p
	}
	if granted > p.set {
		p.row++
	}
	p.set = now
	p.end = max(p.end, saturatedAdd(now, min(grown(base, p.row), most)))
	en.scope.set(flagPenalized | flagRefusals)
}

// forgive ends a row of refusals.
func (en *entry) forgive(granted int64) {
	if !en.scope.has(flagRefusals) { // nearly always, and then nothing but the scope is read
		return
	}
	if p := en.cold.penalty; granted > p.set {
		p.row = 0
		en.scope.clear(flagRefusals)
	}
}

// base is the penalty that a limit's keys get where the response does not say.
func (l *limit) base(rules *errorRules) int64 {
	if l.penaltyNanos > 0 {
		return l.penaltyNanos
	}
	return rules.defaultNanos
}

// penalizedBy calls f with the entries that a rate-limited response falls on: the limit that it names, else all or the narrowest;
// none where the one that it is about is not known.
func (p *Prepared) penalizedBy(rules *errorRules, r *Response, f func(*entry)) {
	if name := rules.named(r); name != "" {
		for i := range p.entries {
			if en := &p.entries[i]; en.limit.name == name && !en.limit.shadow && en.limit.kind != kindNone {
				f(en)
				return
			}
		}
	}
	if p.request.Unresolved {
		return
	}
	if !rules.all {
		f(&p.entries[p.narrowest])
		return
	}
	for i := range p.entries {
		if en := &p.entries[i]; !en.limit.shadow {
			f(en)
		}
	}
}

// cached tells whether a response comes from a cache, and so speaks of another moment.
func cached(r *Response) bool {
	if r.Status == 304 {
		return true
	}
	age, ok := parseDecimal(strings.Trim(findField(r.Fields, "Age"), " \t"))
	return ok && age.mantissa > 0
}
