package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFileBytes bounds a file with a secret or with certificates: the bundles of operating systems have about 250 KiB.
const maxFileBytes = 4 << 20

// ReadFile reads a file with a secret or with certificates. A named pipe, which would wait for somebody to write, a device, and
// a file that is too large to be meant are refused. The error holds nothing of what was read.
func ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no regular file")}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFileBytes:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d bytes", maxFileBytes)}
	}
	return data, nil
}
