package replay

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// alwaysKept are the response headers that every provider's answers are read for: RFC 9110 and RFC 9111, and the IETF's RateLimit
// fields (draft-ietf-httpapi-ratelimit-headers).
var alwaysKept = []string{"Retry-After", "Date", "Age", "RateLimit", "RateLimit-Policy"}

// KeepHeader tells which response headers the documents read, in any case: what a journal has to hold of a response.
func KeepHeader(config *validate.Config) func(name string) bool {
	kept := make(map[string]bool)
	for _, name := range headerNames(config) {
		kept[strings.ToLower(name)] = true
	}
	return func(name string) bool { return kept[strings.ToLower(name)] }
}

// headerNames are the names of the headers that the documents read, as they spell them.
func headerNames(config *validate.Config) []string {
	list := slices.Clone(alwaysKept)
	for _, p := range config.Providers {
		if r := p.Spec.Errors.RateLimited; r != nil {
			if r.LimitFrom != nil {
				list = append(list, r.LimitFrom.Header)
			}
			list = append(list, quotedNames(r.Match)...)
		}
		for _, l := range p.Limits {
			list = append(list, syncHeaders(l.Spec.Sync)...)
			if c := l.Spec.CostFrom; c != nil {
				list = append(list, c.Header)
			}
		}
	}
	return list
}

// fieldNames gives the header names of rows in the documents' own strings: the same text, and the same memory, by which it is told
// to be the same without a look at it.
type fieldNames struct {
	own map[string]string
	// lists are by the journal's number.
	lists [][]string
}

func newFieldNames(config *validate.Config) fieldNames {
	own := make(map[string]string)
	for _, name := range headerNames(config) {
		if _, there := own[name]; !there {
			own[name] = name
		}
	}
	return fieldNames{own: own}
}

// of are the names of a row's headers, in the order of its values.
func (f *fieldNames) of(b *journal.Batch, rec *journal.Record) []string {
	number := int(rec.Fields)
	if number < 0 {
		return b.Fields(rec)
	}
	if number < len(f.lists) && f.lists[number] != nil {
		return f.lists[number]
	}
	list := []string{}
	for _, name := range b.Fields(rec) {
		if own, there := f.own[name]; there {
			name = own
		}
		list = append(list, name)
	}
	for len(f.lists) <= number {
		f.lists = append(f.lists, nil)
	}
	f.lists[number] = list
	return list
}

func syncHeaders(s *schema.Sync) (list []string) {
	if s == nil {
		return nil
	}
	for _, h := range []*schema.Header{s.LimitHeader, s.RemainingHeader, s.UsedHeader, s.RemainingPercentHeader, s.ResetHeader} {
		if h != nil {
			list = append(list, h.Name)
		}
	}
	if s.When != nil {
		list = append(list, s.When.Header)
	}
	return list
}

// quotedNames are the texts in quotes of an expression: header names among them. To keep one too many does no harm.
func quotedNames(expression string) (list []string) {
	for _, quote := range []string{"'", `"`} {
		parts := strings.Split(expression, quote)
		for i := 1; i < len(parts); i += 2 {
			list = append(list, parts[i])
		}
	}
	return list
}

// Locate finds the provider and account that a URL belongs to, by the longest base URL that it begins with, and the path below it
// with its query. Where a provider has several accounts, those with a base URL of their own (or a target's) are told apart by it;
// otherwise the first is taken.
func Locate(config *validate.Config) func(u *url.URL) (provider, account, path string, ok bool) {
	type place struct {
		host, path        string
		provider, account string
	}
	var places []place
	add := func(text, provider, account string) {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			places = append(places, place{strings.ToLower(u.Host), strings.TrimRight(u.Path, "/"), provider, account})
		}
	}
	for _, a := range config.Accounts {
		if a.Provider == nil {
			continue
		}
		for _, text := range baseURLs(a) {
			add(text, a.Provider.Name, a.Name)
		}
	}
	return func(u *url.URL) (provider, account, path string, ok bool) {
		best := -1
		for i, p := range places {
			under := u.Path == p.path || strings.HasPrefix(u.Path, p.path+"/")
			if strings.EqualFold(u.Host, p.host) && under && (best < 0 || len(p.path) > len(places[best].path)) {
				best = i
			}
		}
		if best < 0 {
			return "", "", "", false
		}
		path = strings.TrimPrefix(u.Path, places[best].path)
		if path == "" {
			path = "/"
		}
		if u.RawQuery != "" {
			path += "?" + u.RawQuery
		}
		return places[best].provider, places[best].account, path, true
	}
}

// baseURLs are where an account's requests go: its targets', its own, or its provider's.
func baseURLs(a *validate.Account) []string {
	var list []string
	for i := range a.Spec.Targets {
		list = append(list, a.Spec.Targets[i].BaseURL)
	}
	if a.Spec.BaseURL != "" {
		return append(list, a.Spec.BaseURL)
	}
	return append(list, a.Provider.Spec.BaseURL)
}
