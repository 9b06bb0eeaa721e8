package journal

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"time"
)

// The members of a row, in the order in which a spelling of a request lists its own.
const (
	slotProvider = iota
	slotAccount
	slotTarget
	slotCredential
	slotMethod
	slotEndpoint
	slotJob
	slotPriority
	slotVars
	slotRetry
	slotAuth
	slotID // from here on they vary from row to row
	slotTS
	slotStatus
	slotHeaders
	slotLatency
	slotRefused
	slotBody
	slotsInLine

	requestSlots = slotID
)

// variableSlots are the members that differ between rows of one request.
var variableSlots = []int{slotID, slotTS, slotStatus, slotHeaders, slotLatency, slotRefused, slotBody}

func slotOf(name []byte) int {
	switch string(name) {
	case "provider":
		return slotProvider
	case "account":
		return slotAccount
	case "target":
		return slotTarget
	case "credential":
		return slotCredential
	case "method":
		return slotMethod
	case "endpoint":
		return slotEndpoint
	case "job":
		return slotJob
	case "priority":
		return slotPriority
	case "vars":
		return slotVars
	case "retry":
		return slotRetry
	case "auth":
		return slotAuth
	case "id":
		return slotID
	case "ts":
		return slotTS
	case "status":
		return slotStatus
	case "headers":
		return slotHeaders
	case "latencyMs":
		return slotLatency
	case "refused":
		return slotRefused
	case "body":
		return slotBody
	default:
		return -1
	}
}

// general reads members in any order. Strings with escapes or characters beyond ASCII, null, nested values of unknown members
// and everything that might be wrong it leaves to decodeLine.
func (s *scanner) general(b []byte, rec *Record) bool {
	if !s.object(b) || s.spans[slotTS] == nil {
		return false
	}
	ts := s.spans[slotTS]
	if ts[0] == '"' {
		ts = ts[1 : len(ts)-1]
	}
	in, err := parseInstant(string(ts))
	if err != nil {
		return false
	}
	rec.AtNanos = in.nanos
	if in.naive {
		s.batch.naive = append(s.batch.naive, int32(len(s.batch.Records)))
	}
	if ok := s.spannedOutcome(rec); !ok {
		if in.naive {
			s.batch.naive = s.batch.naive[:len(s.batch.naive)-1]
		}
		return false
	}
	s.key = append(s.key[:0], generalSpelling)
	for _, v := range s.spans[:requestSlots] {
		s.key = append(append(s.key, v...), 0)
	}
	mark := s.symbols.fingerprint(s.key)
	number, ok := s.known.lookup(mark)
	if !ok {
		r := s.spannedRequest()
		number = s.request(&r)
		s.known.insert(mark, number)
	}
	rec.Request = number
	if id := s.spans[slotID]; len(id) > 2 {
		rec.id, rec.idHash = s.batch.addText(id[1:len(id)-1]), maphash.Bytes(s.symbols.seed, id[1:len(id)-1])|1
	}
	return true
}

// spannedOutcome reads status, headers, latency, refusal and body from the spans.
func (s *scanner) spannedOutcome(rec *Record) bool {
	if status := s.spans[slotStatus]; status != nil {
		if len(status) > 3 || status[0] == '-' || plainNumber(status) < 0 {
			return false
		}
		rec.Status = int32(plainNumber(status))
	}
	if latency := s.spans[slotLatency]; latency != nil {
		nanos, end := scanMillis(latency, 0)
		if end != len(latency) {
			return false
		}
		rec.LatencyNanos = nanos
	}
	s.fields = s.fields[:0]
	if headers := s.spans[slotHeaders]; headers != nil && s.scanObject(headers, 1) < 0 {
		return false
	}
	number, ok := s.fieldNumber()
	if !ok {
		return false
	}
	rec.Fields, rec.values = number, uint32(len(s.batch.values))
	for _, f := range s.fields {
		s.batch.addValue(f.value)
	}
	rec.extra = s.batch.addExtra(s.spannedText(slotRefused), clipBody(s.spannedText(slotBody)))
	return true
}

// fieldNumber numbers the names of the fields just scanned; not ok where one is repeated.
func (s *scanner) fieldNumber() (int32, bool) {
	s.key = append(s.key[:0], fieldSpelling)
	for _, f := range s.fields {
		s.key = append(binary.AppendUvarint(s.key, uint64(len(f.name))), f.name...)
	}
	mark := s.symbols.fingerprint(s.key)
	if number, ok := s.known.lookup(mark); ok {
		return number, true
	}
	names := fieldNames(s.key)
	if repeated(names) {
		return 0, false
	}
	number := s.fieldSet(names)
	s.known.insert(mark, number)
	return number, true
}

// spannedRequest makes a request of the spans.
func (s *scanner) spannedRequest() Request {
	r := Request{
		Provider: s.spannedText(slotProvider), Account: s.spannedText(slotAccount), Target: s.spannedText(slotTarget),
		Credential: s.spannedText(slotCredential), Method: s.spannedText(slotMethod), Endpoint: s.spannedText(slotEndpoint),
		Job: s.spannedText(slotJob), Priority: s.spannedText(slotPriority),
		Retry: string(s.spans[slotRetry]) == "true", Auth: string(s.spans[slotAuth]) == "true",
	}
	if vars := s.spans[slotVars]; vars != nil {
		kept := s.fields // the caller's headers
		s.fields = nil
		s.scanObject(vars, 1)
		r.Vars = make(map[string]string, len(s.fields))
		for _, f := range s.fields {
			r.Vars[string(f.name)] = string(f.value)
		}
		s.fields = kept
	}
	return r
}

// spannedText is a string member without its quotes.
func (s *scanner) spannedText(slot int) string {
	v := s.spans[slot]
	if len(v) <= 2 {
		return ""
	}
	return string(v[1 : len(v)-1])
}

func (s *scanner) seen(slots []int) bool {
	for _, slot := range slots {
		if s.spans[slot] != nil {
			return true
		}
	}
	return false
}

// object finds the members of one object, and checks that each is of its type and there once.
func (s *scanner) object(b []byte) bool {
	s.spans = [slotsInLine][]byte{}
	s.members = s.members[:0]
	p := skipSpace(b, 0)
	if p >= len(b) || b[p] != '{' {
		return false
	}
	p = skipSpace(b, p+1)
	if p < len(b) && b[p] == '}' {
		return onlySpace(b[p+1:])
	}
	for {
		name, next := scanName(b, p)
		if next < 0 {
			return false
		}
		end := s.member(b, next, name)
		if end < 0 {
			return false
		}
		p = skipSpace(b, end)
		if p >= len(b) {
			return false
		}
		if b[p] == '}' {
			return onlySpace(b[p+1:])
		}
		if b[p] != ',' {
			return false
		}
		p = skipSpace(b, p+1)
	}
}

// member reads the value at p of a member, and returns its end or -1.
func (s *scanner) member(b []byte, p int, name []byte) int {
	slot := slotOf(name)
	var end int
	switch slot {
	case slotVars, slotHeaders:
		if p >= len(b) || b[p] != '{' {
			return -1
		}
		if end = s.scanObject(b, p+1); end >= 0 && s.repeatedField() {
			return -1
		}
	case slotRetry, slotAuth:
		end = scanLiteral(b, p, "true", "false")
	case slotStatus, slotLatency:
		end = scanNumber(b, p)
	case slotTS:
		if end = scanNumber(b, p); end < 0 {
			end = scanString(b, p)
		}
	case -1:
		for _, m := range s.members {
			if bytes.Equal(m.name, name) {
				return -1
			}
		}
		if len(s.members) >= 16 {
			return -1
		}
		s.members = append(s.members, memberSpan{name})
		if end = scanString(b, p); end < 0 {
			if end = scanNumber(b, p); end < 0 {
				end = scanLiteral(b, p, "true", "false", "null")
			}
		}
		return end
	default:
		end = scanString(b, p)
	}
	if end < 0 || s.spans[slot] != nil {
		return -1
	}
	s.spans[slot] = b[p:end]
	return end
}

func (s *scanner) repeatedField() bool {
	if len(s.fields) > 32 {
		return true // for decodeLine to tell
	}
	for i, f := range s.fields {
		for _, o := range s.fields[:i] {
			if bytes.Equal(f.name, o.name) {
				return true
			}
		}
	}
	return false
}

// scanObject reads an object of plain strings, from behind its opening brace, into fields. It returns the place behind the
// closing one, or -1.
func (s *scanner) scanObject(b []byte, p int) int {
	s.fields = s.fields[:0]
	p = skipSpace(b, p)
	if p < len(b) && b[p] == '}' {
		return p + 1
	}
	for {
		name, next := scanName(b, p)
		if next < 0 {
			return -1
		}
		end := scanString(b, next)
		if end < 0 {
			return -1
		}
		s.fields = append(s.fields, fieldSpan{name, b[next+1 : end-1]})
		p = skipSpace(b, end)
		if p >= len(b) {
			return -1
		}
		if b[p] == '}' {
			return p + 1
		}
		if b[p] != ',' {
			return -1
		}
		p = skipSpace(b, p+1)
	}
}

// scanName reads a name and its colon, and returns where the value begins, or -1.
func scanName(b []byte, p int) (name []byte, next int) {
	end := scanString(b, p)
	if end < 0 {
		return nil, -1
	}
	next = skipSpace(b, end)
	if next >= len(b) || b[next] != ':' {
		return nil, -1
	}
	return b[p+1 : end-1], skipSpace(b, next+1)
}

// scanString reads a plain string with its quotes, and returns its end or -1.
func scanString(b []byte, p int) int {
	if p >= len(b) || b[p] != '"' {
		return -1
	}
	if p = plainEnd(b, p+1); p >= len(b) || b[p] != '"' {
		return -1
	}
	return p + 1
}

// scanNumber reads a decimal number without an exponent, as RFC 8259 (section 6) spells it.
func scanNumber(b []byte, p int) int {
	if p < len(b) && b[p] == '-' {
		p++
	}
	start := p
	for p < len(b) && b[p]-'0' <= 9 {
		p++
	}
	if p == start || (p-start > 1 && b[start] == '0') {
		return -1
	}
	if p < len(b) && b[p] == '.' {
		start = p + 1
		p = start
		for p < len(b) && b[p]-'0' <= 9 {
			p++
		}
		if p == start {
			return -1
		}
	}
	if p < len(b) && (b[p] == 'e' || b[p] == 'E') {
		return -1
	}
	return p
}

func scanLiteral(b []byte, p int, literals ...string) int {
	for _, l := range literals {
		if len(b) >= p+len(l) && string(b[p:p+len(l)]) == l {
			return p + len(l)
		}
	}
	return -1
}

func skipSpace(b []byte, p int) int {
	for p < len(b) && (b[p] == ' ' || b[p] == '\t' || b[p] == '\r' || b[p] == '\n') {
		p++
	}
	return p
}

// checkInstant tells whether an instant is in range.
func checkInstant(nanos int64) error {
	if nanos < minNanos || nanos >= maxNanos {
		return &TimeError{Text: string(AppendTime(nil, time.Unix(0, nanos)))}
	}
	return nil
}
