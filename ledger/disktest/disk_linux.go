package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Small is the folder of a medium of eight megabytes of its own. A test that may not have one is skipped.
func Small(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a medium of its own cannot be mounted here (%v): run the test as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Fill leaves no byte on the medium of a folder. What it returns gives the space back.
func Fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // nothing of it matters but its size
	block := make([]byte, 64<<10)
	for err == nil {
		if _, err = file.Write(block); err != nil && len(block) > 1 {
			block, err = block[:len(block)/2], nil
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the medium does not fill up: %v", err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}
