//go:build unix

package journal

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var journalFile = flag.String("journal", "", "a journal for BenchmarkReadFile, as bench/journal writes it")

// usage is what the benchmark groups: the requests of an hour and account, and the smallest remaining in their headers.
type usage struct{ used, remaining int64 }

// groupUsage reads a journal and answers the query of bench/replay/duckdb.mjs.
func groupUsage(name string, o Options) (groups map[[2]int64]*usage, rows int64, err error) {
	r, err := Open([]string{name}, o)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	groups = map[[2]int64]*usage{}
	accounts, account := map[string]int64{}, []int64{} // by name, and by the number of a request
	columns := map[int32]int{}                         // place of the remaining among a set of headers
	hour, cells := int64(-1), []*usage{}               // of this hour, by account
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return groups, r.Stats().Rows, nil
		}
		if err != nil {
			return nil, 0, err
		}
		for i := range b.Records {
			rec := &b.Records[i]
			if int(rec.Request) >= len(account) { // numbers begin at 0; the benchmark's journal has few
				account = append(account, slices.Repeat([]int64{-1}, int(rec.Request)+1-len(account))...)
			}
			if account[rec.Request] < 0 {
				name := b.Request(rec).Account
				if _, ok := accounts[name]; !ok {
					accounts[name] = int64(len(accounts))
				}
				account[rec.Request] = accounts[name]
			}
			if h := rec.AtNanos / int64(time.Hour); h != hour {
				hour = h
				clear(cells)
			}
			a := account[rec.Request]
			for int(a) >= len(cells) {
				cells = append(cells, nil)
			}
			if cells[a] == nil {
				cells[a] = &usage{remaining: 1 << 62}
				groups[[2]int64{hour, a}] = cells[a]
			}
			at, ok := columns[rec.Fields]
			if !ok {
				at = slices.Index(b.Fields(rec), "X-RateLimit-Remaining-day")
				columns[rec.Fields] = at
			}
			cells[a].used++
			if at >= 0 {
				cells[a].remaining = min(cells[a].remaining, b.Value(rec, at).Number)
			}
		}
	}
}

// BenchmarkReadFile answers, of a large journal, what bench/replay/duckdb.mjs asks DuckDB of the same file. Beside the rows a
// second it tells the processor's time and the largest memory of the process.
//
//	go run ./bench/journal -rows 10000000 -o /tmp/journal.jsonl
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
	total, begin, before := int64(0), time.Now(), cpuTime()
	for b.Loop() {
		_, rows, err := groupUsage(*journalFile, Options{})
		if err != nil {
			b.Fatal(err)
		}
		total += rows
	}
	b.ReportMetric(float64(total)/time.Since(begin).Seconds(), "rows/s")
	b.ReportMetric(float64(cpuTime()-before)/float64(total), "cpu-ns/row")
	b.ReportMetric(peakMiB(), "peak-MiB")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakMiB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	fmt.Sscan(rest, &kib)
	return kib / 1024
}

// BenchmarkScan is one parser alone, in the layout that tapyr writes and in others.
func BenchmarkScan(b *testing.B) {
	rows := sample(1000)
	for i := range rows {
		rows[i].Headers = map[string]string{"X-RateLimit-Limit-day": "5000", "X-RateLimit-Remaining-day": fmt.Sprint(5000 - i)}
	}
	text := jsonl(rows)
	for _, layout := range []struct {
		name string
		text []byte
	}{
		{"canonical", text},
		{"spaced", []byte(strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(string(text)))},
		{"escaped", []byte(strings.ReplaceAll(string(text), `"GET"`, `"\u0047ET"`))},
	} {
		b.Run(layout.name, func(b *testing.B) {
			s := &scanner{builder: builder{symbols: newSymbols()}}
			batch := &Batch{}
			b.SetBytes(int64(len(layout.text)) / 1000)
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(rows) { // an operation is a row
				batch.reset()
				batch = parseLines(s, batch, &lineJob{text: layout.text})
			}
			if batch.badCount > 0 {
				b.Fatal(batch.bad[0])
			}
		})
	}
}
