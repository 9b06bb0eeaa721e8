package journal

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"sort"
)

// sorter holds rows back until nothing earlier is expected, and finds repeated ids among those it holds.
//
// Files are nearly always in order, and then batches pass through whole. Once one is not, all that is held is sorted.
//
// Invariants: rows is the number of records in pending; if not mixed, pending is sorted by before.
type sorter struct {
	limit      int // rows to hold back
	dedupe     bool
	unordered  bool // never sort
	symbols    *symbols
	pending    []*Batch
	rows       int
	mixed      bool
	ended      bool   // nothing more will be pushed
	emitted    Record // the last one given out
	any        bool   // something was given out
	latest     int64  // largest AtNanos pushed
	duplicates int64
	ids        idTable
	spare      []*Batch
}

func newSorter(o *Options, syms *symbols) *sorter {
	return &sorter{
		limit: o.SortRows, dedupe: o.Dedupe, unordered: o.Unordered, symbols: syms, latest: minNanos, ids: newIDTable(o.SortRows),
	}
}

// before is the order of rows.
func before(a, b *Record) bool { return compareRecords(a, b) < 0 }

func compareRecords(a, b *Record) int {
	if a.AtNanos != b.AtNanos {
		return cmp.Compare(a.AtNanos, b.AtNanos)
	}
	if a.File != b.File {
		return cmp.Compare(a.File, b.File)
	}
	return cmp.Compare(a.Number, b.Number)
}

// push takes a batch. It returns a record that comes too late, if there is one.
func (s *sorter) push(b *Batch) (late *Record) {
	if len(b.Records) == 0 {
		b.home.recycle(b)
		return nil
	}
	if s.any && !s.unordered && b.order.first <= s.emitted.AtNanos {
		for i := range b.Records {
			if before(&b.Records[i], &s.emitted) {
				return &b.Records[i]
			}
		}
	}
	switch {
	case s.unordered: // as it comes
	case !b.order.sorted || b.order.first < s.latest:
		s.mixed = true
	case b.order.first == s.latest && len(s.pending) > 0:
		last := s.pending[len(s.pending)-1].Records
		s.mixed = s.mixed || before(&b.Records[0], &last[len(last)-1])
	}
	if s.ids.next > 1<<31 {
		s.mixed = true // sorting numbers the rows anew, before the numbers run out
	}
	s.latest = max(s.latest, b.order.last)
	s.pending = append(s.pending, b)
	s.rows += len(b.Records)
	s.index(b)
	return nil
}

// index enters a batch's ids, and drops the earlier of two rows with the same.
func (s *sorter) index(b *Batch) {
	b.base = s.ids.next
	for i := range b.Records {
		if i%touchRows == 0 {
			s.ids.touch(b.Records[i:min(i+touchRows, len(b.Records))])
		}
		rec := &b.Records[i]
		sequence := s.ids.next
		s.ids.next++
		if rec.dropped {
			continue
		}
		if rec.idHash == 0 {
			if !s.dedupe {
				continue
			}
			rec.idHash = s.contentHash(b, rec)
		}
		slot := s.ids.find(rec.idHash, func(other uint32) bool { return s.replaces(b, rec, other) })
		s.ids.put(slot, rec.idHash, sequence)
	}
}

// replaces tells whether the record is the same event as the one with that sequence number, and if so drops the one that
// stands earlier in the files.
func (s *sorter) replaces(b *Batch, rec *Record, sequence uint32) bool {
	i := sort.Search(len(s.pending), func(i int) bool { return s.pending[i].base > sequence }) - 1
	if i < 0 || int(sequence-s.pending[i].base) >= len(s.pending[i].Records) {
		return false // given out already
	}
	ob := s.pending[i]
	other := &ob.Records[sequence-ob.base]
	if other == rec || other.dropped || !sameEvent(b, rec, ob, other) {
		return false
	}
	s.duplicates++
	if other.File > rec.File || (other.File == rec.File && other.Number > rec.Number) {
		rec.dropped = true
		return false // the other one stays where it is found
	}
	other.dropped = true
	return true
}

// sameEvent: the key of an event is provider, account and id; without an id it is the whole row.
func sameEvent(a *Batch, r *Record, b *Batch, o *Record) bool {
	if r.id.length != o.id.length {
		return false
	}
	if r.id.length == 0 {
		x, y := a.Row(r), b.Row(o)
		return x.Equal(&y)
	}
	if !bytes.Equal(a.ID(r), b.ID(o)) {
		return false
	}
	if r.Request == o.Request && r.Request >= 0 {
		return true
	}
	x, y := a.Request(r), b.Request(o)
	return x.Provider == y.Provider && x.Account == y.Account
}

// contentHash stands in for an id where there is none. Values count in the order of the row's own header names, so that rows
// that differ only in that order may be taken for two; nothing is dropped wrongly.
func (s *sorter) contentHash(b *Batch, r *Record) uint64 {
	var h maphash.Hash
	h.SetSeed(s.symbols.seed)
	maphash.WriteComparable(&h, [3]int64{r.AtNanos, r.LatencyNanos, int64(r.Status)})
	h.WriteString(b.requestText(r.Request))
	for i := range b.Fields(r) {
		h.Write(b.Value(r, i).Text)
	}
	return h.Sum64() | 1
}

// pop returns rows that are due, or nil.
func (s *sorter) pop() *Batch {
	if s.mixed && (s.ended || s.rows >= 2*s.limit) {
		s.sort()
	}
	for !s.mixed && len(s.pending) > 0 {
		b := s.pending[0]
		if !s.ended && s.rows-len(b.Records) < s.limit {
			return nil
		}
		s.pending[0] = nil
		s.pending = s.pending[1:]
		s.rows -= len(b.Records)
		s.emitted, s.any = b.Records[len(b.Records)-1], true
		if s.compact(b); len(b.Records) > 0 {
			return b
		}
		b.home.recycle(b)
	}
	return nil
}

// compact removes dropped rows from a batch that is about to be given out.
func (s *sorter) compact(b *Batch) {
	if s.duplicates == 0 {
		return
	}
	b.Records = slices.DeleteFunc(b.Records, func(r Record) bool { return r.dropped })
}

// place is where a pending record is.
type place struct {
	batch, record int32
}

// sort rebuilds pending in order. What was dropped goes.
func (s *sorter) sort() {
	places := make([]place, 0, s.rows)
	for i, b := range s.pending {
		for j := range b.Records {
			if !b.Records[j].dropped {
				places = append(places, place{int32(i), int32(j)})
			}
		}
	}
	at := func(p place) *Record { return &s.pending[p.batch].Records[p.record] }
	slices.SortFunc(places, func(a, b place) int { return compareRecords(at(a), at(b)) })
	var sorted []*Batch
	for len(places) > 0 {
		n := min(len(places), pumpRows)
		out := s.emptyBatch()
		for _, p := range places[:n] {
			out.appendFrom(s.pending[p.batch], at(p))
		}
		out.measure()
		sorted = append(sorted, out)
		places = places[n:]
	}
	for _, b := range s.pending {
		b.home.recycle(b)
	}
	s.pending, s.rows, s.mixed = sorted, 0, false
	s.ids.clear()
	for _, b := range s.pending {
		s.rows += len(b.Records)
		s.index(b)
	}
}

func (s *sorter) emptyBatch() *Batch {
	b := &Batch{}
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1], s.spare[:n-1]
		b.reset()
	}
	b.home = s
	return b
}

func (s *sorter) recycle(b *Batch) { s.spare = append(s.spare, b) }

// idTable finds the sequence numbers of recent ids by their hashes: two generations of an open hash table, of which the older
// is forgotten when the newer is full. An entry is the upper half of the hash and the sequence number; 0 is an empty slot.
type idTable struct {
	recent, old []uint64
	used, limit int
	next        uint32 // sequence number of the next row; from 1, so that no entry is 0
	touched     uint64 // what touch has read, so that it reads
}

func newIDTable(limit int) idTable {
	size := 1024
	for size < 2*limit {
		size *= 2
	}
	return idTable{recent: make([]uint64, size), old: make([]uint64, size), limit: max(limit, 512), next: 1}
}

// touchRows is how many rows' places in the tables are read at once: waits for memory that do not depend on each other pass
// together, and nearly every place is one.
const touchRows = 32

func (t *idTable) touch(rows []Record) {
	mask, sum := uint64(len(t.recent)-1), uint64(0)
	for i := range rows {
		if hash := rows[i].idHash; hash != 0 {
			sum += t.recent[hash&mask] + t.old[hash&mask]
		}
	}
	t.touched += sum
}

func (t *idTable) clear() {
	clear(t.recent)
	clear(t.old)
	t.used, t.next = 0, 1
}

// find looks for an entry that is the same event, and returns its slot in recent, else a free one.
func (t *idTable) find(hash uint64, same func(sequence uint32) bool) *uint64 {
	mask := uint64(len(t.recent) - 1)
	for i := hash & mask; t.old[i] != 0; i = (i + 1) & mask {
		if t.old[i]>>32 == hash>>32 && same(uint32(t.old[i])) {
			break
		}
	}
	for i := hash & mask; ; i = (i + 1) & mask {
		e := &t.recent[i]
		if *e == 0 || (*e>>32 == hash>>32 && same(uint32(*e))) {
			return e
		}
	}
}

func (t *idTable) put(slot *uint64, hash uint64, sequence uint32) {
	if *slot == 0 {
		t.used++
	}
	*slot = hash&^(1<<32-1) | uint64(sequence)
	if t.used >= t.limit {
		t.recent, t.old = t.old, t.recent
		clear(t.recent)
		t.used = 0
	}
}
