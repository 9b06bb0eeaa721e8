package replay

import (
	"cmp"
	"slices"
)

const (
	// mostUnknown bounds the names that are told apart, and shownUnknown those that a report shows.
	mostUnknown  = 10_000
	shownUnknown = 100
)

// unknownTally counts rows by the names that no document has.
type unknownTally struct {
	counts map[UnknownName]*int64
	// others are rows with names beyond those told apart.
	others int64
}

func (t *unknownTally) add(names []UnknownName, rows int64) {
	for _, name := range names {
		n := t.counts[name]
		if n == nil {
			if len(t.counts) >= mostUnknown {
				t.others += rows
				continue
			}
			if t.counts == nil {
				t.counts = make(map[UnknownName]*int64)
			}
			n = new(int64)
			t.counts[name] = n
		}
		*n += rows
	}
}

// report lists the most frequent, and counts the names beyond them (rows, where there were too many names to tell apart).
func (t *unknownTally) report() (list []UnknownName, more int64) {
	for name, n := range t.counts {
		name.Rows = *n
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b UnknownName) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	more = t.others
	if len(list) > shownUnknown {
		more += int64(len(list) - shownUnknown)
		list = list[:shownUnknown]
	}
	return list, more
}
