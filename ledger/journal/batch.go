package journal

import (
	"hash/maphash"
	"maps"
	"slices"
	"time"
)

// Record is a row inside its Batch: what varies, and numbers for what does not.
type Record struct {
	// AtNanos is when the request was granted, in nanoseconds since the epoch.
	AtNanos int64
	// LatencyNanos is how long after that the response had arrived.
	LatencyNanos int64
	// Number counts the records of the file from 1, bad ones included; Line is the line on which it begins (for files without
	// lines it is the number).
	Number, Line int64
	// Request numbers the request; see Batch.Request. Not negative: the same number means the same request in all batches of
	// a Reader. Negative: it holds in this batch only, because the journal has too many different ones to remember.
	Request int32
	// Fields numbers the set of header names, in the same way; see Batch.Fields.
	Fields int32
	// File is the index of the file in what was given to Open.
	File int32
	// Status is the response's, 0 for none.
	Status int32

	idHash  uint64 // 0 where there is no id
	values  uint32 // index of the first header value in the batch
	id      span
	extra   int32 // 1 + index into the batch's extras; 0 for none
	dropped bool  // a later row with the same id took its place
}

// Value is a header's value.
type Value struct {
	// Text is valid as long as the batch is.
	Text []byte
	// Number is the value of a text of 1 to 18 digits, else -1.
	Number int64
}

// span is a piece of a batch's text.
type span struct{ start, length uint32 }

type storedValue struct {
	number int64
	text   span
}

// extra is what few rows have.
type extra struct{ refused, body string }

// Batch is a run of rows. It is the reader's: what it holds is valid until the second call of Next after the one that gave it.
type Batch struct {
	// Records are the rows, in order of time; in order of file and number at one instant.
	Records []Record

	text   []byte
	values []storedValue
	extras []extra
	// requests and fields are the reader's tables; the local ones hold what did not fit there.
	requests, localRequests []string
	fields, localFields     [][]string

	bad      []*BadRowError
	badCount int64
	lines    int64   // in what was parsed into this batch, whole
	count    int64   // records, good and bad
	skipped  int64   // outside the asked interval, or of other hosts
	naive    []int32 // indices of records whose time is a wall time
	order    order
	base     uint32 // sequence number of the first record; set by the sorter
	home     recycler
}

// recycler takes back a batch that has been read.
type recycler interface{ recycle(*Batch) }

// order says how a batch lies in time.
type order struct {
	first, last int64 // smallest and largest AtNanos; meaningless for an empty batch
	sorted      bool
}

// Request decodes the request of a record. It costs about two microseconds: keep what you make of it, by number, where the
// number is not negative.
func (b *Batch) Request(r *Record) Request { return decodeRequest(b.requestText(r.Request)) }

func (b *Batch) requestText(number int32) string {
	if number < 0 {
		return b.localRequests[-1-number]
	}
	return b.requests[number]
}

// Fields are the header names of a record, in the order of its values. They must not be changed.
func (b *Batch) Fields(r *Record) []string {
	if r.Fields < 0 {
		return b.localFields[-1-r.Fields]
	}
	return b.fields[r.Fields]
}

// Value is the value of the i-th header name of a record.
func (b *Batch) Value(r *Record, i int) Value {
	v := &b.values[int(r.values)+i]
	return Value{Text: b.piece(v.text), Number: v.number}
}

// ID is the record's id, empty for none; valid as long as the batch is.
func (b *Batch) ID(r *Record) []byte { return b.piece(r.id) }

// Refused is the reason of a refusal, empty for a request that was sent.
func (b *Batch) Refused(r *Record) string {
	if r.extra == 0 {
		return ""
	}
	return b.extras[r.extra-1].refused
}

// Body is the response's body where the row has one.
func (b *Batch) Body(r *Record) string {
	if r.extra == 0 {
		return ""
	}
	return b.extras[r.extra-1].body
}

// Row is the record on its own, for programs that want few.
func (b *Batch) Row(r *Record) Row {
	row := Row{
		ID: string(b.ID(r)), At: time.Unix(0, r.AtNanos).UTC(), Request: b.Request(r), Status: int(r.Status),
		Latency: time.Duration(r.LatencyNanos), Refused: b.Refused(r), Body: b.Body(r),
	}
	if names := b.Fields(r); len(names) > 0 {
		row.Headers = make(map[string]string, len(names))
		for i, name := range names {
			row.Headers[name] = string(b.Value(r, i).Text)
		}
	}
	return row
}

func (b *Batch) piece(s span) []byte { return b.text[s.start : s.start+s.length : s.start+s.length] }

// reset empties the batch and keeps its memory.
func (b *Batch) reset() {
	clear(b.extras)
	*b = Batch{
		Records: b.Records[:0], text: b.text[:0], values: b.values[:0], extras: b.extras[:0],
		localRequests: b.localRequests[:0], localFields: b.localFields[:0], naive: b.naive[:0],
	}
}

func (b *Batch) addText(text []byte) span {
	s := span{uint32(len(b.text)), uint32(len(text))}
	b.text = append(b.text, text...)
	return s
}

func (b *Batch) addValue(text []byte) {
	b.values = append(b.values, storedValue{number: plainNumber(text), text: b.addText(text)})
}

func (b *Batch) addExtra(refused, body string) int32 {
	if refused == "" && body == "" {
		return 0
	}
	b.extras = append(b.extras, extra{refused, body})
	return int32(len(b.extras))
}

func (b *Batch) addLocalRequest(text string) int32 {
	b.localRequests = append(b.localRequests, text)
	return int32(-len(b.localRequests))
}

func (b *Batch) addLocalFields(names []string) int32 {
	b.localFields = append(b.localFields, names)
	return int32(-len(b.localFields))
}

// appendFrom copies a record, with all it refers to, from another batch of the same reader.
func (b *Batch) appendFrom(o *Batch, r *Record) {
	c := *r
	c.id = b.addText(o.ID(r))
	c.values = uint32(len(b.values))
	for i := range o.Fields(r) {
		v := o.values[int(r.values)+i]
		v.text = b.addText(o.piece(v.text))
		b.values = append(b.values, v)
	}
	if r.extra != 0 {
		c.extra = b.addExtra(o.Refused(r), o.Body(r))
	}
	if r.Request < 0 {
		c.Request = b.addLocalRequest(o.requestText(r.Request))
	}
	if r.Fields < 0 {
		c.Fields = b.addLocalFields(o.Fields(r))
	}
	b.Records = append(b.Records, c)
	b.requests, b.fields = longer(b.requests, o.requests), longer(b.fields, o.fields)
}

// longer picks the later of two snapshots of one growing table.
func longer[T any](a, b []T) []T {
	if len(b) > len(a) {
		return b
	}
	return a
}

// measure sets the order from the records.
func (b *Batch) measure() {
	if len(b.Records) == 0 {
		b.order = order{sorted: true}
		return
	}
	o := order{first: b.Records[0].AtNanos, last: b.Records[0].AtNanos, sorted: true}
	for i := range b.Records {
		at := b.Records[i].AtNanos
		if at < o.last {
			o.sorted = false
		}
		o.first, o.last = min(o.first, at), max(o.last, at)
	}
	b.order = o
}

// builder fills batches from rows that came in some other form than JSONL.
type builder struct {
	symbols *symbols
	batch   *Batch
	// provider and account stand in for those that a row does not have.
	provider, account string
	text              []byte // scratch
	known             spellings
}

// add appends a row; its instant may still be a wall time.
func (d *builder) add(row *Row, in instant, line, number int64) {
	b := d.batch
	rec := Record{
		AtNanos: in.nanos, LatencyNanos: int64(row.Latency), Number: number, Line: line, Status: int32(row.Status),
		extra: b.addExtra(row.Refused, row.Body), values: uint32(len(b.values)),
	}
	if row.ID != "" {
		id := []byte(row.ID)
		rec.id, rec.idHash = b.addText(id), maphash.Bytes(d.symbols.seed, id)|1
	}
	rec.Request = d.request(&row.Request)
	names := slices.Sorted(maps.Keys(row.Headers))
	rec.Fields = d.fieldSet(names)
	for _, name := range names {
		b.addValue([]byte(row.Headers[name]))
	}
	if in.naive {
		b.naive = append(b.naive, int32(len(b.Records)))
	}
	b.Records = append(b.Records, rec)
}

// request numbers a request, in the tables or else in the batch.
func (d *builder) request(r *Request) int32 {
	if r.Provider == "" {
		r.Provider = d.provider
	}
	if r.Account == "" {
		r.Account = d.account
	}
	d.text = appendRequest(d.text[:0], r)
	number := d.symbols.request(d.text)
	if number < 0 {
		return d.batch.addLocalRequest(string(d.text))
	}
	return number
}

func (d *builder) fieldSet(names []string) int32 {
	number := d.symbols.fieldSet(names)
	if number < 0 {
		return d.batch.addLocalFields(names)
	}
	return number
}

// finish makes the batch ready to be read.
func (d *builder) finish() *Batch {
	d.batch.requests, d.batch.fields = d.symbols.snapshot()
	return d.batch
}

// plainNumber is the value of 1 to 18 digits, else -1.
func plainNumber(text []byte) int64 {
	if len(text) == 0 || len(text) > 18 {
		return -1
	}
	n := int64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
