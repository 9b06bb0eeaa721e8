// Command replay measures "tapyr replay" on a journal of many rows against DuckDB, which is asked a part of the same question: what
// each account used by the hour, and the smallest remaining that it was shown. Both are whole processes, in turns.
//
//	(cd bench/replay && npm ci) && go build -o /tmp/tapyr ./cmd/tapyr && go run ./bench/replay -tapyr /tmp/tapyr
//
// It writes the journal (4.4 GB for 10 million rows) into the temporary directory; -journal and -documents name files that are
// there already, as bench/journal writes them.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.tapyr, "tapyr", "tapyr", "the binary to measure")
	flag.StringVar(&o.peer, "peer", "bench/replay/duckdb.mjs", "the peer's script")
	flag.StringVar(&o.journal, "journal", "", "a journal that is there already")
	flag.StringVar(&o.documents, "documents", "", "its documents")
	flag.Int64Var(&o.rows, "rows", 10_000_000, "number of rows to make, where there is no journal")
	flag.IntVar(&o.runs, "runs", 5, "number of runs of each")
	flag.Parse()

	dir, err := os.MkdirTemp("", "tapyr-bench-replay")
	if err != nil {
		log.Fatal(err)
	}
	if err = errors.Join(o.measure(dir), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	tapyr, peer, journal, documents string
	rows                            int64
	runs                            int
}

// make writes the files that were not named.
func (o *options) make(dir string) error {
	if o.journal == "" {
		o.journal = filepath.Join(dir, "journal.jsonl")
		if _, err := run("go", "run", "./bench/journal", "-rows", strconv.FormatInt(o.rows, 10), "-o", o.journal); err != nil {
			return err
		}
	}
	if o.documents == "" {
		o.documents = filepath.Join(dir, "documents.yaml")
		if _, err := run("go", "run", "./bench/journal", "-documents", "-o", o.documents); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) measure(dir string) error {
	if err := o.make(dir); err != nil {
		return err
	}
	var own, theirs []sample
	report := filepath.Join(dir, "report.json")
	for range o.runs {
		s, err := run(o.tapyr, "replay", "-c", o.documents, o.journal, "--format", "json", "-o", report)
		if err != nil {
			return err
		}
		own = append(own, s)
		if s, err = run("node", o.peer, o.journal); err != nil {
			return err
		}
		theirs = append(theirs, s)
	}
	show("tapyr replay", own)
	show("DuckDB", theirs)
	wall := func(s sample) float64 { return s.wall.Seconds() }
	cpu := func(s sample) float64 { return s.cpu.Seconds() }
	fmt.Printf("ratio, median of the pairs: %.2f of the wall time (must be at most 1.0), %.2f of the CPU time\n",
		ratio(own, theirs, wall), ratio(own, theirs, cpu))
	return nil
}

// sample is one run of a process, its start included.
type sample struct {
	wall, cpu time.Duration
	peakBytes int64
}

func run(name string, args ...string) (sample, error) {
	command := exec.CommandContext(context.Background(), name, args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	begin := time.Now()
	if err := command.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", command, err, problems.Bytes())
	}
	s := sample{wall: time.Since(begin), cpu: command.ProcessState.UserTime() + command.ProcessState.SystemTime()}
	s.peakBytes = peakBytes(command.ProcessState)
	return s, nil
}

func show(name string, all []sample) {
	wall := median(all, func(s sample) float64 { return s.wall.Seconds() })
	cpu := median(all, func(s sample) float64 { return s.cpu.Seconds() })
	peak := median(all, func(s sample) float64 { return float64(s.peakBytes) / 1e6 })
	fmt.Printf("%-13s %.2f s wall, %.2f s CPU, %.0f MB (medians of %d runs)\n", name+":", wall, cpu, peak, len(all))
}

func median(all []sample, of func(sample) float64) float64 {
	var list []float64
	for _, s := range all {
		list = append(list, of(s))
	}
	return middle(list)
}

// ratio is the median of the pairs' ratios: both of a pair ran one after the other, under about the same load.
func ratio(own, theirs []sample, of func(sample) float64) float64 {
	var list []float64
	for i := range own {
		list = append(list, of(own[i])/of(theirs[i]))
	}
	return middle(list)
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
