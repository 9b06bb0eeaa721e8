package sqlite

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/ledger"
)

// readerEnv makes this test binary read the state it names and print how many rows there are, as a user for whom permissions count.
const readerEnv = "TAPYR_TEST_READER"

func TestReaderProcess(t *testing.T) {
	path := os.Getenv(readerEnv)
	if path == "" {
		t.Skip("is a part of TestReadOnlyMedium")
	}
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := countRows(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{Mode: Owner})
	faultIs(t, err, ledger.FaultReadOnly)
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "tapyr-state-*"))
	fmt.Printf("rows %d, left behind %d, %v\n", n, len(left), err)
}

// A state on a medium that cannot be written is read: one that was closed, one whose owner was killed, and one of an older version.
// What is on the medium stays as it is.
func TestReadOnlyMedium(t *testing.T) {
	for name, create := range map[string]func(t *testing.T, path string){
		"closed":        func(t *testing.T, path string) { closedState(t, path, 3) },
		"killed":        killedState,
		"older version": oldState,
	} {
		t.Run(name, func(t *testing.T) {
			// Not t.TempDir: nobody but its owner may enter that.
			dir, err := os.MkdirTemp("", "tapyr-readonly-*") //nolint:usetesting // see above
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = os.Chmod(filepath.Join(dir, "medium"), 0o700)
				_ = os.RemoveAll(dir)
			})
			medium, scratch := filepath.Join(dir, "medium"), filepath.Join(dir, "scratch")
			for folder, mode := range map[string]fs.FileMode{dir: 0o755, medium: 0o755, scratch: 0o777} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(folder, mode); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(medium, "state.db")
			create(t, path)
			before := seal(t, medium)
			out, err := readAsNobody(t, path, scratch)
			if err != nil || !strings.Contains(out, "rows 3, left behind 0, <nil>") {
				t.Errorf("%v\n%s", err, out)
			}
			if after := seal(t, medium); after != before {
				t.Errorf("the medium holds\n%s\nand held\n%s", after, before)
			}
		})
	}
}

func closedState(t *testing.T, path string, n int) {
	s := openAt(t, path, Options{Mode: Owner})
	if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(n)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// killedState copies a state with its log while its owner has it, which is what a kill leaves.
func killedState(t *testing.T, path string) {
	s := open(t, Options{Mode: Owner})
	if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(3)}); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", walSuffix} {
		if err := copyFile(path+suffix, s.Path()+suffix); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path + walSuffix); err != nil || info.Size() == 0 {
		t.Fatalf("there is no log: the test sees nothing (%v)", err)
	}
}

// oldState takes a state back by the last migration, which makes tables and triggers.
func oldState(t *testing.T, path string) {
	closedState(t, path, 3)
	steps, err := readMigrations(embedded)
	if err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, Options{Mode: Owner})
	last := steps[len(steps)-1]
	for _, match := range regexp.MustCompile(`(?i)create (table|trigger|view) (?:if not exists )?(\w+)`).FindAllStringSubmatch(last.sql, -1) {
		if _, err := s.writes.ExecContext(t.Context(), "DROP "+match[1]+" IF EXISTS "+match[2]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.writes.ExecContext(t.Context(), fmt.Sprintf("PRAGMA user_version = %d", last.version-1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if h, err := readHeader(path); err != nil || h.version != last.version-1 {
		t.Fatalf("version %d: the test sees nothing (%v)", h.version, err)
	}
}

// seal makes a folder read-only, and describes what is in it.
func seal(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if err := os.Chmod(name, 0o444); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %x\n", entry.Name(), content)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// readAsNobody runs TestReaderProcess, as somebody else where this is root, for whom permissions mean nothing.
func readAsNobody(t *testing.T, path, scratch string) (string, error) {
	t.Helper()
	words := []string{os.Args[0], "-test.run=^TestReaderProcess$", "-test.v"}
	if os.Getuid() == 0 {
		if runtime.GOOS != "linux" {
			t.Skip("runs as root, for whom permissions mean nothing")
		}
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("runs as root, for whom permissions mean nothing, and setpriv (Debian's package util-linux) is not installed")
		}
		// The test binary stands where only root may look.
		program := filepath.Join(scratch, "reader.test")
		if err := copyFile(program, os.Args[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		words = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program}, words[1:]...)
	}
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), readerEnv+"="+path, "TMPDIR="+scratch)
	command.Dir = scratch
	out, err := command.CombinedOutput()
	return string(out), err
}
