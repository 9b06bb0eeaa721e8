package replay

import (
	"container/heap"
	"math"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger/journal"
)

// With enforcement: rows arrive at their instant, wait as long as their job lets them, and are settled by the recorded response
// as long after their grant as it took then.

// arrival is a row that arrives, waits, or is under way.
type arrival struct {
	call    engine.Call
	virtual *virtual
	request *request
	row     rowPlace
	at      int64
	// decided is its place among the decisions; nil where nobody asks.
	decided  *pending
	response engine.Response
	latency  int64
	due      int64
	text     []byte
	explain  bool
}

// virtual drives a side's engine in virtual time.
type virtual struct {
	side *side
	loop *engine.Loop
	// group are the arrivals of the latest instant, which must come together.
	group []*engine.Call
	at    int64
	// waiting are those that are not decided, in order of arrival.
	waiting map[*arrival]struct{}
	due     dueHeap
	free    []*arrival
}

func newVirtual(s *side) *virtual {
	return &virtual{side: s, loop: s.engine.Loop(), at: noInstant, waiting: make(map[*arrival]struct{})}
}

// arrive takes a row as an arrival. Those of one instant wait for each other.
func (s *side) arrive(b *journal.Batch, rec *journal.Record, q *request) {
	v := s.virtual
	if rec.AtNanos != v.at {
		v.flush()
		v.at = rec.AtNanos
	}
	a := v.arrival()
	a.request, a.row, a.at, a.latency = q, placeOf(rec), rec.AtNanos, rec.LatencyNanos
	a.decided = s.decisions.begin(a)
	if x := s.options.Explain; x != nil && x.Number == rec.Number && x.File == int(rec.File) {
		v.loop.RunTo(rec.AtNanos - 1)
		s.explain(b, rec, q)
		a.explain = true
	}
	if q.prepared == nil {
		s.decisions.unresolved(a, q.why)
		v.free = append(v.free, a)
		return
	}
	a.keep(s, b, rec)
	a.call.Prepared, a.call.Retry, a.call.DeadlineNanos = q.prepared, q.retry, saturatedAdd(rec.AtNanos, q.patience)
	v.waiting[a] = struct{}{}
	v.group = append(v.group, &a.call)
}

// keep copies the response: the batch is gone before it is read. A request that was refused then has no response; it is taken to
// succeed at once.
func (a *arrival) keep(s *side, b *journal.Batch, rec *journal.Record) {
	s.readResponse(&a.response, b, rec)
	a.text = ownText(a.text[:0], a.response.Fields)
	if a.response.Status == 0 && b.Refused(rec) != "" {
		a.response.Status = assumedStatus
	}
}

const assumedStatus = 200

// arrival is an unused one.
func (v *virtual) arrival() *arrival {
	if n := len(v.free); n > 0 {
		a := v.free[n-1]
		v.free = v.free[:n-1]
		a.explain = false
		return a
	}
	a := &arrival{virtual: v}
	a.call.Done = a.done
	return a
}

// flush lets the arrivals of the latest instant come.
func (v *virtual) flush() {
	if len(v.group) == 0 {
		return
	}
	v.loop.Arrive(v.at, v.group...)
	v.group = v.group[:0]
	v.recycle(v.at)
}

// runTo lets everything happen up to and including an instant, which is before the arrivals that are still to come.
func (v *virtual) runTo(until int64) {
	if len(v.group) > 0 && v.at <= until {
		v.flush()
	}
	v.loop.RunTo(until)
	v.recycle(until)
}

// finish lets all happen that is still due at the present of the report.
func (v *virtual) finish() {
	v.flush()
	if until := v.side.until; until != noInstant {
		v.loop.RunTo(until)
		return
	}
	v.loop.Drain()
}

// done hears what became of an arrival.
func (a *arrival) done(now int64, _ engine.Ticket, refused *engine.RefusedError) (*engine.Response, int64) {
	v := a.virtual
	s := v.side
	delete(v.waiting, a)
	if a.explain {
		s.explained.decided(now, refused)
	}
	s.decisions.decide(a, now, refused)
	s.settled = max(s.settled, now)
	if refused != nil {
		if a.request.job != nil {
			a.request.job.refused++
		}
		v.free = append(v.free, a)
		return nil, 0
	}
	a.request.granted(s, now)
	if a.request.job != nil {
		a.request.job.latency.add(a.latency)
	}
	a.due = saturatedAdd(now, a.latency)
	s.settled = max(s.settled, a.due)
	heap.Push(&v.due, a)
	return &a.response, a.latency
}

// recycle takes back arrivals whose responses have been read.
func (v *virtual) recycle(until int64) {
	for len(v.due) > 0 && v.due[0].due < until {
		v.free = append(v.free, heap.Pop(&v.due).(*arrival))
	}
}

// dueHeap holds the arrivals under way, by the instant of their responses.
type dueHeap []*arrival

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(*arrival)) }

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func saturatedAdd(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// underWay are the arrivals that were granted and whose responses have not been read; nil for a replay as recorded.
func (v *virtual) underWay() []*arrival {
	if v == nil {
		return nil
	}
	return v.due
}

// landing are the arrivals whose responses are being read.
func (v *virtual) landing() []*arrival {
	var list []*arrival
	for _, a := range v.due {
		if a.due == v.side.engine.Now() {
			list = append(list, a)
		}
	}
	return list
}
