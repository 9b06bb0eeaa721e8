package journal

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

const (
	// maxSymbolBytes bounds the memory for what repeats from row to row. Beyond it a request is kept with its batch only, so
	// that a journal in which every request differs is read slower, and not in more memory.
	maxSymbolBytes = 40 << 20
	// entryBytes is about what an entry costs beside its text.
	entryBytes = 100
	// maxFieldSets bounds the sets of header names; a journal has a handful.
	maxFieldSets = 4096
	// maxCached bounds the spellings that one parser remembers.
	maxCached = 1 << 18
)

// symbols numbers the requests and the sets of header names of a journal, for all parsers of a reader.
type symbols struct {
	seed, seed2 maphash.Seed

	mu       sync.Mutex // guards what follows
	requests []string   // by number; each is the members that appendRequest writes, and is never changed
	fields   [][]string // by number: header names in the order of a row
	numbers  map[string]int32
	bytes    int // an estimate of what the tables hold
}

// The first byte of a spelling says what it spells; none of them can begin a member of a JSON object.
const (
	generalSpelling = 1 // raw values of the constant members, in slot order
	fieldSpelling   = 2 // header names, each after its length
)

func newSymbols() *symbols {
	return &symbols{seed: maphash.MakeSeed(), seed2: maphash.MakeSeed(), numbers: map[string]int32{}}
}

// request numbers a request, given its canonical text; -1 where the tables are full.
func (s *symbols) request(canonical []byte) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, known := s.numbers[string(canonical)]
	switch {
	case known:
		return number
	case s.bytes >= maxSymbolBytes:
		return -1
	}
	text := string(canonical)
	number = int32(len(s.requests))
	s.requests = append(s.requests, text)
	s.numbers[text] = number
	s.bytes += len(text) + entryBytes
	return number
}

// fieldSet numbers a set of header names; -1 where the table is full.
func (s *symbols) fieldSet(names []string) int32 {
	key := fieldKey(nil, names)
	s.mu.Lock()
	defer s.mu.Unlock()
	number, known := s.numbers[string(key)]
	switch {
	case known:
		return number
	case len(s.fields) >= maxFieldSets:
		return -1
	}
	number = int32(len(s.fields))
	copied := make([]string, len(names))
	for i, n := range names {
		copied[i] = strings.Clone(n)
	}
	s.fields = append(s.fields, copied)
	s.numbers[string(key)] = number
	return number
}

func fieldKey(dst []byte, names []string) []byte {
	dst = append(dst, fieldSpelling)
	for _, n := range names {
		dst = append(binary.AppendUvarint(dst, uint64(len(n))), n...)
	}
	return dst
}

// fieldNames is the inverse of fieldKey.
func fieldNames(key []byte) (names []string) {
	for key = key[1:]; len(key) > 0; {
		n, width := binary.Uvarint(key)
		names = append(names, string(key[width:width+int(n)]))
		key = key[width+int(n):]
	}
	return names
}

// repeated tells whether a name stands twice.
func repeated(names []string) bool {
	if len(names) > 16 {
		sorted := slices.Sorted(slices.Values(names))
		return len(slices.Compact(sorted)) < len(names)
	}
	for i := range names {
		if slices.Contains(names[:i], names[i]) {
			return true
		}
	}
	return false
}

// snapshot returns the tables as they are: valid for all numbers handed out so far.
func (s *symbols) snapshot() (requests []string, fields [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.fields
}

// spellings maps the texts that one parser has met to numbers. A text is known by 96 bits of two hashes with random
// seeds, and not kept: that the table fits a core's cache is worth more than all else here, and among the 2^18 texts that it
// holds at most, a billion others have odds below 2^-48 that one of them is taken for one of these.
type spellings struct {
	slots []spelling // a power of two, at most half full
	used  int
}

// spelling is 16 bytes: four to a cache line. The hash's other 32 bits choose the slot.
type spelling struct {
	a      uint64 // never 0 in use
	b      uint32
	number int32
}

type fingerprint struct{ a, b uint64 }

func (s *symbols) fingerprint(text []byte) fingerprint {
	return fingerprint{maphash.Bytes(s.seed, text) | 1, maphash.Bytes(s.seed2, text)}
}

func (t *spellings) lookup(f fingerprint) (number int32, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(t.slots) - 1)
	for i := f.b & mask; ; i = (i + 1) & mask {
		switch slot := &t.slots[i]; {
		case slot.a == f.a && uint64(slot.b) == f.b>>32:
			return slot.number, true
		case slot.a == 0:
			return 0, false
		}
	}
}

// peek reads the place of a text. The result means nothing.
func (t *spellings) peek(f fingerprint) uint64 {
	if len(t.slots) == 0 {
		return 0
	}
	return t.slots[f.b&uint64(len(t.slots)-1)].a
}

// insert remembers a text that is not known yet.
func (t *spellings) insert(f fingerprint, number int32) {
	if t.used >= maxCached || number < 0 {
		return
	}
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	t.place(f.b, spelling{f.a, uint32(f.b >> 32), number})
	t.used++
}

// grow makes room. A slot's number has only the lower half of its hash in it, so the table forgets what it knew: it is learned
// again at once, and the tables double only a few times.
func (t *spellings) grow() {
	t.slots, t.used = make([]spelling, max(1024, 2*len(t.slots))), 0
}

func (t *spellings) place(hash uint64, s spelling) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].a != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}
