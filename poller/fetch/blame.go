package fetch

import (
	"errors"
	"net"
	"syscall"

	"github.com/rounds-dev/rounds/poller"
)

// blame says whose fault an Error is. The zero value blames the account.
type blame int

const (
	blameAccount blame = iota
	blameHost
	blameUs
)

// ours reports whether an errno of a connect is a failure of our own network or
// process rather than of the host.
func ours(errno syscall.Errno, addr net.Addr) bool {
	switch errno {
	case syscall.ENETUNREACH, syscall.EADDRNOTAVAIL:
		// For an IPv6 address it only means that one network has IPv6 and the other
		// does not.
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
	var failed *Error
	if !errors.As(err, &failed) {
		return result // the error's origin is unknown, and its text may hold secrets
	}
	result.Code, result.Message, result.Err = string(failed.Code), failed.text, failed
	switch failed.Code {
	case CodeDNS, CodeConnect, CodeTLS, CodeTimeout, CodeReset, CodeProxy:
		result.Network = true
	}
	if failed.Code == CodeTooLarge {
		result.Kind = poller.Protocol
	}
	switch failed.blame {
	case blameHost:
		result.Scope = poller.ScopeRateKey
	case blameUs:
		result.Scope = poller.ScopeEgress
	}
	return result
}
