// Command testrun runs go test, then every fuzz target for a short time, and
// ends with a count of all tests.
//
//	testrun [-fuzztime 3s] -- [flags and packages of go test]
//
// It prints what go test prints without -v, names what was skipped, and exits
// with 1 if anything failed, did not build, or nothing ran.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

func main() {
	fuzzTime := flag.Duration("fuzztime", 3*time.Second, "run each fuzz target for this long; 0 runs none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status, err := run(ctx, os.Stdout, goTest, flag.Args(), *fuzzTime)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	os.Exit(status)
}

// tester runs "go test -json" with more arguments and writes its events.
type tester func(ctx context.Context, events io.Writer, args ...string) error

// goTest is the tester that runs the go command.
func goTest(ctx context.Context, events io.Writer, args ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	command.Stdout = events
	command.Stderr = os.Stderr
	// An interrupt, so that go test can stop the test binaries that it started.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command.Run()
}

// run tests, fuzzes, counts, and returns the exit status.
func run(ctx context.Context, out io.Writer, test tester, args []string, fuzzTime time.Duration) (int, error) {
	var t tally
	err := t.pass(ctx, out, test, args...)
	if fuzzTime > 0 {
		for _, target := range t.fuzzTargets() {
			if ctx.Err() != nil {
				break
			}
			fuzzErr := t.pass(ctx, out, test, "-run", "^$",
				"-fuzz", "^"+target.name+"$", "-fuzztime", fuzzTime.String(), target.pkg)
			if t.outOfTime {
				fuzzErr = ignoreExit(fuzzErr)
			}
			err = errors.Join(err, fuzzErr)
		}
	}
	t.report(out)
	if err != nil || ctx.Err() != nil || t.failed > 0 || t.passed == 0 {
		return 1, errors.Join(ignoreExit(err), ctx.Err())
	}
	return 0, nil
}

// pass runs one go test and counts its events.
func (t *tally) pass(ctx context.Context, out io.Writer, test tester, args ...string) error {
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := test(ctx, writer, args...)
		_ = writer.Close() // never fails
		ended <- err
	}()
	readErr := t.read(reader, out)
	// Should reading have failed, go test must still not block on the pipe.
	_, _ = io.Copy(io.Discard, reader)
	err := errors.Join(<-ended, readErr)
	if err != nil {
		return fmt.Errorf("go test %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// ignoreExit drops the errors that only say that tests failed: the report has
// said more.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}
