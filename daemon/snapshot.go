package daemon

import (
	"time"

	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/plan"
)

// Snapshot is all that a page, an API or a metric shows of a daemon, as of one instant. It shares nothing with the daemon: the
// receiver may keep and change it, apart from Plan. As JSON it is the body of /api/v1/status. Lists are sorted and never null;
// instants that are not known are null; durations are seconds.
type Snapshot struct {
	// At is the instant of the snapshot, StartedAt when the daemon began.
	At        time.Time `json:"at"`
	StartedAt time.Time `json:"startedAt"`
	// Version is that of the program.
	Version string `json:"version"`
	// Ready tells that documents are loaded, the state is open and a plan is made; Stopping that nothing starts any more.
	Ready    bool `json:"ready"`
	Stopping bool `json:"stopping"`
	// Config is where the documents stand.
	Config ConfigState `json:"config"`
	// State is where counts, journal and inventories are kept.
	State StateHealth `json:"state"`
	// PlanFeasible tells that every key of the plan in force is within its budget, PlanHolds that it also keeps every promise;
	// PlannedAt is when it was made, Replans how many there were, Changes what the last ones changed, the newest first.
	PlanFeasible bool             `json:"planFeasible"`
	PlanHolds    bool             `json:"planHolds"`
	PlannedAt    *time.Time       `json:"plannedAt"`
	Replans      int64            `json:"replans"`
	Changes      []IntervalChange `json:"changes"`
	// Plan is the plan in force, nil before the first; it must not be changed. Its JSON is that of tapyr plan, not part of this one.
	Plan *plan.Plan `json:"-"`

	// Accounts are in document order.
	Accounts []AccountHealth `json:"accounts"`
	// Scopes are the live keys of quotas, by provider, declared limit and key.
	Scopes []ScopeState `json:"scopes"`
	// Jobs are in document order.
	Jobs []JobState `json:"jobs"`
	// Waiting are requests that wait for a budget, the most urgent and oldest first, at most MaxListed; WaitingTotal counts all.
	Waiting      []WaitingRequest `json:"waiting"`
	WaitingTotal int              `json:"waitingTotal"`
	// Refusals and RateLimited are the latest, the newest first, at most MaxListed of each.
	Refusals    []Refusal         `json:"refusals"`
	RateLimited []RateLimitedCall `json:"rateLimited"`
	// Inventories are those of jobs that others run over, in document order.
	Inventories []InventoryState `json:"inventories"`
	// Learned is how many identifiers are known by which requests find a scope variable that they do not name.
	Learned []learn.Count `json:"learned"`
	// Totals count since the daemon began.
	Totals Totals `json:"totals"`
	// Deliveries is where the delivery of paid calls stands, null where no policy is declared.
	Deliveries *dispatch.State `json:"deliveries"`
	// Spend is what paid calls have cost, null where no policy is declared; a web handler fills it in from the book.
	Spend any `json:"spend"`
}

// MaxListed bounds the lists of what waits and what happened in a Snapshot.
const MaxListed = 100

// ConfigState is where the documents stand.
type ConfigState struct {
	// Generation counts the configurations that were in force, from 1; LoadedAt is when this one came into force.
	Generation int64     `json:"generation"`
	LoadedAt   time.Time `json:"loadedAt"`
	// Reloads and ReloadErrors count attempts to load new documents.
	Reloads      int64 `json:"reloads"`
	ReloadErrors int64 `json:"reloadErrors"`
	// Error is why the last attempt failed, empty where it did not; the configuration in force is then older than the files.
	Error   string     `json:"error"`
	ErrorAt *time.Time `json:"errorAt"`
}

// StateHealth is where the ledger stands.
type StateHealth struct {
	// Path is the state file.
	Path string `json:"path"`
	// OK tells that the last write succeeded. Otherwise counts go on in memory and are written when the medium allows.
	OK bool `json:"ok"`
	// Fault is full, read-only, locked, corrupt or io, Error the text of the failure; empty while OK. Since is when it began.
	Fault string     `json:"fault"`
	Error string     `json:"error"`
	Since *time.Time `json:"since"`
	// FlushedAt is the last successful write. Flushes and Failures count them.
	FlushedAt *time.Time `json:"flushedAt"`
	Flushes   int64      `json:"flushes"`
	Failures  int64      `json:"failures"`
	// PendingRows are journal rows that the state has not taken, DroppedRows those lost for want of memory.
	PendingRows int   `json:"pendingRows"`
	DroppedRows int64 `json:"droppedRows"`
}

// IntervalChange is an interval that a plan has replaced; FromSeconds is 0 for a job that had none.
type IntervalChange struct {
	At          time.Time `json:"at"`
	Job         string    `json:"job"`
	FromSeconds float64   `json:"fromSeconds"`
	ToSeconds   float64   `json:"toSeconds"`
	// Why is what a new plan was made for: start, interval, reload, inventory or learned-max.
	Why string `json:"why"`
}

// Health is how an account fares.
type Health string

const (
	// HealthOK: its last requests succeeded, and nothing stands against the next.
	HealthOK Health = "ok"
	// HealthDegraded: it works, with less than was promised: penalized, out of a quota, over its plan, or some jobs fail or are
	// stale. A job that the plan has stretched within its promises is no reason.
	HealthDegraded Health = "degraded"
	// HealthFailing: no request gets through: refused credentials, an open circuit breaker, or every last run failed.
	HealthFailing Health = "failing"
	// HealthUnknown: nothing has been sent yet.
	HealthUnknown Health = "unknown"
)

// AccountHealth is how an account fares, and why.
type AccountHealth struct {
	Account  string `json:"account"`
	Provider string `json:"provider"`
	Health   Health `json:"health"`
	// Reasons say why it is not ok, for people, the gravest first.
	Reasons []string `json:"reasons"`
	// Requests, Succeeded, RateLimited and Failed count requests by their outcome since the daemon began.
	Requests    int64 `json:"requests"`
	Succeeded   int64 `json:"succeeded"`
	RateLimited int64 `json:"rateLimited"`
	Failed      int64 `json:"failed"`
	// LastSuccessAt is the last good answer.
	LastSuccessAt *time.Time `json:"lastSuccessAt"`
}

// ScopeState is one key of a quota: how much of its window is used, and where that leads. Units are those of the limit.
type ScopeState struct {
	Provider string `json:"provider"`
	Limit    string `json:"limit"`
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	// Shadow tells that the limit only watches, Assumed that its figure is only assumed.
	Shadow  bool `json:"shadow"`
	Assumed bool `json:"assumed"`
	// WindowStart and WindowEnd bound the window, half open; of a rolling one, WindowEnd is the present.
	WindowStart time.Time `json:"windowStart"`
	WindowEnd   time.Time `json:"windowEnd"`
	// Max is the provider's maximum, Usable the part for this tapyr, Reserve what is kept for retries, Declared what the documents
	// say (0 where they leave it to the responses).
	Max      int64 `json:"max"`
	Declared int64 `json:"declared"`
	Usable   int64 `json:"usable"`
	Reserve  int64 `json:"reserve"`
	// Used is tapyr's own use, External that of others when a response last showed it, Remaining what is left, negative where the
	// limit was overrun.
	Used      int64 `json:"used"`
	External  int64 `json:"external"`
	Remaining int64 `json:"remaining"`
	// Paces are in units an hour.
	RecentPerHour   float64 `json:"recentPerHour"`
	OwnPerHour      float64 `json:"ownPerHour"`
	ExternalPerHour float64 `json:"externalPerHour"`
	// ProjectedEnd is tapyr's use at the window's end at the recent pace, ProjectedTotal everybody's; ExhaustsAt is when nothing
	// will be left, null where that is not within the window.
	ProjectedEnd   float64    `json:"projectedEnd"`
	ProjectedTotal float64    `json:"projectedTotal"`
	ExhaustsAt     *time.Time `json:"exhaustsAt"`
	// Timeline is the use by slots of SlotSeconds, oldest first, empty slots left out; it reaches back into the window before.
	Timeline    []Slot  `json:"timeline"`
	SlotSeconds float64 `json:"slotSeconds"`
	// RateLimited, UnexpectedRateLimited, Refused and Disagreements count since the daemon began.
	RateLimited           int64 `json:"rateLimited"`
	UnexpectedRateLimited int64 `json:"unexpectedRateLimited"`
	Refused               int64 `json:"refused"`
	Disagreements         int64 `json:"disagreements"`
}

// Slot is the use in one slot of a timeline.
type Slot struct {
	At    time.Time `json:"at"`
	Units int64     `json:"units"`
}

// JobState is one job.
type JobState struct {
	Job      string `json:"job"`
	Account  string `json:"account"`
	Provider string `json:"provider"`
	Priority string `json:"priority"`
	// ForEach is the job whose inventory it runs over, empty for none.
	ForEach string `json:"forEach"`
	// Kept tells that somebody keeps what it finds: metrics, outputs, or jobs that run over its inventory. Others make no call.
	Kept bool `json:"kept"`
	// Paused tells that an operator has stopped its starts.
	Paused bool `json:"paused"`
	// DesiredSeconds is the interval asked for, IntervalSeconds the one in force, Stretch their ratio; 0 before the first plan.
	DesiredSeconds  float64 `json:"desiredSeconds"`
	IntervalSeconds float64 `json:"intervalSeconds"`
	Stretch         float64 `json:"stretch"`
	// LimitedBy is what stretches it, for people; empty at stretch 1.
	LimitedBy string `json:"limitedBy"`
	// Instances is the size of its fan-out, Running how many of them run now.
	Instances int `json:"instances"`
	Running   int `json:"running"`
	// Runs counts ended runs by status: ok, failed, partial or interrupted. Missed counts starts that one later run made up for.
	Runs   map[string]int64 `json:"runs"`
	Missed int64            `json:"missed"`
	// Requests counts requests sent, Retries those among them that were sent again.
	Requests int64 `json:"requests"`
	Retries  int64 `json:"retries"`
	// LastRun is the last run that ended, of any instance; null before.
	LastRun *RunState `json:"lastRun"`
	// NextRunAt is the next start of any instance; null where none is planned.
	NextRunAt *time.Time `json:"nextRunAt"`
	// LastSuccessAt is the end of the last good run, AgeSeconds how long ago that is, Fresh that it is at most maxInterval ago, or
	// three intervals where no maxInterval is declared. null and false before the first.
	LastSuccessAt *time.Time `json:"lastSuccessAt"`
	AgeSeconds    *float64   `json:"ageSeconds"`
	Fresh         bool       `json:"fresh"`
	// Error is the last failure since the last good run, empty for none.
	Error   string     `json:"error"`
	ErrorAt *time.Time `json:"errorAt"`
	// Series are the metric series that it has, SeriesCut counts those that did not fit into maxSeries, Lines those written to files.
	Series    int   `json:"series"`
	SeriesCut int64 `json:"seriesCut"`
	Lines     int64 `json:"lines"`
}

// RunState is a run that has ended.
type RunState struct {
	// Instance is its instance's name.
	Instance        string    `json:"instance"`
	StartedAt       time.Time `json:"startedAt"`
	DurationSeconds float64   `json:"durationSeconds"`
	Status          string    `json:"status"`
	Pages           int64     `json:"pages"`
	Requests        int64     `json:"requests"`
	Items           int64     `json:"items"`
	Error           string    `json:"error"`
}

// WaitingRequest is a request that waits for its budget.
type WaitingRequest struct {
	Job      string    `json:"job"`
	Instance string    `json:"instance"`
	Account  string    `json:"account"`
	Priority string    `json:"priority"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
	// Reason is why it was refused and is queued again, empty where it waits for its turn.
	Reason string `json:"reason"`
}

// Refusal is a request that the engine did not let go.
type Refusal struct {
	At       time.Time `json:"at"`
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	Method   string    `json:"method"`
	Endpoint string    `json:"endpoint"`
	// Reason is circuit_open, penalized, quota_exhausted or deadline.
	Reason  string     `json:"reason"`
	Limit   string     `json:"limit"`
	Key     string     `json:"key"`
	RetryAt *time.Time `json:"retryAt"`
}

// RateLimitedCall is an answer by which the provider said that a limit was exceeded.
type RateLimitedCall struct {
	At       time.Time `json:"at"`
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	Method   string    `json:"method"`
	Endpoint string    `json:"endpoint"`
	// Limit and Key are where the penalty falls; Limit is empty where none covers the request.
	Limit string `json:"limit"`
	Key   string `json:"key"`
	// Unexpected tells that the engine would have let the request go.
	Unexpected bool `json:"unexpected"`
	// Parked is a header's text that asked for more than maxPenalty.
	Parked string `json:"parked"`
}

// InventoryState is what a job has listed for others.
type InventoryState struct {
	Job string `json:"job"`
	// Instances is how many of its instances there are, Listed how many have told their items, Items their number.
	Instances int `json:"instances"`
	Listed    int `json:"listed"`
	Items     int `json:"items"`
	// RefreshedAt is the oldest refresh among the instances that have listed theirs, AgeSeconds how long ago that is.
	RefreshedAt *time.Time `json:"refreshedAt"`
	AgeSeconds  *float64   `json:"ageSeconds"`
}

// Totals count since the daemon began.
type Totals struct {
	// Granted counts requests that went; Refused those that did not, by reason.
	Granted int64            `json:"granted"`
	Refused map[string]int64 `json:"refused"`
	// RateLimited and UnexpectedRateLimited count refusals by providers, Disagreements responses that name another maximum than
	// the documents, IgnoredHeaders values in headers that cannot be.
	RateLimited           int64 `json:"rateLimited"`
	UnexpectedRateLimited int64 `json:"unexpectedRateLimited"`
	Disagreements         int64 `json:"disagreements"`
	IgnoredHeaders        int64 `json:"ignoredHeaders"`
	// ByLimit are the same figures by provider and limit, sorted by both; keys that are no longer live are part of them.
	ByLimit []LimitTotals `json:"byLimit"`
	// Waits is how long granted requests waited, by priority.
	Waits []WaitHistogram `json:"waits"`
}

// LimitTotals are the counts of one limit; Limit is empty for requests that none covers, and for circuit breakers.
type LimitTotals struct {
	Provider              string           `json:"provider"`
	Limit                 string           `json:"limit"`
	RateLimited           int64            `json:"rateLimited"`
	UnexpectedRateLimited int64            `json:"unexpectedRateLimited"`
	Disagreements         int64            `json:"disagreements"`
	Refused               map[string]int64 `json:"refused"`
}

// WaitHistogram is how long the granted requests of one priority waited. Counts[i] of them waited at most BoundsSeconds[i]; it is
// cumulative, as in Prometheus, and Count has all.
type WaitHistogram struct {
	Priority      string    `json:"priority"`
	BoundsSeconds []float64 `json:"boundsSeconds"`
	Counts        []int64   `json:"counts"`
	Count         int64     `json:"count"`
	SumSeconds    float64   `json:"sumSeconds"`
}
