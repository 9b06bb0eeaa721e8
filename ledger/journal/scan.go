package journal

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// scanner turns lines of JSON into records. It has three ways, and each passes on what it does not know for certain:
//
//   - canonical: the layout that AppendJSON writes. The members that describe the request stand together and are recognised
//     as a whole, by their bytes; they were parsed when they first occurred.
//   - general: members in any order, with any white space; strings without escapes.
//   - decodeLine, by which all others are measured.
//
// So a line is never refused, and never read differently, for being quick to read.
type scanner struct {
	builder

	// lengths are those of other requests' texts, the more frequent ones first: a request's end is first looked for there.
	lengths [16]int
	turn    int
	// recent are the last sets of header names, the newest first.
	recent [4]*fieldPattern
	// ahead lets rows be read before their requests are looked up; line then reports some bad rows to the batch and not to its
	// caller. guesses are those rows, and streak is how many spellings in a row were known.
	ahead   bool
	guesses []guess
	streak  int
	touched uint64 // what settle has read, so that it reads
	// misses counts lines in another layout, less those in the canonical one: beyond a bound the try is not worth it.
	misses int

	date    uint64 // "2026-11-" as the file has it, with date2 the days that dateNanos stands for
	date2   uint64
	dateNs  int64
	spans   [slotsInLine][]byte // of the general way
	fields  []fieldSpan
	members []memberSpan
	key     []byte
}

type fieldSpan struct{ name, value []byte }

// memberSpan is a member of a row that is not one of ours.
type memberSpan struct{ name []byte }

// fieldPattern is a set of header names as the canonical layout spells it.
type fieldPattern struct {
	number int32
	// prefixes[i] stands before the i-th value: "Name":" and, from the second on, a comma before.
	prefixes [][]byte
}

const maxMisses = 64

// line reads one line, which is not blank. line and number are relative to the batch.
func (s *scanner) line(b []byte, line, number int64) error {
	if s.ahead && s.streak >= sureAfter {
		if s.guess(b, line, number) {
			if len(s.guesses) == aheadRows {
				s.settle()
			}
			return nil
		}
		s.settle()
	}
	return s.one(b, line, number)
}

// one reads one line.
func (s *scanner) one(b []byte, line, number int64) error {
	n, text, values := len(s.batch.Records), len(s.batch.text), len(s.batch.values)
	var rec Record
	rec.Line, rec.Number = line, number
	if s.misses < maxMisses {
		if s.canonical(b, &rec) {
			s.batch.Records = append(s.batch.Records, rec)
			s.misses = max(s.misses-1, -maxMisses)
			return nil
		}
		s.misses++
		s.streak = 0
		s.batch.text, s.batch.values = s.batch.text[:text], s.batch.values[:values]
		rec = Record{Line: line, Number: number}
	}
	if s.general(b, &rec) {
		s.batch.Records = append(s.batch.Records, rec)
		return nil
	}
	s.batch.Records, s.batch.text, s.batch.values = s.batch.Records[:n], s.batch.text[:text], s.batch.values[:values]
	row, in, err := decodeLine(b)
	if err != nil {
		return err
	}
	s.add(&row, in, line, number)
	return nil
}

// canonical reads the layout of AppendJSON.
func (s *scanner) canonical(b []byte, rec *Record) bool {
	p := s.canonicalHead(b, rec)
	if p < 0 {
		return false
	}
	end, number, ok := s.canonicalRequest(b, p)
	if !ok {
		return false
	}
	rec.Request = number
	return s.canonicalOutcome(b, end, rec)
}

// canonicalHead reads the id, where there is one, and the instant, and returns the place behind them, or -1.
func (s *scanner) canonicalHead(b []byte, rec *Record) int {
	const name = `{"id":"`
	p := 1
	if len(b) > len(name) && string(b[:len(name)]) == name {
		end := plainEnd(b, len(name))
		if end >= len(b) || b[end] != '"' || end == len(name) {
			return -1
		}
		id := b[len(name):end]
		rec.id, rec.idHash = s.batch.addText(id), maphash.Bytes(s.symbols.seed, id)|1
		p = end + 2
		if p > len(b) || b[p-1] != ',' {
			return -1
		}
	} else if len(b) == 0 || b[0] != '{' {
		return -1
	}
	return s.canonicalTime(b, p, rec)
}

// canonicalTime reads "ts":"2026-11-01T00:00:07.250Z", and returns the place behind the comma that follows, or -1.
func (s *scanner) canonicalTime(b []byte, p int, rec *Record) int {
	const name, width = `"ts":"`, 24
	if len(b) < p+len(name)+width+2 || string(b[p:p+len(name)]) != name {
		return -1
	}
	p += len(name)
	t := b[p : p+width+2]
	if t[23] != 'Z' || t[24] != '"' || t[25] != ',' || t[13] != ':' || t[16] != ':' || t[19] != '.' {
		return -1
	}
	date, date2 := binary.LittleEndian.Uint64(t), binary.LittleEndian.Uint64(t[3:])
	if date != s.date || date2 != s.date2 {
		in, ok := parseISO(string(t[:10]) + "T00:00:00Z")
		if !ok || t[10] != 'T' || checkInstant(in.nanos) != nil {
			return -1
		}
		s.date, s.date2, s.dateNs = date, date2, in.nanos
	}
	h, m, sec := twoDigits(t[11:]), twoDigits(t[14:]), twoDigits(t[17:])
	ms := twoDigits(t[20:])*10 + int(t[22]-'0')
	if uint(h) > 23 || uint(m) > 59 || uint(sec) > 59 || uint(ms) > 999 || t[22]-'0' > 9 {
		return -1
	}
	rec.AtNanos = s.dateNs + int64((h*60+m)*60+sec)*1e9 + int64(ms)*1e6
	return p + width + 2
}

// twoDigits is the number, or a large negative one.
func twoDigits(b []byte) int {
	hi, lo := uint(b[0]-'0'), uint(b[1]-'0')
	if hi > 9 || lo > 9 {
		return -10000
	}
	return int(hi*10 + lo)
}

// The names of members that may follow a request. They are constants because the compiler compares those without a call.
const (
	statusName  = `,"status":`
	refusedName = `,"refused":"`
	headersName = `,"headers":{`
	latencyName = `,"latencyMs":`
	bodyName    = `,"body":"`
)

// afterRequest are those that can come first, in their order.
var afterRequest = [][]byte{[]byte(statusName), []byte(refusedName), []byte(headersName), []byte(latencyName)}

// canonicalRequest recognises the members that describe the request, and returns where they end. A text that is known has
// been parsed: it is a list of whole members, so what follows it stands at the row's own level, whatever it contains.
func (s *scanner) canonicalRequest(b []byte, p int) (end int, number int32, ok bool) {
	if end = s.likelyEnd(b, p); end >= 0 {
		if number, ok = s.known.lookup(s.symbols.fingerprint(b[p:end])); ok {
			s.streak++
			return end, number, true
		}
		s.streak = 0
	}
	for _, next := range afterRequest {
		if n := bytes.Index(b[p:], next); n >= 0 {
			end = p + n
			number, ok = s.requestText(b[p:end])
			if ok && !slices.Contains(s.lengths[:], n) {
				const half = len(s.lengths) / 2 // new ones take turns in the rear half, and have to earn a place before it
				s.turn = (s.turn + 1) % half
				s.lengths[half+s.turn] = n
			}
			return end, number, ok
		}
	}
	return 0, 0, false
}

// likelyEnd is the end of a request's members, if it is as far away as that of one of the last; else -1.
func (s *scanner) likelyEnd(b []byte, p int) int {
	for i, n := range s.lengths {
		if end := p + n; n > 0 && len(b) > end+len(statusName) && string(b[end:end+len(statusName)]) == statusName {
			if i > 0 {
				s.lengths[i], s.lengths[i-1] = s.lengths[i-1], n
			}
			return end
		}
	}
	return -1
}

// requestText numbers the request that a text of canonical layout describes.
func (s *scanner) requestText(text []byte) (int32, bool) {
	mark := s.symbols.fingerprint(text)
	if number, ok := s.known.lookup(mark); ok {
		return number, true
	}
	s.streak = 0
	if len(text) == 0 { // two commas in a row
		return 0, false
	}
	// The general way parses the members; it must meet nothing that varies, or a row's own members would be hidden in here.
	s.key = append(append(append(s.key[:0], '{'), text...), '}')
	if !s.object(s.key) || s.seen(variableSlots) {
		return 0, false
	}
	r := s.spannedRequest()
	number := s.request(&r)
	s.known.insert(mark, number)
	return number, true
}

// canonicalOutcome reads what follows the request.
func (s *scanner) canonicalOutcome(b []byte, p int, rec *Record) bool {
	if len(b) >= p+len(statusName) && string(b[p:p+len(statusName)]) == statusName {
		p += len(statusName)
		status, width := 0, 0
		for ; p < len(b) && b[p]-'0' <= 9 && width < 4; width++ {
			status = status*10 + int(b[p]-'0')
			p++
		}
		if width == 0 || width > 3 || (width > 1 && b[p-width] == '0') {
			return false
		}
		rec.Status = int32(status)
	}
	if len(b) >= p+len(refusedName) && string(b[p:p+len(refusedName)]) == refusedName {
		start := p + len(refusedName)
		end := plainEnd(b, start)
		if end >= len(b) || b[end] != '"' {
			return false
		}
		rec.extra = s.batch.addExtra(string(b[start:end]), "")
		p = end + 1
	}
	if len(b) >= p+len(headersName) && string(b[p:p+len(headersName)]) == headersName {
		if p = s.canonicalFields(b, p+len(headersName), rec); p < 0 {
			return false
		}
	} else {
		s.fields = s.fields[:0]
		rec.Fields, _ = s.fieldNumber()
	}
	if len(b) >= p+len(latencyName) && string(b[p:p+len(latencyName)]) == latencyName {
		if rec.LatencyNanos, p = scanMillis(b, p+len(latencyName)); p < 0 {
			return false
		}
	}
	return s.canonicalEnd(b, p, rec)
}

// canonicalEnd reads the body, where there is one, and the closing brace.
func (s *scanner) canonicalEnd(b []byte, p int, rec *Record) bool {
	if len(b) >= p+len(bodyName) && string(b[p:p+len(bodyName)]) == bodyName {
		start := p + len(bodyName)
		end := plainEnd(b, start)
		if end >= len(b) || b[end] != '"' {
			return false
		}
		body := clipBody(string(b[start:end]))
		if rec.extra == 0 {
			rec.extra = s.batch.addExtra("", body)
		} else {
			s.batch.extras[rec.extra-1].body = body
		}
		p = end + 1
	}
	return p < len(b) && b[p] == '}' && onlySpace(b[p+1:])
}

// canonicalFields reads the headers with the help of the last sets of names, and returns the place behind the brace, or -1.
func (s *scanner) canonicalFields(b []byte, p int, rec *Record) int {
	start, text := len(s.batch.values), len(s.batch.text)
	rec.values = uint32(start)
	for i, pattern := range s.recent {
		if pattern == nil {
			break
		}
		if end := s.patternedFields(b, p, pattern); end >= 0 {
			rec.Fields = pattern.number
			copy(s.recent[1:i+1], s.recent[:i])
			s.recent[0] = pattern
			return end
		}
		s.batch.values, s.batch.text = s.batch.values[:start], s.batch.text[:text]
	}
	end := s.scanObject(b, p)
	if end < 0 {
		return -1
	}
	number, ok := s.fieldNumber()
	if !ok {
		return -1
	}
	rec.Fields = number
	if number >= 0 && s.compact(b[p:end]) {
		copy(s.recent[1:], s.recent[:])
		s.recent[0] = s.pattern(number)
	}
	for _, f := range s.fields {
		s.batch.addValue(f.value)
	}
	return end
}

// compact tells whether the object just scanned has no white space between its members, as a pattern has none.
func (s *scanner) compact(text []byte) bool {
	n := 1 // the brace
	for i, f := range s.fields {
		n += len(f.name) + len(f.value) + len(`"":""`)
		if i > 0 {
			n++
		}
	}
	return n == len(text)
}

func (s *scanner) pattern(number int32) *fieldPattern {
	pattern := &fieldPattern{number: number}
	for i, f := range s.fields {
		prefix := []byte(`,"` + string(f.name) + `":"`)
		if i == 0 {
			prefix = prefix[1:]
		}
		pattern.prefixes = append(pattern.prefixes, prefix)
	}
	return pattern
}

// patternedFields reads headers whose names are the pattern's.
func (s *scanner) patternedFields(b []byte, p int, pattern *fieldPattern) int {
	for _, prefix := range pattern.prefixes {
		if !hasAt(b, p, prefix) {
			return -1
		}
		p += len(prefix)
		start, n := p, int64(0)
		for p < len(b) && b[p]-'0' <= 9 {
			n = n*10 + int64(b[p]-'0')
			p++
		}
		if p-start == 0 || p-start > 18 || p >= len(b) || b[p] != '"' {
			if p = plainEnd(b, p); p >= len(b) || b[p] != '"' {
				return -1
			}
			n = plainNumber(b[start:p])
		}
		s.batch.values = append(s.batch.values, storedValue{number: n, text: s.batch.addText(b[start:p])})
		p++
	}
	if p >= len(b) || b[p] != '}' {
		return -1
	}
	return p + 1
}

func hasAt(b []byte, p int, prefix []byte) bool {
	return len(b) >= p+len(prefix) && string(b[p:p+len(prefix)]) == string(prefix)
}

// scanMillis reads a number of milliseconds with at most 11 digits and 6 decimals.
func scanMillis(b []byte, p int) (nanos int64, end int) {
	start, n := p, int64(0)
	for p < len(b) && b[p]-'0' <= 9 && p-start < 12 {
		n = n*10 + int64(b[p]-'0')
		p++
	}
	if p == start || p-start > 11 || (p-start > 1 && b[start] == '0') {
		return 0, -1
	}
	n *= 1e6
	if p < len(b) && b[p] == '.' {
		start = p + 1
		scale := int64(1e5)
		for p = start; p < len(b) && b[p]-'0' <= 9; p++ {
			n += int64(b[p]-'0') * scale
			scale /= 10
		}
		if p == start || p-start > 6 {
			return 0, -1
		}
	}
	if n > int64(maxLatency) || (p < len(b) && (b[p] == 'e' || b[p] == 'E')) {
		return 0, -1
	}
	return n, p
}

// plainEnd returns the first place from p on that is not a plain character of a JSON string: a quote, a backslash, a control
// character, or a byte beyond ASCII; len(b) where there is none. Eight bytes at a time: each of the four tests leaves the high
// bit of a byte set where it holds. (Borrows may set bits above the first such byte, never below it.)
func plainEnd(b []byte, p int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for ; p+8 <= len(b); p += 8 {
		x := binary.LittleEndian.Uint64(b[p:])
		quote := x ^ ('"' * ones)
		slash := x ^ ('\\' * ones)
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (x-0x20*ones)&^x | x) & highs
		if found != 0 {
			return p + bits.TrailingZeros64(found)/8
		}
	}
	for p < len(b) && b[p] >= 0x20 && b[p] < 0x80 && b[p] != '"' && b[p] != '\\' {
		p++
	}
	return min(p, len(b))
}

func onlySpace(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
