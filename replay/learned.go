package replay

import (
	"maps"
	"math"
	"strings"

	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// Rows have no bodies to learn from, but earlier ones show what belongs together: a row that names a network and its organization
// teaches what a later one needs that names the network alone.

// learning is what there is to learn of a request, and for it.
type learning struct {
	book *learn.Book
	seen learn.Seen
	own  map[string]string // of the row, and of its path
	// version is that of the book by which the request is resolved, taught that in which its own lesson was taken in.
	version, taught uint64
	// depends tells that what is learned later may change it.
	depends bool
}

// learn finds out what a row's request teaches and needs; found is the job whose endpoint it has. Requests of providers without
// anything to learn have no learning, and cost nothing.
func (t *requests) learn(q *request, template *match.Template) {
	r := &q.request
	provider, account := r.Provider, t.config.Account(r.Account)
	if provider == "" && account != nil && account.Provider != nil {
		provider = account.Provider.Name
	}
	book := t.side.library.Book(provider)
	if book == nil || r.Auth {
		return
	}
	l := &learning{book: book, own: r.Vars, taught: math.MaxUint64}
	l.seen = learn.Seen{Place: learn.Place{Account: r.Account, Target: r.Target}, Vars: withConstants(account, r.Target, r.Vars)}
	l.seen.Path = pathOf(template, r.Endpoint, l.seen.Vars)
	l.depends = l.seen.Path != "" && !book.Knows(l.seen.Vars)
	q.learning = l
	q.complete()
}

// withConstants are a row's variables with those of its account and target, which come before them.
func withConstants(account *validate.Account, target string, own map[string]string) map[string]string {
	if account == nil {
		return own
	}
	all := maps.Clone(own)
	if all == nil {
		all = make(map[string]string)
	}
	for i := range account.Spec.Targets {
		if t := &account.Spec.Targets[i]; t.Name == target {
			maps.Copy(all, t.Vars)
		}
	}
	maps.Copy(all, account.Spec.Vars)
	return all
}

// pathOf is the concrete path of a request, empty where its variables are not known.
func pathOf(template *match.Template, endpoint string, vars map[string]string) string {
	if template == nil {
		if !strings.Contains(endpoint, "{") {
			return endpoint
		}
		var err error
		if template, err = match.ParseTemplate(endpoint); err != nil {
			return ""
		}
	}
	path, _ := template.Expand(vars)
	return path
}

// complete resolves what is known by now, and tells whether that changes the request.
func (q *request) complete() (changed bool) {
	l, r := q.learning, &q.request
	l.version = l.book.Version()
	all, unresolved := l.book.Complete(0, l.seen.Place, l.seen.Path, l.seen.Vars)
	vars := l.own
	if len(all) > len(l.seen.Vars) {
		vars = maps.Clone(l.own)
		if vars == nil {
			vars = make(map[string]string)
		}
		for name, value := range all {
			if _, given := l.seen.Vars[name]; !given {
				vars[name] = value
			}
		}
	}
	changed = unresolved != r.Unresolved || !maps.Equal(vars, r.Vars)
	r.Vars, r.Unresolved = vars, unresolved
	return changed
}

// follow takes a row of a request that has something to learn.
func (t *requests) follow(q *request, rec *journal.Record) {
	l := q.learning
	if l.depends && l.version != l.book.Version() && q.complete() {
		t.prepare(q, rec.AtNanos)
	}
	// It teaches again after others have taught something else: what moved may move back.
	if rec.Status >= 200 && rec.Status < 300 && l.taught != l.book.Version() {
		l.book.Learn(0, &l.seen)
		l.taught = l.book.Version()
	}
}
