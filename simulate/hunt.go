package simulate

import (
	"math/rand/v2"
	"time"
)

// Found is a scenario that breaks an invariant.
type Found struct {
	// Scenario breaks it: its Duration is the shortest that does, in whole seconds, and its Faults are those without which it does
	// not.
	Scenario Scenario
	// Violation is what is broken first.
	Violation Violation
	// Tried is how many seeds were tried, this one included.
	Tried int
}

// Hunt runs a scenario with each of n seeds from its own on, and, where it has no faults of its own, with random ones. It returns
// the first that breaks an invariant, made as short as it gets, or nil. each, if not nil, is called after every seed.
func Hunt(s Scenario, n int, each func()) *Found {
	for i := range n {
		one := s
		one.Seed = s.Seed + uint64(i)
		if s.Faults.String() == "" {
			one.Faults = RandomFaults(s.Config, s.Duration, rand.New(rand.NewPCG(one.Seed, forFaults)))
		}
		v := firstViolation(one)
		if each != nil {
			each()
		}
		if v != nil {
			one, v = shorten(one, *v)
			return &Found{Scenario: one, Violation: *v, Tried: i + 1}
		}
	}
	return nil
}

// forFaults is the purpose of the random numbers that make faults.
const forFaults = 0x6661756c7473

// firstViolation plays a scenario until it breaks something.
func firstViolation(s Scenario) *Violation {
	var first *Violation
	run(s, func(v Violation) bool {
		if first == nil {
			first = &v
		}
		return true
	})
	return first
}

// shorten makes a scenario that breaks an invariant as simple as it gets: it ends with the violation, and has no fault that the
// same invariant is broken without.
func shorten(s Scenario, v Violation) (Scenario, *Violation) {
	best := v
	attempt := func(change func(*Scenario)) {
		try := s
		change(&try)
		if got := firstViolation(try); got != nil && got.Invariant == v.Invariant {
			s, best = try, *got
		}
	}
	prefix := func() {
		attempt(func(try *Scenario) {
			try.Duration = min(s.Duration, best.At.Sub(s.Start).Truncate(time.Second)+time.Second)
		})
	}
	prefix()
	for i := range faultList {
		attempt(func(try *Scenario) {
			if f := faultList[i]; f.part != nil {
				*f.part(&try.Faults) = 0
			} else {
				f.clear(&try.Faults)
			}
		})
	}
	for i := len(s.Faults.Changes) - 1; i >= 0; i-- {
		attempt(func(try *Scenario) {
			without := append([]LimitChange(nil), try.Faults.Changes[:i]...)
			try.Faults.Changes = append(without, try.Faults.Changes[i+1:]...)
		})
	}
	// A fault that is gone may have let the violation come earlier. What is broken only at the end needs a search instead.
	for previous := s.Duration + 1; s.Duration < previous; {
		previous = s.Duration
		prefix()
	}
	for lost := s.Duration / 2; lost >= time.Second; lost /= 2 {
		attempt(func(try *Scenario) { try.Duration = (s.Duration - lost).Truncate(time.Second) })
	}
	return s, &best
}
