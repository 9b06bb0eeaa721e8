package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/spendtest"
)

// paid are documents with two accounts and a policy that sends through them. %s are more fields of the provider.
const paid = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: @URL/v1
  auth: { type: bearer, credential: key }
  retry: { maxAttempts: 3, initial: 10ms, max: 20ms }
%s---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: first }
spec: { provider: vendor, credentials: { key: { env: KEY } } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: second }
spec: { provider: vendor, credentials: { key: { env: KEY } } }
---
`

const paidPolicy = `apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: money }
spec:
  version: v1
  unit: EUR
  account: { limit: "1000" }
  routes:
    safe:
      cost: "2"
      account: first
      idempotent: true
      actual: response.cost
      request: { method: POST, endpoint: "/safe/{event_id}", headers: { Idempotency-Key: "{event_id}" }, body: { to: "{country}", size: "{size}" } }
    once: { cost: "3", account: first, request: { method: POST, endpoint: "/once/{event_id}" } }
    spare: { cost: "5", account: second, request: { endpoint: "/spare/{event_id}" } }
    hand: { cost: "1" }
  capabilities:
    safe: { limit: "500", routes: [safe, spare], fallback: defer, deadline: 1h, onDeadline: minimal }
    once: { limit: "500", routes: [once], fallback: defer, deadline: 1h }
    moves: { limit: "500", routes: [once, spare], fallback: reject, onUnavailable: next }
    manual: { limit: "500", routes: [hand], fallback: reject }
`

// counter is a rig with a policy that is published, and a hand on its book, as another process has one.
type counter struct {
	*rig
	store   *sqlite.Spend
	machine *spend.Machine
}

func newCounter(t testing.TB, provider, policy string, answer http.HandlerFunc) *counter {
	t.Helper()
	c := &counter{rig: newRig(t, fmt.Sprintf(paid, provider)+policy, answer)}
	c.open()
	c.publish()
	return c
}

// publish puts the policy of the documents in force.
func (c *counter) publish() {
	c.t.Helper()
	config, err := c.load()
	if err != nil {
		c.t.Fatal(err)
	}
	policy, err := spend.Compile(config.Policies[0])
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.machine.Publish(c.t.Context(), time.Now(), policy, spendtest.Approved()); err != nil {
		c.t.Fatal(err)
	}
}

// open opens the book of the rig's state.
func (c *counter) open() {
	c.t.Helper()
	store, err := sqlite.OpenSpend(c.t.Context(), filepath.Join(c.dir, "tapyr.db"), sqlite.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = store.Close() })
	c.store, c.machine = store, spend.New(store, "money")
}

// admit asks for events of a capability, as the command line does.
func (c *counter) admit(capability string, ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		admission := spend.Admission{EventID: id, Capability: capability, Vars: map[string]string{"country": "FR"}, Size: 3}
		if _, err := c.machine.Admit(c.t.Context(), time.Now(), admission); err != nil {
			c.t.Fatal(err)
		}
	}
}

// event is what the book holds.
func (c *counter) event(id string) *book.Event {
	c.t.Helper()
	var e *book.Event
	err := c.store.View(context.Background(), func(tx book.Tx) error {
		record, err := tx.Get(book.EventKey("money", id))
		e, _ = record.(*book.Event)
		return err
	})
	if err != nil || e == nil {
		c.t.Fatalf("event %q: %v", id, err)
	}
	return e
}

// reaches waits until an event is in a state.
func (c *counter) reaches(id string, state book.State) *book.Event {
	c.t.Helper()
	c.until(id+" is "+string(state), func() bool { return c.event(id).State == state })
	return c.event(id)
}

// whole checks the chain, and the book against its events.
func (c *counter) whole() {
	c.t.Helper()
	spendtest.CheckBook(c.t, c.store, "money")
	err := c.store.View(context.Background(), func(tx book.Tx) error {
		result, err := chain.Verify(tx.Entries(1))
		if err == nil && !result.Valid() {
			c.t.Errorf("the chain does not hold: %+v", result)
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// priced answers every event with what it cost.
func priced(w http.ResponseWriter, q *http.Request) {
	reply(w, map[string]any{"cost": 1.25, "path": q.URL.Path, "key": q.Header.Get("Idempotency-Key")})
}

func TestEventsAreDeliveredAndSettledWhereverTheyWereAdmitted(t *testing.T) {
	c := newCounter(t, "", paidPolicy, priced)
	c.admit("safe", "before") // while nothing runs: accepted is durable
	stop := c.start(c.daemon)
	c.reaches("before", book.Settled)
	c.admit("once", "elsewhere/1") // by another process
	c.admit("manual", "by-hand")
	inside := spend.Admission{EventID: "inside", Capability: "safe", Vars: map[string]string{"country": `A "B"`}, Size: 7}
	if _, err := c.daemon.Machines()["money"].Admit(t.Context(), time.Now(), inside); err != nil {
		t.Fatal(err)
	}
	c.reaches("inside", book.Settled)
	c.reaches("elsewhere/1", book.Settled)
	stop()
	for id, want := range map[string]string{"before": "1.25", "inside": "1.25", "elsewhere/1": "3"} {
		if e := c.event(id); e.Actual.String() != want || e.Attempts != 1 || e.Result != "ok" || e.InDoubt || !strings.Contains(e.Response, `"cost":1.25`) {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if e := c.event("by-hand"); e.State != book.Reserved || e.Attempts != 0 {
		t.Errorf("an event that its caller delivers: %+v", e)
	}
	bodies := make(map[string]string)
	for _, h := range c.seen() {
		bodies[h.method+" "+h.path] = h.body
		if h.authorization != "Bearer "+plantedKey {
			t.Errorf("%s carries %q", h.path, h.authorization)
		}
	}
	want := map[string]string{
		"POST /v1/safe/before": `{"size":"3","to":"FR"}`, "POST /v1/safe/inside": `{"size":"7","to":"A \"B\""}`, "POST /v1/once/elsewhere/1": "",
	}
	if fmt.Sprint(bodies) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", bodies, want)
	}
	c.whole()
}
