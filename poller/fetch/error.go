package fetch

import (
	"compress/flate"
	"compress/gzip"
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

// ErrTooLarge reports an answer over the call's size limit.
var ErrTooLarge = errors.New("the answer is too large")

// Code says briefly what went wrong. Codes are stable: metrics and people
// count on them.
type Code string

// The codes.
const (
	CodeDNS            Code = "dns"             // the name has no address that may be reached, or could not be resolved
	CodeConnect        Code = "connect"         // no connection
	CodeTLS            Code = "tls"             // the certificate or the handshake is not acceptable
	CodeTimeout        Code = "timeout"         // no answer in time
	CodeCanceled       Code = "canceled"        // the call was cancelled
	CodeReset          Code = "reset"           // the connection broke
	CodeTooLarge       Code = "too_large"       // see ErrTooLarge
	CodeBusy           Code = "busy"            // see ErrBusy
	CodeRefusedAddress Code = "refused_address" // see ErrRefusedAddress
	CodeProxy          Code = "proxy"           // the proxy could not be reached, or refuses the login
	CodeUnknownWay     Code = "unknown_way"     // the account names a way out that there is not
	CodeRefusedURL     Code = "refused_url"     // the URL, or one redirected to, is not allowed
	CodeHTTP           Code = "http"            // the answer is not HTTP, or any other failure
)

// Error is the error of a call without an answer. Neither its text nor the texts of the errors that
// it wraps hold URLs, query strings or secrets.
type Error struct {
	Code Code

	text  string
	cause error // harmless: a sentinel, a context's error or an errno
	blame blame

	apart bool // although our side is to blame, it says nothing of our network
	sent  bool // a byte of the call may have left
}

// Error returns a fixed text for the code. It names a refused address only if the URL had
// it.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause if it is harmless: ErrTooLarge, ErrBusy, ErrRefusedAddress, ErrPublic,
// a context's error, a syscall.Errno, an error of Client.Validate, or http.ErrSchemeMismatch for
// a port where the host does not speak TLS.
func (e *Error) Unwrap() error { return e.cause }

// newError returns the Error for an error, without that error's text.
func newError(ctx context.Context, err error, connected bool) *Error {
	if ours, ok := errors.AsType[*Error](err); ok {
		return ours
	}
	// The context's error comes first, because a call that the context ends may fail in many ways.
	if cause := ctx.Err(); cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return timeout(connected)
		}
		return canceled()
	}
	if e := known(err); e != nil {
		return e
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dnsError(dns)
	}
	if e := tlsError(err); e != nil {
		return e
	}
	if timed, ok := errors.AsType[net.Error](err); ok && timed.Timeout() {
		return timeout(connected)
	}
	return networkError(err, connected)
}

// limited names the limit that a call exceeded: the size of its answer, or its time since it began
// (zero: not known).
func (e *Error) limited(ctx context.Context, began time.Time, most int64) *Error {
	until, timed := ctx.Deadline()
	allowed := until.Sub(began).Round(10 * time.Millisecond)
	switch {
	case e.Code == CodeTooLarge:
		size := fmt.Sprintf("%d bytes", most)
		if most >= 1<<20 && most%(1<<20) == 0 {
			size = fmt.Sprintf("%d MiB", most>>20)
		}
		e.text += ": more than " + size
	case e.text == tooSlow && timed && ctx.Err() != nil && !began.IsZero():
		e.text += ": more than " + allowed.String()
	}
	return e
}

const tooSlow = "the host took too long to answer"

func canceled() *Error {
	return &Error{Code: CodeCanceled, text: "the call was cancelled", cause: context.Canceled, blame: blameUs}
}

func timeout(connected bool) *Error {
	e := &Error{Code: CodeTimeout, text: "the host took too long to connect", cause: context.DeadlineExceeded, blame: blameHost}
	if connected {
		e.text, e.blame = tooSlow, blameAccount
	}
	return e
}

// known returns the Error for an error of this package, or nil for other errors.
func known(err error) *Error {
	if errors.Is(err, ErrTooLarge) {
		return &Error{Code: CodeTooLarge, text: ErrTooLarge.Error(), cause: ErrTooLarge}
	}
	if address, ok := errors.AsType[refusal](err); ok {
		return &Error{Code: CodeRefusedAddress, text: address.Error(), cause: ErrRefusedAddress}
	}
	if errors.Is(err, ErrRefusedAddress) {
		return &Error{Code: CodeRefusedAddress, text: ErrRefusedAddress.Error(), cause: ErrRefusedAddress}
	}
	if errors.Is(err, ErrPublic) {
		return &Error{Code: CodeRefusedAddress, text: ErrPublic.Error(), cause: ErrPublic}
	}
	for _, fault := range []error{ErrURL, ErrScheme, ErrHost, ErrUserinfo} {
		if errors.Is(err, fault) {
			return &Error{Code: CodeRefusedURL, text: "the URL, or one it redirects to, " + fault.Error(), cause: fault}
		}
	}
	return nil
}

// noAddress returns the error for a name that has no address, or only forbidden ones. It does not
// say which, so that nobody learns of names inside a network.
func noAddress() *Error {
	return &Error{Code: CodeDNS, text: "the host's name has no address that may be reached"}
}

func dnsError(err *net.DNSError) *Error {
	if err.IsNotFound {
		return noAddress()
	}
	return &Error{Code: CodeDNS, text: "the host's name could not be resolved", blame: blameHost}
}

// tlsError returns the Error for a handshake that failed, or nil for other errors.
func tlsError(err error) *Error {
	e := &Error{Code: CodeTLS, blame: blameHost}
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	header, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), noTLS && string(header.RecordHeader[:]) == "HTTP/":
		e.text, e.cause = "the host speaks HTTP on this port, not TLS", http.ErrSchemeMismatch
	case noTLS:
		e.text, e.cause = "the host does not speak TLS on this port", http.ErrSchemeMismatch
	case has[x509.UnknownAuthorityError](err):
		e.text = "the host's TLS certificate is self-signed, or from an authority that is not trusted"
	case has[x509.HostnameError](err):
		e.text = "the host's TLS certificate is for another name"
	case isInvalid && invalid.Reason == x509.Expired:
		e.text = "the host's TLS certificate has expired or is not valid yet"
	case isInvalid, has[*tls.CertificateVerificationError](err):
		e.text = "the host's TLS certificate is not acceptable"
	case has[tls.AlertError](err):
		e.text = "the TLS handshake with the host failed"
	default:
		return nil
	}
	return e
}

// has reports whether an error is of a type, or wraps one.
func has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// closedIdle ends the text of an error that net/http does not export: the host has closed a connection, a
// new one too, before a request was written. If that text changes, the account is to blame.
const closedIdle = "http: server closed idle connection"

func networkError(err error, connected bool) *Error {
	errno, _ := errors.AsType[syscall.Errno](err)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		e := &Error{Code: CodeConnect, text: "no connection to the host", blame: blameHost}
		if errno != 0 {
			e.text, e.cause = e.text+": "+errno.Error(), errno
		}
		if ours(errno, op.Addr) {
			e.blame = blameUs
		}
		return e
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || has[flate.CorruptInputError](err) {
		return errCoding
	}
	if errno != 0 {
		return &Error{Code: CodeReset, text: "the connection broke off: " + errno.Error(), cause: errno, blame: blameHost}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasSuffix(err.Error(), closedIdle) {
		return &Error{Code: CodeReset, text: "the connection broke off", cause: io.ErrUnexpectedEOF, blame: blameHost}
	}
	if !connected {
		return &Error{Code: CodeConnect, text: "no connection to the host", blame: blameHost}
	}
	return &Error{Code: CodeHTTP, text: "the answer is not usable HTTP"}
}
