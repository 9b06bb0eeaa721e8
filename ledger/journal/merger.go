package journal

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// merger puts the rows of several files into one order, as far as each file is in order itself.
type merger struct {
	waiting []*input // not yet begun; the one whose first row is earliest comes first
	active  []*head
	spare   []*Batch
}

// head is where a file has been read to.
type head struct {
	input *input
	batch *Batch
	at    int // the next record
}

func (h *head) record() *Record { return &h.batch.Records[h.at] }

func newMerger(inputs []*input) *merger {
	m := &merger{waiting: slices.Clone(inputs)}
	slices.SortStableFunc(m.waiting, func(a, b *input) int { return cmp.Compare(a.first, b.first) })
	return m
}

// next gives the next rows; io.EOF after all files.
func (m *merger) next() (*Batch, error) {
	if err := m.begin(); err != nil {
		return nil, err
	}
	if len(m.active) == 0 {
		return nil, io.EOF
	}
	h := m.first()
	if h.at == 0 && m.alone(h) {
		b := h.batch
		return b, m.advance(h)
	}
	out := m.emptyBatch()
	for len(out.Records) < pumpRows {
		out.appendFrom(h.batch, h.record())
		if h.at++; h.at == len(h.batch.Records) {
			h.batch.home.recycle(h.batch)
			if err := m.advance(h); err != nil {
				return nil, err
			}
			break // files that begin here may have to be begun
		}
		if len(m.active) > 1 {
			h = m.first()
		}
	}
	out.measure()
	return out, nil
}

// begin opens the files whose first row may be next.
func (m *merger) begin() error {
	for len(m.waiting) > 0 {
		if len(m.active) > 0 && m.waiting[0].first > m.horizon() {
			return nil
		}
		h := &head{input: m.waiting[0]}
		m.waiting = m.waiting[1:]
		m.active = append(m.active, h)
		if err := m.advance(h); err != nil {
			return err
		}
	}
	return nil
}

// horizon is the latest instant that the next batch may reach.
func (m *merger) horizon() int64 {
	last := m.active[0].batch.order.last
	for _, h := range m.active {
		last = min(last, h.batch.order.last)
	}
	return last
}

// first picks the file whose next row comes first.
func (m *merger) first() *head {
	best := m.active[0]
	for _, h := range m.active[1:] {
		if before(h.record(), best.record()) {
			best = h
		}
	}
	return best
}

// alone tells whether a whole batch comes before all other files' rows.
func (m *merger) alone(h *head) bool {
	for _, o := range m.active {
		if o != h && o.record().AtNanos <= h.batch.order.last {
			return false
		}
	}
	return true
}

// advance moves to a file's next batch with rows, or drops the file.
func (m *merger) advance(h *head) error {
	for {
		b, err := h.input.next()
		if errors.Is(err, io.EOF) {
			h.input.close()
			m.active = slices.DeleteFunc(m.active, func(o *head) bool { return o == h })
			return nil
		}
		if err != nil {
			return err
		}
		if len(b.Records) > 0 {
			h.batch, h.at = b, 0
			return nil
		}
		b.home.recycle(b)
	}
}

func (m *merger) emptyBatch() *Batch {
	b := &Batch{}
	if n := len(m.spare); n > 0 {
		b, m.spare = m.spare[n-1], m.spare[:n-1]
		b.reset()
	}
	b.home = m
	return b
}

func (m *merger) recycle(b *Batch) { m.spare = append(m.spare, b) }
