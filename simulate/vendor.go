package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// vendor answers requests as the providers of a configuration would, faults included. Time is an argument, ours; the vendor's own
// clock may differ.
type vendor struct {
	config *validate.Config
	faults Faults
	rng    *rand.Rand
	// enforcer counts everybody. alone counts only our own requests, by the limits as declared, on our clock: what it refuses, the
	// engine should not have sent. It is nil where the enforcer counts nobody else. aside is the same by the vendor's clock, where
	// that differs: headers tell whose windows hold, so only what both refuse should not have been sent.
	enforcer, alone, aside *engine.Enforcer
	writers                map[string]*headerWriter
	statuses               map[string]int // the status that says rate limited, by provider
	// most is the most generous maximum or rate of the limits that changes have raised.
	most map[*validate.Limit]float64
}

// Cause is why a request was answered as rate limited.
type Cause string

const (
	// CauseOwn: our own requests alone exceed the limit, which must never happen.
	CauseOwn Cause = "own"
	// CauseOthers: it is exceeded together with those of others, by the vendor's clock, or because the vendor lowered it.
	CauseOthers Cause = "others"
	// CauseUnlearned: requests were sent whose owner was still to be learned, so that the limit was not asked.
	CauseUnlearned Cause = "unlearned"
	// CauseSpurious: no limit was met at all.
	CauseSpurious Cause = "spurious"
)

// answer is a vendor's answer on its way.
type answer struct {
	status  int
	fields  []engine.Field
	latency time.Duration

	// limited: it says rate limited, because of cause, by the limit named (empty for spurious ones).
	limited bool
	cause   Cause
	limit   string
	// retryAfterSeconds is what the answer says; 0 where it says nothing.
	retryAfterSeconds int64

	allowed      bool
	ticket       engine.Ticket
	counted      bool // by alone
	countedAside bool
	asideTicket  engine.Ticket
	ownTicket    engine.Ticket
	ownRefused   *engine.RefusedError // by alone
}

func newVendor(config *validate.Config, faults Faults, seed uint64) *vendor {
	v := &vendor{
		config: config, faults: faults, rng: rand.New(rand.NewPCG(seed, 0x76656e646f72)), enforcer: engine.NewEnforcer(config),
		writers: make(map[string]*headerWriter), statuses: make(map[string]int), most: make(map[*validate.Limit]float64),
	}
	if faults.External > 0 || faults.Skew != 0 || len(faults.Changes) > 0 {
		v.alone = engine.NewEnforcer(config)
	}
	if faults.Skew != 0 {
		v.aside = engine.NewEnforcer(config)
	}
	for _, p := range config.Providers {
		v.writers[p.Name] = newHeaderWriter(p)
		v.statuses[p.Name] = 429
		if l := p.Spec.Errors.RateLimited; l != nil && len(l.Status) > 0 {
			v.statuses[p.Name] = l.Status[0]
		}
	}
	return v
}

// clock is the vendor's.
func (v *vendor) clock(now int64) int64 { return now + int64(v.faults.Skew) }

// visitor is a request as a vendor sees it again and again.
type visitor struct {
	provider string
	// counted by everybody's limits, and by those of our own requests.
	all, alone, aside *engine.Prepared
}

// visitor resolves a request; Account is the credential that it presents. The error says that the request can never be served,
// because it costs more than a bucket holds.
func (v *vendor) visitor(now int64, r *match.Request) (*visitor, error) {
	all, err := v.enforcer.Prepare(v.clock(now), r)
	if err != nil {
		return nil, err
	}
	out := &visitor{provider: r.Provider, all: all}
	if v.alone != nil {
		out.alone, err = v.alone.Prepare(now, r)
	}
	if v.aside != nil && err == nil {
		out.aside, err = v.aside.Prepare(v.clock(now), r)
	}
	return out, err
}

// arrive answers a request that arrives now. own tells that it is ours. What is answered ends with finish, a latency later. room is
// used for the answer's fields.
func (v *vendor) arrive(now int64, r *visitor, own bool, room []engine.Field) answer {
	out := answer{latency: v.latency()}
	if own && v.alone != nil {
		v.countOwn(now, r, &out)
	}
	ticket, wait, refused := v.enforcer.AllowPrepared(v.clock(now), r.all)
	if refused == nil {
		out.allowed, out.ticket = true, ticket
		v.mishap(&out)
	} else {
		out.limited, out.limit, out.cause = true, refused.Limit, CauseOthers
		if own && v.alone == nil {
			out.ownRefused = refused
		}
		if out.ownRefused != nil {
			out.cause = CauseOwn
		}
	}
	if out.limited {
		out.status = v.statuses[r.provider]
		out.latency = min(out.latency, 100*time.Millisecond)
		if out.allowed {
			wait = 1
		}
		if !v.happens(v.faults.Curt) {
			out.retryAfterSeconds = wait
		}
	}
	if out.status != 0 {
		out.fields = v.headers(now, r, &out, room)
	}
	return out
}

// countOwn counts one of our requests by the limits that know of no other.
func (v *vendor) countOwn(now int64, r *visitor, out *answer) {
	out.ownTicket, _, out.ownRefused = v.alone.AllowPrepared(now, r.alone)
	out.counted = out.ownRefused == nil
	if v.aside == nil {
		return
	}
	var refused *engine.RefusedError
	out.asideTicket, _, refused = v.aside.AllowPrepared(v.clock(now), r.aside)
	out.countedAside = refused == nil
	if refused == nil {
		out.ownRefused = nil
	}
}

// mishap decides what becomes of a request that the limits let through.
func (v *vendor) mishap(out *answer) {
	switch {
	case v.happens(v.faults.Resets):
		out.status = 0
	case v.happens(v.faults.Errors):
		out.status = 503
	case v.happens(v.faults.Spurious):
		out.limited, out.cause = true, CauseSpurious
	default:
		out.status = 200
	}
}

// happens draws whether something that befalls a part of all requests does so now. Nothing is drawn for what never happens, so
// that a fault that is taken away leaves the others as they were.
func (v *vendor) happens(part float64) bool { return part > 0 && v.rng.Float64() < part }

// shortest is the latency of a vendor without any.
const shortest = time.Millisecond

func (v *vendor) latency() time.Duration {
	d := v.faults.Latency
	if v.faults.Jitter > 0 {
		d += time.Duration(v.rng.Int64N(2*int64(v.faults.Jitter)+1)) - v.faults.Jitter
	}
	if v.happens(v.faults.Slow) {
		d *= 10
	}
	return max(d, shortest)
}

// finish ends what arrive began.
func (v *vendor) finish(now int64, a *answer) {
	if a.allowed {
		v.enforcer.Done(v.clock(now), a.ticket, a.status)
	}
	if a.counted {
		v.alone.Done(now, a.ownTicket, a.status)
	}
	if a.countedAside {
		v.aside.Done(v.clock(now), a.asideTicket, a.status)
	}
}
