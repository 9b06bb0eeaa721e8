package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/schema"
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

// What is neither a file nor a folder is refused at once: a named pipe that nobody writes to would wait for ever, and a device may
// have no end.
func TestPipesAndDevicesAreRefused(t *testing.T) {
	tree(t, map[string]string{"d/": "", "d/link.yaml": "-> pipe"})
	if err := syscall.Mkfifo("d/pipe", 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "d/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for path, want := range map[string]string{
		"d/pipe": "a named pipe", "d/link.yaml": "a named pipe", "/dev/zero": "a device", "d/socket": "a socket",
	} {
		for _, words := range [][]string{
			{"validate", path},
			{"plan", path},
			{"run", path, "--once"},
			{"run", path, "--dry-run"},
			{"run", path},
			{"check", "acme", "-c", path},
			{"simulate", "run", path},
			{"inspect", "windows", path, "--provider", "p", "--limit", "l"},
			{"status", "-c", path},
		} {
			w := newWorld()
			message := "tapyr: cannot read " + path + ": it is " + want + "; name a file or a folder, or - for standard input\n"
			if status := Run(t.Context(), &w.Env, words); status != ExitCannotAnswer || w.stderr.String() != message {
				t.Errorf("%v: status %d\n%s%s", words, status, w.stdout.String(), w.stderr.String())
			}
		}
	}
}

// A file that becomes a pipe between the look at it and its opening does not keep an interrupted command.
func TestPipeThatCameLaterIsInterrupted(t *testing.T) {
	tree(t, map[string]string{"d/": ""})
	if err := syscall.Mkfifo("d/pipe", 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := decodeFiles(ctx, nil, []string{"d/pipe"})
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting")
	}
}

// What a shell's <(...) hands over is open already, and is read.
func TestOpenPipesAreRead(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	path := fmt.Sprintf("/dev/fd/%d", reader.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /dev/fd here:", err)
	}
	_, err = writer.WriteString("kind: Jbo\n")
	if err = errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	if status := Run(t.Context(), &w.Env, []string{"validate", path}); status != ExitBadNews || !strings.Contains(w.stdout.String(), path+":1:7: error: kind is \"Jbo\"") {
		t.Errorf("status %d\n%s%s", status, w.stdout.String(), w.stderr.String())
	}
}

// A file that grows while it is read is read up to the bound.
func TestGrowingFileEnds(t *testing.T) {
	tree(t, map[string]string{"d/a.yaml": ""})
	file, err := os.OpenFile("d/a.yaml", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		line := []byte(strings.Repeat("# it grows\n", 1<<12))
		for written := 0; written < 64<<20; written += len(line) {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := file.Write(line); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		data, err := readFile(t.Context(), nil, "d/a.yaml")
		if err != nil || len(data) > schema.MaxFileBytes+1 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		if len(data) == schema.MaxFileBytes+1 {
			break
		}
	}
	close(stop)
	<-stopped
}
