package spend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/window"
)

// Policy is a version of a spend policy, ready to decide. It never changes.
type Policy struct {
	// Name is that of the document, Version that of its content.
	Name, Version string
	// Unit is what amounts are counted in.
	Unit string
	// Limit is the account's.
	Limit book.Units
	// Spec is the document's content; it must not be changed.
	Spec *schema.SpendPolicySpec

	window *window.Schedule // nil where the limits hold for ever
	bands  []band           // by threshold
	// capabilities by name; offered is the order in which their deferred events are offered.
	capabilities map[string]*capability
	offered      []*capability
	// content is the spec as canonical JSON, hash its SHA-256.
	content, hash string
}

// band is a part of the account's limit that is reported.
type band struct {
	text      string
	threshold book.Units
}

// capability is one of a policy's, with its routes.
type capability struct {
	name       string
	limit      book.Units
	protected  book.Units
	routes     []route
	fallback   book.Disposition
	deadline   time.Duration // 0 for none
	onDeadline book.Disposition
	takesNext  bool // onUnavailable: next
	essential  bool
	retain     schema.Retain
}

// route is one way to serve a capability's events.
type route struct {
	name, class string
	cost        book.Units
	outbox      bool // tapyr delivers
}

// Compile makes a policy ready. The documents are valid already; the error, a *PolicyError, is about what only amounts tell:
// they are finite, not negative and at most 60 digits long, what is protected fits into the account's limit, and the window is one that
// an instant alone tells (period or every).
func Compile(p *validate.Policy) (*Policy, error) {
	return compile(p.Name, p.Spec, p.Window)
}

func compile(name string, spec *schema.SpendPolicySpec, schedule *window.Schedule) (*Policy, error) {
	p := &Policy{
		Name: name, Version: spec.Version, Unit: spec.Unit, Spec: spec,
		window: schedule, capabilities: make(map[string]*capability),
	}
	if schedule != nil && schedule.Kind() != window.Calendar && schedule.Kind() != window.Every {
		return nil, p.errorf("account.window is %s, want period or every: what was spent must belong to one window", schedule.Kind())
	}
	if p.Version == "" {
		return nil, p.errorf("version is empty, want a name for this content")
	}
	var err error
	if p.Limit, err = p.amount("account.limit", &spec.Account.Limit); err != nil {
		return nil, err
	}
	for _, b := range spec.Account.Bands {
		part, err := book.ParseUnits(b.String())
		if err != nil {
			return nil, p.errorf("account.bands: %v", err)
		}
		p.bands = append(p.bands, band{b.String(), part.Mul(p.Limit)})
	}
	slices.SortStableFunc(p.bands, func(a, b band) int { return a.threshold.Cmp(b.threshold) })
	if err := p.compileCapabilities(); err != nil {
		return nil, err
	}
	p.content, p.hash, err = contentOf(spec)
	return p, err
}

func (p *Policy) compileCapabilities() error {
	var protected book.Units
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Capabilities)) {
		c, err := p.compileCapability(name)
		if err != nil {
			return err
		}
		p.capabilities[name] = c
		p.offered = append(p.offered, c)
		protected = protected.Add(c.protected)
	}
	if protected.Cmp(p.Limit) > 0 {
		return p.errorf("capabilities protect %s of the account's limit of %s; want at most the limit", protected, p.Limit)
	}
	slices.SortStableFunc(p.offered, func(a, b *capability) int {
		if a.essential != b.essential {
			if a.essential {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	return nil
}

func (p *Policy) compileCapability(name string) (*capability, error) {
	if name == "" {
		return nil, p.errorf("a capability has no name; counters belong to the name")
	}
	spec := p.Spec.Capabilities[name]
	c := &capability{
		name: name, fallback: book.Disposition(spec.Fallback), onDeadline: book.Disposition(spec.OnDeadline),
		deadline: spec.Deadline.Or(0), takesNext: spec.OnUnavailable == "next", essential: spec.Essential,
	}
	if spec.Retain != nil {
		c.retain = *spec.Retain
	}
	if c.onDeadline == "" {
		c.onDeadline = book.Reject
	}
	if !slices.Contains([]book.Disposition{book.Defer, book.Minimal, book.Reject}, c.fallback) {
		return nil, p.errorf("capability %q: fallback %q, want defer, minimal or reject", name, c.fallback)
	}
	var err error
	if c.limit, err = p.amount("limit of capability "+name, &spec.Limit); err != nil {
		return nil, err
	}
	if spec.Protected != nil {
		if c.protected, err = p.amount("protected of capability "+name, spec.Protected); err != nil {
			return nil, err
		}
	}
	for _, routeName := range spec.Routes {
		r, ok := p.Spec.Routes[routeName]
		if !ok {
			return nil, p.errorf("capability %q: route %q is not declared", name, routeName)
		}
		cost, err := p.amount("cost of route "+routeName, &r.Cost)
		if err != nil {
			return nil, err
		}
		c.routes = append(c.routes, route{routeName, r.Class, cost, r.Request != nil})
	}
	return c, nil
}

func (p *Policy) amount(what string, a *schema.Amount) (book.Units, error) {
	u, err := book.UnitsOf(&a.Decimal)
	if err != nil {
		return u, p.errorf("%s: %v", what, err)
	}
	return u, nil
}

func (p *Policy) errorf(format string, args ...any) error {
	return &PolicyError{p.Name, p.Version, fmt.Sprintf(format, args...)}
}

// Hash is the SHA-256 of the content, in lower-case hex.
func (p *Policy) Hash() string { return p.hash }

// Capabilities are the names, sorted.
func (p *Policy) Capabilities() []string { return slices.Sorted(maps.Keys(p.capabilities)) }

// WindowAt is the window that holds the instant; both ends are the zero time where the limits hold for ever.
func (p *Policy) WindowAt(t time.Time) window.Window {
	if p.window == nil {
		return window.Window{}
	}
	return p.window.At(t)
}

// Day is the date on which the report counts the instant: in the zone of the account's window, YYYY-MM-DD.
func (p *Policy) Day(t time.Time) string {
	if p.window == nil {
		return t.UTC().Format(time.DateOnly)
	}
	return t.In(p.window.Location()).Format(time.DateOnly)
}

// Thresholds are the amounts of the account's bands, the lowest first.
func (p *Policy) Thresholds(visit func(band string, threshold book.Units)) {
	for _, b := range p.bands {
		visit(b.text, b.threshold)
	}
}

// Terms are what a policy grants a capability.
type Terms struct {
	Limit, Protected book.Units
	Essential        bool
}

// Terms of the capability of this name; zero where there is none.
func (p *Policy) Terms(capability string) Terms {
	c := p.capabilities[capability]
	if c == nil {
		return Terms{}
	}
	return Terms{Limit: c.limit, Protected: c.protected, Essential: c.essential}
}
