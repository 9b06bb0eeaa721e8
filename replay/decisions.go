package replay

import (
	"container/heap"
	"time"

	"github.com/tapyr/tapyr/engine"
)

// Decision is what the engine would have done with a row.
type Decision struct {
	RowID
	// TS is when the request arrived.
	TS time.Time
	// Granted tells whether it would have gone, At when, or when it was refused.
	Granted bool
	At      time.Time
	// Reason, Limit and Key are those of a refusal; Reason is unresolved where no document knows the provider or account, or the
	// request costs more than a bucket holds.
	Reason, Limit, Key string
	// RetryAt is the instant from which a retry makes sense; zero where none is known.
	RetryAt time.Time
}

// unresolvedReason is of rows that do not concern any limit.
const unresolvedReason = "unresolved"

// holdBack is how many decisions are held where numbers are missing before them (of bad rows, or of rows that are still to come), so
// that they come out in the order of the file: as many as the reader's sorting can move a row.
const holdBack = 1 << 16

// decisions puts them in order.
type decisions struct {
	hear func(*Decision) error
	err  error
	// waiting are by the order of rows in the file, or of their arrival where there are several files.
	waiting pendings
	arrived int64
	told    int64 // the order of the last one that was told
	free    []*pending
}

// pending is a decision that has not been told.
type pending struct {
	Decision
	order   int64
	decided bool
}

type pendings []*pending

func (p pendings) Len() int           { return len(p) }
func (p pendings) Less(i, j int) bool { return p[i].order < p[j].order }
func (p pendings) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }

// Push implements heap.Interface.
func (p *pendings) Push(x any) { *p = append(*p, x.(*pending)) }

// Pop implements heap.Interface.
func (p *pendings) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

func newDecisions(hear func(*Decision) error) *decisions { return &decisions{hear: hear} }

// begin makes a place for an arrival's decision.
func (d *decisions) begin(a *arrival) *pending {
	if d.hear == nil {
		return nil
	}
	p := new(pending)
	if n := len(d.free); n > 0 {
		p, d.free = d.free[n-1], d.free[:n-1]
	}
	d.arrived++
	*p = pending{order: a.row.number, Decision: Decision{RowID: RowID{int(a.row.file), a.row.number}, TS: instantOf(a.at)}}
	if a.virtual.side.options.Files > 1 {
		p.order = d.arrived
	}
	heap.Push(&d.waiting, p)
	return p
}

// decide notes what became of a row.
func (d *decisions) decide(a *arrival, now int64, refused *engine.RefusedError) {
	p := a.decided
	if p == nil {
		return
	}
	p.decided, p.Granted, p.At = true, refused == nil, instantOf(now)
	if refused != nil {
		p.Reason, p.Limit, p.Key = string(refused.Reason), refused.Limit, refused.Key
		if refused.RetryKnown {
			p.RetryAt = instantOf(refused.RetryAtNanos)
		}
	}
	d.tell(holdBack)
}

// unresolved notes a row that cannot be decided.
func (d *decisions) unresolved(a *arrival, _ error) {
	if p := a.decided; p != nil {
		p.decided, p.At, p.Reason = true, p.TS, unresolvedReason
		d.tell(holdBack)
	}
}

// tell tells what is decided and next in order; where numbers are missing, all but so many.
func (d *decisions) tell(but int) {
	for len(d.waiting) > 0 && d.waiting[0].decided && d.err == nil {
		if len(d.waiting) <= but && d.waiting[0].order != d.told+1 {
			return
		}
		p := heap.Pop(&d.waiting).(*pending)
		d.told = max(d.told, p.order)
		d.err = d.hear(&p.Decision)
		d.free = append(d.free, p)
	}
}

// finish tells the rest. What is not decided at the present of the report is left out.
func (d *decisions) finish() error {
	for len(d.waiting) > 0 && d.err == nil {
		if !d.waiting[0].decided {
			heap.Pop(&d.waiting)
			continue
		}
		d.tell(0)
	}
	return d.err
}
