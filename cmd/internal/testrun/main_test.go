package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// replayTester answers each go test with the events that write writes for the
// arguments, joined by blanks.
func replayTester(t *testing.T, calls *[]string, write func(call string, emit func(event)) error) tester {
	t.Helper()
	return func(_ context.Context, w io.Writer, args ...string) error {
		call := strings.Join(args, " ")
		*calls = append(*calls, call)
		return write(call, func(e event) {
			line, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFuzzTargetsRunAfterTheTests(t *testing.T) {
	var calls []string
	test := replayTester(t, &calls, func(_ string, emit func(event)) error {
		for _, name := range []string{"FuzzB", "TestA", "FuzzA", "FuzzA/seed#0"} {
			emit(event{Action: "run", Package: "p", Test: name})
			emit(event{Action: "pass", Package: "p", Test: name})
		}
		emit(event{Action: "output", Package: "p", Output: "ok  \tp\t0.1s\n"})
		emit(event{Action: "pass", Package: "p"})
		return nil
	})
	var out bytes.Buffer
	status, err := run(t.Context(), &out, test, []string{"-race", "./..."}, 2*time.Second)
	if status != 0 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	want := []string{"-race ./...", "-run ^$ -fuzz ^FuzzA$ -fuzztime 2s p", "-run ^$ -fuzz ^FuzzB$ -fuzztime 2s p"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	if text := out.String(); !strings.HasSuffix(text, "\n12 passed, 0 failed, 0 skipped\n") {
		t.Errorf("output is %q", text)
	}
	calls = nil
	if _, err := run(t.Context(), &out, test, []string{"./..."}, 0); err != nil || len(calls) != 1 {
		t.Errorf("without fuzzing: %q, %v", calls, err)
	}
}

// Each of these must end with a status of 1 and the count that stands there:
// a way to fail that is not counted would let broken code through.
func TestEveryWayToFailFails(t *testing.T) {
	pass := func(emit func(event)) { emit(event{Action: "pass", Package: "p", Test: "TestA"}) }
	tests := []struct {
		name  string
		write func(emit func(event)) error
		last  string
		shown string
	}{
		{"a test", func(emit func(event)) error {
			pass(emit)
			emit(event{Action: "output", Package: "p", Test: "TestB", Output: "=== RUN   TestB\n"})
			emit(event{Action: "output", Package: "p", Test: "TestB", Output: "    b_test.go:3: no\n"})
			emit(event{Action: "fail", Package: "p", Test: "TestB"})
			emit(event{Action: "fail", Package: "p"})
			return &exec.ExitError{}
		}, "1 passed, 1 failed, 0 skipped", "    b_test.go:3: no\nfailed p: TestB\n"},
		{"a package outside of its tests", func(emit func(event)) error {
			pass(emit)
			emit(event{Action: "output", Package: "p", Test: "TestC", Output: "still here\n"})
			emit(event{Action: "output", Package: "p", Output: "exit status 3\n"})
			emit(event{Action: "fail", Package: "p"})
			return &exec.ExitError{}
		}, "1 passed, 1 failed, 0 skipped", "exit status 3\nstill here\nfailed p: failed outside of its tests\n"},
		{"a build", func(emit func(event)) error {
			pass(emit)
			emit(event{Action: "build-output", ImportPath: "q", Output: "undefined: z\n"})
			emit(event{Action: "build-fail", ImportPath: "q"})
			emit(event{Action: "fail", Package: "q", FailedBuild: "q"})
			return &exec.ExitError{}
		}, "1 passed, 1 failed, 0 skipped", "undefined: z\nfailed q: does not build\n"},
		{"the go command", func(emit func(event)) error {
			pass(emit)
			return errors.New("no such command")
		}, "1 passed, 0 failed, 0 skipped", ""},
		{"nothing ran", func(func(event)) error { return nil }, "0 passed, 0 failed, 0 skipped", ""},
		{"all skipped", func(emit func(event)) error {
			emit(event{Action: "output", Package: "p", Test: "TestD", Output: "    d_test.go:9: needs a server\n"})
			emit(event{Action: "skip", Package: "p", Test: "TestD"})
			return nil
		}, "0 passed, 0 failed, 1 skipped", "skipped p: TestD: needs a server\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var calls []string
			var out bytes.Buffer
			status, _ := run(t.Context(), &out, replayTester(t, &calls, func(_ string, emit func(event)) error {
				return test.write(emit)
			}), nil, 0)
			if status != 1 {
				t.Errorf("status %d, want 1", status)
			}
			if want := test.shown + test.last + "\n"; out.String() != want {
				t.Errorf("output %q, want %q", out.String(), want)
			}
		})
	}
}

// A fuzz target that is at work when its time is over has found nothing; one that found something fails, also then.
func TestTheEndOfTheTimeIsNoFinding(t *testing.T) {
	for text, status := range map[string]int{
		"--- FAIL: FuzzA (3.01s)\n    context deadline exceeded\n": 0,
		"--- FAIL: FuzzA (3.01s)\n    --- FAIL: FuzzA (0.00s)\n        a_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzA/1\n": 1,
		"--- FAIL: FuzzA (3.01s)\n    context deadline exceeded\n    a_test.go:9: wrong\n":                                                                                 1,
		"--- FAIL: FuzzA (3.01s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\n":                                                                    1,
	} {
		var calls []string
		test := replayTester(t, &calls, func(call string, emit func(event)) error {
			emit(event{Action: "run", Package: "p", Test: "FuzzA"})
			if !strings.Contains(call, "-fuzz ") {
				emit(event{Action: "pass", Package: "p", Test: "FuzzA"})
				return nil
			}
			emit(event{Action: "output", Package: "p", Test: "FuzzA", Output: "=== RUN   FuzzA\n"})
			emit(event{Action: "output", Package: "p", Test: "FuzzA", Output: text})
			emit(event{Action: "fail", Package: "p", Test: "FuzzA"})
			emit(event{Action: "fail", Package: "p"})
			return &exec.ExitError{}
		})
		if got, err := run(t.Context(), io.Discard, test, nil, time.Second); got != status || err != nil {
			t.Errorf("%q: status %d, %v", text, got, err)
		}
	}
}

func TestInterruptFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls []string
	test := replayTester(t, &calls, func(_ string, emit func(event)) error {
		emit(event{Action: "run", Package: "p", Test: "FuzzA"})
		emit(event{Action: "pass", Package: "p", Test: "FuzzA"})
		cancel()
		return nil
	})
	status, err := run(ctx, io.Discard, test, nil, time.Second)
	if status != 1 || !errors.Is(err, context.Canceled) || len(calls) != 1 {
		t.Errorf("status %d, %v, calls %q", status, err, calls)
	}
}

func TestLinesThatAreNoEventsAreShown(t *testing.T) {
	var t1 tally
	var out bytes.Buffer
	if err := t1.read(strings.NewReader("go: downloading x\n{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"T\"}\nlast"), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "go: downloading x\nlast" || t1.passed != 1 {
		t.Errorf("%q, %+v", out.String(), t1)
	}
}

// The real go command, on a module with a test of every outcome.
func TestCountsOfTheGoCommand(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n\ngo 1.26\n",
		"good/a_test.go":   "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\nfunc TestS(t *testing.T) { t.Skip(\"needs a server\") }\nfunc FuzzF(f *testing.F) { f.Fuzz(func(*testing.T, int) {}) }\n",
		"bad/b_test.go":    "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"no\") }) }\n",
		"broken/c_test.go": "package c\n\nfunc init() { z }\n",
		"exits/d_test.go":  "package d\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(3) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, test := range []struct {
		args []string
		last string
		ok   bool
	}{
		{[]string{"./good"}, "3 passed, 0 failed, 1 skipped\n", true}, // FuzzF is run twice: on its seeds, and fuzzing
		{[]string{"./..."}, "3 passed, 4 failed, 1 skipped\n", false},
		{[]string{"./none"}, "0 passed, 1 failed, 0 skipped\n", false},
	} {
		var out bytes.Buffer
		status, err := run(t.Context(), &out, goTest, test.args, 100*time.Millisecond)
		if (status == 0) != test.ok || err != nil || !strings.HasSuffix(out.String(), test.last) {
			t.Errorf("%q: status %d, %v, want %q at the end of\n%s", test.args, status, err, test.last, out.String())
		}
	}
}
