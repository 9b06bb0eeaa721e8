package chain

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// kindPrune is the kind of the entries that vouch for pruned ones.
const kindPrune = "prune"

// Fault is what is wrong with a chain.
type Fault string

// The faults.
const (
	// Altered: the entry does not have its own hash, or stands as pruned where no later entry says that it was.
	Altered Fault = "altered"
	// Missing: at least one entry that stood before this one is gone.
	Missing Fault = "missing"
	// Reordered: the entry stands before one that it follows.
	Reordered Fault = "reordered"
	// Inserted: without the entry the chain goes on.
	Inserted Fault = "inserted"
	// CutOff: the chain is whole but an anchor is not part of it, so its tail is gone or another chain stands here.
	CutOff Fault = "cut off"
)

// Break is the first entry at which a chain is broken.
type Break struct {
	// Position is the entry's place in what was read, from 1; one past the last where the tail is gone.
	Position int64 `json:"position"`
	// Seq is the entry's own number, equal to Position where it has none.
	Seq int64 `json:"seq"`
	// Event is the event that the entry is about, where it names one.
	Event string `json:"event,omitempty"`
	Fault Fault  `json:"fault"`
	// Reason says what was found.
	Reason string `json:"reason"`
}

// Result is what Verify found.
type Result struct {
	// Entries is how many were read; Pruned of them hold no more than their hashes.
	Entries int64 `json:"entries"`
	Pruned  int64 `json:"pruned"`
	// Head is the hash of the last entry; empty for an empty chain.
	Head string `json:"head"`
	// Break is nil where the chain is whole.
	Break *Break `json:"break"`
	// Anchored tells that every anchor given is part of the chain. Without an anchor it is false, and nobody can tell from the
	// chain alone whether its tail was cut off.
	Anchored bool `json:"anchored"`
}

// Valid tells that nothing is wrong.
func (r Result) Valid() bool { return r.Break == nil }

// Anchor is an earlier head that must be part of the chain. A count of 0 is not compared.
type Anchor = Head

// verifier is the state of a walk.
type verifier struct {
	result Result
	head   Head
	// last is the entry before, with the head before it.
	last     Entry
	lastHead Head
	// seen are the hashes up to here; an entry that repeats one is a copy.
	seen map[string]int64
	// stubs are the places of pruned entries, not yet vouched for by an entry of the kind "prune".
	stubs   *ranges
	vouched *ranges
	anchors map[string]int64
}

// Verify walks a chain and names the first entry that is altered, missing, reordered or inserted, and what of the anchors is
// not part of it. It holds one hash for each entry in memory. The error is the reader's; a chain that is broken is no error.
func Verify(entries iter.Seq2[Entry, error], anchors ...Anchor) (Result, error) {
	v := &verifier{seen: make(map[string]int64), stubs: new(ranges), vouched: new(ranges), anchors: make(map[string]int64)}
	for _, a := range anchors {
		v.anchors[a.Hash] = a.Count
	}
	next, stop := iter.Pull2(entries)
	defer stop()
	for {
		e, err, ok := next()
		if !ok {
			break
		}
		var line *LineError
		if err != nil && !errors.As(err, &line) {
			return v.result, err
		}
		v.result.Entries++
		if line != nil {
			v.breakAt(e, Altered, line.Reason)
		} else if !v.accept(e) {
			v.classify(e, rest(next))
		}
		if v.result.Break != nil {
			return v.result, nil
		}
	}
	v.finish()
	return v.result, nil
}

// rest is what a reader has left, unreadable lines left out.
func rest(next func() (Entry, error, bool)) []Entry {
	var entries []Entry
	for {
		e, err, ok := next()
		if !ok {
			return entries
		}
		if err == nil {
			entries = append(entries, Entry{Seq: e.Seq, Previous: e.Previous, Hash: e.Hash})
		}
	}
}

// accept takes an entry that follows the head; it is false where the entry does not.
func (v *verifier) accept(e Entry) bool {
	var members []member
	if e.Body == nil {
		v.result.Pruned++
		v.stubs.add(e.Seq, e.Seq)
	} else {
		var reason string
		if members, reason = v.open(e); reason != "" {
			v.breakAt(e, Altered, reason)
			return true
		}
	}
	if e.Previous != v.head.Next() {
		return false
	}
	if e.Seq != v.head.Count+1 {
		v.breakAt(e, Altered, fmt.Sprintf("its seq is %d where %d follows", e.Seq, v.head.Count+1))
		return true
	}
	if text(members, "kind") == kindPrune {
		v.vouched.parse(text(members, namePruned))
	}
	v.last, v.lastHead = e, v.head
	v.head = e.Head()
	v.seen[e.Hash] = e.Seq
	v.result.Head = e.Hash
	if count, ok := v.anchors[e.Hash]; ok && (count == 0 || count == e.Seq) {
		delete(v.anchors, e.Hash)
		v.result.Anchored = len(v.anchors) == 0
	}
	return true
}

// open checks an entry against its own content: a store keeps the number and the hashes beside it.
func (v *verifier) open(e Entry) (members []member, reason string) {
	if hashOf(e.Body) != e.Hash {
		return nil, "its content has another hash than its entry_hash"
	}
	members, err := splitObject(e.Body)
	if err != nil {
		return nil, "its content is no JSON object: " + err.Error()
	}
	if previous := text(members, namePrevious); previous != e.Previous {
		return nil, fmt.Sprintf("its content has the previous_hash %q, it is kept with %q", previous, e.Previous)
	}
	if seq := number(members, nameSequence); seq != 0 && seq != e.Seq {
		return nil, fmt.Sprintf("its content has the seq %d, it is kept as %d", seq, e.Seq)
	}
	return members, ""
}

// classify says why an entry with a valid hash does not follow the head; after are the entries behind it.
func (v *verifier) classify(e Entry, after []Entry) {
	wanted := v.head.Next()
	follows := slices.ContainsFunc(after, func(x Entry) bool { return x.Previous == wanted })
	predecessorLater := slices.ContainsFunc(after, func(x Entry) bool { return x.Hash == e.Previous })
	_, copied := v.seen[e.Hash]
	switch {
	case copied:
		v.breakAt(e, Inserted, "it is a copy of an earlier entry")
	case predecessorLater:
		v.breakAt(e, Reordered, "the entry that it follows stands behind it")
	case v.head.Count > 0 && e.Previous == v.last.Previous && e.Previous == v.lastHead.Next():
		// Two entries follow the same one. The chain goes on from the second, so the first was put in.
		v.result.Entries--
		v.breakAt(v.last, Inserted, "the entry behind it follows the one before it")
	case follows:
		v.breakAt(e, Inserted, "the chain goes on without it")
	case v.head.Count > 0 && e.Seq == v.head.Count+1 && e.numbered():
		// Nothing is missing by number, so the one before was changed and given a hash that fits.
		v.result.Entries--
		v.breakAt(v.last, Altered, "the entry behind it holds another hash for it")
	default:
		v.breakAt(e, Missing, fmt.Sprintf("an entry before it is gone: it follows %s, the entry before it has %s", e.Previous, wanted))
	}
}

func (v *verifier) breakAt(e Entry, fault Fault, reason string) {
	v.result.Anchored = false
	v.result.Break = &Break{Position: v.result.Entries, Seq: e.Seq, Event: e.Text("event_id"), Fault: fault, Reason: reason}
}

// finish checks what only the end of the chain tells.
func (v *verifier) finish() {
	if seq, ok := v.stubs.firstOutside(v.vouched); ok {
		v.result.Anchored = false
		v.result.Break = &Break{Position: seq, Seq: seq, Fault: Altered, Reason: "it stands as pruned, but no entry says that it was"}
		return
	}
	if len(v.anchors) == 0 {
		return
	}
	hashes := make([]string, 0, len(v.anchors))
	for hash := range v.anchors {
		hashes = append(hashes, hash)
	}
	slices.Sort(hashes)
	end := v.head.Count + 1
	reason := fmt.Sprintf("the anchor %s is not part of the %d entries", hashes[0], v.head.Count)
	if count := v.anchors[hashes[0]]; count > 0 {
		reason = fmt.Sprintf("the anchor %s of %d entries is not part of the %d entries", hashes[0], count, v.head.Count)
	}
	v.result.Anchored = false
	v.result.Break = &Break{Position: end, Seq: end, Fault: CutOff, Reason: reason}
}

// ranges is a set of whole numbers, kept as sorted half-open intervals.
type ranges struct{ spans [][2]int64 }

// add puts first..last in. It is quick where the numbers come in order.
func (r *ranges) add(first, last int64) {
	span := [2]int64{first, last + 1}
	i := len(r.spans)
	for i > 0 && r.spans[i-1][1] >= span[0] {
		i--
	}
	j := i
	for j < len(r.spans) && r.spans[j][0] <= span[1] {
		span = [2]int64{min(span[0], r.spans[j][0]), max(span[1], r.spans[j][1])}
		j++
	}
	r.spans = slices.Replace(r.spans, i, j, span)
}

// parse adds ranges as the entry of a pruning holds them: "1-20,23". What cannot be read vouches for nothing.
func (r *ranges) parse(text string) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(to, 10, 64)
		if err1 == nil && err2 == nil && first <= last && last < 1<<62 {
			r.add(first, last)
		}
	}
}

// firstOutside is the smallest number that is not in the other set.
func (r *ranges) firstOutside(other *ranges) (int64, bool) {
	i := 0
	for _, span := range r.spans {
		for i < len(other.spans) && other.spans[i][1] <= span[0] {
			i++
		}
		if i == len(other.spans) || other.spans[i][0] > span[0] {
			return span[0], true
		}
		if other.spans[i][1] < span[1] {
			return other.spans[i][1], true
		}
	}
	return 0, false
}

// String writes the set as parse reads it.
func (r *ranges) String() string {
	var b strings.Builder
	for i, span := range r.spans {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(span[0], 10))
		if span[1] > span[0]+1 {
			b.WriteString("-" + strconv.FormatInt(span[1]-1, 10))
		}
	}
	return b.String()
}

// Prune is the content of an entry which records that these entries, in rising order, were pruned: without it Verify takes a
// pruned entry for an altered one.
func Prune(seqs []int64) []Field {
	set := new(ranges)
	for _, seq := range seqs {
		set.add(seq, seq)
	}
	return []Field{
		{Name: "kind", Text: kindPrune},
		Int("count", int64(len(seqs))),
		{Name: namePruned, Text: set.String()},
	}
}
