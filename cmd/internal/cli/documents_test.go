package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree makes files; a name that ends in / is a folder, and a content that begins with "-> " a link.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(content, "-> ")
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(name, 0o777)
		case link:
			err = os.Symlink(target, name)
		default:
			err = os.WriteFile(name, []byte(content), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindFiles(t *testing.T) {
	tree(t, map[string]string{
		"d/b.yaml": "", "d/a.yml": "", "d/a/z.yaml": "", "d/a-b.yaml": "", "d/readme.md": "", "d/.git/x.yaml": "", "d/.hidden.yaml": "", "d/c.yaml/": "",
		"d/loop": "-> .", "d/a/up": "-> ../..", "d/link.yaml": "-> b.yaml", "d/other": "-> ../e", "d/broken": "-> nowhere", "e/in-e.yaml": "", "f.txt": "",
		"kube/..data": "-> ..2026", "kube/..2026/conf.yaml": "", "kube/conf.yaml": "-> ..data/conf.yaml",
	})
	tests := []struct {
		paths, want []string
	}{
		// d/a/up leads to the folder above d, and is walked before d/other, which leads to e as well: each file is read once.
		{[]string{"d"}, []string{"d/a-b.yaml", "d/a.yml", "d/a/up/e/in-e.yaml", "d/a/up/kube/conf.yaml", "d/a/z.yaml", "d/b.yaml"}},
		{[]string{"./d/b.yaml", "f.txt", "d/b.yaml"}, []string{"d/b.yaml", "f.txt"}},
		{[]string{"kube"}, []string{"kube/conf.yaml"}},
		{[]string{"e", "-", "e", "-"}, []string{"e/in-e.yaml", "-"}},
		{[]string{"e/in-e.yaml", "e"}, []string{"e/in-e.yaml"}},
		{[]string{"d/.hidden.yaml"}, []string{"d/.hidden.yaml"}},
	}
	for _, tt := range tests {
		got, err := findFiles(tt.paths)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, %v; want %v", tt.paths, got, err, tt.want)
		}
	}
	for _, bad := range [][]string{{"nowhere"}, {"d/c.yaml"}, {"e", "nowhere.yaml"}} {
		if got, err := findFiles(bad); err == nil {
			t.Errorf("%v: %v", bad, got)
		}
	}
	if err := os.Symlink("nowhere", "e/gone.yaml"); err != nil {
		t.Fatal(err)
	}
	if _, err := findFiles([]string{"e"}); err == nil || !strings.Contains(err.Error(), "cannot read e/gone.yaml") {
		t.Errorf("a link to nowhere: %v", err)
	}
}

func TestUnreadableFilesAreNoAnswer(t *testing.T) {
	tree(t, map[string]string{"d/a.yaml": "kind: Job\n"})
	w := newWorld()
	if status := Run(context.Background(), &w.Env, []string{"validate", "d", "nowhere.yaml"}); status != ExitCannotAnswer || w.stdout.Len() > 0 ||
		w.stderr.String() != "tapyr: cannot read nowhere.yaml: no such file or directory\n" {
		t.Errorf("status %d\n%s%s", status, w.stdout.String(), w.stderr.String())
	}
	if os.Getuid() != 0 {
		if err := os.Chmod("d/a.yaml", 0); err != nil {
			t.Fatal(err)
		}
		w = newWorld()
		if status := Run(context.Background(), &w.Env, []string{"validate", "d"}); status != ExitCannotAnswer || !strings.Contains(w.stderr.String(), "permission denied") {
			t.Errorf("status %d\n%s", status, w.stderr.String())
		}
	}
}

// endless is a device that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestEndlessInputEnds(t *testing.T) {
	w := newWorld()
	w.Stdin = endless{}
	if status := Run(context.Background(), &w.Env, []string{"validate", "-"}); status != ExitBadNews || !strings.Contains(w.stdout.String(), "-:1:1: error: the file is longer than") {
		t.Errorf("status %d\n%s%s", status, w.stdout.String(), w.stderr.String())
	}
}

// A pipe that nobody writes to does not keep an interrupted command.
func TestSilentInputIsInterrupted(t *testing.T) {
	tree(t, map[string]string{"d/": ""})
	if err := syscall.Mkfifo("d/pipe.yaml", 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, err := findFiles([]string{"d"}); err == nil {
		t.Error("a named pipe in a folder was taken for a document")
	}
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld()
	w.Stdin = reader
	done := make(chan int)
	go func() { done <- Run(ctx, &w.Env, []string{"validate", "-"}) }()
	cancel()
	select {
	case status := <-done:
		if status != ExitInterrupted {
			t.Errorf("status %d: %s", status, w.stderr.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting")
	}
}

// A pipe that is named by the caller, as a shell's <(...) is, is read.
func TestNamedPipesAreRead(t *testing.T) {
	tree(t, map[string]string{"d/": ""})
	if err := syscall.Mkfifo("d/pipe", 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	go func() {
		pipe, err := os.OpenFile("d/pipe", os.O_WRONLY, 0)
		if err == nil {
			_, err = pipe.WriteString("kind: Jbo\n")
		}
		if err = errors.Join(err, pipe.Close()); err != nil {
			t.Error(err)
		}
	}()
	w := newWorld()
	if status := Run(context.Background(), &w.Env, []string{"validate", "d/pipe"}); status != ExitBadNews || !strings.Contains(w.stdout.String(), "d/pipe:1:7: error: kind is \"Jbo\"") {
		t.Errorf("status %d\n%s%s", status, w.stdout.String(), w.stderr.String())
	}
}
