package web

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/daemon/dispatch"
)

// outboxAt is a policy's outbox at an instant.
type outboxAt struct {
	*dispatch.PolicyState

	at time.Time
}

// outboxSheet is about the events of a policy that are still to be delivered.
var outboxSheet = func() *sheet[outboxAt] {
	type O = outboxAt
	t := &sheet[O]{prefix: "tapyr_spend_outbox_", labels: []string{"policy"}}
	t.add(gauge, "events", "Events that hold units and are still to be delivered; beyond about ten thousand they are not counted.",
		always(func(o O) int64 { return o.Pending }))
	t.add(gauge, "waiting_events", "Those among them that wait for a route that is down.", always(func(o O) int64 { return o.Waiting }))
	t.add(gauge, "oldest_seconds", "Since the admission of the oldest of them; 0 where there is none.", func(o O) (float64, bool) {
		if o.OldestAt == nil {
			return 0, true
		}
		return max(0, o.at.Sub(*o.OldestAt).Seconds()), true
	})
	t.add(counter, "in_doubt_total", "Events that may have been charged and are not sent again: somebody must settle or release them.",
		always(func(o O) int64 { return o.InDoubt }))
	return t
}()

// routeSheet is about a route that events are delivered by.
var routeSheet = func() *sheet[*dispatch.RouteState] {
	type R = *dispatch.RouteState
	t := &sheet[R]{prefix: "tapyr_spend_route_", labels: []string{"policy", "route", "account"}}
	t.add(gauge, "up", "0 where the route is down, so that its events wait or take the next.", flag(func(r R) bool { return !r.Down }))
	t.add(gauge, "in_flight", "Requests that wait for a limit or are under way.", always(func(r R) int { return r.InFlight }))
	return t
}()

var deliveryAttempts = prometheus.NewDesc("tapyr_spend_delivery_attempts_total", "Attempts to deliver an event, by result. They are no charges.",
	[]string{"policy", "route", "account", "result"}, nil)

// describeDeliveries and collectDeliveries are the part of the collector that is about the delivery of paid calls.
func describeDeliveries(ch chan<- *prometheus.Desc) {
	outboxSheet.describe(ch)
	routeSheet.describe(ch)
	ch <- deliveryAttempts
}

func collectDeliveries(ch chan<- prometheus.Metric, s *dispatch.State, at time.Time) {
	if s == nil {
		return
	}
	for i := range s.Policies {
		outboxSheet.emit(ch, outboxAt{&s.Policies[i], at}, s.Policies[i].Policy)
	}
	for i := range s.Routes {
		r := &s.Routes[i]
		routeSheet.emit(ch, r, r.Policy, r.Route, r.Account)
		for _, result := range slices.Sorted(maps.Keys(r.Attempts)) {
			send(ch, deliveryAttempts, counter, float64(r.Attempts[result]), r.Policy, r.Route, r.Account, result)
		}
	}
}
