package sqlite

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/tapyr/tapyr/ledger"
)

// lockFile makes this process the owner of a state: the file beside it, NAME.lock, stays locked until closed. It is left where
// it is: removing it would let two processes lock two files of one name.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // G703: the path is the user's to choose
	if err != nil {
		return nil, fault("lock state", path, err)
	}
	ok, err := tryLock(f)
	if err == nil && ok {
		// For the message of the one that comes second; nothing depends on it.
		if f.Truncate(0) == nil {
			_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		return f, nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	if err != nil {
		return nil, fault("lock state", path, err)
	}
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
	return nil, &ledger.LockedError{Path: path, PID: pid}
}
