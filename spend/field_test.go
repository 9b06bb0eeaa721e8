package spend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/spendtest"
)

// fieldPolicy has one route for each cost, and one capability for each that takes it alone.
func fieldPolicy(t *testing.T, limit string, costs ...string) *spend.Policy {
	t.Helper()
	text := "apiVersion: tapyr/v1alpha1\nkind: SpendPolicy\nmetadata: { name: field }\nspec:\n  version: v1\n  unit: EUR\n" +
		fmt.Sprintf("  account: { limit: %q }\n  routes:\n", limit)
	for i, cost := range costs {
		text += fmt.Sprintf("    r%d: { cost: %q }\n", i, cost)
	}
	text += "  capabilities:\n"
	for i := range costs {
		text += fmt.Sprintf("    c%d: { limit: %q, routes: [r%d], fallback: reject }\n", i, limit, i)
	}
	return spendtest.Policy(t, text)
}

var fieldNow = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

type fieldMachine struct {
	*spend.Machine
	t     *testing.T
	store book.Store
}

func newFieldMachine(t *testing.T, p *spend.Policy) *fieldMachine {
	store, _ := openMemory(t)
	return &fieldMachine{spendtest.Publish(t, store, fieldNow, p), t, store}
}

func (m *fieldMachine) admit(event, capability string) spend.Outcome {
	m.t.Helper()
	out, err := m.Admit(context.Background(), fieldNow, spend.Admission{EventID: event, Capability: capability})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

func (m *fieldMachine) settle(event, actual string) {
	m.t.Helper()
	if _, err := m.Settle(context.Background(), fieldNow, event, spendtest.Units(m.t, actual)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fieldMachine) used() string { return spendtest.Used(m.t, m.store, "field", "", time.Time{}) }

// concurrently admits n events of a capability at once and counts those that were granted.
func (m *fieldMachine) concurrently(n int, capability string) (granted int) {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards granted
	for i := range n {
		wg.Go(func() {
			out, err := m.Admit(context.Background(), fieldNow, spend.Admission{EventID: fmt.Sprintf("e%d", i), Capability: capability})
			if err != nil {
				m.t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if out.Disposition == book.Dispatch {
				granted++
			}
		})
	}
	wg.Wait()
	return granted
}

// SP-01: calls at the same time do not pass the cap together.
func TestFieldConcurrentCalls(t *testing.T) {
	var in struct {
		Cap, Spent             string
		ConcurrentReservations []string
	}
	var want struct {
		Granted, Denied int
		Committed       string
		Second          struct{ Granted, Denied int }
	}
	golden.Case(t, "SP-01", &in, &want)
	m := newFieldMachine(t, fieldPolicy(t, in.Cap, in.ConcurrentReservations[0], in.Spent))
	m.admit("spent", "c1")
	m.settle("spent", in.Spent)
	n := len(in.ConcurrentReservations)
	if granted := m.concurrently(n, "c0"); granted != want.Granted || n-granted != want.Denied {
		t.Errorf("%d of %d granted, want %d", granted, n, want.Granted)
	}
	if got := spendtest.Units(t, m.used()); got.Cmp(spendtest.Units(t, want.Committed)) != 0 {
		t.Errorf("%s committed, want %s", got, want.Committed)
	}
	m = newFieldMachine(t, fieldPolicy(t, "10", "1"))
	if granted := m.concurrently(50, "c0"); granted != want.Second.Granted || 50-granted != want.Second.Denied {
		t.Errorf("%d of 50 granted, want %d", granted, want.Second.Granted)
	}
}

// SP-03: tiny costs are summed before anybody rounds them.
func TestFieldTinyCosts(t *testing.T) {
	var in struct {
		A struct{ Costs string }
		B struct{ Cost string }
	}
	var want struct {
		A string
		B struct{ Stored string }
	}
	golden.Case(t, "SP-03", &in, &want)
	var n int
	var cost string
	if _, err := fmt.Sscanf(in.A.Costs, "%d x %s", &n, &cost); err != nil {
		t.Fatal(err)
	}
	m := newFieldMachine(t, fieldPolicy(t, "1", cost, in.B.Cost))
	for i := range n {
		m.admit(fmt.Sprint(i), "c0")
	}
	if got := spendtest.Units(t, m.used()); got.Cmp(spendtest.Units(t, want.A)) != 0 {
		t.Errorf("%d of %s sum to %s, want %s", n, cost, got, want.A)
	}
	if out := m.admit("b", "c1"); out.ReservedUnits.String() != want.B.Stored {
		t.Errorf("%s is kept and shown as %s, want %s", in.B.Cost, out.ReservedUnits, want.B.Stored)
	}
}

// SP-04: an amount that is negative, infinite or no number reaches nothing.
func TestFieldBadAmounts(t *testing.T) {
	var in struct {
		Spent, Cap string
		Costs      []string `json:"costs_each"`
	}
	var want struct {
		Results    []string
		SpentAfter string
	}
	golden.Case(t, "SP-04", &in, &want)
	m := newFieldMachine(t, fieldPolicy(t, in.Cap, in.Spent))
	m.admit("spent", "c0")
	for i, cost := range in.Costs {
		u, err := book.ParseUnits(cost)
		var bad *book.UnitsError
		if !errors.As(err, &bad) || !strings.HasSuffix(want.Results[i], "rejected") {
			t.Errorf("cost %s became %s, %v, want %s", cost, u, err, want.Results[i])
		}
	}
	// Those that are built, not read, are refused by the machine itself.
	negative := book.Units{}.Sub(spendtest.Units(t, "3"))
	if _, err := m.Settle(context.Background(), fieldNow, "spent", negative); err == nil {
		t.Error("a negative settlement was accepted")
	}
	if m.used() != want.SpentAfter {
		t.Errorf("%s is spent, want %s", m.used(), want.SpentAfter)
	}
}

// SP-06: each reservation ends once.
func TestFieldDoubleRelease(t *testing.T) {
	var in struct {
		Cap int
		Ops []string
	}
	var want struct {
		Available []int
		Spent     int
	}
	golden.Case(t, "SP-06", &in, &want)
	m := newFieldMachine(t, fieldPolicy(t, fmt.Sprint(in.Cap), "4"))
	for i, op := range in.Ops {
		words := strings.Fields(op)
		var err error
		switch words[0] {
		case "reserve":
			m.admit(words[1], "c0")
		case "release":
			_, err = m.Release(context.Background(), fieldNow, words[1], "")
		case "commit":
			_, err = m.Settle(context.Background(), fieldNow, words[1], spendtest.Units(t, words[2]))
		default:
			t.Fatalf("unknown op %q", op)
		}
		if err != nil {
			t.Errorf("%s: %v", op, err)
		}
		left := spendtest.Units(t, fmt.Sprint(in.Cap)).Sub(spendtest.Units(t, m.used()))
		if left.Cmp(spendtest.Units(t, fmt.Sprint(want.Available[i]))) != 0 {
			t.Errorf("after %s: %s available, want %d", op, left, want.Available[i])
		}
	}
	if m.used() != fmt.Sprint(want.Spent) {
		t.Errorf("%s spent, want %d", m.used(), want.Spent)
	}
}

// SP-09: the budget is checked for the route that is really used, after the first one turned out to be down.
func TestFieldFallbackToPaidRoute(t *testing.T) {
	var in struct {
		Routes []struct{ ID, Price string }
		Budget struct{ Cap, Spent string }
	}
	var want struct{ CallsToPaid int }
	golden.Case(t, "SP-09", &in, &want)
	text := fmt.Sprintf(`
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: field }
spec:
  version: v1
  unit: EUR
  account: { limit: %q }
  routes:
    free: { cost: "0" }
    paid: { cost: %q }
    spent: { cost: %q }
  capabilities:
    a: { limit: %q, routes: [free, paid], fallback: reject, onUnavailable: next }
    b: { limit: %q, routes: [spent], fallback: reject }
`, in.Budget.Cap, in.Routes[1].Price, in.Budget.Spent, in.Budget.Cap, in.Budget.Cap)
	m := newFieldMachine(t, spendtest.Policy(t, text))
	m.admit("spent", "b")
	if out := m.admit("e", "a"); *out.Route != in.Routes[0].ID {
		t.Fatalf("route %s, want the free one", *out.Route)
	}
	out, err := m.Attempt(context.Background(), fieldNow, "e", spend.Delivery{Result: spend.ResultUnavailable})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if *out.Route == "paid" {
		calls++
	}
	if calls != want.CallsToPaid || out.State != book.Dispatched {
		t.Errorf("the event is %s on route %s, want it to wait for the free one", out.State, *out.Route)
	}
}

// SP-11: what a chain proves, and what only an anchor does.
func TestFieldChain(t *testing.T) {
	var in struct {
		Entries int
		Tampers []string `json:"tamper_each"`
	}
	var want struct{ VerifyWithAnchor, VerifyWithoutAnchor []string }
	golden.Case(t, "SP-11", &in, &want)
	for i, tamper := range in.Tampers {
		var entries []chain.Entry
		var head chain.Head
		for n := range in.Entries {
			e, err := chain.Seal(head, false, chain.Field{Name: "amount", Text: fmt.Sprint(n)})
			if err != nil {
				t.Fatal(err)
			}
			entries, head = append(entries, e), e.Head()
		}
		switch tamper {
		case "change amount in 3":
			entries[2].Body = []byte(strings.Replace(string(entries[2].Body), `"2"`, `"9"`, 1))
		case "delete 3":
			entries = append(entries[:2:2], entries[3:]...)
		case "swap 2 and 3":
			entries[1], entries[2] = entries[2], entries[1]
		case "delete 4 and 5":
			entries = entries[:3]
		case "delete all":
			entries = nil
		default:
			t.Fatalf("unknown tamper %q", tamper)
		}
		// With an anchor: "fail at N (...)" is the entry by its number where one is missing, else by its place.
		r := verifyEntries(t, entries, head)
		if r.Valid() {
			t.Errorf("%s: passes with an anchor, want %s", tamper, want.VerifyWithAnchor[i])
			continue
		}
		at := r.Break.Position
		if r.Break.Fault == chain.Missing {
			at = r.Break.Seq
		}
		var number int64
		if n, _ := fmt.Sscanf(want.VerifyWithAnchor[i], "fail at %d", &number); n == 1 && number != at {
			t.Errorf("%s: %+v, want %s", tamper, *r.Break, want.VerifyWithAnchor[i])
		} else if n == 0 && r.Break.Fault != chain.CutOff {
			t.Errorf("%s: %+v, want a cut tail", tamper, *r.Break)
		}
		// Without one, a cut tail cannot be seen, and the result says that nothing vouches for it.
		r = verifyEntries(t, entries)
		if passes := strings.HasPrefix(want.VerifyWithoutAnchor[i], "passes"); r.Valid() != passes || r.Anchored {
			t.Errorf("%s: valid %v, anchored %v without an anchor, want %s", tamper, r.Valid(), r.Anchored, want.VerifyWithoutAnchor[i])
		}
	}
}

func verifyEntries(t *testing.T, entries []chain.Entry, anchors ...chain.Anchor) chain.Result {
	t.Helper()
	r, err := chain.Verify(func(yield func(chain.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}, anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// SP-14: a denial by one budget leaves no trace in the other.
func TestFieldTwoBudgets(t *testing.T) {
	var in struct {
		Budgets struct {
			Team, Org struct{ Cap, Spent json.Number }
		}
		Reserve json.Number
	}
	var want struct{ TeamReserved, TeamSpent json.Number }
	golden.Case(t, "SP-14", &in, &want)
	others := spendtest.Units(t, in.Budgets.Org.Spent.String()).Sub(spendtest.Units(t, in.Budgets.Team.Spent.String()))
	text := fmt.Sprintf(`
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: field }
spec:
  version: v1
  unit: EUR
  account: { limit: "%s" }
  routes:
    before: { cost: "%s" }
    others: { cost: "%s" }
    now: { cost: "%s" }
  capabilities:
    team: { limit: "%s", routes: [now, before], fallback: reject }
    spent: { limit: "%s", routes: [others], fallback: reject }
`, in.Budgets.Org.Cap, in.Budgets.Team.Spent, others, in.Reserve, in.Budgets.Team.Cap, in.Budgets.Org.Cap)
	m := newFieldMachine(t, spendtest.Policy(t, text))
	m.admit("team's", "team")
	m.settle("team's", in.Budgets.Team.Spent.String())
	m.admit("others'", "spent")
	if out := m.admit("e", "team"); out.Disposition != book.Reject {
		t.Errorf("decided %s, want a denial", out.Disposition)
	}
	x, err := m.Explain(context.Background(), "e")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range x.Alternatives {
		if a.Obstacle != "account" {
			t.Errorf("route %s: obstacle %q, want the account", a.Route, a.Obstacle)
		}
	}
	team := spendtest.Used(t, m.store, "field", "team", time.Time{})
	wanted := spendtest.Units(t, want.TeamReserved.String()).Add(spendtest.Units(t, want.TeamSpent.String()))
	if spendtest.Units(t, team).Cmp(wanted) != 0 {
		t.Errorf("the team has used %s, want %s", team, wanted)
	}
}
