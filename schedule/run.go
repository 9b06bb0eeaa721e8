package schedule

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Outcome is what an answer means for the request.
type Outcome string

const (
	// Succeeded: the answer is what was asked for.
	Succeeded Outcome = "succeeded"
	// RateLimited: the vendor says that a limit was exceeded.
	RateLimited Outcome = "rateLimited"
	// Transient: a failure that may pass, or no answer at all.
	Transient Outcome = "transient"
	// Rejected: a failure that another attempt would not change.
	Rejected Outcome = "rejected"
)

// OutcomeOf a status; rateLimited is what errors.rateLimited says of the answer. Status 0 is no answer.
func OutcomeOf(p *validate.Provider, status int, rateLimited bool) Outcome {
	transient := []int{408, 500, 502, 503, 504}
	if t := p.Spec.Errors.Transient; t != nil && t.Status != nil {
		transient = t.Status
	}
	switch {
	case rateLimited:
		return RateLimited
	case status == 0 || slices.Contains(transient, status):
		return Transient
	case status >= 400:
		return Rejected
	}
	return Succeeded
}

// Backoff says how often and how soon a request is sent again.
type Backoff struct {
	// MaxAttempts counts the first one too.
	MaxAttempts int
	// Initial is the wait before the second attempt, Max the longest.
	Initial, Max time.Duration
	// Multiplier is what a wait grows by, Jitter the part by which it is varied, up and down.
	Multiplier, Jitter float64
}

// BackoffOf a provider: what it declares, else the defaults of the documents.
func BackoffOf(p *validate.Provider) Backoff {
	b := Backoff{MaxAttempts: 4, Initial: time.Second, Max: time.Minute, Multiplier: 2, Jitter: 0.2}
	r := p.Spec.Retry
	if r == nil {
		return b
	}
	if r.MaxAttempts != nil {
		b.MaxAttempts = *r.MaxAttempts
	}
	b.Initial, b.Max = r.Initial.Or(b.Initial), r.Max.Or(b.Max)
	if r.Multiplier != nil {
		b.Multiplier = r.Multiplier.Float64()
	}
	if r.Jitter != nil {
		b.Jitter = r.Jitter.Float64()
	}
	return b
}

// Wait before attempt n + 1, after n attempts. draw is uniform in [0, 1).
func (b Backoff) Wait(attempts int, draw float64) time.Duration {
	wait := min(float64(b.Initial)*math.Pow(b.Multiplier, float64(attempts-1)), float64(b.Max))
	return time.Duration(wait * (1 + b.Jitter*(2*draw-1)))
}

// Step is what a run does next.
type Step string

const (
	// Send: the request (of the next page, or the same again) is to be asked for at the instant given.
	Send Step = "send"
	// Done: the run has all its pages.
	Done Step = "done"
	// Failed: the run ends without its rest. What it would have listed stays as it was.
	Failed Step = "failed"
)

// Run is one run of an instance: its requests, page by page, each with its attempts.
type Run struct {
	// Instance is whose run it is.
	Instance *Instance
	// StartedNanos is when it began, Page the number of the page that is asked for, from 1.
	StartedNanos int64
	Page         int
	// Requests that were answered, and those among them that were sent again.
	Requests, Retries int

	backoff  *Backoff
	attempts int // of this page
	deadline int64
}

// Begin is a run of an instance that starts now.
func Begin(now int64, i *Instance) Run {
	if i.backoff == nil { // not one of a Schedule's
		b := BackoffOf(i.Job.Account.Provider)
		i.backoff = &b
	}
	return Run{Instance: i, StartedNanos: now, Page: 1, backoff: i.backoff, deadline: now + int64(i.Job.Deadline)}
}

// Retry tells whether the request that is asked for next was sent before.
func (r *Run) Retry() bool { return r.attempts > 0 }

// DeadlineNanos is until when the request that is asked for next may wait for its budget.
func (r *Run) DeadlineNanos() int64 { return r.deadline }

// Answered says what follows an answer: more tells that it names another page. draw is uniform in [0, 1), for the jitter.
func (r *Run) Answered(now int64, o Outcome, more bool, draw float64) (Step, int64) {
	r.Requests++
	if r.attempts > 0 {
		r.Retries++
	}
	r.attempts++
	switch {
	case o == Succeeded && !more:
		return Done, now
	case o == Succeeded:
		r.Page, r.attempts = r.Page+1, 0
		return r.send(now)
	case o == Rejected || r.attempts >= r.backoff.MaxAttempts || !r.repeatable(o):
		return Failed, now
	}
	return r.send(now + int64(r.backoff.Wait(r.attempts, draw)))
}

func (r *Run) send(at int64) (Step, int64) {
	r.deadline = at + int64(r.Instance.Job.Deadline)
	return Send, at
}

// repeatable: what a vendor refused because of a limit it has not done. Anything else may have happened, so only methods that may be
// repeated are (RFC 9110, section 9.2.2), or a job that says so.
func (r *Run) repeatable(o Outcome) bool {
	if o == RateLimited || r.Instance.Job.Spec.Idempotent {
		return true
	}
	switch r.Instance.Job.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return false
}

// Refused says what follows a refusal by the engine: the request waits for the instant from which it makes sense, if that precedes
// its deadline, so that a fan-out survives a minute's quota; else the run ends.
func (r *Run) Refused(now int64, refused *engine.RefusedError) (Step, int64) {
	if refused.Reason == engine.DeadlineExceeded || !refused.RetryKnown || refused.RetryAtNanos > r.deadline || now >= r.deadline {
		return Failed, now
	}
	return Send, max(now+1, refused.RetryAtNanos)
}

// PagesOf is the declared pagination of a job: its own, else its provider's; nil for none.
func PagesOf(j *validate.Job) *schema.Pagination {
	p := j.Spec.Pagination
	if p == nil {
		p = j.Account.Provider.Spec.Pagination
	}
	if p == nil || p.Type == "none" {
		return nil
	}
	return p
}
