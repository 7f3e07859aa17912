//go:build unix

package fetch

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// silent reports, without waiting, whether the host has neither closed a connection nor sent
// anything. It may report false if the connection cannot be inspected.
func silent(conn net.Conn) bool {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	plain, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		var first [1]byte
		_, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK)
		nothing = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && nothing
}
