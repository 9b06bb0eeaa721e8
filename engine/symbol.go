package engine

import "hash/maphash"

// index is an open-addressed hash table of ids, with linear probing and without tombstones: a removal shifts back what follows.
// Id 0 marks an empty slot.
type index struct {
	slots  []uint32 // len is a power of two, at least a quarter empty
	count  int
	hashOf func(id uint32) uint32
}

// mask of the slots; the table must not be empty.
func (x *index) mask() uint32 { return uint32(len(x.slots) - 1) }

func (x *index) insert(id uint32) {
	if 4*(x.count+1) > 3*len(x.slots) {
		x.grow()
	}
	x.place(id)
	x.count++
}

func (x *index) place(id uint32) {
	mask := x.mask()
	i := x.hashOf(id) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = id
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]uint32, max(8, 2*len(old)))
	for _, id := range old {
		if id != 0 {
			x.place(id)
		}
	}
}

// remove takes out an id that is in the table.
func (x *index) remove(id uint32) {
	mask := x.mask()
	i := x.hashOf(id) & mask
	for x.slots[i] != id {
		i = (i + 1) & mask
	}
	x.count--
	for j := i; ; {
		j = (j + 1) & mask
		next := x.slots[j]
		if next == 0 {
			break
		}
		// next may move into the hole unless its own place lies behind the hole.
		if (j-x.hashOf(next)&mask)&mask >= (j-i)&mask {
			x.slots[i] = next
			i = j
		}
	}
	x.slots[i] = 0
}

// symbols numbers strings, so that keys are compared and hashed as numbers. A symbol lives as long as something refers to it.
type symbols struct {
	seed  maphash.Seed
	index index
	list  []symbol // by number; 0 is nobody's
	free  []uint32
}

type symbol struct {
	text string
	hash uint32
	refs int32
}

func newSymbols() *symbols {
	s := &symbols{seed: maphash.MakeSeed(), list: make([]symbol, 1)}
	s.index.hashOf = func(id uint32) uint32 { return s.list[id].hash }
	s.index.grow()
	return s
}

// find is the number of a string, 0 where it has none.
func (s *symbols) find(text string) uint32 {
	hash := uint32(maphash.String(s.seed, text))
	mask := s.index.mask()
	for i := hash & mask; ; i = (i + 1) & mask {
		id := s.index.slots[i]
		if id == 0 {
			return 0
		}
		if sym := &s.list[id]; sym.hash == hash && sym.text == text {
			return id
		}
	}
}

// hold is the number of a string, with one more reference to it.
func (s *symbols) hold(text string) uint32 {
	id := s.find(text)
	if id == 0 {
		id = s.add(text)
	}
	s.list[id].refs++
	return id
}

func (s *symbols) add(text string) uint32 {
	sym := symbol{text: text, hash: uint32(maphash.String(s.seed, text))}
	var id uint32
	if n := len(s.free); n > 0 {
		id, s.free = s.free[n-1], s.free[:n-1]
		s.list[id] = sym
	} else {
		id = uint32(len(s.list))
		s.list = append(s.list, sym)
	}
	s.index.insert(id)
	return id
}

// keep adds a reference to a symbol.
func (s *symbols) keep(id uint32) { s.list[id].refs++ }

// drop takes a reference back; the last one frees the symbol.
func (s *symbols) drop(id uint32) {
	s.list[id].refs--
	if s.list[id].refs > 0 {
		return
	}
	s.index.remove(id)
	s.list[id] = symbol{}
	s.free = append(s.free, id)
}

func (s *symbols) text(id uint32) string { return s.list[id].text }
