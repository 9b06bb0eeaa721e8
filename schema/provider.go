package schema

// ProviderSpec declares one vendor's API: how to reach it, the limits it sets, and how it answers when one of them is
// exceeded. Accounts refer to it by name.
type ProviderSpec struct {
	// Title is a name for people, such as "Cisco Meraki Dashboard API v1".
	Title string `json:"title,omitempty"`
	// BaseURL is where requests go; an endpoint is appended to its path. An account may override it.
	BaseURL string `json:"baseURL,omitempty" jsonschema:"format=uri,example=https://api.example.com/v1"`
	// AllowedHosts are the hosts, "*." prefixes included, that a redirect may lead to. The default is the base URL's host alone.
	AllowedHosts []string `json:"allowedHosts,omitempty" jsonschema:"example=*.example.com"`
	// Auth says how a request proves who sends it. The default is none.
	Auth *Auth `json:"auth,omitempty"`
	// Limits are the constraints that the vendor sets. Their order is the order in which refusals are named.
	Limits []Limit `json:"limits,omitempty"`
	// Errors says which responses mean "rate limited" and which are transient.
	Errors Errors `json:"errors,omitzero"`
	// Retry says how often and how soon a failed request is sent again.
	Retry *Retry `json:"retry,omitempty"`
	// CircuitBreaker stops calling an account or target that keeps failing. Without it the defaults hold: 5 failures, 1 minute.
	CircuitBreaker *CircuitBreaker `json:"circuitBreaker,omitempty"`
	// Pagination says how a long answer is continued; a job may override it.
	Pagination *Pagination `json:"pagination,omitempty"`
	// Learn names scope variables that are learned from traffic.
	Learn []Learn `json:"learn,omitempty"`
	// Templates are jobs without an account, which a job names in its template field and overrides where it wants.
	Templates []Template `json:"templates,omitempty"`
}

// Auth says how requests prove who sends them. Credential fields hold the name of a credential of the account, never the secret.
type Auth struct {
	// Type is the method.
	Type string `json:"type" jsonschema:"required,enum=none,enum=header,enum=bearer,enum=basic,enum=oauth2_client_credentials,enum=session_login"`
	// Credential names the account's credential that holds the key or token (header, bearer).
	Credential string `json:"credential,omitempty" jsonschema:"example=apiKey"`
	// Header is the header that carries the key (header) or the session token (session_login). The default is Authorization.
	Header string `json:"header,omitempty" jsonschema:"example=X-API-Key"`
	// Prefix stands before the value in the header, such as "Token ".
	Prefix string `json:"prefix,omitempty"`
	// Username names the credential that holds the user's name (basic, session_login).
	Username string `json:"username,omitempty"`
	// Password names the credential that holds the password (basic, session_login).
	Password string `json:"password,omitempty"`
	// TokenURL is where tokens are issued, absolute or relative to the base URL (oauth2_client_credentials).
	TokenURL string `json:"tokenURL,omitempty"`
	// ClientID names the credential that holds the client's id (oauth2_client_credentials).
	ClientID string `json:"clientId,omitempty"`
	// ClientSecret names the credential that holds the client's secret (oauth2_client_credentials).
	ClientSecret string `json:"clientSecret,omitempty"`
	// Scopes are asked for with the token (oauth2_client_credentials).
	Scopes []string `json:"scopes,omitempty"`
	// Params are further form fields of the token request (oauth2_client_credentials).
	Params map[string]string `json:"params,omitempty"`
	// Login is the request that opens a session (session_login). In its body {name} stands for the credential of that name.
	Login *Request `json:"login,omitempty"`
	// Token is a CEL expression over response and headers that finds the session's token in the login's answer (session_login).
	Token string `json:"token,omitempty" jsonschema:"example=response.data.token"`
	// Cookie is the name of the session cookie, for vendors that keep the session in one (session_login).
	Cookie string `json:"cookie,omitempty"`
	// TTL is how long a session or token is used before it is renewed; the default is what the vendor says, else until it is refused.
	TTL *Duration `json:"ttl,omitempty"`
}

// Errors says how to read a response that is not a success.
type Errors struct {
	// RateLimited says which responses mean that a limit was exceeded. The default is status 429.
	RateLimited *RateLimited `json:"rateLimited,omitempty"`
	// Transient says which responses are worth a retry and count for the circuit breaker. The default is 408, 500, 502, 503 and 504.
	Transient *Transient `json:"transient,omitempty"`
}

// RateLimited says which responses mean that a limit was exceeded, and what follows.
type RateLimited struct {
	// Status lists the statuses that mean it. The default is 429.
	Status []int `json:"status,omitempty" jsonschema:"minimum=100,maximum=599"`
	// Match is a CEL expression over status, headers (lower-case names) and body (a text) that means it too, beside the statuses.
	Match string `json:"match,omitempty" jsonschema:"example=status == 403 && headers['x-ratelimit-remaining'] == '0'"`
	// DefaultPenalty holds where neither Retry-After nor the limit says how long to wait.
	DefaultPenalty *Duration `json:"defaultPenalty,omitempty" jsonschema:"default=2s"`
	// MaxPenalty is the longest wait that a header is believed for; above it the scope is parked for this long and the text reported.
	MaxPenalty *Duration `json:"maxPenalty,omitempty" jsonschema:"default=24h"`
	// Penalize says where the penalty falls: on the narrowest applicable scope, or on all of them.
	Penalize string `json:"penalize,omitempty" jsonschema:"enum=narrowest,enum=all,default=narrowest"`
	// LimitFrom names the header that says which limit a refusal belongs to.
	LimitFrom *LimitFrom `json:"limitFrom,omitempty"`
	// RetryAfter finds the wait in the body where the header is missing.
	RetryAfter *RetryAfter `json:"retryAfter,omitempty"`
}

// LimitFrom maps the values of a response header to the limit that a refusal belongs to.
type LimitFrom struct {
	// Header is the header's name, in any case.
	Header string `json:"header" jsonschema:"required,minLength=1"`
	// Values maps a value of the header to the name of a limit of this provider.
	Values map[string]string `json:"values" jsonschema:"required"`
}

// RetryAfter finds a wait in a response's body.
type RetryAfter struct {
	// Pattern is a regular expression (RE2) with one group, which captures seconds.
	Pattern string `json:"pattern" jsonschema:"required,example=retry in ([0-9.]+)"`
}

// Transient says which responses are failures that may pass.
type Transient struct {
	// Status lists the statuses.
	Status []int `json:"status,omitempty" jsonschema:"minimum=100,maximum=599"`
}

// Retry says how often and how soon a request is sent again.
type Retry struct {
	// MaxAttempts counts the first request too.
	MaxAttempts *int `json:"maxAttempts,omitempty" jsonschema:"minimum=1,maximum=100,default=4"`
	// Initial is the wait before the second attempt.
	Initial *Duration `json:"initial,omitempty" jsonschema:"default=1s"`
	// Max is the longest wait between two attempts.
	Max *Duration `json:"max,omitempty" jsonschema:"default=1m"`
	// Multiplier is what a wait grows by from one attempt to the next.
	Multiplier *Decimal `json:"multiplier,omitempty" jsonschema:"minimum=1,maximum=100,default=2"`
	// Jitter is the part of a wait by which it is varied, up and down.
	Jitter *Decimal `json:"jitter,omitempty" jsonschema:"minimum=0,maximum=1,default=0.2"`
}

// CircuitBreaker stops calling an account or target that keeps failing.
type CircuitBreaker struct {
	// Failures is the number of transient failures in a row that opens the breaker.
	Failures *int `json:"failures,omitempty" jsonschema:"minimum=1,maximum=1000000,default=5"`
	// OpenFor is how long it stays open at first; each failed probe doubles it, up to 10 minutes.
	OpenFor *Duration `json:"openFor,omitempty" jsonschema:"default=1m"`
}

// Pagination says how the next page of an answer is asked for.
type Pagination struct {
	// Type is the method.
	Type string `json:"type" jsonschema:"required,enum=none,enum=offset,enum=page,enum=cursor,enum=link_header,enum=expression"`
	// Items is a CEL expression over response that finds the page's list. The default is the response itself, or its only list.
	Items string `json:"items,omitempty" jsonschema:"example=response.devices"`
	// LimitParam is the query parameter that carries the page size.
	LimitParam string `json:"limitParam,omitempty" jsonschema:"example=limit"`
	// Limit is the page size; a page with fewer items is the last (offset, page).
	Limit *int `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// OffsetParam is the query parameter that carries the number of items to skip (offset).
	OffsetParam string `json:"offsetParam,omitempty" jsonschema:"example=offset"`
	// PageParam is the query parameter that carries the page's number (page).
	PageParam string `json:"pageParam,omitempty" jsonschema:"example=page"`
	// FirstPage is the number of the first page (page).
	FirstPage *int `json:"firstPage,omitempty" jsonschema:"minimum=0,maximum=1,default=1"`
	// CursorParam is the query parameter that carries the cursor (cursor).
	CursorParam string `json:"cursorParam,omitempty" jsonschema:"example=cursor"`
	// Cursor is a CEL expression over response and headers that finds the next cursor; null or empty ends (cursor).
	Cursor string `json:"cursor,omitempty" jsonschema:"example=response.meta.next"`
	// Next is a CEL expression over response, headers and page that gives the next URL or a map of query parameters; null ends (expression).
	Next string `json:"next,omitempty"`
	// MaxPages ends a run that would never end.
	MaxPages *int `json:"maxPages,omitempty" jsonschema:"minimum=1,maximum=1000000,default=1000"`
}

// Learn says how one scope variable is learned from traffic: from the path, from what a body names, and from identifiers
// that were seen together with it before. What an account, or a target of it, has told is believed of that one only.
type Learn struct {
	// Var is the scope variable to supply.
	Var string `json:"var" jsonschema:"required,pattern=^[A-Za-z_][A-Za-z0-9_]*$,example=organizationId"`
	// From are regular expressions (RE2) with one group that find the variable in the path after the base URL.
	From []string `json:"from,omitempty" jsonschema:"example=/organizations/([^/]+)"`
	// Keys are identifiers that map to the variable once they were seen together with it.
	Keys map[string]LearnKey `json:"keys,omitempty"`
	// Body are paths that name the variable in a response, or in an item of its list; the first that is there wins.
	Body []string `json:"body,omitempty" jsonschema:"example=organizationId"`
	// Cache says where what was learned is kept. Without it, it is learned again after a restart.
	Cache *LearnCache `json:"cache,omitempty"`
}

// LearnKey is an identifier that maps to a learned variable.
type LearnKey struct {
	// URL is a regular expression (RE2) with one group that finds the identifier in the path after the base URL.
	URL string `json:"url" jsonschema:"required,example=/networks/([^/]+)"`
	// Body are paths that name the identifier in a response, or in an item of its list; whole numbers are identifiers, too.
	Body []string `json:"body,omitempty" jsonschema:"example=networkId"`
}

// LearnCache is the file that learned identifiers are kept in. Only its owner can read it, it holds no secret, and several providers
// may share one. A damaged one starts empty; one of another program is left alone.
type LearnCache struct {
	// Path is the file; a relative one is in the folder of the state.
	Path string `json:"path,omitempty" jsonschema:"default=rate_limit_cache.json"`
	// TTL is how long what was learned is believed after it was last confirmed.
	TTL *Duration `json:"ttl,omitempty" jsonschema:"default=7d"`
	// FlushEvery is the number of new identifiers after which the file is written; else it is after a minute, and at the end.
	FlushEvery *int `json:"flushEvery,omitempty" jsonschema:"minimum=1,maximum=1000000,default=50"`
}

// Template is a job without an account.
type Template struct {
	// Name is what jobs call it.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$,maxLength=63"`
	// Description says for people what the job collects.
	Description string `json:"description,omitempty"`

	JobFields
}
