package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/rounds-dev/rounds/poller"
)

// blame says whose fault an Error is. The zero value blames the account.
type blame int

const (
	blameAccount blame = iota
	blameHost
	blameUs
	blameWay // a named way's proxy
)

// ours reports whether a connect failed, by its errno, because of our own network or
// process and not because of the host.
func ours(errno syscall.Errno, addr net.Addr) bool {
	switch errno {
	case syscall.ENETUNREACH, syscall.EADDRNOTAVAIL:
		// For an IPv6 address the errno only means that one of the two networks has no IPv6.
		tcp, ok := addr.(*net.TCPAddr)
		return !ok || tcp.IP.To4() != nil
	case syscall.ENETDOWN, syscall.ENOBUFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM:
		return true
	}
	return false
}

// CheckError turns an error of Client.Do into a check's error. All are
// transient, except an answer over the size limit, which is a protocol error.
// The scope is
//
//   - egress for our own network and proxy, for cancelled calls, and for calls that
//     found no room,
//   - way for the proxy of a named way that cannot be reached, refuses the login, does not
//     speak its protocol, or breaks off before it has answered,
//   - rate key, which is the host, for connections that fail, time out or break
//     off, for TLS, and for names that could not be looked up,
//   - account for a name without an address, for a host that was reached but did
//     not answer in time, and for all faults of the URL itself.
//
// Network is set if no whole answer came, because our own network may be the cause.
func CheckError(err error) *poller.CheckError {
	result := &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeAccount,
		Code: string(CodeHTTP), Message: "the call failed",
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return result // the error's origin is unknown, and its text may hold secrets
	}
	result.Code, result.Message, result.Err = string(failed.Code), failed.text, failed
	switch failed.Code {
	case CodeDNS, CodeConnect, CodeTLS, CodeTimeout, CodeReset, CodeProxy:
		result.Network = true
	}
	if failed.apart {
		result.Network = false
	}
	if failed.Code == CodeTooLarge {
		result.Kind = poller.Protocol
	}
	switch failed.blame {
	case blameHost:
		result.Scope = poller.ScopeRateKey
	case blameUs:
		result.Scope = poller.ScopeEgress
	case blameWay:
		result.Scope, result.Network = poller.ScopeWay, false // it says nothing of the rest of our network
	}
	return result
}

// SharedCheckError is CheckError for a third party that many accounts share. When the host was
// reached and did not answer, no account is to blame. A refused address or URL is still the
// record's fault.
func SharedCheckError(err error) *poller.CheckError {
	e := CheckError(err)
	switch Code(e.Code) {
	case CodeRefusedAddress, CodeRefusedURL:
	default:
		if e.Scope == poller.ScopeAccount {
			e.Scope = poller.ScopeRateKey
		}
	}
	return e
}

// StatusError returns the error for a status that came from something in front of a third party
// which reports its own errors in bodies. who names the server for error messages. The error is
// transient, or rate limited for 429, and blames the rate key.
func StatusError(who string, response *Response) *poller.CheckError {
	e := &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: fmt.Sprintf("http_%d", response.Status),
		Message: fmt.Sprintf("%s answered %d %s", who, response.Status, http.StatusText(response.Status)),
	}
	switch response.Status {
	case http.StatusTooManyRequests:
		e.Kind, e.RetryAfter = poller.RateLimited, response.RetryAfter()
	case http.StatusServiceUnavailable:
		e.RetryAfter = response.RetryAfter()
	}
	return e
}

// ProtocolError returns the error for an answer that breaks the third party's protocol. whose names
// the third party, such as "WeCom's". The error blames the rate key.
func ProtocolError(whose, text string) *poller.CheckError {
	return &poller.CheckError{Kind: poller.Protocol, Scope: poller.ScopeRateKey, Code: "protocol", Message: whose + " answer: " + text}
}
