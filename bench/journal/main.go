// Command journal writes a journal of any length, the same for the same seed: what the benchmarks of replay read.
//
//	go run ./bench/journal -rows 10000000 -seed 1 -o /tmp/journal.jsonl     # 4 GB
//	go run ./bench/journal -rows 10000000 -seed 1 -o /tmp/journal.jsonl.zst
//
// It is the traffic of a provider with a quota for each account (200 accounts by default) over 30 days, busier by day than by
// night: each row has the limit and what is left of it in its headers, one in some hundreds is a 429. A row is about 400 bytes.
//
// With -documents it writes what a replay has to know of that traffic: the provider, its accounts and the jobs. bench/replay
// measures both against DuckDB.
//
//	go run ./bench/journal -documents -o /tmp/documents.yaml
//	go test ./ledger/journal -run '^$' -bench ReadFile -benchtime 1x -journal /tmp/journal.jsonl
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(2)
	}
}

func run(args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("journal", flag.ContinueOnError)
	var g generator
	flags.Int64Var(&g.rows, "rows", 1_000_000, "number of rows")
	flags.Uint64Var(&g.seed, "seed", 1, "the same seed makes the same journal")
	flags.IntVar(&g.accounts, "accounts", 200, "number of accounts")
	flags.IntVar(&g.organizations, "organizations", 2000, "number of organizations, spread over the accounts")
	flags.Float64Var(&g.disorder, "disorder", 0, "share of rows that are written up to 200 rows late")
	output := flags.String("o", "", "file; .gz and .zst are compressed; standard output if absent")
	documents := flags.Bool("documents", false, "write the documents of the journal instead of its rows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if g.rows < 0 || g.accounts < 1 || g.organizations < g.accounts || g.disorder < 0 || g.disorder > 1 {
		return errors.New("rows must not be negative, accounts at least 1, organizations at least as many, disorder between 0 and 1")
	}
	w := bufio.NewWriterSize(stdout, 1<<20)
	if *output != "" {
		f, err := os.Create(*output)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = bufio.NewWriterSize(f, 1<<20)
	}
	if *documents {
		return errors.Join(g.documents(w), w.Flush())
	}
	packed, err := pack(w, *output)
	if err != nil {
		return err
	}
	if err := g.write(packed); err != nil {
		return err
	}
	return errors.Join(packed.Close(), w.Flush())
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// pack compresses by the file's ending.
func pack(w io.Writer, name string) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	default:
		return plain{w}, nil
	}
}
