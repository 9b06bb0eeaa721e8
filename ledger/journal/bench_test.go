package journal

import (
	"errors"
	"flag"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

var journalFile = flag.String("journal", "", "a journal for BenchmarkReadFile, as bench/journal writes it")

// BenchmarkReadFile reads a large journal to its end, touching what an engine would.
//
//	go test ./ledger/journal -run '^$' -bench ReadFile -benchtime 1x -journal /tmp/journal.jsonl
func BenchmarkReadFile(b *testing.B) {
	if *journalFile == "" {
		b.Skip("needs -journal FILE: see bench/journal")
	}
	info, err := os.Stat(*journalFile)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	rows := int64(0)
	start := time.Now()
	for b.Loop() {
		r, err := Open([]string{*journalFile}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		sum := int64(0)
		for {
			batch, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			for i := range batch.Records {
				rec := &batch.Records[i]
				sum += int64(rec.Request)
				for j := range batch.Fields(rec) {
					sum += batch.Value(rec, j).Number
				}
			}
		}
		rows += r.Stats().Rows
		runtime.KeepAlive(sum)
		r.Close()
	}
	b.ReportMetric(float64(rows)/time.Since(start).Seconds(), "rows/s")
}
