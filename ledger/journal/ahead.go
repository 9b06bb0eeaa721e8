package journal

// A journal has thousands of requests, and where rows of all of them are mixed, the place of the next one's spelling is in no
// cache: a parser would spend a quarter of its time waiting for it. So rows of the canonical layout are read on, as if their
// spelling were known, and some later the places are looked at together; waits that do not depend on each other pass together.
// Where a spelling turns out not to be known, everything from its row on is taken back and read again, one by one.

const (
	// aheadRows is how many rows are read before their requests are looked up.
	aheadRows = 16
	// sureAfter is how many spellings in a row must have been known before that is worth it.
	sureAfter = 64
)

// guess is a row whose request has not been looked up.
type guess struct {
	text         []byte
	mark         fingerprint // of the presumed spelling of its request
	line, number int64
	// undo is the state of the batch before it.
	undo batchSize
}

// batchSize is how much a batch holds.
type batchSize struct{ records, text, values, extras int }

func (b *Batch) size() batchSize {
	return batchSize{len(b.Records), len(b.text), len(b.values), len(b.extras)}
}

// cut takes back what was added since.
func (b *Batch) cut(to batchSize) {
	b.Records, b.text, b.values, b.extras = b.Records[:to.records], b.text[:to.text], b.values[:to.values], b.extras[:to.extras]
}

// guess reads a row of the canonical layout whose request ends where those of the last rows did; false where it does not.
func (s *scanner) guess(b []byte, line, number int64) bool {
	undo := s.batch.size()
	rec := Record{Line: line, Number: number}
	if p := s.canonicalHead(b, &rec); p >= 0 {
		if end := s.likelyEnd(b, p); end >= 0 && s.canonicalOutcome(b, end, &rec) {
			s.batch.Records = append(s.batch.Records, rec)
			s.guesses = append(s.guesses, guess{b, s.symbols.fingerprint(b[p:end]), line, number, undo})
			return true
		}
	}
	s.batch.cut(undo)
	return false
}

// settle looks up the requests of the rows that were read ahead. Bad rows among them are added to the batch's.
func (s *scanner) settle() {
	for i := range s.guesses {
		s.touched += s.known.peek(s.guesses[i].mark)
	}
	for i := range s.guesses {
		g := &s.guesses[i]
		number, ok := s.known.lookup(g.mark)
		if !ok {
			s.batch.cut(g.undo)
			s.again(s.guesses[i:])
			break
		}
		s.batch.Records[g.undo.records].Request = number
	}
	s.guesses = s.guesses[:0]
}

// again reads rows one by one.
func (s *scanner) again(rows []guess) {
	s.streak = 0
	for i := range rows {
		if err := s.one(rows[i].text, rows[i].line, rows[i].number); err != nil {
			s.batch.addBad(rows[i].line, rows[i].number, err)
		}
	}
}

// finish makes the batch ready to be read.
func (s *scanner) finish() *Batch {
	s.settle()
	return s.builder.finish()
}
