package dispatch

import "time"

// State is where the delivery of paid calls stands. As JSON it is part of a daemon's status.
type State struct {
	// Error is why the book cannot be used, empty where it can.
	Error string `json:"error"`
	// Policies are those that the documents declare, by name.
	Policies []PolicyState `json:"policies"`
	// Routes are those that events were to be sent by since the daemon began, by policy and name.
	Routes []RouteState `json:"routes"`
}

// PolicyState is a policy's outbox.
type PolicyState struct {
	Policy string `json:"policy"`
	// Pending are the events that hold units and are still to be delivered, Waiting those among them that wait for a route that is
	// down. More tells that there are more: at most about ten thousand are counted.
	Pending int64 `json:"pending"`
	Waiting int64 `json:"waiting"`
	More    bool  `json:"more"`
	// OldestAt is the admission of the oldest of them, null where there is none.
	OldestAt *time.Time `json:"oldestAt"`
	// InDoubt counts the events, since the daemon began, that may have been charged and are not sent again: they keep their units
	// until somebody settles or releases them.
	InDoubt int64 `json:"inDoubt"`
}

// RouteState is where a route stands.
type RouteState struct {
	Policy  string `json:"policy"`
	Route   string `json:"route"`
	Account string `json:"account"`
	// Down tells that events wait for it, or take the next. Until is when it is tried again, null where that is now; it is also set
	// for a route that is held back without being down: by a limit, or by a mistake in the documents. Why is what stands against it.
	Down  bool       `json:"down"`
	Until *time.Time `json:"until"`
	Why   string     `json:"why"`
	// InFlight is the number of requests that wait for a limit or are under way.
	InFlight int `json:"inFlight"`
	// Attempts count what was recorded since the daemon began, by result.
	Attempts map[string]int64 `json:"attempts"`
}
