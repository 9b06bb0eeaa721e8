package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// atomicFile is a file in the making. Until commit it has another name in the
// same folder, so that nobody ever reads half of it: a rename within a folder
// is atomic, one across file systems is not.
type atomicFile struct {
	*os.File
	target string
}

// temporaryTries bounds the search for a free temporary name.
const temporaryTries = 100

// createAtomic starts a file that will replace path.
func createAtomic(path string) (*atomicFile, error) {
	target, mode, err := resolveTarget(path)
	if err != nil {
		return nil, err
	}
	folder, base := filepath.Split(target)
	for try := range temporaryTries {
		name := filepath.Join(folder, fmt.Sprintf(".%s.tapyr-%d-%d", base, os.Getpid(), try))
		// Not os.CreateTemp: its files are private, whatever the umask says.
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue // another command in this process, or one killed long ago
		}
		if err != nil {
			return nil, fmt.Errorf("cannot create %s: %w", path, errors.Unwrap(err))
		}
		return &atomicFile{File: file, target: target}, nil
	}
	return nil, fmt.Errorf("cannot create %s: %d temporary files of this name are in the way", path, temporaryTries)
}

// resolveTarget follows links, so that a link stays one, and returns the mode
// to create the file with: that of the file to replace, if there is one.
func resolveTarget(path string) (target string, mode fs.FileMode, err error) {
	target = path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return "", 0, fmt.Errorf("cannot create %s: it is a folder", path)
	case err == nil:
		return target, info.Mode().Perm(), nil
	default:
		return target, 0o666, nil // less the umask
	}
}

// commit makes the file appear under its name, on the disk and not only in the
// cache: a power cut afterwards loses nothing.
func (f *atomicFile) commit() error {
	if err := f.Sync(); err != nil {
		f.discard()
		return err
	}
	if err := f.Close(); err != nil {
		f.discard()
		return err
	}
	if err := os.Rename(f.Name(), f.target); err != nil {
		f.discard()
		return err
	}
	// The name is an entry of the folder and needs its own sync. Not every file
	// system can, and the file is complete either way.
	if folder, err := os.Open(filepath.Dir(f.target)); err == nil {
		_ = folder.Sync()
		_ = folder.Close()
	}
	return nil
}

// discard removes the file in the making.
func (f *atomicFile) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
