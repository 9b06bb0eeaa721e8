// Command validate measures "tapyr validate" on a folder of 1,000 documents, a file each, against ajv with the same JSON Schemas,
// both as whole processes, YAML parsing included, in turns. ajv knows one document at a time; tapyr also resolves references,
// applies its rules and plans.
//
//	(cd bench/validate && npm ci) && go build -o /tmp/tapyr ./cmd/tapyr && go run ./bench/validate -tapyr /tmp/tapyr
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
	"time"
)

func main() {
	log.SetFlags(0)
	tapyr := flag.String("tapyr", "tapyr", "the binary to measure")
	peer := flag.String("peer", "bench/validate/ajv.mjs", "the peer's script")
	documents := flag.Int("documents", 1000, "number of documents")
	runs := flag.Int("runs", 7, "number of runs of each; the fastest counts, since others use the machine too")
	flag.Parse()

	dir, err := os.MkdirTemp("", "tapyr-bench-validate")
	if err != nil {
		log.Fatal(err)
	}
	err = measure(dir, *tapyr, *peer, *documents, *runs)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

func measure(dir, tapyr, peer string, documents, runs int) error {
	folder, schemas := filepath.Join(dir, "documents"), filepath.Join(dir, "schemas")
	for _, d := range []string{folder, schemas} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for name, text := range generate(documents) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if _, err := run(tapyr, "schema", "-o", schemas); err != nil {
		return err
	}
	var own, theirs []sample
	for range runs {
		s, err := run(tapyr, "validate", folder)
		if err != nil {
			return err
		}
		own = append(own, s)
		if s, err = run("node", peer, schemas, folder); err != nil {
			return err
		}
		theirs = append(theirs, s)
	}
	a, b := fastest(own), fastest(theirs)
	fmt.Printf("tapyr validate: %.3f s wall, %.3f s CPU: %s", a.wall.Seconds(), a.cpu.Seconds(), a.output)
	fmt.Printf("ajv and yaml:   %.3f s wall, %.3f s CPU: %s", b.wall.Seconds(), b.cpu.Seconds(), b.output)
	fmt.Printf("ratio: %.2f of the wall time, %.2f of the CPU time (must be at most 0.5)\n", a.wall.Seconds()/b.wall.Seconds(), a.cpu.Seconds()/b.cpu.Seconds())
	return nil
}

// sample is one run of a process, its start included.
type sample struct {
	wall, cpu time.Duration
	output    []byte
}

func run(name string, args ...string) (sample, error) {
	command := exec.CommandContext(context.Background(), name, args...)
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	begin := time.Now()
	if err := command.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s%s", command, err, output.Bytes(), problems.Bytes())
	}
	state := command.ProcessState
	return sample{time.Since(begin), state.UserTime() + state.SystemTime(), output.Bytes()}, nil
}

func fastest(samples []sample) sample {
	return slices.MinFunc(samples, func(a, b sample) int { return int(a.wall - b.wall) })
}
