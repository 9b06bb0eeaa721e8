package client

import (
	"fmt"
	"net/http"
)

// AuthError says that a provider does not accept who we say we are.
type AuthError struct {
	// Account is the account's name, Status the answer's (0 where none came), Renewed tells that a fresh token was refused, too.
	Account string
	Status  int
	Renewed bool
	// Login tells that it was the token or login request that failed.
	Login bool
	// Err is the cause, nil where the status says it all.
	Err error
}

func (e *AuthError) Error() string {
	switch {
	case e.Login && e.Err != nil:
		return fmt.Sprintf("account %q: no token: %v%s", e.Account, e.Err, statusWayOut(e.Status))
	case e.Login:
		return fmt.Sprintf("account %q: no token: the login was answered with status %d%s", e.Account, e.Status, statusWayOut(e.Status))
	case e.Renewed:
		return fmt.Sprintf("account %q: status %d with a fresh token, too; check what the credentials are allowed to do", e.Account, e.Status)
	}
	return fmt.Sprintf("account %q: status %d; check the account's credentials", e.Account, e.Status)
}

func (e *AuthError) Unwrap() error { return e.Err }

// UnsentError is one of a request of which nothing has left: there was no connection.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return e.Err.Error() + wayOut(e.Err) }
func (e *UnsentError) Unwrap() error { return e.Err }

// RedirectError says that a redirect or a link to the next page leads where requests must not go.
type RedirectError struct {
	// From and To are URLs, Why says what is wrong.
	From, To, Why string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s leads to %s: %s", e.From, e.To, e.Why)
}

// BodyError says that a body could not be taken in.
type BodyError struct {
	// Why is too-large, too-deep, truncated, encoding or not-json; Limit the bound that was passed, in bytes or levels, 0 for none.
	Why   string
	Limit int64
	Err   error
}

// What can be wrong with a body.
const (
	BodyTooLarge  = "too-large"
	BodyTooDeep   = "too-deep"
	BodyTruncated = "truncated"
	BodyEncoding  = "encoding"
	BodyNotJSON   = "not-json"
)

func (e *BodyError) Error() string {
	switch e.Why {
	case BodyTooLarge:
		return fmt.Sprintf("the answer is larger than %d bytes after decompression; ask for smaller pages", e.Limit)
	case BodyTooDeep:
		return fmt.Sprintf("the answer's JSON is nested deeper than %d levels", e.Limit)
	case BodyTruncated:
		return fmt.Sprintf("the answer broke off: %v", e.Err)
	case BodyEncoding:
		return fmt.Sprintf("the answer cannot be decompressed: %v", e.Err)
	}
	return fmt.Sprintf("the answer is not JSON: %v", e.Err)
}

func (e *BodyError) Unwrap() error { return e.Err }

// StatusError says that an answer was not a success.
type StatusError struct {
	// Status is the last answer's, Attempts how many requests were sent for the page.
	Status, Attempts int
	// Excerpt is the beginning of the body, without secrets.
	Excerpt string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	if e.Attempts > 1 {
		text += fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	if e.Excerpt != "" {
		text += fmt.Sprintf(": %q", e.Excerpt)
	}
	if e.Status == http.StatusForbidden {
		text += "; check what the account's credentials are allowed to do"
	}
	return text
}
