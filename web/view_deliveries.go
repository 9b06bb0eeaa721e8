package web

import (
	"fmt"

	"github.com/tapyr/tapyr/daemon/dispatch"
)

// deliveryProblems are what of the delivery of paid calls needs somebody.
func deliveryProblems(s *dispatch.State) []problem {
	if s == nil {
		return nil
	}
	var out []problem
	add := func(l level, format string, args ...any) {
		out = append(out, problem{l, fmt.Sprintf(format, args...), "#accounts"})
	}
	if s.Error != "" {
		add(bad, "The book of paid calls cannot be used, and nothing is delivered: %s", s.Error)
	}
	for i := range s.Policies {
		if p := &s.Policies[i]; p.InDoubt > 0 {
			add(bad, "Paid calls, %s: %s may have been charged since the start and not sent again; reconcile, settle or release them.",
				p.Policy, counted(int(p.InDoubt), "event", "events"))
		}
	}
	for i := range s.Routes {
		switch r := &s.Routes[i]; {
		case r.Down:
			add(bad, "Paid calls, %s: the route %s through account %s is down: %s", r.Policy, r.Route, r.Account, r.Why)
		case r.Until != nil:
			add(warn, "Paid calls, %s: the route %s through account %s is held back: %s", r.Policy, r.Route, r.Account, r.Why)
		}
	}
	return out
}
