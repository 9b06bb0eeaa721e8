package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
)

// The kinds of disagreement.
const (
	// KindMax: responses name another maximum than the documents.
	KindMax = "max"
	// KindUnexpected: responses said that a limit was exceeded, where the engine would have allowed the requests.
	KindUnexpected = "unexpected-429"
	// KindIgnored: a header's value cannot be what the documents say that it is.
	KindIgnored = "ignored-header"
)

// Disagreement is where responses contradict the documents.
type Disagreement struct {
	// Kind is one of the above.
	Kind string
	// Provider and Limit name the limit; the limit is empty where a refused request meets none.
	Provider, Limit string
	// Keys is the number of scope keys concerned, Count how often it was seen: for a maximum in how many windows, else in how many
	// responses.
	Keys, Count int64
	// Declared and Named are the maxima of the documents and of the responses (KindMax); Named is the last one seen.
	Declared, Named int64
	// Header says what was read (limit, remaining, ...), Text what stood there first (KindIgnored).
	Header, Text string
	// Message says it in words, and what to change.
	Message string
	// Place is the line of the documents to change.
	Place schema.Position
	// Evidence are the first rows that show it.
	Evidence []Evidence
}

// Evidence is a row that shows a disagreement.
type Evidence struct {
	RowID
	// Line is where the row stands in its file; RowID and Line are zero where the row is not known.
	Line int64
	// At is when the response had arrived, Key the scope key.
	At  time.Time
	Key string
	// Status is the response's.
	Status int
}

// mostEvidence is how many rows a disagreement shows.
const mostEvidence = 5

type findingID struct {
	kind, provider, limit, header string
}

type finding struct {
	Disagreement
	keys map[string]struct{}
	// inFlight, at refusals that no limit predicts: the most requests under way.
	inFlight int
}

// findings hears what the engine does with responses. It implements engine.Observer.
type findings struct {
	side *side
	byID map[findingID]*finding
}

// Granted implements engine.Observer.
func (*findings) Granted(*engine.Request, int64) {}

// Refused implements engine.Observer.
func (*findings) Refused(*engine.Request, *engine.RefusedError) {}

// RateLimited implements engine.Observer.
func (f *findings) RateLimited(r *engine.Request, limit, key string, unexpected bool, _ string) {
	row, q := f.row(r, true)
	if q != nil && q.job != nil {
		q.job.rateLimited++
	}
	if !unexpected {
		return
	}
	provider := r.Provider
	if a := f.side.config.Account(r.Account); a != nil {
		provider = a.Provider.Name
	}
	x := f.note(findingID{KindUnexpected, provider, limit, ""}, key, row)
	x.inFlight = max(x.inFlight, len(f.side.flights.heap)+len(f.side.flights.landed)+len(f.side.virtual.underWay()))
}

// Disagrees implements engine.Observer.
func (f *findings) Disagrees(provider, limit, key string, declared, named int64) {
	row, _ := f.row(nil, false)
	x := f.note(findingID{KindMax, provider, limit, ""}, key, row)
	x.Declared, x.Named = declared, named
}

// Ignored implements engine.Observer.
func (f *findings) Ignored(provider, limit, key, header, text string) {
	row, _ := f.row(nil, false)
	x := f.note(findingID{KindIgnored, provider, limit, header}, key, row)
	if x.Count == 1 {
		x.Header, x.Text = header, strings.Clone(text)
	}
}

// note counts a finding.
func (f *findings) note(id findingID, key string, row Evidence) *finding {
	x := f.byID[id]
	if x == nil {
		if f.byID == nil {
			f.byID = make(map[findingID]*finding)
		}
		x = &finding{Disagreement: Disagreement{Kind: id.kind, Provider: id.provider, Limit: id.limit}, keys: make(map[string]struct{})}
		f.byID[id] = x
	}
	x.Count++
	if len(x.keys) < mostUnknown {
		x.keys[key] = struct{}{}
	}
	if len(x.Evidence) < mostEvidence {
		row.Key = key
		x.Evidence = append(x.Evidence, row)
	}
	return x
}

// row finds the row whose response is being read. Of several at one instant it is the first with the same request, and, for a
// refusal, with a status that is an error.
func (f *findings) row(r *engine.Request, failed bool) (Evidence, *request) {
	s := f.side
	if s.enforce {
		for _, a := range s.virtual.landing() {
			if same(r, &a.request.request) && (!failed || a.response.Status >= 300) {
				return evidenceOf(a.row, a.due, a.response.Status), a.request
			}
		}
		return Evidence{At: instantOf(s.settled)}, nil
	}
	fl := &s.flights
	for _, slot := range fl.landed {
		x := &fl.slots[slot]
		if same(r, &x.request.request) && (!failed || x.response.Status >= 300) {
			return evidenceOf(x.row, fl.now, x.response.Status), x.request
		}
	}
	if len(fl.landed) > 0 {
		x := &fl.slots[fl.landed[0]]
		return evidenceOf(x.row, fl.now, x.response.Status), x.request
	}
	return Evidence{}, nil
}

// same tells whether two requests may be the same; nil is any.
func same(a, b *engine.Request) bool {
	return a == nil || a.Account == b.Account && a.Endpoint == b.Endpoint && a.Method == b.Method && a.Target == b.Target &&
		a.Credential == b.Credential && a.Priority == b.Priority
}

func evidenceOf(row rowPlace, at int64, status int) Evidence {
	return Evidence{RowID: RowID{int(row.file), row.number}, Line: row.line, At: instantOf(at), Status: status}
}

// report lists the findings, the most frequent of each kind first: maxima, refusals, headers.
func (f *findings) report() []Disagreement {
	rank := map[string]int{KindMax: 0, KindUnexpected: 1, KindIgnored: 2}
	var list []Disagreement
	for _, x := range f.byID {
		x.Keys = int64(len(x.keys))
		x.Place, x.Message = f.advice(x)
		list = append(list, x.Disagreement)
	}
	slices.SortFunc(list, func(a, b Disagreement) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Provider, b.Provider),
			cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Header, b.Header))
	})
	return list
}

// advice is the line to change, and what to do.
func (f *findings) advice(x *finding) (schema.Position, string) {
	provider := f.side.config.Provider(x.Provider)
	if provider == nil {
		return schema.Position{}, "the provider is not among the documents"
	}
	limit := provider.Limit(x.Limit)
	if limit == nil {
		return provider.Doc.KeyPosition("spec.limits"), fmt.Sprintf(
			"%s refused as over a limit, and no limit of provider %s applies to the requests: declare the one that refuses",
			counted(x.Count, "request was", "requests were"), x.Provider)
	}
	path := fmt.Sprintf("spec.limits[%d]", limit.Index)
	name := x.Provider + "/" + x.Limit
	switch x.Kind {
	case KindMax:
		return provider.Doc.Position(path + ".max"), fmt.Sprintf(
			"the documents say %d for %s, responses say %d: write max: %d, or max: auto with initialMax: %d to follow them",
			x.Declared, name, x.Named, x.Named, x.Named)
	case KindIgnored:
		return provider.Doc.Position(path + ".sync"), fmt.Sprintf(
			"%s of %s cannot be what the response means, such as %q: look at the header's name, index, pattern and format",
			x.Header, name, x.Text)
	}
	figure := map[string]string{schema.KindRate: "rate", schema.KindConcurrency: "max", schema.KindQuota: "max"}[limit.Spec.Kind]
	return provider.Doc.Position(path + "." + figure), fmt.Sprintf(
		"%s refused as over a limit where %s and every other limit had room (up to %s under way): lower its %s, declare the limit that refuses, or find who else uses the account",
		counted(x.Count, "request was", "requests were"), name, counted(int64(x.inFlight), "request", "requests"), figure)
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
