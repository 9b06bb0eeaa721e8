package schema

// SpendPolicySpec budgets paid calls: what an account may spend, which capabilities may spend how much of it, and by which
// routes.
type SpendPolicySpec struct {
	// Version names this content for ever once it is published.
	Version string `json:"version" jsonschema:"required,minLength=1,maxLength=63,example=quota-3"`
	// Unit is what amounts are counted in; any name.
	Unit string `json:"unit" jsonschema:"required,minLength=1,maxLength=63,example=EUR"`
	// Account is the budget that all capabilities share.
	Account SpendAccount `json:"account" jsonschema:"required"`
	// Routes are the ways to serve an event, by name.
	Routes map[string]SpendRoute `json:"routes" jsonschema:"required"`
	// Capabilities are what events ask for, by name.
	Capabilities map[string]Capability `json:"capabilities" jsonschema:"required"`
	// Reconcile compares settled amounts at a fixed cadence.
	Reconcile *Reconcile `json:"reconcile,omitempty"`
}

// SpendAccount is the budget that all capabilities share.
type SpendAccount struct {
	// Limit is the most that may be reserved and spent in a window.
	Limit Amount `json:"limit" jsonschema:"required"`
	// Bands are parts of the limit that are reported once each when they are crossed.
	Bands []Decimal `json:"bands,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1"`
	// Window is the span that the limit holds for. Without one it holds for ever.
	Window *Window `json:"window,omitempty"`
}

// SpendRoute is a way to serve an event.
type SpendRoute struct {
	// Cost is what one logical event costs, retries included.
	Cost Amount `json:"cost" jsonschema:"required"`
	// Class groups routes in reports.
	Class string `json:"class,omitempty" jsonschema:"example=gold"`
	// Provider ties the route to a provider's limits.
	Provider string `json:"provider,omitempty"`
	// Account is the account that events are delivered through.
	Account string `json:"account,omitempty"`
	// Request is what tapyr run sends for an event; {event_id}, {class}, {size} and the event's own variables stand in it.
	Request *Request `json:"request,omitempty"`
	// Priority says which events and jobs go first where the account's limits are short.
	Priority string `json:"priority,omitempty" jsonschema:"enum=critical,enum=high,enum=normal,enum=low,default=normal"`
	// Idempotent says that the vendor charges once for an event that it is sent twice, because it knows it by its event_id. Without
	// it, a request that may have been charged is not sent again.
	Idempotent bool `json:"idempotent,omitempty"`
	// Actual is a CEL expression over response, headers and status that gives the amount really spent. Without it, that is the cost.
	Actual string `json:"actual,omitempty"`
}

// Capability is something that events ask for.
type Capability struct {
	// Limit is the most that this capability may reserve and spend in a window.
	Limit Amount `json:"limit" jsonschema:"required"`
	// Protected is the part of the account's limit that only this capability may use.
	Protected *Amount `json:"protected,omitempty"`
	// Routes are tried in this order; the first that fits wins.
	Routes []string `json:"routes" jsonschema:"required,minItems=1"`
	// Fallback is what happens to an event that no route fits.
	Fallback string `json:"fallback" jsonschema:"required,enum=defer,enum=minimal,enum=reject"`
	// Deadline is how long a deferred event may wait.
	Deadline *Duration `json:"deadline,omitempty"`
	// OnDeadline is what happens to a deferred event at its deadline.
	OnDeadline string `json:"onDeadline,omitempty" jsonschema:"enum=minimal,enum=reject,default=reject"`
	// OnUnavailable says whether an event whose route is down waits for it or takes the next.
	OnUnavailable string `json:"onUnavailable,omitempty" jsonschema:"enum=wait,enum=next,default=wait"`
	// Essential marks capabilities whose oldest deferred event is watched.
	Essential bool `json:"essential,omitempty"`
	// Retain is how long what is known of an event is kept.
	Retain *Retain `json:"retain,omitempty"`
}

// Retain is how long parts of an event are kept.
type Retain struct {
	// Reference is how long the payload's reference is kept.
	Reference *Duration `json:"reference,omitempty"`
	// Decision is how long the decision is kept.
	Decision *Duration `json:"decision,omitempty"`
	// Response is how long the response is kept.
	Response *Duration `json:"response,omitempty"`
}

// Reconcile compares reservations with settled amounts from files, under tapyr run. The version in force decides.
type Reconcile struct {
	// Every is the cadence at which the folder is looked at.
	Every *Duration `json:"every,omitempty" jsonschema:"example=1d"`
	// Folder holds the files of settled amounts, those named *.csv and *.tsv. A new file is read once, when it has stopped growing.
	// Relative to where tapyr run was started.
	Folder string `json:"folder,omitempty" jsonschema:"example=settled"`
	// Format is that of the files: plain, with the columns event_id, amount and settled_at, or focus, a FOCUS 1.x cost export.
	Format string `json:"format,omitempty" jsonschema:"enum=plain,enum=focus,default=plain"`
	// Map maps the fields event_id, amount, settled_at and currency to columns of those files.
	Map map[string]string `json:"map,omitempty"`
	// Apply settles what is matched or corrected. Without it, differences are only reported.
	Apply bool `json:"apply,omitempty" jsonschema:"default=false"`
	// Sum adds several rows of one event up; without it they are a conflict.
	Sum bool `json:"sum,omitempty" jsonschema:"default=false"`
	// Stale is the age at which an unsettled reservation is listed.
	Stale *Duration `json:"stale,omitempty" jsonschema:"default=48h"`
	// ReleaseStale gives the units of stale reservations back.
	ReleaseStale bool `json:"releaseStale,omitempty" jsonschema:"default=false"`
}
