package schema

import (
	"time"

	"github.com/tapyr/tapyr/window"
)

// The kinds of a limit.
const (
	// KindRate is a token bucket.
	KindRate = "rate"
	// KindConcurrency bounds the requests in flight.
	KindConcurrency = "concurrency"
	// KindQuota bounds the units of a window.
	KindQuota = "quota"
)

// Limit is one constraint that a vendor sets. Which fields it takes depends on its kind.
type Limit struct {
	// Name is unique in the provider.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$,maxLength=63,example=daily"`
	// Kind says what is bounded: rate (a token bucket), concurrency (requests in flight), or quota (units in a window).
	Kind string `json:"kind" jsonschema:"required,enum=rate,enum=concurrency,enum=quota"`
	// Mode says whether the limit is enforced, or only watched (shadow): counted and reported, but never refusing.
	Mode string `json:"mode,omitempty" jsonschema:"enum=enforce,enum=shadow,default=enforce"`
	// Rate is the refill of the bucket (rate).
	Rate *Rate `json:"rate,omitempty"`
	// Burst is the capacity of the bucket (rate). The default is the whole requests of one second, at least 1.
	Burst *int64 `json:"burst,omitempty" jsonschema:"minimum=1,maximum=1000000000000"`
	// Max is the number of requests in flight (concurrency) or of units in a window (quota).
	Max *Max `json:"max,omitempty"`
	// InitialMax is used with max auto until a response has named the limit (quota).
	InitialMax *int64 `json:"initialMax,omitempty" jsonschema:"minimum=0,maximum=1000000000000000"`
	// Window is the span that a quota holds for (quota).
	Window *Window `json:"window,omitempty"`
	// Scope says what the limit is counted by.
	Scope Scope `json:"scope,omitzero"`
	// AppliesTo restricts the limit to some requests. The default is all.
	AppliesTo *Filter `json:"appliesTo,omitempty"`
	// Cost is the number of units that a request takes of this limit (rate, quota). At 0 the limit does not apply.
	Cost *int64 `json:"cost,omitempty" jsonschema:"minimum=0,maximum=1000000000000,default=1"`
	// Costs are other costs for some requests; the first that matches wins over cost (rate, quota).
	Costs []CostRule `json:"costs,omitempty"`
	// CostFrom finds the actual cost in the response; the reservation is corrected when it arrives (rate, quota).
	CostFrom *CostFrom `json:"costFrom,omitempty"`
	// Counts restricts what is counted to responses with these statuses, as a limit on invalid requests does (quota).
	Counts *Counts `json:"counts,omitempty"`
	// Penalty is how long this limit's scope is left alone after a refusal that does not say so itself.
	Penalty *Duration `json:"penalty,omitempty"`
	// Sync says in which headers the vendor tells how much is left (quota).
	Sync *Sync `json:"sync,omitempty"`
	// Adaptive lowers the rate after refusals and raises it after successes (rate).
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// Overrides replace the maximum for a time (concurrency, quota).
	Overrides []Override `json:"overrides,omitempty"`
	// Source says where the figure comes from. Plans that rest on assumed figures are marked.
	Source *Source `json:"source,omitempty"`
}

// Scope says what a limit is counted by.
type Scope struct {
	// By lists the dimensions, in the order of the scope key. Empty means instance. instance is this process, target one
	// host of an account, credential the secret in use, endpoint the templated path, var:NAME a variable of the request or
	// its account.
	By []string `json:"by,omitempty" jsonschema:"pattern=^(instance|provider|account|target|credential|endpoint|method|var:[A-Za-z_][A-Za-z0-9_]*)$,example=account,example=var:organizationId"`
}

// Filter selects the requests that a limit applies to. Every field that is given must match.
type Filter struct {
	Selector

	// Except excludes requests that match it, with the same fields.
	Except *Selector `json:"except,omitempty"`
}

// Selector selects requests. Every field that is given must match.
type Selector struct {
	// Endpoints are globs on the templated path, segment by segment: * is exactly one segment, ** zero or more, and {name} any
	// variable segment.
	Endpoints []string `json:"endpoints,omitempty" jsonschema:"example=/organizations/**"`
	// Methods are HTTP methods.
	Methods []string `json:"methods,omitempty" jsonschema:"pattern=^[A-Z]+$,example=GET"`
	// Query are query parameters with the value they must have; "*" stands for any value.
	Query map[string]string `json:"query,omitempty"`
	// RequestsWithVar is a variable that the request must have.
	RequestsWithVar string `json:"requestsWithVar,omitempty" jsonschema:"pattern=^[A-Za-z_][A-Za-z0-9_]*$"`
	// AuthRequests says whether token and login requests are selected beside the others (include), alone (only), or not.
	AuthRequests string `json:"authRequests,omitempty" jsonschema:"enum=include,enum=only,enum=exclude,default=include"`
}

// CostRule gives some requests a cost of their own.
type CostRule struct {
	Selector

	// Cost is the number of units. At 0 the limit does not apply.
	Cost int64 `json:"cost" jsonschema:"required,minimum=0,maximum=1000000000000"`
}

// CostFrom says where a response tells the units that its request really took.
type CostFrom struct {
	// Header is the header's name, in any case.
	Header string `json:"header" jsonschema:"required,minLength=1,example=x-ms-resource-unit"`
	// Index picks one of several values that are separated by commas, from 0.
	Index *int `json:"index,omitempty" jsonschema:"minimum=0,maximum=1000"`
	// Pattern is a regular expression (RE2) with one group that captures the value.
	Pattern string `json:"pattern,omitempty"`
}

// Counts restricts what a quota counts.
type Counts struct {
	// Status lists the statuses of responses that count.
	Status []int `json:"status" jsonschema:"required,minItems=1,minimum=100,maximum=599"`
}

// Window is the span of a quota: a calendar period, a fixed span from the Unix epoch or from the first request, or a rolling one.
type Window struct {
	// Period is a calendar period in the declared time zone.
	Period string `json:"period,omitempty" jsonschema:"enum=minute,enum=hour,enum=day,enum=week,enum=month"`
	// Count makes windows of several minutes (a divisor of 60) or hours (a divisor of 24).
	Count *int `json:"count,omitempty" jsonschema:"minimum=1,maximum=60,default=1"`
	// ResetAt is the wall time at which a day, week or month begins, HH:MM. Write it in quotes.
	ResetAt string `json:"resetAt,omitempty" jsonschema:"pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$,default=00:00"`
	// Timezone is an IANA name.
	Timezone string `json:"timezone,omitempty" jsonschema:"default=UTC,example=Europe/Paris"`
	// WeekStart is the first day of a week.
	WeekStart string `json:"weekStart,omitempty" jsonschema:"enum=monday,enum=tuesday,enum=wednesday,enum=thursday,enum=friday,enum=saturday,enum=sunday,default=monday"`
	// MonthDay is the day on which a month begins; in shorter months it is the last day.
	MonthDay *int `json:"monthDay,omitempty" jsonschema:"minimum=1,maximum=31,default=1"`
	// Every makes windows of this length.
	Every *Duration `json:"every,omitempty" jsonschema:"example=15m"`
	// Phase shifts the windows of every from the Unix epoch.
	Phase *Duration `json:"phase,omitempty" jsonschema:"default=0s"`
	// Anchor says what the windows of every begin with: the Unix epoch, or the first request after the last one closed.
	Anchor string `json:"anchor,omitempty" jsonschema:"enum=epoch,enum=firstRequest,default=epoch"`
	// Rolling counts over the span of this length that ends now.
	Rolling *Duration `json:"rolling,omitempty" jsonschema:"example=24h"`
}

// Spec is the window as package window computes with it.
func (w *Window) Spec() window.Spec {
	spec := window.Spec{
		Period: window.Period(w.Period), ResetAt: w.ResetAt, Timezone: w.Timezone, WeekStart: w.WeekStart,
		Every: w.Every.Or(0), Phase: w.Phase.Or(0), Rolling: w.Rolling.Or(0), Anchor: w.Anchor,
	}
	if w.Anchor == "epoch" {
		spec.Anchor = ""
	}
	if w.Count != nil {
		spec.Count = *w.Count
	}
	if w.MonthDay != nil {
		spec.MonthDay = *w.MonthDay
	}
	return spec
}

// Sync names the response headers in which a vendor tells the state of a quota. Names match in any case.
type Sync struct {
	// LimitHeader tells the maximum.
	LimitHeader *Header `json:"limitHeader,omitempty"`
	// RemainingHeader tells the units left, for everybody who uses the quota.
	RemainingHeader *Header `json:"remainingHeader,omitempty"`
	// UsedHeader tells the units used.
	UsedHeader *Header `json:"usedHeader,omitempty"`
	// RemainingPercentHeader tells the part that is left, in percent.
	RemainingPercentHeader *Header `json:"remainingPercentHeader,omitempty"`
	// ResetHeader tells when the window ends.
	ResetHeader *Header `json:"resetHeader,omitempty"`
	// Policy is the name of the item to read in the IETF fields RateLimit and RateLimit-Policy.
	Policy string `json:"policy,omitempty"`
	// When makes the headers count only where another header has a value.
	When *When `json:"when,omitempty"`
}

// When is a condition on a response header.
type When struct {
	// Header is the header's name, in any case.
	Header string `json:"header" jsonschema:"required,minLength=1"`
	// Equals is the value it must have.
	Equals string `json:"equals" jsonschema:"required"`
}

// Adaptive lowers a rate after refusals (multiplicative decrease) and raises it after successes (additive increase), never
// above the declared rate.
type Adaptive struct {
	// Decrease is the factor applied after a rate-limited response.
	Decrease *Decimal `json:"decrease,omitempty" jsonschema:"exclusiveMinimum=0,exclusiveMaximum=1,default=0.7"`
	// Increase is the rate added after a success, in requests a second.
	Increase *Decimal `json:"increase,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1000000,default=0.2"`
	// Floor is the lowest rate, in requests a second.
	Floor *Decimal `json:"floor,omitempty" jsonschema:"exclusiveMinimum=0,maximum=1000000,default=0.5"`
}

// Override replaces a maximum in the half-open span [from, to).
type Override struct {
	// From is the first instant, RFC 3339.
	From time.Time `json:"from" jsonschema:"required"`
	// To is the instant after the last, RFC 3339.
	To time.Time `json:"to" jsonschema:"required"`
	// Max is the maximum in the span.
	Max int64 `json:"max" jsonschema:"required,minimum=0,maximum=1000000000000000"`
}

// Source says where a figure comes from.
type Source struct {
	// Kind tells how far it can be trusted.
	Kind string `json:"kind" jsonschema:"required,enum=vendor-docs,enum=measured,enum=assumed"`
	// URL is where it stands.
	URL string `json:"url,omitempty" jsonschema:"format=uri"`
	// Checked is the day it was last looked up.
	Checked string `json:"checked,omitempty" jsonschema:"pattern=^[0-9]{4}-[0-9]{2}-[0-9]{2}$,example=2026-11-30"`
	// Note says what is not certain about it.
	Note string `json:"note,omitempty"`
}
