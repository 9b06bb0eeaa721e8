package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tapyr/tapyr/daemon/dispatch"
)

// deliveryVerdict is what of the delivery of paid calls a script must know. A route that is down is none: its events wait, or take
// the next.
func deliveryVerdict(s *dispatch.State) (bad []string) {
	if s == nil {
		return nil
	}
	if s.Error != "" {
		bad = append(bad, "the book of paid calls cannot be used")
	}
	for _, p := range s.Policies {
		if p.InDoubt > 0 {
			bad = append(bad, fmt.Sprintf("%s of %q may have been charged and must be settled or released", counted(int(p.InDoubt), "paid call"), p.Policy))
		}
	}
	return bad
}

// deliverySections are the outboxes of the policies, and their routes.
func deliverySections(s *dispatch.State, at time.Time, zone *time.Location) []section {
	outboxes := &table{columns: []column{
		{title: "policy", fit: fitCut},
		{title: "to deliver", right: true},
		{title: "waiting", right: true},
		{title: "oldest", right: true},
		{title: "in doubt", right: true},
	}}
	for _, p := range s.Policies {
		pending, oldest := fmt.Sprint(p.Pending), "-"
		if p.More {
			pending += "+"
		}
		if p.OldestAt != nil {
			oldest = at.Sub(*p.OldestAt).Round(time.Second).String()
		}
		row := plain(p.Policy, pending, fmt.Sprint(p.Waiting), oldest, fmt.Sprint(p.InDoubt))
		if p.InDoubt > 0 {
			row[4].style = styleBad
		}
		outboxes.rows = append(outboxes.rows, row)
	}
	sections := []section{{title: "Paid calls", table: outboxes}}
	if s.Error != "" {
		sections = append(sections, section{lines: []cell{{"the book cannot be used: " + s.Error, styleBad}}})
	}
	if len(s.Routes) == 0 {
		return sections
	}
	routes := &table{columns: []column{
		{title: "route", fit: fitCut},
		{title: "account", fit: fitCut},
		{title: "state", fit: fitWrap},
		{title: "under way", right: true},
		{title: "attempts", fit: fitWrap},
	}}
	for _, r := range s.Routes {
		state, meaning := "up", styleGood
		switch {
		case r.Down:
			state, meaning = "down: "+r.Why, styleBad
		case r.Until != nil:
			state, meaning = fmt.Sprintf("held until %s: %s", r.Until.In(zone).Format("15:04:05"), r.Why), styleWarn
		}
		var attempts []string
		for _, result := range slices.Sorted(maps.Keys(r.Attempts)) {
			attempts = append(attempts, fmt.Sprintf("%s %d", result, r.Attempts[result]))
		}
		row := plain(r.Policy+"/"+r.Route, r.Account, state, fmt.Sprint(r.InFlight), strings.Join(attempts, ", "))
		row[2].style = meaning
		routes.rows = append(routes.rows, row)
	}
	return append(sections, section{title: "Routes", table: routes})
}
