package dispatch

import (
	"net/http"
	"slices"

	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// Answer is what came of a request.
type Answer struct {
	// Status is the answer's, 0 where none came. Limited tells that it says a limit was exceeded.
	Status  int
	Limited bool
	// Unsent tells that for certain nothing of the request has left; Timeout that an answer was waited for too long.
	Unsent, Timeout bool
}

// Charge is whether the vendor charges for a request.
type Charge string

const (
	// NotCharged: nothing has left, or the vendor says that it has not done it.
	NotCharged Charge = "no"
	// MaybeCharged: nobody knows.
	MaybeCharged Charge = "maybe"
	// Charged: the vendor says that it is done.
	Charged Charge = "yes"
)

// Verdict is what an answer means.
type Verdict struct {
	// Result is the category that the audit chain records.
	Result string
	// Outcome is what it means for another attempt, Charge for the money. AccountRefused tells that the vendor does not serve the
	// account, whatever the event.
	Outcome        schedule.Outcome
	Charge         Charge
	AccountRefused bool
}

// The categories of results.
const (
	ResultOK           = "ok"
	ResultRejected     = "rejected"     // the vendor refuses the event
	ResultUnauthorized = "unauthorized" // the vendor refuses the account
	ResultLimited      = "rate-limited"
	ResultBusy         = "busy"         // the vendor says that it has not begun
	ResultServerError  = "server-error" // the vendor failed, perhaps after it had begun
	ResultRedirected   = "redirected"   // to where nobody may follow
	ResultTimeout      = "timeout"
	ResultNoAnswer     = "no-answer" // the connection broke after the request had left
	ResultNotSent      = "not-sent"  // no connection
)

// Judge reads an answer. An answer is the vendor's word: 2xx is done and charged; 4xx, a rate limit, 501, 503 and 505 are refusals
// and are not (RFC 9110, section 15). Behind any other failure, and behind silence, the vendor may have done it all.
func Judge(p *validate.Provider, a Answer) Verdict {
	v := Verdict{Outcome: schedule.OutcomeOf(p, a.Status, a.Limited), Charge: NotCharged}
	switch {
	case a.Limited:
		v.Result = ResultLimited
	case a.Unsent:
		v.Result = ResultNotSent
	case a.Status == 0 && a.Timeout:
		v.Result, v.Charge = ResultTimeout, MaybeCharged
	case a.Status == 0:
		v.Result, v.Charge = ResultNoAnswer, MaybeCharged
	case a.Status < 300:
		v.Result, v.Charge, v.Outcome = ResultOK, Charged, schedule.Succeeded
	case a.Status < 400:
		v.Result, v.Charge, v.Outcome = ResultRedirected, MaybeCharged, schedule.Rejected
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusPaymentRequired:
		v.Result, v.AccountRefused = ResultUnauthorized, true
	case a.Status < 500 && v.Outcome == schedule.Transient || a.Status == http.StatusServiceUnavailable:
		v.Result = ResultBusy
	case a.Status < 500:
		v.Result = ResultRejected
	default:
		v.Result = ResultServerError
		if !slices.Contains([]int{http.StatusNotImplemented, http.StatusHTTPVersionNotSupported}, a.Status) {
			v.Charge = MaybeCharged
		}
	}
	return v
}

// Step is what follows an attempt.
type Step string

const (
	// Settle: it is done.
	Settle Step = "settle"
	// Release: it will not be done, and nothing is charged.
	Release Step = "release"
	// Retry: the same again after a pause.
	Retry Step = "retry"
	// Unavailable: the route is down for this event, which waits or takes the next.
	Unavailable Step = "unavailable"
	// Linger: the same again at a slow pace, because the vendor may charge for an earlier attempt: no other route may take it.
	Linger Step = "linger"
	// GiveUp: the vendor may charge, and another attempt could make it charge twice. Somebody who knows settles or releases.
	GiveUp Step = "give-up"
)

// Rules are what a route allows.
type Rules struct {
	// Repeatable tells that the vendor charges once for an event that it is sent twice. No method of HTTP promises that.
	Repeatable bool
	// MaxAttempts counts the first one too.
	MaxAttempts int
}

// After says what follows a verdict. tries counts the attempts, this one too; doubted tells that the vendor may charge for an
// earlier one.
func (v *Verdict) After(rules Rules, tries int, doubted bool) Step {
	doubt := doubted || v.Charge == MaybeCharged
	switch {
	case v.Charge == Charged:
		return Settle
	case v.Outcome == schedule.Rejected && !v.AccountRefused && doubt:
		return GiveUp
	case v.Outcome == schedule.Rejected && !v.AccountRefused:
		return Release
	case doubt && !rules.Repeatable:
		return GiveUp
	case !v.AccountRefused && tries < rules.MaxAttempts:
		return Retry
	case doubt:
		return Linger
	}
	return Unavailable
}
