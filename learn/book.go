package learn

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/smartflow"
	"github.com/tapyr/tapyr/validate"
)

// Place is whose traffic it is. What an account, or a target of it, has told is believed of that one only: another may be another
// installation, in which the same identifier is somebody else's.
type Place struct{ Account, Target string }

// Seen is a request that succeeded, and its answer.
type Seen struct {
	Place

	// Path is the request's concrete path after the base URL, percent-encoded, without a query.
	Path string
	// Vars are the request's own variables and its account's, without what was learned: what is only believed must not confirm
	// itself.
	Vars map[string]string
	// Body is the answer as a JSON decoder gives it, nil for none, and Items the list in it, if there is one.
	Body  any
	Items []any
}

// Book is what is known of one provider's identifiers.
type Book struct {
	provider  string
	rules     []*rule
	templates []*match.Template
	library   *Library
}

// rule is one variable that is learned.
type rule struct {
	*smartflow.Learner

	book       *Book
	ttlNanos   int64
	flushEvery int64
	path       string // of the file, empty for none
	used       bool   // by a limit
}

// newBook is nil where there is nothing to learn.
func newBook(l *Library, p *validate.Provider) *Book {
	b := &Book{provider: p.Name, library: l}
	for i := range p.Spec.Learn {
		if r := newRule(&p.Spec.Learn[i]); r != nil {
			r.book, r.path, r.used = b, l.options.place(&p.Spec.Learn[i]), p.UsesVariable(r.Var())
			b.rules = append(b.rules, r)
		}
	}
	if len(b.rules) == 0 {
		return nil
	}
	for _, j := range p.Jobs {
		if j.Endpoint == nil {
			continue
		}
		known := slices.ContainsFunc(b.templates, func(t *match.Template) bool { return t.Path == j.Endpoint.Path })
		if len(j.Endpoint.Vars) > 0 && !known {
			b.templates = append(b.templates, j.Endpoint)
		}
	}
	return b
}

// newRule is nil for a declaration without a name, which only a provider document that is not checked can hold.
func newRule(from *schema.Learn) *rule {
	spec := smartflow.LearnSpec{Var: from.Var, From: from.From, Body: from.Body, Numbers: true}
	for _, kind := range slices.Sorted(maps.Keys(from.Keys)) {
		spec.Keys = append(spec.Keys, smartflow.KeySpec{Kind: kind, URL: from.Keys[kind].URL, Body: from.Keys[kind].Body})
	}
	learner, err := smartflow.NewLearner(spec)
	if err != nil {
		return nil
	}
	r := &rule{Learner: learner, ttlNanos: int64(defaultTTL), flushEvery: defaultFlushEvery}
	if c := from.Cache; c != nil {
		r.ttlNanos = int64(c.TTL.Or(defaultTTL))
		if c.FlushEvery != nil {
			r.flushEvery = int64(*c.FlushEvery)
		}
	}
	return r
}

// Complete adds to a request's variables those that were learned: named in the path, or by an identifier in it that was seen together
// with the variable. vars itself is returned where there is nothing to add. unresolved tells that an identifier in the path stands
// for a variable that a limit looks at, and whose value is not known yet.
func (b *Book) Complete(now int64, at Place, path string, vars map[string]string) (all map[string]string, unresolved bool) {
	all = vars
	if b == nil || path == "" {
		return all, false
	}
	for _, r := range b.rules {
		if _, given := vars[r.Var()]; given {
			continue
		}
		value, named := r.value(path)
		if !named {
			var keys []smartflow.Key
			if keys = r.keys(path); len(keys) == 0 {
				continue
			}
			if value = b.library.memory.find(r, at, keys, now); value == "" {
				unresolved = unresolved || r.used
				continue
			}
		}
		if len(all) == len(vars) {
			all = make(map[string]string, len(vars)+1)
			maps.Copy(all, vars)
		}
		all[r.Var()] = value
	}
	return all, unresolved
}

// Learn takes in what an answer teaches, and tells how many identifiers are known now that were not, or stood for another value. The
// request's own variable and its path come before what the body says; an item of a list comes before both in what it says of itself.
func (b *Book) Learn(now int64, s *Seen) (news int) {
	if b == nil {
		return 0
	}
	for _, r := range b.rules {
		value, known := s.Vars[r.Var()]
		if !known || value == "" {
			value, known = r.value(s.Path)
		}
		named, keys := r.Named(s.Body)
		if !known {
			value = named
		}
		var lessons []lesson
		if value != "" {
			lessons = append(lessons, lesson{value, append(r.keys(s.Path), keys...)})
		}
		for _, item := range s.Items {
			of, keys := r.Named(item)
			if of == "" {
				of = value
			}
			if of != "" && len(keys) > 0 {
				lessons = append(lessons, lesson{of, keys})
			}
		}
		news += b.library.memory.learn(r, s.Place, now, lessons)
	}
	return news
}

// LearnVars takes in variables that belong together, those of an inventory's item and of the items above it: put into the endpoints of
// the provider's jobs, they show which identifiers stand for the variable. The list of an organization's networks so teaches all of
// them at once.
func (b *Book) LearnVars(now int64, at Place, vars map[string]string) (news int) {
	if b == nil {
		return 0
	}
	for _, r := range b.rules {
		if value := vars[r.Var()]; value != "" {
			news += b.library.memory.learn(r, at, now, []lesson{{value, r.keysOf(vars)}})
		}
	}
	return news
}

// Keys are the identifiers in a path that may stand for a variable.
func (b *Book) Keys(variable, path string) []smartflow.Key {
	if r := b.rule(variable); r != nil {
		return r.keys(path)
	}
	return nil
}

// KeysOf are the identifiers that variables show when they are put into the endpoints of the provider's jobs.
func (b *Book) KeysOf(variable string, vars map[string]string) []smartflow.Key {
	if r := b.rule(variable); r != nil {
		return r.keysOf(vars)
	}
	return nil
}

// rule is nil where the variable is not learned.
func (b *Book) rule(variable string) *rule {
	if b != nil {
		for _, r := range b.rules {
			if r.Var() == variable {
				return r
			}
		}
	}
	return nil
}

// keysOf variables, by the endpoints that they can be put into.
func (r *rule) keysOf(vars map[string]string) []smartflow.Key {
	var keys []smartflow.Key
	for _, t := range r.book.templates {
		if path, missing := t.Expand(vars); missing == "" {
			for _, key := range r.keys(path) {
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// FromPath is the value that a path itself names for a variable; empty where it names none.
func (b *Book) FromPath(variable, path string) string {
	if r := b.rule(variable); r != nil {
		value, _ := r.value(path)
		return value
	}
	return ""
}

// Learns tells whether a variable is one that is learned.
func (b *Book) Learns(variable string) bool {
	return b.rule(variable) != nil
}

// Knows tells whether a request's variables hold all that could be learned.
func (b *Book) Knows(vars map[string]string) bool {
	return b == nil || !slices.ContainsFunc(b.rules, func(r *rule) bool { return vars[r.Var()] == "" })
}

// Version changes with every identifier that is learned anew; what Complete has said holds until then, or until it is no longer
// believed.
func (b *Book) Version() uint64 {
	if b == nil {
		return 0
	}
	return b.library.memory.version.Load()
}

// lesson is one value and the identifiers that stand for it.
type lesson struct {
	value string
	keys  []smartflow.Key
}

// value is what the path names.
func (r *rule) value(path string) (string, bool) {
	text, ok := r.Value(path)
	if !ok || strings.ContainsAny(text, "{}") { // a template's, not a request's
		return "", false
	}
	return plain(text), true
}

// keys are the identifiers in the path.
func (r *rule) keys(path string) []smartflow.Key {
	keys := r.Keys(path)
	keys = slices.DeleteFunc(keys, func(k smartflow.Key) bool { return strings.ContainsAny(k.ID, "{}") })
	for i := range keys {
		keys[i].ID = plain(keys[i].ID)
	}
	return keys
}

// plain is an identifier as variables and bodies hold it.
func plain(segment string) string {
	if text, err := url.PathUnescape(segment); err == nil {
		return text
	}
	return segment
}
