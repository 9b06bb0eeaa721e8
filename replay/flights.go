package replay

import (
	"unsafe"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger/journal"
)

// As recorded: every row is granted at its instant, and its response read when it had arrived. At one instant responses come
// before grants, and both in the order of the rows.

// flight is a recorded request whose response has not been read.
type flight struct {
	ticket  engine.Ticket
	row     rowPlace
	latency int64
	request *request
	job     *jobTally
	// record is where the response's values are, while the batch is the present one; else detached.
	record   *journal.Record
	response engine.Response
	// text holds the values of a response that outlives its batch.
	text []byte
}

// rowPlace is where a row stands.
type rowPlace struct {
	file         int32
	number, line int64
}

func placeOf(rec *journal.Record) rowPlace { return rowPlace{rec.File, rec.Number, rec.Line} }

// landing is an entry of the heap of flights, by instant and then by order of the grants.
type landing struct {
	at   int64
	seq  uint64
	slot int32
}

// flights are those under way.
type flights struct {
	side  *side
	batch *journal.Batch // the present one
	heap  []landing
	slots []flight
	free  []int32
	seq   uint64
	// answers is room for those of one instant, landed for their slots.
	answers []engine.Answer
	landed  []int32
	now     int64 // the instant of landed
}

// record takes a row as it was.
func (s *side) record(b *journal.Batch, rec *journal.Record, q *request) {
	f := &s.flights
	f.batch = b
	if len(f.heap) > 0 && f.heap[0].at <= rec.AtNanos {
		f.settleTo(rec.AtNanos)
	}
	s.settled = max(s.settled, rec.AtNanos+rec.LatencyNanos)
	if x := s.options.Explain; x != nil && x.Number == rec.Number && x.File == int(rec.File) {
		s.explain(b, rec, q)
	}
	if q.prepared == nil {
		return
	}
	if reason := b.Refused(rec); reason != "" {
		s.engine.Decline(rec.AtNanos, q.prepared, q.retry, engine.Reason(reason))
		if q.job != nil {
			q.job.refused++
		}
		return
	}
	ticket, allowed := s.engine.Force(rec.AtNanos, q.prepared, q.retry)
	if s.explained != nil && s.explained.pending {
		s.explained.recorded(allowed)
	}
	q.granted(s, rec.AtNanos)
	slot := f.slot()
	fl := &f.slots[slot]
	fl.ticket, fl.row, fl.latency, fl.request, fl.job, fl.record = ticket, placeOf(rec), rec.LatencyNanos, q, q.job, rec
	f.seq++
	f.push(landing{rec.AtNanos + rec.LatencyNanos, f.seq, slot})
}

func (f *flights) slot() int32 {
	if n := len(f.free); n > 0 {
		slot := f.free[n-1]
		f.free = f.free[:n-1]
		return slot
	}
	f.slots = append(f.slots, flight{})
	return int32(len(f.slots) - 1)
}

// settleTo reads all responses up to an instant.
func (f *flights) settleTo(until int64) {
	for len(f.heap) > 0 && f.heap[0].at <= until {
		at := f.heap[0].at
		f.now = at
		first := f.land()
		if len(f.heap) == 0 || f.heap[0].at != at { // nearly always
			fl := &f.slots[first]
			f.side.engine.Settle(at, fl.ticket, &fl.response)
			f.side.engine.Release(at, fl.ticket)
		} else {
			f.settleTogether(at, first)
		}
		f.free = append(f.free, f.landed...)
		f.landed = f.landed[:0]
	}
}

// settleTogether reads the responses of one instant, the first of which has landed.
func (f *flights) settleTogether(at int64, first int32) {
	f.answers = append(f.answers[:0], engine.Answer{Ticket: f.slots[first].ticket, Response: &f.slots[first].response})
	for len(f.heap) > 0 && f.heap[0].at == at {
		fl := &f.slots[f.land()]
		f.answers = append(f.answers, engine.Answer{Ticket: fl.ticket, Response: &fl.response})
	}
	f.side.engine.SettleAll(at, f.answers)
}

// land takes the first flight off the heap, and makes its response ready.
func (f *flights) land() int32 {
	slot := f.pop().slot
	fl := &f.slots[slot]
	if fl.record != nil {
		f.side.readResponse(&fl.response, f.batch, fl.record)
	}
	if fl.job != nil {
		fl.job.latency.add(fl.latency)
	}
	f.landed = append(f.landed, slot)
	return slot
}

// readResponse fills in a response, whose values share the batch's text.
func (s *side) readResponse(r *engine.Response, b *journal.Batch, rec *journal.Record) {
	fields, numbers := r.Fields[:0], r.Numbers[:0]
	for i, name := range s.names.of(b, rec) {
		v := b.Value(rec, i)
		fields, numbers = append(fields, engine.Field{Name: name, Value: viewOf(v.Text)}), append(numbers, v.Number)
	}
	*r = engine.Response{Status: int(rec.Status), Fields: fields, Numbers: numbers, Body: b.Body(rec)}
}

// viewOf is the text of bytes without a copy: it holds as long as they stay as they are. The engine keeps nothing of a response.
func viewOf(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // the batch outlives the settling, which keeps nothing
}

// detach takes what is still under way out of a batch that is about to go.
func (f *flights) detach(b *journal.Batch) {
	for _, l := range f.heap {
		fl := &f.slots[l.slot]
		if fl.record == nil {
			continue
		}
		f.side.readResponse(&fl.response, b, fl.record)
		fl.text = ownText(fl.text[:0], fl.response.Fields)
		fl.record = nil
	}
}

// ownText copies the values of fields into text, which they then share.
func ownText(text []byte, fields []engine.Field) []byte {
	for i := range fields {
		text = append(text, fields[i].Value...)
	}
	at := 0
	for i := range fields {
		n := len(fields[i].Value)
		fields[i].Value = viewOf(text[at : at+n])
		at += n
	}
	return text
}

func (l landing) before(o landing) bool { return l.at < o.at || l.at == o.at && l.seq < o.seq }

// push and pop keep the heap.
func (f *flights) push(l landing) {
	f.heap = append(f.heap, l)
	i := len(f.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !f.heap[i].before(f.heap[parent]) {
			break
		}
		f.heap[i], f.heap[parent] = f.heap[parent], f.heap[i]
		i = parent
	}
}

func (f *flights) pop() landing {
	top := f.heap[0]
	last := len(f.heap) - 1
	f.heap[0] = f.heap[last]
	f.heap = f.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if f.heap[child].before(f.heap[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		f.heap[i], f.heap[least] = f.heap[least], f.heap[i]
		i = least
	}
}
