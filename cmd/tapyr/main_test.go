package main

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tapyr/tapyr/cmd/internal/cli"
)

// TestMain makes this test binary behave as tapyr where it is called by that
// name, and puts that name on PATH: the scripts run the code under test, as a
// process of its own, without a build.
func TestMain(m *testing.M) {
	// A program with the race detector sleeps for a second before it exits, in
	// case a goroutine still races. The scripts start hundreds.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=10"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"tapyr": main})
}

// TestScripts runs testdata/*.txtar. In them, "status N CMD..." runs a command
// and fails unless it exits with N, and "sql FILE STATEMENT" changes a state
// file behind tapyr's back; see the package testscript for the rest.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			// The scripts decide about these; the caller's must not leak in.
			env.Setenv("GORACE", os.Getenv("GORACE"))
			for _, name := range []string{"NO_COLOR", "TAPYR_CONFIG"} {
				env.Setenv(name, "")
			}
			return nil
		},
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"status": statusCommand, "sql": sqlCommand},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// statusCommand is "status N CMD...". Plain "! exec" cannot tell bad news (1)
// from no answer (2).
func statusCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = strings.TrimPrefix(exit.String(), "exit status ")
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("%s exited with %s, want %s", args[1], got, args[0])
	}
}

// sqlCommand is "sql FILE STATEMENT": what somebody with the file and a shell can do to it.
func sqlCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db, err := sql.Open("sqlite3", "file:"+ts.MkAbs(args[0])+"?mode=rw")
	ts.Check(err)
	defer db.Close()
	result, err := db.Exec(args[1])
	ts.Check(err)
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		ts.Fatalf("%q changed nothing (%v)", args[1], err)
	}
}

// TestHelpExamplesRun runs the examples in the help of every command, as they
// stand, in a folder with what a clone has for them.
func TestHelpExamplesRun(t *testing.T) {
	source, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	// The shared goldens are large and only read.
	goldens, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for command, examples := range cli.Examples() {
		for _, example := range examples {
			ran++
			t.Run(command+"/"+example.Line, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				// Examples write files, so they get copies.
				if _, err := os.Stat(source); err == nil {
					if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(source)); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Symlink(goldens, filepath.Join(dir, "testdata")); err != nil {
					t.Fatal(err)
				}
				shell := exec.Command("sh", "-c", example.Line)
				shell.Dir = dir
				output, err := shell.CombinedOutput()
				if got := shell.ProcessState.ExitCode(); got != example.Status {
					t.Errorf("exit status %d, want %d (%v)\n%s", got, example.Status, err, output)
				}
			})
		}
	}
	if ran == 0 {
		t.Error("no example ran")
	}
}
