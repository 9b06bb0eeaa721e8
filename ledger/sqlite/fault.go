package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"github.com/tapyr/tapyr/ledger"
)

// fault names what the medium did. Errors that are not the medium's, and those named already, stay as they are.
func fault(op, path string, err error) error {
	var named *ledger.StorageError
	var version *ledger.VersionError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &named), errors.As(err, &version), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &ledger.StorageError{Op: op, Path: path, Fault: faultOf(err), Err: err}
}

func faultOf(err error) ledger.Fault {
	// What the system said is more exact than what SQLite makes of it.
	var system syscall.Errno
	var lite sqlite3.Error
	if errors.As(err, &lite) {
		system = lite.SystemErrno
	} else {
		errors.As(err, &system)
	}
	switch system {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return ledger.FaultFull
	case syscall.EROFS, syscall.EACCES, syscall.EPERM:
		return ledger.FaultReadOnly
	}
	switch lite.Code {
	case sqlite3.ErrFull:
		return ledger.FaultFull
	case sqlite3.ErrReadonly, sqlite3.ErrPerm:
		return ledger.FaultReadOnly
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		return ledger.FaultLocked
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return ledger.FaultCorrupt
	}
	if errors.Is(err, fs.ErrPermission) {
		return ledger.FaultReadOnly
	}
	return ledger.FaultIO
}
