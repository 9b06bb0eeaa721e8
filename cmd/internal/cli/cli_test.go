package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// world is an Env in memory and what a command left in it.
type world struct {
	Env
	stdout, stderr bytes.Buffer
	environ        map[string]string
}

// testTime is the clock of the tests: a fixed instant.
var testTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newWorld() *world {
	w := &world{environ: map[string]string{}}
	w.Env = Env{
		Stdin:  strings.NewReader(""),
		Stdout: &w.stdout,
		Stderr: &w.stderr,
		Getenv: func(name string) string { return w.environ[name] },
		Now:    func() time.Time { return testTime },
		Local:  time.FixedZone("UTC+1", 3600),
	}
	return w
}

// probeTree is a tree with one group and a command that has every kind of flag
// and does what run says.
func probeTree(run func(*Call) error) *Command {
	root := &Command{
		Name: "tapyr", Usage: "test", Flags: globalFlags(),
		Subcommands: []*Command{
			{
				Name: "group", Usage: "hold a command",
				Subcommands: []*Command{{
					Name: "probe", Usage: "run the test's function", ArgsUsage: "[PATH...]", ArgsMax: -1,
					Flags: []cli.Flag{
						formatFlag("table", "json", "csv"), outputFlag(), onlyFlag(), atFlag(), zoneFlag(),
						&cli.BoolFlag{Name: "strict", Usage: "be strict"},
						&cli.IntFlag{Name: "n", Usage: "do it `N` times", Value: 1},
						&cli.StringSliceFlag{Name: "header", Usage: "read `LINE`", KeepSpace: true},
						&cli.StringFlag{Name: "secret", Usage: "not shown", Hidden: true},
					},
					Run: run,
				}},
			},
			{
				Name: "needy", Usage: "need a flag and two arguments", ArgsUsage: "A B", ArgsMin: 2, ArgsMax: 2,
				Flags: []cli.Flag{&cli.StringFlag{Name: "provider", Usage: "look at `NAME`", Required: true}},
				Run:   func(*Call) error { return nil },
			},
		},
	}
	root.adopt()
	return root
}

// runProbe runs "tapyr WORDS..." over probeTree.
func runProbe(w *world, run func(*Call) error, words ...string) int {
	return runTree(context.Background(), &w.Env, probeTree(run), words)
}

func TestStatusIsThatOfTheAnswer(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		stderr string
	}{
		{"done", nil, ExitOK, ""},
		{"bad news with a summary", &BadNewsError{Summary: "3 errors"}, ExitBadNews, "tapyr: 3 errors\n"},
		{"bad news that the result tells", &BadNewsError{}, ExitBadNews, ""},
		{"wrapped bad news", fmt.Errorf("plan: %w", &BadNewsError{}), ExitBadNews, ""},
		{"no answer", errors.New("no such file"), ExitCannotAnswer, "tapyr: no such file\n"},
		{"reader went away", fmt.Errorf("write: %w", syscall.EPIPE), ExitOK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			status := runProbe(w, func(*Call) error { return test.err }, "group", "probe")
			if status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			if got := w.stderr.String(); got != test.stderr {
				t.Errorf("stderr %q, want %q", got, test.stderr)
			}
		})
	}
}

func TestInterruptIs130(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	status := runTree(ctx, &w.Env, probeTree(func(call *Call) error {
		cancel()
		<-call.Done() // the call is the context that the interrupt cancels
		return call.Err()
	}), []string{"group", "probe"})
	if status != ExitInterrupted {
		t.Errorf("status %d, want %d", status, ExitInterrupted)
	}
	if got := w.stderr.String(); got != "tapyr: interrupted\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestInterruptAfterTheAnswerIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	status := runTree(ctx, &w.Env, probeTree(func(*Call) error {
		cancel()
		return nil
	}), []string{"group", "probe"})
	if status != ExitOK {
		t.Errorf("status %d, want %d: the command had its answer", status, ExitOK)
	}
}

// failingWriter refuses every write.
type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestResultThatCannotBeWrittenIsNoAnswer(t *testing.T) {
	for _, runErr := range []error{nil, &BadNewsError{}} {
		w := newWorld()
		w.Stdout = failingWriter{syscall.ENOSPC}
		status := runProbe(w, func(call *Call) error {
			call.Out.Printf("result")
			return runErr
		}, "group", "probe")
		if status != ExitCannotAnswer {
			t.Errorf("after %v: status %d, want %d", runErr, status, ExitCannotAnswer)
		}
		want := "tapyr: cannot write the result to standard output: no space left on device\n"
		if got := w.stderr.String(); got != want {
			t.Errorf("after %v: stderr %q, want %q", runErr, got, want)
		}
	}
}

func TestBrokenPipeIsQuiet(t *testing.T) {
	w := newWorld()
	w.Stdout = failingWriter{syscall.EPIPE}
	status := runProbe(w, func(call *Call) error {
		// More than the buffer, so that the command itself meets the error.
		_, err := call.Out.Write(make([]byte, 2*bufferBytes))
		return err
	}, "group", "probe")
	if status != ExitOK || w.stderr.Len() > 0 {
		t.Errorf("status %d, stderr %q, want a quiet 0", status, w.stderr.String())
	}
}

func TestErrorOfTheCommandOutranksThatOfItsOutput(t *testing.T) {
	w := newWorld()
	w.Stdout = failingWriter{io.ErrClosedPipe}
	status := runProbe(w, func(call *Call) error {
		call.Out.Printf("half a result")
		return errors.New("no such provider")
	}, "group", "probe")
	if status != ExitCannotAnswer || w.stderr.String() != "tapyr: no such provider\n" {
		t.Errorf("status %d, stderr %q", status, w.stderr.String())
	}
}

func TestUsageErrors(t *testing.T) {
	const probe = `see "tapyr group probe --help"`
	tests := []struct{ words, want string }{
		{"grup", `unknown command "grup"; did you mean "group"? see "tapyr --help"`},
		{"zzz", `unknown command "zzz"; see "tapyr --help"`},
		{"group", `"tapyr group" needs one of its commands: probe; see "tapyr group --help"`},
		{"group prob", `unknown command "prob"; did you mean "probe"? see "tapyr group --help"`},
		{"--fromat json group probe", `unknown flag "--fromat"; did you mean "--format"? see "tapyr --help"`},
		{"group probe --fromat=json", `unknown flag "--fromat"; did you mean "--format"? ` + probe},
		{"group probe --qzx", `unknown flag "--qzx"; ` + probe},
		{"group probe -q", `unknown flag "-q"; ` + probe},
		{"group probe --format", `flag "--format" needs a value; ` + probe},
		{"group probe -o --strict", `flag "-o" needs a value, not "--strict" (write -o=--strict if you mean it); ` + probe},
		{"group probe -o --", `flag "-o" needs a value, not "--" (write -o=-- if you mean it); ` + probe},
		{"group probe --format xml", `--format: "xml" is not one of table, json, csv; ` + probe},
		{"group probe --format jsn", `--format: "jsn" is not one of table, json, csv; did you mean "json"; ` + probe},
		{"group probe --n many", `-n: "many" is not a value that this flag takes; ` + probe},
		{"group probe --n 99999999999999999999", `-n: "99999999999999999999" is out of range; ` + probe},
		{"group probe --strict=perhaps", `--strict: "perhaps" is not a value that this flag takes; ` + probe},
		{"group probe --at noon", `--at: "noon" is not a time of RFC 3339 with its zone; write it as 2026-11-30T12:00:00Z; ` + probe},
		{"group probe --tz Mars", `--tz: "Mars" is not a time zone; name one of the IANA database, as Europe/Berlin, or UTC; ` + probe},
		{"group probe --only devices", `--only: "devices" is not KIND/NAME, as job/devices; ` + probe},
		{"group probe --only jobs/devices", `--only: "jobs/devices" has the kind "jobs", which is not one of provider, account, job; did you mean "job"; ` + probe},
		{"needy --strict a b", `unknown flag "--strict"; see "tapyr needy --help"`},
		{"--strict needy a b", `"tapyr needy" has no flag "--strict"; see "tapyr needy --help"`},
		{"needy a", `"tapyr needy" needs A B; see "tapyr needy --help"`},
		{"needy a b c", `"tapyr needy" takes only A B, got also "c"; see "tapyr needy --help"`},
		{"needy a b", `"tapyr needy" needs the flag "--provider"; see "tapyr needy --help"`},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			w := newWorld()
			ran := false
			status := runProbe(w, func(*Call) error { ran = true; return nil }, strings.Fields(test.words)...)
			want := "tapyr: " + test.want + "\n"
			if status != ExitCannotAnswer || w.stderr.String() != want {
				t.Errorf("status %d\n got %q\nwant %q", status, w.stderr.String(), want)
			}
			if w.stdout.Len() > 0 {
				t.Errorf("stdout has %q: it is for results", w.stdout.String())
			}
			if ran {
				t.Error("the command ran all the same")
			}
		})
	}
}
