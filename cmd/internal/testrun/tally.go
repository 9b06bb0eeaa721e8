package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of "go test -json". See "go doc test2json" and, for the
// events of builds, "go help buildjson".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	// FailedBuild is set where a package fails because something did not build,
	// which a build-fail event has already said.
	FailedBuild string
}

// tally counts the tests of any number of runs of go test.
type tally struct {
	passed, failed, skipped int
	// failures and skips name the tests, as "package: Test".
	failures, skips []string
	// targets are the fuzz targets seen: go test runs each on its seeds as a
	// test of that name.
	targets []fuzzTarget
	// broken are the packages with a failed test in the run being read.
	broken map[string]bool
	// outOfTime tells that in the run being read a fuzz target failed of nothing but that its time was over.
	outOfTime bool
	// output holds what unfinished tests have printed, by package and test. It
	// is shown only if they fail.
	output map[string]*strings.Builder
}

// fuzzTarget names a fuzz target.
type fuzzTarget struct{ pkg, name string }

// read counts the events of one run. It prints the lines that go test would
// print without -v: packages, and what failed tests wrote.
func (t *tally) read(events io.Reader, out io.Writer) error {
	t.output = map[string]*strings.Builder{}
	t.broken = map[string]bool{}
	t.outOfTime = false
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(out, line) // not an event: the go command itself
			} else {
				t.count(&e, out)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// count takes in one event.
func (t *tally) count(e *event, out io.Writer) {
	key := e.Package + ": " + e.Test
	switch e.Action {
	case "output":
		t.hear(e, key, out)
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "build-fail":
		t.failed++
		t.failures = append(t.failures, e.ImportPath+": does not build")
	case "run":
		if strings.HasPrefix(e.Test, "Fuzz") && !strings.Contains(e.Test, "/") {
			target := fuzzTarget{e.Package, e.Test}
			if !slices.Contains(t.targets, target) {
				t.targets = append(t.targets, target)
			}
		}
	case "pass", "skip", "fail":
		t.settle(e, key, out)
	}
}

// hear keeps a line of a test, and prints one of a package.
func (t *tally) hear(e *event, key string, out io.Writer) {
	if e.Test != "" {
		if t.output[key] == nil {
			t.output[key] = &strings.Builder{}
		}
		t.output[key].WriteString(e.Output)
		return
	}
	// Of a package's own lines only the last, "ok", "FAIL" or "?", says
	// something that the tests have not, and a panic outside of any test.
	switch e.Output {
	case "PASS\n", "FAIL\n":
	default:
		fmt.Fprint(out, e.Output)
	}
}

// settle counts a test that has ended.
func (t *tally) settle(e *event, key string, out io.Writer) {
	heard := t.output[key]
	delete(t.output, key)
	if e.Test == "" {
		if e.Action == "fail" && e.FailedBuild == "" && !t.broken[e.Package] {
			t.failOutside(e.Package, out)
		}
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
		t.skips = append(t.skips, key+reason(heard))
	case "fail":
		if ranOutOfTime(heard) {
			t.passed++
			t.outOfTime, t.broken[e.Package] = true, true
			return
		}
		t.failed++
		t.failures = append(t.failures, key)
		t.broken[e.Package] = true
		show(heard, out)
	}
}

// ranOutOfTime tells whether a fuzz target found nothing, and failed because it was at work when its time was over: before Go 1.27
// the go command may then take the end of the time for a failure (https://go.dev/issue/75804). What a target finds itself comes with
// a file and a line, and with the input that was written.
func ranOutOfTime(heard *strings.Builder) bool {
	if heard == nil || !strings.Contains(heard.String(), "\n    context deadline exceeded\n") {
		return false
	}
	return !strings.Contains(heard.String(), ".go:") && !strings.Contains(heard.String(), "Failing input written")
}

// failOutside counts a package that failed without a failed test: in TestMain,
// by a race at exit, by a timeout. What its tests were saying may tell why.
func (t *tally) failOutside(pkg string, out io.Writer) {
	t.failed++
	t.failures = append(t.failures, pkg+": failed outside of its tests")
	for _, key := range slices.Sorted(maps.Keys(t.output)) {
		if strings.HasPrefix(key, pkg+": ") {
			show(t.output[key], out)
		}
	}
}

// show prints what a test wrote, without the marks of when it ran and paused.
func show(heard *strings.Builder, out io.Writer) {
	if heard == nil {
		return
	}
	for line := range strings.Lines(heard.String()) {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(out, line)
		}
	}
}

// reason finds why a test skipped: the line "    file_test.go:12: why".
func reason(heard *strings.Builder) string {
	if heard == nil {
		return ""
	}
	for line := range strings.Lines(heard.String()) {
		if _, after, found := strings.Cut(strings.TrimSpace(line), ".go:"); found {
			if _, why, found := strings.Cut(after, ": "); found {
				return ": " + why
			}
		}
	}
	return ""
}

// fuzzTargets returns the targets seen, in a stable order.
func (t *tally) fuzzTargets() []fuzzTarget {
	slices.SortFunc(t.targets, func(a, b fuzzTarget) int {
		return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name)
	})
	return slices.Clone(t.targets)
}

// report writes what was skipped, what failed, and the count as the last line.
func (t *tally) report(out io.Writer) {
	for _, name := range t.skips {
		fmt.Fprintln(out, "skipped", strings.TrimSpace(name))
	}
	for _, name := range t.failures {
		fmt.Fprintln(out, "failed", name)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
}
