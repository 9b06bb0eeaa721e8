package schema

// SettingsSpec holds what is true for all accounts. There is at most one such document.
type SettingsSpec struct {
	// Budget steers planning and admission.
	Budget BudgetSettings `json:"budget,omitzero"`
	// State says where counters, journal and inventories are kept.
	State StateSettings `json:"state,omitzero"`
	// Status says where the status page and the API listen.
	Status StatusSettings `json:"status,omitzero"`
	// Assert are promises that a plan must keep.
	Assert []Assertion `json:"assert,omitempty"`
}

// BudgetSettings steers planning and admission.
type BudgetSettings struct {
	// RetryReserve is the part of the usable budget that is kept for retries.
	RetryReserve *Decimal `json:"retryReserve,omitempty" jsonschema:"minimum=0,exclusiveMaximum=1,default=0.10"`
	// MaxStretch is how far an interval may be stretched before the next class gives way.
	MaxStretch *Decimal `json:"maxStretch,omitempty" jsonschema:"minimum=1,maximum=1000000,default=12"`
	// ReplanInterval is how often a running plan is made again.
	ReplanInterval *Duration `json:"replanInterval,omitempty" jsonschema:"default=5m"`
	// RetryOverhead is the part of requests that are retries, until there is a history.
	RetryOverhead *Decimal `json:"retryOverhead,omitempty" jsonschema:"minimum=0,maximum=100,default=0.05"`
	// MaxInFlight is how many requests may be under way at once, of all accounts together. It protects this machine, not a vendor, and no
	// plan counts on it.
	MaxInFlight *int `json:"maxInFlight,omitempty" jsonschema:"minimum=1,maximum=100000,default=256"`
	// MaxInFlightPerAccount is how many of them may be of one account.
	MaxInFlightPerAccount *int `json:"maxInFlightPerAccount,omitempty" jsonschema:"minimum=1,maximum=100000,default=64"`
}

// StateSettings says where state is kept.
type StateSettings struct {
	// Path is the SQLite file.
	Path string `json:"path,omitempty" jsonschema:"default=tapyr.db"`
	// FlushInterval is how often counters are written.
	FlushInterval *Duration `json:"flushInterval,omitempty" jsonschema:"default=5s"`
	// JournalRetention is how long rows of the journal are kept.
	JournalRetention *Duration `json:"journalRetention,omitempty" jsonschema:"default=35d"`
	// DSN says where the connection string of a PostgreSQL database is found, which then replaces the file.
	DSN *SecretRef `json:"dsn,omitempty"`
}

// StatusSettings says where the status page listens.
type StatusSettings struct {
	// Listen is an address with a port.
	Listen string `json:"listen,omitempty" jsonschema:"default=127.0.0.1:9469"`
	// Token says where the bearer token is found that requests need beyond loopback.
	Token *SecretRef `json:"token,omitempty"`
}

// Assertion is a promise that a plan must keep.
type Assertion struct {
	// Limit is PROVIDER/LIMIT.
	Limit string `json:"limit" jsonschema:"required,pattern=^[^/]+/[^/]+$,example=meraki/daily"`
	// Headroom is the part of the budget that must be left on every key.
	Headroom Decimal `json:"headroom" jsonschema:"required,minimum=0,maximum=1,example=0.15"`
}
