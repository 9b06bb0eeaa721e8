package spend

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tapyr/tapyr/spend/audit"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// prunedCounts is what the events of a pruning had counted: with it the counters still follow from the chain.
type prunedCounts struct {
	// Events are they, by the entries of their admission; Left is the fingerprint of what is kept of them, which is that they must
	// not be admitted again.
	Events   []int64         `json:"events"`
	Left     string          `json:"left"`
	Counters []prunedCounter `json:"counters"`
	Tallies  []prunedTally   `json:"tallies"`
}

// prunedEvents are the events of a pruning, as they were and as they are kept.
type prunedEvents struct{ before, left []*book.Event }

// prunedCounter is what they took of a capability's limit in a window, and so of the account's.
type prunedCounter struct {
	Capability  string     `json:"capability"`
	WindowStart time.Time  `json:"window_start,omitzero"`
	WindowEnd   time.Time  `json:"window_end,omitzero"`
	Used        book.Units `json:"used_units"`
	// Crossed are the bands of the account that were reached in the window so far.
	Crossed []book.Crossing `json:"crossed,omitempty"`
}

// prunedTally is what they counted in a tally. An event that is over holds nothing: what it took is settled.
type prunedTally struct {
	Day         string           `json:"day"`
	Capability  string           `json:"capability"`
	RouteClass  string           `json:"route_class"`
	Disposition book.Disposition `json:"disposition"`
	Events      int64            `json:"events"`
	Settled     book.Units       `json:"settled_units"`
}

// countPruned is the field that says what events counted, as they stood before they were pruned.
func (s *step) countPruned(events prunedEvents) (chain.Field, error) {
	counts := prunedCounts{Left: audit.Fingerprint(events.left), Counters: []prunedCounter{}, Tallies: []prunedTally{}}
	counters, tallies := make(map[book.Key]int), make(map[book.Key]int)
	for _, e := range events.before {
		counts.Events = append(counts.Events, e.AdmissionSeq)
		t := tallyOf(e)
		i, known := tallies[t.Key()]
		if !known {
			i = len(counts.Tallies)
			tallies[t.Key()] = i
			counts.Tallies = append(counts.Tallies, prunedTally{Day: t.Day, Capability: t.Capability, RouteClass: t.RouteClass, Disposition: t.Disposition})
		}
		counts.Tallies[i].Events++
		if e.State == book.Settled {
			counts.Tallies[i].Settled = counts.Tallies[i].Settled.Add(e.Actual)
		}
		account, err := s.counter("", e.WindowStart)
		if err != nil {
			return chain.Field{}, err
		}
		if !e.Charged() && account.Crossed == nil {
			continue
		}
		key := book.CounterKey(e.Policy, e.Capability, e.WindowStart)
		if i, known = counters[key]; !known {
			i = len(counts.Counters)
			counters[key] = i
			counts.Counters = append(counts.Counters, prunedCounter{
				Capability: e.Capability, WindowStart: account.Start, WindowEnd: account.End, Crossed: account.Crossed,
			})
		}
		counts.Counters[i].Used = counts.Counters[i].Used.Add(e.Units())
	}
	text, err := json.Marshal(counts)
	if err == nil {
		text, err = chain.Canonical(text)
	}
	if err != nil {
		return chain.Field{}, fmt.Errorf("what was pruned: %w", err)
	}
	return chain.Field{Name: "counted", Literal: string(text)}, nil
}

// countAgain adds what pruned events counted to the counters and tallies of a derivation.
func (s *step) countAgain(counts *prunedCounts) error {
	for _, c := range counts.Counters {
		for _, capability := range [...]string{"", c.Capability} {
			old, err := s.counter(capability, c.WindowStart)
			if err != nil {
				return err
			}
			counter := old.Clone()
			counter.End = c.WindowEnd
			counter.Used, counter.Settled = counter.Used.Add(c.Used), counter.Settled.Add(c.Used)
			if capability == "" {
				counter.Crossed = c.Crossed
			}
			if err := s.tx.Put(counter); err != nil {
				return err
			}
		}
	}
	for _, c := range counts.Tallies {
		t := &book.Tally{Policy: s.m.policy, Day: c.Day, Capability: c.Capability, RouteClass: c.RouteClass, Disposition: c.Disposition}
		if record, err := s.tx.Get(t.Key()); err != nil {
			return err
		} else if record != nil {
			t = record.(*book.Tally).Clone()
		}
		t.Events += c.Events
		t.Settled = t.Settled.Add(c.Settled)
		if err := s.tx.Put(t); err != nil {
			return err
		}
	}
	return nil
}
