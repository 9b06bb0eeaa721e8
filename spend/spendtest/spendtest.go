// Package spendtest is the suite that every store of paid calls passes: what a book.Store promises, and the machine on top of
// it, compared with a twin that keeps nothing but a list.
package spendtest

import (
	"context"
	"testing"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/validate"
)

// Factory opens an empty store that is closed at the end of the test. reopen closes it and opens what it kept; nil where a
// store keeps nothing.
type Factory func(t testing.TB) (store book.Store, reopen func() book.Store)

// Run is the whole suite.
func Run(t *testing.T, open Factory) {
	t.Run("Store", func(t *testing.T) { runStore(t, open) })
	t.Run("Twin", func(t *testing.T) { RunTwin(t, open) })
}

// vendor is an account for routes with a request.
const vendor = `
---
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec: { baseURL: "https://vendor.example" }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: main }
spec: { provider: vendor }
`

// Policy compiles the one SpendPolicy of a document, whose routes may name the account main.
func Policy(t testing.TB, document string) *spend.Policy {
	t.Helper()
	docs, problems := schema.Decode("policy.yaml", []byte(document+vendor))
	config, more := validate.Check(docs)
	for _, p := range append(problems, more...) {
		if p.Severity == schema.SeverityError {
			t.Fatalf("policy: %v\n%s", p, document)
		}
	}
	policy, err := spend.Compile(config.Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// Approved is a publication that has what it needs.
func Approved() spend.Publication {
	return spend.Publication{
		Change:    "CHG-1",
		Approvals: []spend.Approval{{Role: "routing", By: "alice"}, {Role: "budget", By: "bob"}},
	}
}

// Publish makes a machine with the policy in force.
func Publish(t testing.TB, store book.Store, now time.Time, p *spend.Policy) *spend.Machine {
	t.Helper()
	m := spend.New(store, p.Name)
	if _, err := m.Publish(context.Background(), now, p, Approved()); err != nil {
		t.Fatal(err)
	}
	return m
}

// Units reads an amount that is known to be one.
func Units(t testing.TB, text string) book.Units {
	t.Helper()
	u, err := book.ParseUnits(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Used is what the account (with an empty name) or a capability has used in the window that starts at start.
func Used(t testing.TB, store book.Store, policy, capability string, start time.Time) string {
	t.Helper()
	used := book.Units{}
	view(t, store, func(tx book.Tx) {
		r, err := tx.Get(book.CounterKey(policy, capability, start))
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := r.(*book.Counter); ok {
			used = c.Used
		}
	})
	return used.String()
}

func view(t testing.TB, store book.Store, fn func(book.Tx)) {
	t.Helper()
	if err := store.View(context.Background(), func(tx book.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}
