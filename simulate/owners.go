package simulate

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/smartflow"
	"github.com/tapyr/tapyr/validate"
)

// owners is what a vendor knows and its clients have to learn: to which organization a network belongs whose URL does not say so. A
// vendor charges the owner in every case. What it has never listed under anybody belongs to one of those that there are, always the
// same.
type owners struct {
	provider *validate.Provider
	book     *learn.Book
	// inventories are the jobs' expressions that find items.
	inventories map[*validate.Job]*inventory

	mu sync.Mutex // guards what follows
	// values are those of each variable that the vendor has, in the order in which they were met.
	values map[string][]string
	// things are the identifiers of each owner.
	things map[thing][]string
	met    map[thing]bool // of values, without a kind
}

// inventory is how a job finds items and their variables.
type inventory struct {
	items *expr.Program
	vars  map[string]*expr.Program
}

// thing is a kind of identifiers of one owner.
type thing struct{ variable, owner, kind string }

// newOwners is nil where there is nothing to learn: all that such a vendor charges for stands in a request.
func newOwners(config *validate.Config, p *validate.Provider) *owners {
	book := learn.New(config, learn.Options{Forever: true}).Book(p.Name)
	if book == nil {
		return nil
	}
	o := &owners{
		provider: p, book: book, inventories: make(map[*validate.Job]*inventory), values: make(map[string][]string),
		things: make(map[thing][]string), met: make(map[thing]bool),
	}
	for _, j := range p.Jobs {
		if j.Spec.Inventory == nil {
			continue
		}
		// A valid configuration's expressions compile.
		one := &inventory{vars: make(map[string]*expr.Program)}
		one.items, _ = expr.InventoryItems.Compile(j.Spec.Inventory.Items)
		for name, text := range j.Spec.Inventory.Vars {
			one.vars[name], _ = expr.InventoryVar.Compile(text)
		}
		o.inventories[j] = one
	}
	return o
}

// of an answer, the variables of each item; none where the answer is no inventory.
func (i *inventory) of(body any) (out []map[string]string) {
	items, err := i.items.EvalList(context.Background(), map[string]any{"response": body})
	if err != nil {
		return nil
	}
	for _, item := range items {
		out = append(out, i.variables(item))
	}
	return out
}

// variables of an item, those that it has.
func (i *inventory) variables(item any) map[string]string {
	vars := make(map[string]string, len(i.vars))
	for name, program := range i.vars {
		if text, err := program.EvalText(context.Background(), map[string]any{"item": item}); err == nil {
			vars[name] = text
		}
	}
	return vars
}

// nobody is the place of a vendor: an identifier is the same whoever asks.
var nobody learn.Place

// add makes known what belongs together: the variables of a listed item and of those above it.
func (o *owners) add(vars map[string]string) {
	o.book.LearnVars(0, nobody, vars)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.provider.Spec.Learn {
		variable := o.provider.Spec.Learn[i].Var
		owner := vars[variable]
		if owner == "" {
			continue
		}
		if name := (thing{variable, owner, ""}); !o.met[name] {
			o.met[name] = true
			o.values[variable] = append(o.values[variable], owner)
		}
		for _, key := range o.book.KeysOf(variable, vars) {
			name := thing{variable, owner, key.Kind}
			o.things[name] = append(o.things[name], key.ID)
		}
	}
}

// complete adds to a request's variables the owners of what its path names.
func (o *owners) complete(path string, vars map[string]string) map[string]string {
	if o == nil {
		return vars
	}
	all, unresolved := o.book.Complete(0, nobody, path, vars)
	if !unresolved {
		return all
	}
	all = maps.Clone(all)
	if all == nil {
		all = make(map[string]string)
	}
	for i := range o.provider.Spec.Learn {
		variable := o.provider.Spec.Learn[i].Var
		if keys := o.book.Keys(variable, path); all[variable] == "" && len(keys) > 0 {
			all[variable] = o.ownerOf(variable, keys)
			o.book.Learn(0, &learn.Seen{Path: path, Vars: all})
		}
	}
	return all
}

// ownerOf identifiers that were never listed under anybody.
func (o *owners) ownerOf(variable string, keys []smartflow.Key) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	values := o.values[variable]
	if len(values) == 0 {
		return variable + "-1"
	}
	return values[hashOf(keys[0].ID)%uint32(len(values))]
}

func hashOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}

// mostListed bounds what is made in advance of a vendor with very many items; of the rest it knows what it is asked for.
const mostListed = 100_000

// list makes known what the routes list: all items of a job's inventory, and of those that run over it. It returns how many more
// there may be.
func (o *owners) list(seed uint64, routes []*route, j *validate.Job, given map[string]string, more int64) int64 {
	r := routeFor(routes, j)
	if r == nil || j.Spec.Inventory == nil || more <= 0 {
		return more
	}
	known := make(map[string]string)
	maps.Copy(known, given)
	maps.Copy(known, j.Account.Spec.Vars)
	path, missing := r.template.Expand(known)
	if missing != "" {
		return more
	}
	m := &maker{seed: seed, path: path, page: page{to: min(r.items, more), total: r.items, size: r.items}, paged: r.paged}
	for _, item := range o.inventories[j].of(m.value(r.body, m.thing()+"s", "", 0)) {
		vars := maps.Clone(known)
		maps.Copy(vars, item)
		o.add(vars)
		if more--; more <= 0 {
			break
		}
		for _, child := range j.Children {
			more = o.list(seed, routes, child, vars, more)
		}
	}
	return more
}

func routeFor(routes []*route, j *validate.Job) *route {
	path := match.CleanPath(j.Endpoint.Path)
	for _, r := range routes {
		if r.method == j.Method && r.template.Path == path {
			return r
		}
	}
	return nil
}

// truth makes an answer say of owners what is true: a field where the documents look for the variable has the owner, one where they
// look for an identifier has one of the owner's.
func (o *owners) truth(r *route, path string, vars map[string]string, body any) {
	if o == nil {
		return
	}
	for i := range o.provider.Spec.Learn {
		l := &o.provider.Spec.Learn[i]
		t := &teller{owners: o, learn: l, owner: vars[l.Var], keys: o.book.Keys(l.Var, path)}
		for _, j := range r.jobs {
			if j.Spec.Inventory != nil {
				t.lists = append(t.lists, j)
			}
		}
		t.tell(body)
	}
}

// teller corrects one answer by one rule.
type teller struct {
	*owners

	learn *schema.Learn
	owner string // of the request, empty where it has none
	keys  []smartflow.Key
	lists []*validate.Job
}

// tell corrects a value and all within it.
func (t *teller) tell(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			t.tell(item)
		}
	case map[string]any:
		t.correct(v)
		for _, field := range v {
			t.tell(field)
		}
	}
}

func (t *teller) correct(object map[string]any) {
	owner := t.owner
	for _, place := range t.learn.Body {
		within, name, there := find(object, place)
		if !there {
			continue
		}
		if owner == "" {
			owner = t.ownerOfItem(object)
		}
		if owner != "" {
			within[name] = owner
		}
	}
	if owner == "" {
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(t.learn.Keys)) {
		for _, place := range t.learn.Keys[kind].Body {
			if within, name, there := find(object, place); there {
				if id, ok := t.idOf(kind, owner, within[name]); ok {
					within[name] = id
				}
			}
		}
	}
}

// ownerOfItem is that of an item that an inventory is made of.
func (t *teller) ownerOfItem(item map[string]any) string {
	for _, j := range t.lists {
		vars := t.inventories[j].variables(item)
		for _, other := range t.provider.Jobs {
			path, missing := other.Endpoint.Expand(vars)
			if missing == "" && len(t.book.Keys(t.learn.Var, path)) > 0 {
				return t.complete(path, vars)[t.learn.Var]
			}
		}
	}
	return ""
}

// idOf is the identifier that stands in an answer: that of the request, else one of the owner's.
func (t *teller) idOf(kind, owner string, made any) (string, bool) {
	for _, key := range t.keys {
		if key.Kind == kind {
			return key.ID, true
		}
	}
	text, _ := made.(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.things[thing{t.learn.Var, owner, kind}]
	if len(list) == 0 || text == "" {
		return "", false
	}
	return list[hashOf(text)%uint32(len(list))], true
}

// find is the object and the name in it where a path of member names leads.
func find(object map[string]any, place string) (within map[string]any, name string, there bool) {
	names := strings.Split(place, ".")
	for _, name := range names[:len(names)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			return nil, "", false
		}
		object = next
	}
	name = names[len(names)-1]
	_, there = object[name]
	return object, name, there
}
