package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

// brokenWayOut is what may help where a connection brought no answer. The library has no types for these.
func brokenWayOut(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "server response headers exceeded"):
		return "; no API's header is as long: check what baseURL names, and proxies on the way"
	case strings.Contains(text, "malformed HTTP response"):
		return "; check whether baseURL should begin with https:, and its port"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "; the other side ended the connection: it may pass, else check proxies on the way"
	}
	return ""
}

// looksLike says what a body that is not JSON seems to be, as the end of a message.
func looksLike(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		return "; it is compressed with gzip and does not say so, or twice: check proxies on the way"
	case bytes.HasPrefix(bytes.TrimLeft(body[:min(len(body), 64)], " \t\r\n\ufeff"), []byte("<")):
		return "; it looks like HTML or XML: check baseURL and the endpoint, and whether a login page or a proxy has answered"
	}
	return ""
}

// Bounds on how much of what a server sent is quoted in messages, which end in logs, in the state and on the page.
const (
	mostErrorBytes  = 1000
	mostQuotedBytes = 100
)

// shortened is a text of at most so many bytes and an ellipsis: its beginning and its end, where the way out stands.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	half := most / 2
	return strings.ToValidUTF8(text[:half], "") + "…" + strings.ToValidUTF8(text[len(text)-half:], "")
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
