package client

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key", []byte("secret\n"))
	write("largest", bytes.Repeat([]byte("x"), maxFileBytes))
	write("larger", bytes.Repeat([]byte("x"), maxFileBytes+1))
	// Volumes of Kubernetes and credentials of systemd are links.
	if err := os.Symlink("key", path("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	for name, want := range map[string]string{"key": "secret\n", "link": "secret\n"} {
		if got, err := ReadFile(path(name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := ReadFile(path("largest")); err != nil || len(got) != maxFileBytes {
		t.Errorf("the largest: %d bytes, %v", len(got), err)
	}
	for name, want := range map[string]string{
		path("larger"): "larger than 4194304 bytes", path("pipe"): "no regular file", dir: "no regular file", "/dev/zero": "no regular file",
		path("nowhere"): "no such file",
	} {
		var problem *fs.PathError
		if got, err := ReadFile(name); !errors.As(err, &problem) || len(got) > 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d bytes, %v; want %q", name, len(got), err, want)
		}
	}
}
