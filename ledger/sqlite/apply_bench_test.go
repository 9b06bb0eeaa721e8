package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/sqlite"
)

// BenchmarkJournal writes rows as a daemon does: some thousands at a time, of few kinds of request.
func BenchmarkJournal(b *testing.B) {
	const batch = 5000
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "state.db"), sqlite.Options{Mode: sqlite.Owner})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	rows := make([]ledger.Row, batch)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	next := 0
	for b.Loop() {
		for i := range rows {
			next++
			rows[i] = ledger.Row{
				ID: fmt.Sprintf("dw3k2j1h0g9f8-%07d", next), At: at.Add(time.Duration(next) * time.Millisecond), Status: 200, Latency: 120 * time.Millisecond,
				Headers: map[string]string{"Date": "Sun, 01 Nov 2026 00:00:00 GMT", "X-Ratelimit-Remaining": "4321"},
				Request: ledger.RowRequest{
					Provider: "meraki", Account: "acme", Method: "GET", Endpoint: "/organizations/{organizationId}/devices", Job: "devices",
					Credential: "6f1c09a2b3d4e5f6", Priority: "normal", Vars: map[string]string{"organizationId": fmt.Sprint(next % 16)},
				},
			}
		}
		if err := s.Apply(b.Context(), ledger.Changes{Rows: rows}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/row")
}
