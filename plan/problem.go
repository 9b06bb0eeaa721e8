package plan

import (
	"fmt"
	"maps"
	"sort"
	"strings"

	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// problem is what the solver works on: jobs, the keys that they use, and how much each takes of each.
type problem struct {
	in       Input
	figures  map[figuresName]Quota // by what decides them: many keys have the same
	overhead float64               // of retries, where no history tells another
	jobs     []*jobLoad
	keys     []*keyLoad
	warnings []Warning
	sizes    map[*validate.Job]int64 // of inventories, once computed
}

// class is a priority's place: 0 is critical.
type class int

var classes = []string{schema.PriorityCritical, schema.PriorityHigh, schema.PriorityNormal, schema.PriorityLow}

func classOf(priority string) class {
	for i, name := range classes {
		if name == priority {
			return class(i)
		}
	}
	return 2
}

// jobLoad is a job in the problem. Levels are x = 1/stretch: 1 is the desired interval.
type jobLoad struct {
	job            *validate.Job
	class          class
	desiredSeconds float64
	callsPerRun    float64 // requests of one run of one instance, retries included
	instances      int64
	uses           []use
	hi             float64 // no level is higher: the longest floor decides
	floor          *keyLoad
	lo             float64 // after the first pass
	x              float64 // the final level
	limitedBy      *keyLoad
}

// use is one job's part of one key.
type use struct {
	key       *keyLoad
	perRun    float64 // units of one run of all the job's instances on the key
	instances int64
	cost      float64
	demand    float64 // units in the key's horizon at level 1
}

// keyLoad is a scope key, or one row for many of them, with the jobs on it.
type keyLoad struct {
	limit   *validate.Limit
	account *validate.Account // of its jobs; where there are several, which one does not matter
	name    string            // the scope key, "*" for values that are not known
	pattern string            // the row that it is shown in
	keys    int64
	figures budget
	members []member
}

// member is a job on a key.
type member struct {
	job    *jobLoad
	demand float64
	perRun float64
}

func newProblem(in Input) *problem {
	p := &problem{in: in, sizes: make(map[*validate.Job]int64), figures: make(map[figuresName]Quota)}
	p.overhead = in.Config.Settings.RetryOverhead.Float64()
	p.jobs = make([]*jobLoad, 0, len(in.Config.Jobs))
	loads := make(map[*validate.Job]*jobLoad, len(in.Config.Jobs))
	for _, j := range in.Config.Jobs {
		load := &jobLoad{job: j, class: classOf(j.Priority), desiredSeconds: j.Interval.Seconds(), hi: 1, x: 1}
		if override, ok := in.Override.Intervals[j.Name]; ok {
			load.desiredSeconds = override.Seconds()
		}
		load.callsPerRun = p.callsPerRun(j)
		load.instances = p.instances(j)
		loads[j] = load
		p.jobs = append(p.jobs, load)
	}
	library := learn.New(in.Config, learn.Options{})
	for _, provider := range in.Config.Providers {
		rows := newRows(p, library.Book(provider.Name))
		for _, j := range provider.Jobs {
			rows.addJob(loads[j], provider)
		}
		p.keys = append(p.keys, rows.sorted()...)
	}
	return p
}

// callsPerRun is pages * (1 + o).
func (p *problem) callsPerRun(j *validate.Job) float64 {
	pages, overhead := p.pagesAndOverhead(j)
	return pages * (1 + overhead)
}

// pagesAndOverhead are the requests of one run of one instance and the part of them that is sent again: from the history, else
// as estimated.
func (p *problem) pagesAndOverhead(j *validate.Job) (pages, overhead float64) {
	pages, overhead = 1.0, p.overhead
	if e := j.Spec.Estimate; e != nil && e.PagesPerRun != nil {
		pages = e.PagesPerRun.Float64()
	}
	if p.in.State == nil {
		return pages, overhead
	}
	if h, ok := p.in.State.History[j.Name]; ok {
		if h.PagesPerRun > 0 {
			pages = h.PagesPerRun
		}
		if h.RetryRatio >= 0 {
			overhead = h.RetryRatio
		}
	}
	return pages, overhead
}

// instances is a job's fan-out: one for each target, or one for each item of the parent's inventory.
func (p *problem) instances(j *validate.Job) int64 {
	if j.Parent != nil {
		return p.size(j.Parent)
	}
	if j.Account == nil {
		return 1
	}
	return max(1, int64(len(j.Account.Spec.Targets)))
}

// size is the number of items in a job's inventory.
func (p *problem) size(j *validate.Job) int64 {
	if n, ok := p.sizes[j]; ok {
		return n
	}
	n := p.findSize(j)
	p.sizes[j] = n
	return n
}

func (p *problem) findSize(j *validate.Job) int64 {
	if n, ok := p.in.Fanout[j.Name]; ok {
		return n
	}
	if items, ok := p.cached(j); ok {
		return int64(len(items))
	}
	if e := j.Spec.Estimate; e != nil && e.Items != nil {
		n := saturatingMul(*e.Items, p.instances(j))
		if n > schema.MostItems {
			p.warnings = append(p.warnings, Warning{
				Code: "fanout-too-large", Job: j.Name,
				Message: fmt.Sprintf("the estimates along forEach make the inventory of job %q %s items, more than %s; estimate.items counts those of one run of one instance",
					j.Name, atLeast(n), Figure(float64(schema.MostItems))),
			})
		}
		return n
	}
	p.warnings = append(p.warnings, Warning{
		Code: "fanout-unknown", Job: j.Name,
		Message: fmt.Sprintf("the size of the inventory of job %q is not known and taken as 1; say it with --fanout %s=N or estimate.items", j.Name, j.Name),
	})
	return 1
}

// cached are the items of an inventory in the state, unless a size was given for it.
func (p *problem) cached(j *validate.Job) ([]map[string]string, bool) {
	if _, given := p.in.Fanout[j.Name]; given || p.in.State == nil {
		return nil, false
	}
	items, ok := p.in.State.Inventories[j.Name]
	return items, ok
}

// mostProduct bounds products of sizes, which are multiplied as float64 later.
const mostProduct = int64(1) << 53

func saturatingMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if a > mostProduct/b {
		return mostProduct
	}
	return a * b
}

// atLeast writes a product for people, and says where it stopped.
func atLeast(n int64) string {
	if n == mostProduct {
		return "at least " + Figure(float64(n))
	}
	return Figure(float64(n))
}

// rows collects the keys of one provider.
type rows struct {
	p      *problem
	book   *learn.Book // nil where the provider has nothing to learn
	byName map[rowName]*keyLoad
	list   []*keyLoad
}

type rowName struct {
	limit int
	key   string
}

func newRows(p *problem, book *learn.Book) *rows {
	return &rows{p: p, book: book, byName: make(map[rowName]*keyLoad)}
}

// addJob puts a job on every key that it reaches.
func (r *rows) addJob(load *jobLoad, provider *validate.Provider) {
	request := load.job.Request()
	request.Credential = credentialName(load.job.Account)
	maps.Copy(request.Vars, r.constants(load.job))
	for _, limit := range provider.Limits {
		if limit.Shadow() || limit.Spec.Counts != nil {
			continue
		}
		verdict := limit.Match(request)
		if !verdict.Applies {
			r.warnLearned(load, limit, request)
			continue
		}
		cost := float64(verdict.Cost)
		if actual, ok := r.p.actualCost(load.job, limit); ok {
			cost = actual
		}
		if items, ok := r.p.parentItems(load.job); ok && varies(limit) {
			r.addItems(load, limit, request, items, cost, verdict.Key)
			continue
		}
		r.addSpread(load, limit, verdict.Key, cost)
	}
}

// actualCost is the median of the units that responses told, where the limit has them.
func (p *problem) actualCost(j *validate.Job, limit *validate.Limit) (float64, bool) {
	if limit.Spec.CostFrom == nil || p.in.State == nil {
		return 0, false
	}
	cost, ok := p.in.State.History[j.Name].Costs[limit.Spec.Name]
	return cost, ok
}

// parentItems are the known items that a job runs over.
func (p *problem) parentItems(j *validate.Job) ([]map[string]string, bool) {
	if j.Parent == nil {
		return nil, false
	}
	return p.cached(j.Parent)
}

// varies tells whether instances of one job can have different keys of the limit.
func varies(limit *validate.Limit) bool {
	for _, d := range limit.By() {
		if strings.HasPrefix(d, match.VariablePrefix) {
			return true
		}
	}
	return false
}

// credentialName stands for the secret, which a plan does not know: accounts that find it in the same place share it.
func credentialName(a *validate.Account) string {
	if a == nil || len(a.Spec.Credentials) == 0 {
		return ""
	}
	var names []string
	for _, c := range a.Spec.Credentials {
		names = append(names, c.Env+c.File)
	}
	sort.Strings(names)
	return strings.Join(names, "+")
}

// addItems puts a job on the keys of the items that it runs over, as many instances on each as there are.
func (r *rows) addItems(load *jobLoad, limit *validate.Limit, request *match.Request, items []map[string]string, cost float64, pattern string) {
	counts := make(map[string]int64)
	one := *request
	for _, item := range items {
		one.Vars = item
		if own := r.constants(load.job); len(own) > 0 {
			one.Vars = maps.Clone(item)
			maps.Copy(one.Vars, own)
		}
		if v := limit.Match(&one); v.Applies {
			counts[v.Key]++
		}
	}
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		r.use(load, r.row(load, limit, name, pattern, 1), counts[name], cost)
	}
}

// addSpread puts a job on a key of which only the number is known: its instances are spread evenly, and the fullest key counts.
func (r *rows) addSpread(load *jobLoad, limit *validate.Limit, key string, cost float64) {
	keys := r.p.keyCount(load.job, limit)
	if keys == 0 {
		return
	}
	row := r.row(load, limit, key, key, keys)
	onKey := (load.instances + keys - 1) / keys
	if keys == 1 {
		onKey = load.instances
	}
	r.use(load, row, onKey, cost)
}

// keyCount is the number of keys that a job's instances have for a limit: the product of the sizes of the scope's variables.
func (p *problem) keyCount(j *validate.Job, limit *validate.Limit) int64 {
	keys := int64(1)
	for _, d := range limit.By() {
		if d == match.DimensionTarget && len(j.Account.Spec.Targets) > 1 {
			keys = saturatingMul(keys, int64(len(j.Account.Spec.Targets)))
		}
		name, isVar := strings.CutPrefix(d, match.VariablePrefix)
		if !isVar {
			continue
		}
		if _, constant := j.Account.Spec.Vars[name]; constant {
			continue
		}
		keys = saturatingMul(keys, p.varSize(j, name))
	}
	return keys
}

// varSize is the number of values of a variable: the size of the nearest ancestor's inventory that supplies it, else the number
// of targets.
func (p *problem) varSize(j *validate.Job, name string) int64 {
	for up := j.Parent; up != nil; up = up.Parent {
		if up.Spec.Inventory == nil {
			continue
		}
		if _, supplies := up.Spec.Inventory.Vars[name]; supplies {
			return p.size(up)
		}
	}
	return max(1, int64(len(j.Account.Spec.Targets)))
}

// row is the key of the name, made on first use.
func (r *rows) row(load *jobLoad, limit *validate.Limit, name, pattern string, keys int64) *keyLoad {
	id := rowName{limit.Index, name}
	k := r.byName[id]
	if k == nil {
		k = &keyLoad{limit: limit, account: load.job.Account, name: name, pattern: pattern, keys: keys}
		r.byName[id] = k
		r.list = append(r.list, k)
	}
	k.keys = max(k.keys, keys)
	return k
}

// use notes a job's part of a key. A job without calls there is not on the key: it is never stretched by it.
func (r *rows) use(load *jobLoad, key *keyLoad, instances int64, cost float64) {
	perRun := load.callsPerRun * cost * float64(instances)
	load.uses = append(load.uses, use{key: key, perRun: perRun, instances: instances, cost: cost})
	if perRun > 0 {
		key.members = append(key.members, member{job: load, perRun: perRun})
	}
}

// sorted gives the keys in the order of declared limit and name.
func (r *rows) sorted() []*keyLoad {
	sort.SliceStable(r.list, func(i, j int) bool {
		a, b := r.list[i], r.list[j]
		if a.limit.Index != b.limit.Index {
			return a.limit.Index < b.limit.Index
		}
		return a.name < b.name
	})
	return r.list
}
