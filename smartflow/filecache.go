package smartflow

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FileCache is a Cache in a file. The file is readable by its owner only, and is
// written under another name and renamed, so a crash leaves the old one or the new
// one. Processes may share a path: the last one to write wins.
type FileCache struct {
	// Path is the file; its folders are made when needed.
	Path string
}

// maxCacheBytes bounds what is read: room for about half a million mappings.
const maxCacheBytes = 64 << 20

// Load reads the file.
func (c FileCache) Load() ([]byte, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxCacheBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCacheBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes, which no cache of this package is", c.Path, maxCacheBytes)
	}
	return text, nil
}

// Store replaces the file.
func (c FileCache) Store(text []byte) (err error) {
	folder, name := filepath.Split(c.Path)
	if folder == "" {
		folder = "."
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	// CreateTemp makes the file 0600. It lies in the same folder because a rename
	// must not cross file systems.
	f, err := os.CreateTemp(folder, "."+name+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // what it says is of a file that goes
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	// Without this, a power failure after the rename could leave an empty file.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.Path)
}
