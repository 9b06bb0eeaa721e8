package replay

import (
	"maps"
	"net/url"
	"strings"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// request is what is known of all rows that have the same request: it is resolved once, and then found by its number. What every
// row needs stands first, in one cache line: a journal has thousands of them, and waiting for memory is most of a replay's work.
type request struct {
	// prepared is nil where the request cannot be resolved.
	prepared *engine.Prepared
	// job is nil where the row names none that is known, and instance where its runs are not told apart.
	job      *jobTally
	instance *instance
	// use is the first key whose consumption by the hour is kept, with this request's cost; more tells that there are others.
	use         hourlyUse
	more, retry bool
	// odd tells that rows have to be looked at: names in it are unknown, it cannot be resolved, or there is something to learn.
	odd bool
	// patience is how long it may wait: its job's deadline, 0 where the job is not known.
	patience int64

	*requestDetails
}

// requestDetails are what few rows need.
type requestDetails struct {
	request  engine.Request
	moreUses []hourlyUse
	// rows have the request, where it is odd.
	rows int64
	// learning is nil where the provider has nothing to learn.
	learning *learning
	// why it cannot be resolved.
	why     error
	unknown []UnknownName
}

// requests finds them by the journal's number.
type requests struct {
	side *side
	list []*request
	// room is where the next ones are made, close to each other.
	room []request
	// local holds those of one batch that have no number for the whole journal.
	local map[int32]*request
	// touched is what lookUp read, so that it reads.
	touched int64
	templates
}

// begin forgets what held for the last batch only.
func (t *requests) begin() {
	for number, q := range t.local {
		t.side.tally(q)
		delete(t.local, number)
	}
}

// lookUp finds the requests that are known already, and reads what their rows will read: waits for memory that do not depend on
// each other pass together, and they are most of what a row costs where each is of another request.
func (t *requests) lookUp(block []journal.Record, known *[ahead]*request) {
	for i := range block {
		known[i] = nil
		if number := int(block[i].Request); uint(number) < uint(len(t.list)) {
			known[i] = t.list[number]
		}
	}
	var room [ahead]*engine.Prepared
	prepared := room[:0]
	for _, q := range known[:len(block)] {
		if q != nil && q.prepared != nil {
			prepared = append(prepared, q.prepared)
		}
	}
	touched := t.side.engine.Touch(prepared)
	for i := range block {
		if q := known[i]; q != nil {
			touched += q.touch(block[i].LatencyNanos)
		}
	}
	t.touched += touched
}

// touch reads what granted and the landing of a row will read.
func (q *request) touch(latency int64) (sum int64) {
	if q.use.series != nil {
		sum += q.use.series.present
	}
	if q.instance != nil {
		sum += q.instance.pages
	}
	if q.job != nil {
		sum += q.job.requests + q.job.pages[0] + q.job.latency.cells[cellOf(latency)]
	}
	return sum
}

// of is the request of a record.
func (t *requests) of(b *journal.Batch, rec *journal.Record) *request {
	number := int(rec.Request)
	if uint(number) < uint(len(t.list)) {
		if q := t.list[number]; q != nil {
			return q
		}
	}
	if number < 0 {
		if q := t.local[rec.Request]; q != nil {
			return q
		}
	}
	if number < 0 {
		q := &request{requestDetails: new(requestDetails)}
		t.resolve(q, b.Request(rec), rec.AtNanos)
		if t.local == nil {
			t.local = make(map[int32]*request)
		}
		t.local[rec.Request] = q
		return q
	}
	q := t.newRequest()
	t.resolve(q, b.Request(rec), rec.AtNanos)
	for len(t.list) <= number {
		t.list = append(t.list, nil)
	}
	t.list[number] = q
	return q
}

// requestChunk is how many are made at once.
const requestChunk = 512

func (t *requests) newRequest() *request {
	if len(t.room) == 0 {
		t.room = make([]request, requestChunk)
	}
	q := &t.room[0]
	t.room = t.room[1:]
	q.requestDetails = new(requestDetails)
	return q
}

// resolve finds the documents that a row's request belongs to, and prepares it.
func (t *requests) resolve(q *request, r journal.Request, now int64) {
	s := t.side
	q.retry = r.Retry
	job := s.config.Job(r.Job)
	path, query, _ := strings.Cut(r.Endpoint, "?")
	path = match.CleanPath(path)
	found, template, vars := t.find(&r, job, path)
	q.unknown = t.unknown(&r, job, found, path)
	q.request = engine.Request{Priority: r.Priority, Request: match.Request{
		Provider: r.Provider, Account: r.Account, Target: r.Target, Credential: r.Credential, Method: strings.ToUpper(r.Method), Endpoint: template,
		Vars: merge(vars, r.Vars), Auth: r.Auth, Query: queryOf(job, query),
	}}
	var endpoint *match.Template
	if found != nil {
		endpoint = found.Endpoint
	}
	t.learn(q, endpoint)
	if job != nil {
		q.patience = int64(job.Deadline)
	} else {
		job = found // whose request it is like; a row that names no job cannot wait all the same
	}
	if !t.prepare(q, now) {
		return
	}
	if job != nil {
		q.job = s.jobs.of(job.Name, r.Account)
		q.instance = q.job.instance(&q.request.Request, job)
	}
}

// prepare makes a request ready for the engine; false where it cannot be resolved.
func (t *requests) prepare(q *request, now int64) bool {
	s := t.side
	s.settleBefore(now)
	if s.enforce {
		now-- // what is due at the instant itself comes with the arrivals
	}
	p, err := s.engine.Prepare(now, &q.request)
	q.odd = err != nil || q.unknown != nil || q.learning != nil
	if err != nil {
		q.why = err
		return false
	}
	q.prepared = p
	if uses := s.hour.uses(s.engine.Met(p)); len(uses) > 0 {
		q.use, q.moreUses = uses[0], uses[1:]
		q.more = len(q.moreUses) > 0
	}
	return true
}

// merge joins variables; those of the row itself win over what its path tells.
func merge(path, own map[string]string) map[string]string {
	if len(path) == 0 {
		return own
	}
	all := maps.Clone(path)
	maps.Copy(all, own)
	return all
}

// queryOf are the parameters of a row: its job's, and those of its endpoint's own query.
func queryOf(job *validate.Job, query string) map[string]string {
	if query == "" {
		if job == nil {
			return nil
		}
		return job.Query
	}
	all := make(map[string]string)
	if job != nil {
		maps.Copy(all, job.Query)
	}
	for _, pair := range strings.Split(query, "&") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			continue
		}
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		all[name] = value
	}
	return all
}

// templates are the jobs' endpoints, by account and method.
type templates struct {
	config *validate.Config
	lists  map[[2]string]*templateList
}

type templateList struct {
	jobs      []*validate.Job
	templates []*match.Template
}

// list are the endpoints of an account's jobs with a method.
func (t *templates) list(account, method string) *templateList {
	key := [2]string{account, method}
	if l := t.lists[key]; l != nil {
		return l
	}
	l := &templateList{}
	for _, j := range t.config.Jobs {
		if j.Account != nil && j.Account.Name == account && j.Method == method && j.Endpoint != nil {
			l.jobs, l.templates = append(l.jobs, j), append(l.templates, j.Endpoint)
		}
	}
	if t.lists == nil {
		t.lists = make(map[[2]string]*templateList)
	}
	t.lists[key] = l
	return l
}

// find is the job that a path belongs to, the path as a template, and the variables in it: the row's own job where its template
// fits, else the account's job whose template has the most literal segments. A path that fits none stays as it is.
func (t *templates) find(r *journal.Request, own *validate.Job, path string) (job *validate.Job, template string, vars map[string]string) {
	if own != nil && own.Endpoint != nil {
		if vars, ok := own.Endpoint.Match(path); ok {
			return own, own.Endpoint.Path, vars
		}
	}
	l := t.list(r.Account, strings.ToUpper(r.Method))
	i, vars := match.Best(l.templates, path)
	if i < 0 {
		return nil, path, nil
	}
	return l.jobs[i], l.templates[i].Path, vars
}

// unknown are the names in a row that no document has. An endpoint counts where no job has it, unless it asks for a token.
func (t *templates) unknown(r *journal.Request, job, found *validate.Job, path string) (list []UnknownName) {
	account := t.config.Account(r.Account)
	if t.config.Provider(r.Provider) == nil && (r.Provider != "" || account == nil) {
		list = append(list, UnknownName{Kind: "provider", Name: r.Provider})
	}
	if account == nil {
		list = append(list, UnknownName{Kind: "account", Name: r.Account})
	}
	if r.Job != "" && job == nil {
		list = append(list, UnknownName{Kind: "job", Name: r.Job})
	}
	if job == nil && found == nil && !r.Auth {
		list = append(list, UnknownName{Kind: "endpoint", Name: strings.ToUpper(r.Method) + " " + path})
	}
	return list
}
