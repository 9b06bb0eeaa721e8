package replay

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

var (
	journalName = flag.String("journal", "", "a journal for BenchmarkReplayFile, as bench/journal writes it")
	configName  = flag.String("documents", "", "its documents")
)

// BenchmarkReplayFile replays a large journal, as recorded and with enforcement:
//
//	go run ./bench/journal -rows 1000000 -o /tmp/journal.jsonl
//	go run ./bench/journal -documents -o /tmp/documents.yaml
//	go test ./replay -run '^$' -bench ReplayFile -benchtime 1x -journal /tmp/journal.jsonl -documents /tmp/documents.yaml
func BenchmarkReplayFile(b *testing.B) {
	if *journalName == "" || *configName == "" {
		b.Skip("needs -journal FILE and -documents FILE: see bench/journal")
	}
	text, err := os.ReadFile(*configName)
	if err != nil {
		b.Fatal(err)
	}
	config := validatetest.Config(b, string(text))
	for _, mode := range []struct {
		name    string
		options Options
	}{{"recorded", Options{Config: config, Forecast: true}}, {"enforced", Options{Config: config, Enforce: true}}} {
		b.Run(mode.name, func(b *testing.B) {
			rows := int64(0)
			b.ReportAllocs()
			start := time.Now()
			for b.Loop() {
				r := replayFile(b, *journalName, journal.Options{}, mode.options)[0]
				rows += r.Rows
				if r.Unresolved > 0 || len(r.Scopes) == 0 {
					b.Fatalf("%d rows concern no account, %d scopes", r.Unresolved, len(r.Scopes))
				}
			}
			b.ReportMetric(float64(rows)/time.Since(start).Seconds(), "rows/s")
		})
	}
}
