package engine

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const inFlightDocuments = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://p.test
  limits:
    - { name: shared, kind: concurrency, max: 100, scope: { by: [instance] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: a }
spec: { provider: p }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: b }
spec: { provider: p }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: c }
spec: { provider: p }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: j }
spec: { account: a, interval: 1m, request: { endpoint: /x } }
`

// asked is a request of TestInFlight.
type asked struct {
	ticket   Ticket
	account  string
	priority int
	number   int
}

// Slots in flight against a list: at most so many of all and of each account; who waits goes by priority, then by age, and an account
// that is full holds up no other, though they share a limit.
func TestInFlight(t *testing.T) {
	config := validatetest.Config(t, inFlightDocuments)
	names := []string{"low", "normal", "high", "critical"}
	rapid.Check(t, func(t *rapid.T) {
		most, each := rapid.IntRange(1, 6).Draw(t, "most"), rapid.IntRange(1, 4).Draw(t, "each")
		e := New(config, Options{MaxInFlight: most, MaxInFlightEach: each})
		var flying, waiting []asked
		count := func(account string) (n int) {
			for _, r := range flying {
				if r.account == account {
					n++
				}
			}
			return n
		}
		// admit lets go those that may, by the plain rule.
		admit := func() (may []asked) {
			slices.SortStableFunc(waiting, func(x, y asked) int { return cmp.Or(y.priority-x.priority, x.number-y.number) })
			waiting = slices.DeleteFunc(waiting, func(r asked) bool {
				if len(flying) >= most || count(r.account) >= each {
					return false
				}
				flying, may = append(flying, r), append(may, r)
				return true
			})
			return may
		}
		now := int64(1)
		for number := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now++
			if len(flying) > 0 && rapid.Bool().Draw(t, "release") {
				at := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				done := flying[at]
				flying = slices.Delete(flying, at, at+1)
				e.Settle(now, done.ticket, &Response{Status: 200})
				e.Release(now, done.ticket)
				want := admit()
				var got []Ticket
				e.Advance(now, func(ticket Ticket, refused *RefusedError) {
					if refused != nil {
						t.Fatalf("refused: %v", refused)
					}
					got = append(got, ticket)
				})
				if !slices.EqualFunc(got, want, func(g Ticket, w asked) bool { return g == w.ticket }) {
					t.Fatalf("granted %v, want %v", got, want)
				}
				continue
			}
			r := asked{
				account: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "account"), priority: rapid.IntRange(0, 3).Draw(t, "priority"), number: number,
			}
			ticket, granted, err := e.ReserveRequest(now, &Request{
				Request: match.Request{Account: r.account, Method: "GET", Endpoint: "/x"}, Priority: names[r.priority],
			}, false, never)
			if err != nil {
				t.Fatal(err)
			}
			r.ticket = ticket
			waiting = append(waiting, r)
			if may := slices.ContainsFunc(admit(), func(o asked) bool { return o.ticket == ticket }); may != granted {
				t.Fatalf("granted is %v, want %v", granted, may)
			}
		}
	})
}

// A request that waits for a slot until its deadline is refused, and blames no limit of the documents.
func TestInFlightDeadline(t *testing.T) {
	e := New(validatetest.Config(t, inFlightDocuments), Options{MaxInFlight: 1})
	q := &Request{Request: match.Request{Account: "a", Method: "GET", Endpoint: "/x"}}
	if _, granted, err := e.ReserveRequest(1, q, false, 10); err != nil || !granted {
		t.Fatal(granted, err)
	}
	if _, granted, err := e.ReserveRequest(2, q, false, 10); err != nil || granted {
		t.Fatal(granted, err)
	}
	if at, ok := e.Next(); !ok || at != 10 {
		t.Errorf("looks again at %d, %v; want its deadline", at, ok)
	}
	var refusals []*RefusedError
	e.Advance(10, func(_ Ticket, refused *RefusedError) { refusals = append(refusals, refused) })
	if len(refusals) != 1 || refusals[0] == nil || refusals[0].Reason != DeadlineExceeded || refusals[0].Limit != "" || refusals[0].RetryKnown {
		t.Errorf("%+v", refusals)
	}
}
