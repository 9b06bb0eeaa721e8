package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// wayOut is what may help where a connection did not come about, as the end of a message: who reads "connection refused" at night
// wants to know which line of which document to look at. It is empty where the error says it all.
func wayOut(err error) string {
	var (
		name    *net.DNSError
		unknown x509.UnknownAuthorityError
		other   x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "; check the host name in baseURL"
	case errors.As(err, &name):
		return "; check the name servers of this machine"
	case errors.As(err, &unknown):
		return "; name the file of the authority that signed it in the account's tls.caFile"
	case errors.As(err, &other):
		return "; name the host that the certificate is for in the account's tls.serverName, or correct baseURL"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "; check this machine's clock, then the provider's certificate"
	case errors.As(err, &record):
		return "; check whether baseURL should begin with http:"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; check the host and the port in baseURL, and whether a firewall is between"
	}
	return ""
}

// statusWayOut is what may help where a token or login request was answered with a status that is no success.
func statusWayOut(status int) string {
	switch {
	case status == 0:
		return "" // no answer: the cause says it
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status > 499:
		return "; it may pass: try again later"
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusUnprocessableEntity:
		return "; check the account's credentials"
	case status < 300:
		return "; check auth.token, and whether the address is that of the login"
	}
	return "; check auth.tokenURL or auth.login.endpoint"
}

// timeoutError says that a request took longer than it may, its answer's body included.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no whole answer within %v", e.after)
}

// Is says that it is the end of a deadline, too.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout and Temporary make it a net.Error.
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
