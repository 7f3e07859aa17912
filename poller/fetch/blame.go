package fetch

import (
	"errors"
	"net"
	"syscall"

	"github.com/rounds-dev/rounds/poller"
)

// blame says whose fault an Error is; the account's unless known better.
type blame int

const (
	blameAccount blame = iota
	blameHost
	blameUs
)

// ours reports whether an errno of a connect tells of our own network or
// process rather than of the host.
func ours(errno syscall.Errno, addr net.Addr) bool {
	switch errno {
	case syscall.ENETUNREACH, syscall.EADDRNOTAVAIL:
		// To an IPv6 address it means no more than that one network has IPv6
		// and the other has not.
		tcp, ok := addr.(*net.TCPAddr)
		return !ok || tcp.IP.To4() != nil
	case syscall.ENETDOWN, syscall.ENOBUFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EACCES, syscall.EPERM:
		return true
	}
	return false
}

// CheckError turns an error of Client.Do into a check's error. All are
// transient, but for an answer over the size limit, which is a protocol error.
// The scope is
//
//   - egress for our own network and proxy, for calls that were cancelled, and for
//     those that found no room,
//   - rate key, which is the host, for connections that fail, time out or break
//     off, for TLS, and for names that could not be looked up,
//   - account for a name without an address, for a host that was reached but did
//     not answer in time, and for all that the URL itself is to blame for.
//
// Network is set where no whole answer came: our own network may be the cause.
func CheckError(err error) *poller.CheckError {
	result := &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeAccount,
		Code: string(CodeHTTP), Message: "the call failed",
	}
	var failed *Error
	if !errors.As(err, &failed) {
		return result // of unknown origin: its text is not to be trusted
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
