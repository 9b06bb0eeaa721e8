package spend_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const benchPolicy = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: bench }
spec:
  version: v1
  unit: EUR
  account: { limit: "1000000000", bands: [0.5, 0.8], window: { period: month, timezone: Europe/Paris } }
  routes:
    standard: { cost: "0.02", class: gold }
    economy: { cost: "0.01" }
  capabilities:
    tracking: { limit: "900000000", protected: "500", routes: [standard, economy], fallback: minimal }
    summary: { limit: "90000000", routes: [economy], fallback: minimal }
`

// BenchmarkAdmit is the decision alone: the machine over a store in memory.
func BenchmarkAdmit(b *testing.B) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	m := spendtest.Publish(b, book.NewMemory(), now, spendtest.Policy(b, benchPolicy))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := m.Admit(context.Background(), now, spend.Admission{EventID: strconv.Itoa(i), Capability: "tracking"}); err != nil {
			b.Fatal(err)
		}
	}
}
