package schema

// The priorities of a job, the most urgent first.
const (
	// PriorityCritical is never stretched and may dip into the retry reserve.
	PriorityCritical = "critical"
	// PriorityHigh is stretched last.
	PriorityHigh = "high"
	// PriorityNormal is the default.
	PriorityNormal = "normal"
	// PriorityLow is stretched first.
	PriorityLow = "low"
)

// JobSpec declares requests that are repeated at an interval.
type JobSpec struct {
	// Account is the account whose budget and credentials the job uses.
	Account string `json:"account" jsonschema:"required,example=acme-meraki"`
	// Template names a template of the account's provider; what the job says itself wins.
	Template string `json:"template,omitempty"`

	JobFields
}

// JobFields are what a job and a template share.
type JobFields struct {
	// Interval is the time from the start of one run to the start of the next. It is required here or in the template.
	Interval *Duration `json:"interval,omitempty" jsonschema:"example=10m"`
	// Priority says who gives way first when a quota is short.
	Priority string `json:"priority,omitempty" jsonschema:"enum=critical,enum=high,enum=normal,enum=low,default=normal"`
	// Deadline is how long one request may wait for the budget. The default is the interval.
	Deadline *Duration `json:"deadline,omitempty" jsonschema:"example=30s"`
	// ForEach names the job whose inventory this one runs over: one instance for each item.
	ForEach string `json:"forEach,omitempty"`
	// Request is what is sent. Its endpoint is required here or in the template.
	Request *Request `json:"request,omitempty"`
	// Estimate is used until there is a run history.
	Estimate *Estimate `json:"estimate,omitempty"`
	// MaxInterval is a freshness promise: a plan that stretches the job beyond it is an error.
	MaxInterval *Duration `json:"maxInterval,omitempty" jsonschema:"example=30m"`
	// Idempotent says that a POST may be sent again after a failure.
	Idempotent bool `json:"idempotent,omitempty"`
	// Pagination overrides the provider's.
	Pagination *Pagination `json:"pagination,omitempty"`
	// Inventory makes the job's items an inventory for others.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Metrics are made from each response.
	Metrics []Metric `json:"metrics,omitempty"`
	// MaxSeries is the most series that the job's metrics may have.
	MaxSeries *int `json:"maxSeries,omitempty" jsonschema:"minimum=1,maximum=10000000,default=10000"`
	// Outputs are where the items are written.
	Outputs []Output `json:"outputs,omitempty"`
}

// Request is an HTTP request.
type Request struct {
	// Method is the HTTP method.
	Method string `json:"method,omitempty" jsonschema:"pattern=^[A-Z]+$,default=GET"`
	// Endpoint is the path after the base URL; {name} is a variable of the instance or the account.
	Endpoint string `json:"endpoint,omitempty" jsonschema:"pattern=^/,maxLength=1000,example=/organizations/{organizationId}/networks"`
	// Query are query parameters; {name} is a variable.
	Query map[string]string `json:"query,omitempty"`
	// Headers are sent with the request; {name} is a variable.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as JSON, or as it is where it is a text; {name} is a variable.
	Body any `json:"body,omitempty"`
}

// MostItems is the largest inventory that is taken for one: a larger figure is a slip.
const MostItems = int64(1_000_000_000)

// Estimate is what a plan goes by until there is a run history.
type Estimate struct {
	// PagesPerRun is the number of requests that one run of one instance takes.
	PagesPerRun *Decimal `json:"pagesPerRun,omitempty" jsonschema:"minimum=0,maximum=1000000000,default=1"`
	// Items is the number of inventory items that one run of one instance gives.
	Items *int64 `json:"items,omitempty" jsonschema:"minimum=0,maximum=1000000000"`
}

// Inventory makes a job's items available to other jobs.
type Inventory struct {
	// Items is a CEL expression over response that gives a list.
	Items string `json:"items" jsonschema:"required,example=response"`
	// Vars are variables of each item: CEL expressions over item. An instance has its parent's variables too.
	Vars map[string]string `json:"vars,omitempty"`
}

// Metric maps a response to a Prometheus metric. Its fields are CEL expressions over response, item, vars, status and headers.
type Metric struct {
	// Name is the metric's name.
	Name string `json:"name" jsonschema:"required,pattern=^[a-zA-Z_:][a-zA-Z0-9_:]*$,example=meraki_network_info"`
	// Type is the metric's type; info is a gauge whose labels are the message.
	Type string `json:"type,omitempty" jsonschema:"enum=gauge,enum=counter,enum=info,default=gauge"`
	// Items gives the list that one series each is made from. The default is the response as a single item.
	Items string `json:"items,omitempty" jsonschema:"example=response"`
	// Labels are the labels' values.
	Labels map[string]string `json:"labels,omitempty"`
	// Value is the sample's value. The default for info is 1.
	Value string `json:"value,omitempty" jsonschema:"example=item.clients"`
	// Help is the metric's description.
	Help string `json:"help,omitempty"`
}

// Output is a place that a job's items are written to.
type Output struct {
	// JSONL appends one line of JSON an item to a file.
	JSONL *JSONLOutput `json:"jsonl,omitempty"`
}

// JSONLOutput is a file of JSON lines.
type JSONLOutput struct {
	// Path is the file; %Y, %m, %d and %H are the run's time in UTC.
	Path string `json:"path" jsonschema:"required,example=out/devices-%Y%m%d.jsonl"`
	// Items is a CEL expression over response that gives the list. The default is the page's items.
	Items string `json:"items,omitempty"`
}
