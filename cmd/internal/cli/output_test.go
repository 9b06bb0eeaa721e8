package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runToFile runs a command with -o path that prints text and ends with runErr.
func runToFile(t *testing.T, path, text string, runErr error) (int, *world) {
	t.Helper()
	w := newWorld()
	status := runProbe(w, func(call *Call) error {
		call.Out.Printf("%s", text)
		return runErr
	}, "group", "probe", "-o", path)
	if w.stdout.Len() > 0 {
		t.Errorf("stdout has %q, though the result goes to a file", w.stdout.String())
	}
	return status, w
}

// folder lists the names in a folder, hidden ones too.
func folder(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return strings.Join(list, " ")
}

func TestOutputFileAppearsWithTheAnswer(t *testing.T) {
	for _, runErr := range []error{nil, &BadNewsError{}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "plan.json")
		status, w := runToFile(t, path, "answer", runErr)
		if want := map[bool]int{true: ExitOK, false: ExitBadNews}[runErr == nil]; status != want {
			t.Errorf("after %v: status %d, want %d: %s", runErr, status, want, w.stderr.String())
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "answer" {
			t.Errorf("after %v: file has %q, %v", runErr, got, err)
		}
		if got := folder(t, dir); got != "plan.json" {
			t.Errorf("after %v: folder has %s", runErr, got)
		}
	}
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	status, _ := runToFile(t, path, strings.Repeat("half ", bufferBytes), errors.New("no such job"))
	if status != ExitCannotAnswer {
		t.Errorf("status %d", status)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("file has %.20q, %v", got, err)
	}
	if got := folder(t, dir); got != "plan.json" {
		t.Errorf("folder has %s: a temporary file stayed", got)
	}
}

func TestOutputFileIsHiddenUntilTheEnd(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	w := newWorld()
	runProbe(w, func(call *Call) error {
		call.Out.Printf("half")
		if err := call.Out.Flush(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is there before the command ended: %v", err)
		}
		return nil
	}, "group", "probe", "-o", path)
	if got, err := os.ReadFile(path); err != nil || string(got) != "half" {
		t.Errorf("file has %q, %v", got, err)
	}
}

func TestOutputFileKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if status, w := runToFile(t, link, "new", nil); status != ExitOK {
		t.Fatal(w.stderr.String())
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "new" {
		t.Errorf("target has %q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode became %v, %v", info.Mode(), err)
	}
}

func TestOutputFileThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "x"): "tapyr: cannot create " + filepath.Join(dir, "none", "x") + ": no such file or directory\n",
		dir:                             "tapyr: cannot create " + dir + ": it is a folder\n",
	} {
		ran := false
		w := newWorld()
		status := runProbe(w, func(*Call) error { ran = true; return nil }, "group", "probe", "-o", path)
		if status != ExitCannotAnswer || w.stderr.String() != want {
			t.Errorf("%s: status %d, %q, want %q", path, status, w.stderr.String(), want)
		}
		if ran {
			t.Errorf("%s: the command ran, though its result has nowhere to go", path)
		}
	}
}

func TestOutputDashIsStandardOutput(t *testing.T) {
	w := newWorld()
	runProbe(w, func(call *Call) error { call.Out.Printf("x"); return nil }, "group", "probe", "-o", "-")
	if w.stdout.String() != "x" {
		t.Errorf("stdout has %q", w.stdout.String())
	}
}

func TestTemporaryNamesInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	first, err := createAtomic(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := createAtomic(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []*atomicFile{first, second} {
		if _, err := file.WriteString(file.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.commit(); err != nil {
		t.Fatal(err)
	}
	if err := second.commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != second.Name() {
		t.Errorf("file has %q, %v: the last one should win", got, err)
	}
}

func TestColorOnlyWhereWanted(t *testing.T) {
	tests := []struct {
		name    string
		columns int
		words   string
		environ map[string]string
		colored bool
	}{
		{"terminal", 100, "", nil, true},
		{"pipe", 0, "", nil, false},
		{"flag", 100, "--no-color", nil, false},
		{"NO_COLOR", 100, "", map[string]string{"NO_COLOR": "0"}, false},
		{"empty NO_COLOR", 100, "", map[string]string{"NO_COLOR": ""}, true},
		{"dumb", 100, "", map[string]string{"TERM": "dumb"}, false},
		{"file", 100, "-o FILE", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			w.StdoutColumns = test.columns
			w.environ = test.environ
			words := strings.Fields(strings.ReplaceAll(test.words, "FILE", filepath.Join(t.TempDir(), "x")))
			var painted string
			var columns int
			runProbe(w, func(call *Call) error {
				painted, columns = string(call.Out.paint(styleBad, "late")), call.Out.Columns()
				return nil
			}, append([]string{"group", "probe"}, words...)...)
			if got := strings.Contains(painted, "\x1b["); got != test.colored || !strings.Contains(painted, "late") {
				t.Errorf("painted %q, colour wanted: %v", painted, test.colored)
			}
			if test.columns == 0 && columns != defaultColumns || test.name == "terminal" && columns != test.columns {
				t.Errorf("%d columns", columns)
			}
		})
	}
}

func TestOutputJSON(t *testing.T) {
	var w world
	w.Env.Stdout = &w.stdout
	err := w.withStdout(func(out *Output) error {
		return out.JSON(map[string]any{"b": []string(nil), "a": "<&>"})
	})
	want := "{\n  \"a\": \"<&>\",\n  \"b\": []\n}\n"
	if err != nil || w.stdout.String() != want {
		t.Errorf("%v, %q, want %q", err, w.stdout.String(), want)
	}
	if !json.Valid(bytes.TrimSpace(w.stdout.Bytes())) {
		t.Error("not JSON")
	}
}
